"""Recordings of live runs with a kernel can be replayed in virtual time, without privileges.

`tests/recordings` contains transfers of 15 kB by the kernel's Reno over four links, recorded by
`lasthop live --record`. They are encoded in base64, so that the repository contains only text. A
change that deliberately alters the behaviour of a link regenerates them (`base64 -w 120 raw.rec >
raw.rec.b64`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from lasthop import _lasthop
from lasthop.commands.app import run_command
from lasthop.commands.live import programs
from lasthop.commands.values import BadInput
from lasthop.running.live.words import second, summary

RECORDINGS = {
    path.name.removesuffix(".rec.b64"): path
    for path in sorted((Path(__file__).parent / "recordings").glob("*.rec.b64"))
}


def decoded(name: str) -> bytes:
    """The bytes of one recording."""
    return base64.b64decode(RECORDINGS[name].read_text(encoding="ascii"))


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_of_a_kernel_replays(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.rec"
    path.write_bytes(decoded(name))
    replay = json.loads(_lasthop.live_replay(str(path)))
    assert replay["difference"] is None
    assert replay["complete"]
    assert replay["arrivals"] >= 20
    assert replay["same"] >= 50
    # The recording has losses, so that it covers their repair.
    assert dict(replay["metrics"])["link.wireless.forward.frames_lost"] >= 1


def test_a_changed_recording_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(decoded("raw"))
    # Changes the hash of the last delivery, whose record precedes others of known length.
    end = len(data) - 9
    assert data[end : end + 1] == b"E"
    place = data.rindex(b"D\0\0", 0, end)
    data[place + 23] ^= 1
    changed = tmp_path / "changed.rec"
    changed.write_bytes(data)
    assert run_command(["live", "--replay", str(changed)]) == 1
    assert "the outputs differ" in capsys.readouterr().err


def test_a_truncated_recording_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Without the end record of 9 bytes.
    path = tmp_path / "cut.rec"
    path.write_bytes(decoded("raw")[:-9])
    assert run_command(["live", "--replay", str(path)]) == 1
    assert "truncated recording" in capsys.readouterr().err


def test_what_is_no_recording_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "none").write_bytes(b"something else\n")
    for name, words in (("none", "expected lasthop recording"), ("gone", "No such file")):
        assert run_command(["live", "--replay", str(tmp_path / name)]) == 1
        assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "option", "other"),
    [
        (["--replay", "a.rec", "--json", "b"], "--json", "with `--replay`"),
        (["--replay", "a.rec", "--spin", "1ms"], "--spin", "with `--replay`"),
        (["--replay", "a.rec", "--compare", "1"], "--compare", "with `--replay`"),
        (["a.toml", "--compare", "1", "--report", "b"], "--report", "with `--compare`"),
        (["a.toml", "--compare", "1", "--repeat", "2"], "--repeat", "with `--compare`"),
        (["a.toml", "--compare", "1", "--mtu", "600"], "--mtu", "with `--compare`"),
        (["a.toml", "--retry-disturbed", "1", "--", "true"], "--retry-", "without `--compare`"),
    ],
)
def test_options_without_an_effect_are_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    option: str,
    other: str,
) -> None:
    (tmp_path / "a.toml").write_text(
        'name = "a"\n[link.radio]\nbetween = ["a", "b"]\nrate = "1 Mbps"\ndelay = "1 ms"\n'
    )
    monkeypatch.chdir(tmp_path)
    assert run_command(["live", *words]) == 2
    error = capsys.readouterr().err
    assert f"cannot use `{option}" in error
    assert other in error


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--", "a", "b"], [("client", ["a", "b"])]),
        (["--", "a b 'c d'"], [("client", ["a", "b", "c d"])]),
        (["--at", "x", "--", "a", "--", "c"], [("x", ["a", "--", "c"])]),
        (
            ["--at", "x", "--", "a b", "--at", "y", "--", "c", "--at", "z"],
            [("x", ["a", "b"]), ("y", ["c", "--at", "z"])],
        ),
    ],
)
def test_words_become_programs(words: Sequence[str], expected: list[tuple[str, list[str]]]) -> None:
    found = programs(list(words), "client")
    assert [(one.host, list(one.argv)) for one in found] == expected


@pytest.mark.parametrize(
    "words", [["--at"], ["--at", "x"], ["--"], ["--at", "x", "a"], ["--", "'"]]
)
def test_words_that_are_no_programs_are_refused(words: list[str]) -> None:
    with pytest.raises(BadInput):
        programs(words, "client")
    if words[0] == "--":
        with pytest.raises(BadInput):
            programs(words, None)


def tick(time: float, frames: int) -> dict[str, object]:
    """A state of one direction."""
    one = {
        "link": "air",
        "direction": "forward",
        "queue": 3,
        "frames": frames,
        "lost": frames // 10,
    }
    counts = {"drops": 0, "retransmissions": 0, "delivered_bytes": frames * 125}
    return {"time": time, "links": [one | counts]}


def test_a_line_a_second_says_what_happened_in_it() -> None:
    assert second(tick(1.0, 1000), None) == "   1.0 s  air forward 1.00 Mbps, queue 3, 100 lost"
    assert second(tick(3.0, 1100), tick(1.0, 1000)).endswith("50.00 kbps, queue 3, 10 lost")
    assert second(tick(2.0, 1000), tick(1.0, 1000)).endswith("idle")


def test_the_summary_tells_lateness_and_warnings() -> None:
    names = ["goodput_bps", "packets_delivered", "frames_sent", "frames_lost"]
    names += ["retransmissions", "queue_drops"]
    end = {
        "time": 2.0,
        "programs": [{"host": "server", "argv": ["sh", "-c", "exit 3"], "code": 3}],
        "summary": {"directions": []},
        "metrics": [[f"link.air.forward.{name}", 4.0] for name in names],
        "lateness": {"deliveries": 4, "p50_s": 2e-5, "p90_s": 3e-5, "p99_s": 1e-3, "max_s": 2e-3},
        "processor_per_packet_s": 3.84e-6,
        "notes": ["something is wrong"],
    }
    lines = summary(end).splitlines()
    assert lines[1] == "  server: sh -c 'exit 3': exit code 3"
    assert lines[2].startswith("  link.air.forward: 4 bps, 4 packets; 4 frames, 4 lost")
    assert "p99 1000 us" in lines[3]
    assert "3.8 us per packet" in lines[3]
    assert lines[4] == "  warning: something is wrong"
