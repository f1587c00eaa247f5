"""Termination of commands: by Ctrl-C, by a full disk, by a closed pipe."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from command import COMMAND, lasthop
from lasthop import commands as cli
from lasthop.running.live.session import Session
from lasthop.running.writing import write_file


def slow(folder: Path) -> Path:
    """A scenario that takes far longer than any test."""
    path = folder / "slow.toml"
    path.write_text("""
name = "slow"
[link.wireless]
between = ["server", "client"]
rate = "64 kbps"
delay = "50 ms"
[flow.transfer]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "reno", profile = "ns-2", segment = "250 B" }
app = { kind = "file", size = "10 MB" }
[run]
replications = 1000000
""")
    return path


TOLD = """
import contextlib, signal, sys
# Ignored where a shell started the tests in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
from lasthop.showing import terminal
from lasthop.commands import main

@contextlib.contextmanager
def progress(label):
    yield lambda done, total: done and print("in progress", file=sys.stderr, flush=True)

terminal.progress = progress
main()
"""


def test_interrupt_stops_and_prints_what_is_finished(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", TOLD, "run", str(slow(tmp_path)), "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "in progress\n"
    process.send_signal(signal.SIGINT)
    # The scenario has a million replications: only the interrupt can end it.
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in err
    goodput = json.loads(out)["points"][0]["metrics"]["flow.transfer.goodput_bps"]
    assert 0 < goodput["n"] < 1_000_000


FROM_A_TERMINAL = """
import _signal, os
# Ignored where a shell started the tests in the background.
_signal.signal(_signal.SIGINT, _signal.default_int_handler)
from lasthop.commands import main
os.write(2, b"about to start\\n")
main()
"""


def interrupted(arguments: list[str], after_s: float, cwd: Path) -> tuple[int, str]:
    """Exit code and standard error of a command that is interrupted by Ctrl-C after `after_s`."""
    process = subprocess.Popen(
        [sys.executable, "-c", FROM_A_TERMINAL, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "about to start\n"
    time.sleep(after_s)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


# During the start, during imports (Polars sets its own handler), and during the run.
@pytest.mark.parametrize(
    "after_s",
    [
        0.05,
        0.1,
        0.3,
        *(pytest.param(after_s, marks=pytest.mark.slow) for after_s in (0.6, 1.0, 2.0)),
    ],
)
def test_an_interrupt_ends_a_command_at_any_time(after_s: float, tmp_path: Path) -> None:
    # A million replications: only the interrupt ends the command.
    many = ["--replications", "1000000"]
    code, err = interrupted(["reproduce", "multilayer", *many], after_s, tmp_path)
    assert code in (cli.INTERRUPTED, -signal.SIGINT)
    assert "Traceback" not in err
    # The command ended before it drew any pictures, which takes seconds.
    assert not list(tmp_path.rglob("*.png"))


@pytest.mark.slow
def test_an_interrupt_ends_a_command_that_waits_for_a_file(tmp_path: Path) -> None:
    # A scenario named on the command line may be a pipe.
    scenario = tmp_path / "scenario.toml"
    os.mkfifo(scenario)
    code, err = interrupted(["run", str(scenario)], 1.0, tmp_path)
    assert code in (cli.INTERRUPTED, -signal.SIGINT)
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_traceback(small: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "run", str(small), "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line_and_exit_code_1(small: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "run", str(small), "--format", "json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert os.strerror(28) in done.stderr


@pytest.mark.slow
def test_a_full_disk_loses_no_results(small: Path, tmp_path: Path) -> None:
    """Results that cannot be written are printed, all others are written, and the file is named."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    out = tmp_path / "out"
    out.mkdir()
    (out / "replications.parquet").symlink_to(full)
    done = lasthop("run", small, "--out", out)
    assert done.returncode == cli.FAILURE
    assert "Goodput" in done.stdout
    assert json.loads((out / "results.json").read_text())["points"]
    assert f"cannot write `{out / 'replications.parquet'}`: {os.strerror(28)}" in done.stderr
    assert done.stderr.count("\n") == 1
    with full.open("w") as nowhere:
        again = tmp_path / "again"
        code = subprocess.run(
            [*COMMAND, "run", str(small), "--out", str(again)],
            stdout=nowhere,
            stderr=subprocess.PIPE,
            check=False,
        ).returncode
    assert code == cli.FAILURE
    assert json.loads((again / "results.json").read_text())["points"]


def test_an_ascii_terminal_loses_no_results(small: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "run", str(small)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == cli.DONE, done.stderr
    assert "+-" in done.stdout
    assert done.stdout.isascii()


def test_closed_standard_output_is_an_error(small: Path) -> None:
    command = " ".join([*COMMAND, "run", str(small), "--format", "json"])
    done = subprocess.run(
        ["sh", "-c", f"{command} >&-"], capture_output=True, text=True, check=False
    )
    assert done.returncode == cli.FAILURE
    assert done.stderr == f"lasthop: cannot write the output: {os.strerror(9)}\n"


@pytest.mark.slow
def test_a_capture_on_a_full_disk_fails(small: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    done = lasthop("trace", small, "--pcap", "/dev/full")
    assert done.returncode == cli.FAILURE
    assert done.stderr == f"lasthop: cannot write `/dev/full`: {os.strerror(28)}\n"


def test_a_new_scenario_on_a_full_disk_fails(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    out = tmp_path / "new.toml"
    out.symlink_to("/dev/full")
    done = lasthop("new", "--template", "web", "--out", out, "--force")
    assert done.returncode == cli.FAILURE
    assert done.stderr == f"lasthop: cannot write `{out}`: {os.strerror(28)}\n"


def test_a_truncated_file_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"

    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as out:
            out.write(data[:3])
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match=re.escape(f"{os.strerror(28)}: '{path}'")):
        write_file(path, b"abcdef")
    assert not path.exists()


def test_a_live_run_that_lost_its_recording_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "run.rec"

    def run(self: Session) -> Iterator[dict[str, object]]:
        record.write_bytes(b"lasthop recording 1")
        reason = f"--record: {os.strerror(28)}; the file ends there"
        counts: dict[str, object] = {"directions": [], "round_trips": {}}
        end = {"kind": "end", "time": 1.0, "code": 0, "programs": [], "metrics": []}
        yield {**end, "summary": counts, "lateness": {"deliveries": 0}, "notes": [reason]}

    monkeypatch.setattr(Session, "run", run)
    program = ["--quiet", "--at", "client", "--", "true"]
    code = cli._main(["live", "examples/first.toml", "--record", str(record), *program])
    assert code == cli.FAILURE
    partial = f"{record}.partial"
    assert f"--record {record}: {os.strerror(28)}; the file ends there in {partial}" in (
        capsys.readouterr().err
    )
    assert not record.exists()
    assert Path(partial).exists()
