"""Mutated files and options: one message and an exit code, never a traceback.

`_main` handles the errors that commands expect; any other exception fails a test. Seeds are fixed,
and a failure prints the input.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from lasthop.commands import _main

SCENARIO = Path("examples/first.toml").read_bytes()
# A single link without flows, which only `live` accepts.
LINK = SCENARIO.partition(b"[flow")[0]
FRAMES = b"entity,start_s,end_s,bytes,arrival_s\na,0,1,5,2\na,1,2,5,\na,2,3,5,4\n"
RECORDING = b'lasthop recording 1\n{"links": ["a"]}\nF' + bytes(40) + b"E" + bytes(8)

TOKENS = (
    b"\r",
    b"\x00",
    b"\xff",
    b"\xc2\xb2",
    b'"',
    b"'",
    b"=",
    b",",
    b"\n",
    b"-1",
    b"nan",
    b"1e999",
    b"9" * 400,
    b"9" * 5000,
    b"[" * 3000,
    b'{"a":' * 3000,
    b"{",
    b"]",
    b"x" * 140_000,
)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The data with one to three bytes or spans removed, replaced or inserted."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        end = at + rng.choice((0, 0, 1, rng.randrange(20)))
        data = (
            data[:at]
            + rng.choice((b"", bytes([rng.randrange(256)]), rng.choice(TOKENS)))
            + data[end:]
        )
    return data


def refused(arguments: list[str], found: object, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs a command, which may succeed or fail."""
    try:
        code = _main(arguments)
    except BaseException as error:
        pytest.fail(f"{arguments} with {str(found)[:300]!r}: {type(error).__name__}: {error}")
    captured = capsys.readouterr()
    # Verdicts of scripts are results.
    message = captured.out + captured.err if arguments[0] == "tcp-script" else captured.err
    assert code in (0, 1, 2, 3), (arguments, found)
    assert code == 0 or message, (arguments, found)
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("name", "data", "arguments"),
    [
        ("a.toml", SCENARIO, ["check", "FILE"]),
        ("a.toml", SCENARIO, ["explain", "FILE"]),
        ("a.toml", SCENARIO, ["live", "FILE"]),
        ("a.toml", LINK, ["live", "FILE"]),
        ("a.json", b'{"link": {"a": {"between": ["x", "y"], "rate": "1 Mbps"}}}', ["live", "FILE"]),
        ("log", b"0\n1\nok\nlost\n" * 5, ["fit", "FILE", "--model", "uniform"]),
        ("log", b"lost,bytes\n0,5\n1,5\n" * 4, ["fit", "FILE", "--model", "uniform"]),
        ("log", b'{"lost": 1}\n{"lost": 0}\n' * 4, ["fit", "FILE", "--model", "uniform"]),
        ("log", FRAMES, ["fit", "FILE", "--model", "uniform"]),
        ("log", RECORDING, ["fit", "FILE", "--model", "uniform"]),
        ("log", RECORDING, ["live", "--replay", "FILE"]),
        ("log", b"1000\n20000\n", ["fit", "--rates", "FILE"]),
        ("log", b"time_s,rate_bps\n0,5\n1,9\n" * 4, ["fit", "--rates", "FILE"]),
        ("log", b"time_s,delay_s\n" + b"0,5\n" * 30 + b"1,9\n", ["fit", "--delays", "FILE"]),
        ("log", b"0 20 1\n500 30\n" + b"9000 1\n" * 30, ["fit", "--delays", "FILE"]),
        ("a.pkt", b"0.000 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n", ["tcp-script", "FILE"]),
    ],
)
def test_mutated_files_are_refused_in_one_line(
    name: str,
    data: bytes,
    arguments: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rng = random.Random(f"{name} {arguments} {len(data)}")
    path = tmp_path / name
    for _ in range(40):
        path.write_bytes(mutated(data, rng))
        refused(
            [str(path) if word == "FILE" else word for word in arguments],
            path.read_bytes(),
            capsys,
        )


SETTINGS = (
    "link=",
    "link=1",
    "link.wireless=1",
    "link.wireless.between=x",
    "link.wireless.between=[1]",
    "flow=1",
    "flow=",
    "flow.transfer=",
    "flow.transfer.to=[]",
    "run=5",
    "name=1",
    "sweep=1",
    "=",
    "a",
    "link.wireless.rate=" + "9" * 400,
    "link.wireless=" + "[" * 3000,
)


@pytest.mark.parametrize("command", ["check", "explain", "live", "run"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_are_validated_before_they_are_used(
    command: str, setting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refused([command, "examples/first.toml", "--set", setting], setting, capsys)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1\n\xff\n", "invalid text"),
        (b"1\n" + b"9" * 400, ":2: invalid text"),
        ("1\n\u00b2\n".encode(), ":2: invalid"),
    ],
)
def test_rates_that_are_no_numbers_are_refused(
    data: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rates"
    path.write_bytes(data)
    assert _main(["fit", "--rates", str(path)]) == 2
    assert message in capsys.readouterr().err


def test_broken_csv_and_nested_json_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    for text in ("lost,a\n1,2\r3\n", '{"a":' * 100_000, '{"lost": ' + "9" * 5000 + "}"):
        path.write_bytes(text.encode())
        assert _main(["fit", str(path)]) == 2
        assert "invalid " in (err := capsys.readouterr().err) or "nested" in err
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"link": {}}).replace("{}", "[" * 100_000))
    assert _main(["live", str(path), "--", "true"]) == 2
