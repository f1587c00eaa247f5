"""Files named by users and scenarios: regular, of limited size, and not repeated in messages."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from lasthop.scenarios import files

SCENARIO = """
name = "files"
[link.radio]
between = ["a", "b"]
rate = RATE
delay = "20 ms"
errors = ERRORS
[flow.transfer]
from = "a"
to = "b"
transport = { kind = "tcp", variant = "reno", profile = "rfc" }
app = { kind = "file", size = "200 kB" }
"""
SECRET = "root:$y$j9T$F5Jx5fExrKuPp53xLKQ..1:19000:0:99999:7:::"
MEMORY = 2 << 30


def command(*words: str | Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the command with 2 GB of memory."""
    return subprocess.run(
        [sys.executable, "-m", "lasthop", *map(str, words)],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )


def scenario(folder: Path, *, errors: str = '"none"', rate: str = '"2 Mbps"') -> Path:
    """A scenario file."""
    path = folder / "scenario.toml"
    path.write_text(SCENARIO.replace("ERRORS", errors).replace("RATE", rate))
    return path


@pytest.fixture(params=["/dev/zero", "pipe", "folder"])
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Paths that are not regular files."""
    path: Path = tmp_path / request.param
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "folder":
        path.mkdir()
    return path


@pytest.mark.parametrize("key", ["errors", "rate"])
def test_scenarios_name_regular_files_only(tmp_path: Path, odd: Path, key: str) -> None:
    table = f'{{ kind = "trace", file = "{odd}" }}'
    rate = table.replace(" }", ', format = "mahimahi" }')
    path = scenario(tmp_path, **({"errors": table} if key == "errors" else {"rate": rate}))
    done = command("check", path)
    assert done.returncode == 2, done.stderr
    assert "regular text file of at most 256 MB" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "of_folder"),
    [
        (["fit"], "Is a directory"),
        (["fit", "--rates"], "Is a directory"),
        (["fit", "--delays"], "Is a directory"),
        # These read folders with results or scripts.
        pytest.param(
            ["plot"],
            "no results: expected a folder written by `lasthop run`",
            marks=pytest.mark.slow,
        ),
        (["tcp-script"], "the folder has no scripts (*.pkt)"),
    ],
)
def test_commands_read_regular_files_only(odd: Path, words: list[str], of_folder: str) -> None:
    done = command(*words, odd)
    assert done.returncode in (1, 2), done.stderr
    expected = of_folder if odd.is_dir() else "not a regular file"
    assert expected in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_scenario_has_a_size_limit(tmp_path: Path) -> None:
    path = scenario(tmp_path)
    with path.open("a") as file:
        file.write("# comment\n" * 1_000_000)
    done = command("check", path)
    assert done.returncode == 2
    assert "file is larger than 10 MB" in " ".join(done.stderr.split())
    # Endless files are rejected, too.
    assert "not a regular file" in command("check", "/dev/zero").stderr
    # A pipe is accepted.
    done = command("check", "/dev/stdin", given=scenario(tmp_path).read_text())
    assert done.returncode == 0, done.stderr


def test_growing_files_are_read_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert files.read_bytes(path, 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4e-06 MB"):
        files.read_bytes(path, 4)
    # The system reports a size of 0 for this file.
    assert files.read_bytes("/proc/self/status")
    with pytest.raises(OSError, match="larger"):
        files.read_bytes("/proc/self/status", 10)


@pytest.mark.parametrize(
    "keys",
    [
        '{ kind = "trace", file = "secret" }',
        '{ kind = "trace", file = "secret", column = "lost" }',
        '{ kind = "outages", file = "secret" }',
        '{ kind = "outages", file = "secret", format = "mahimahi" }',
    ],
)
def test_messages_do_not_repeat_text_of_files(tmp_path: Path, keys: str) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\nhunter2,hunter3\n")
    done = command("check", scenario(tmp_path, errors=keys))
    assert done.returncode == 2
    assert "link.radio.errors" in done.stderr
    assert not any(word in done.stderr for word in ("j9T", "hunter", "99999"))


@pytest.mark.parametrize(
    "words", [["fit"], ["fit", "--rates"], ["fit", "--delays"], ["fit", "--column", "lost"]]
)
def test_measurements_are_not_repeated_either(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\nhunter2,hunter3\n")
    done = command(*words, tmp_path / "secret")
    assert done.returncode == 2, done.stderr
    assert not any(word in done.stderr for word in ("j9T", "hunter", "99999"))


def test_numbers_are_repeated() -> None:
    assert files.quoted("12, 3.5e-7") == "invalid value `12, 3.5e-7`"
    for text in ("abc", SECRET, "١٢", "1" * 41):
        assert files.quoted(text) == "invalid text"
