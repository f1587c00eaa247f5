"""File and line in errors of scenarios, and notes on former names of keys."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import lasthop
from command import lasthop as command

TEXT = """\
name = "two hosts"

[link.air]
between = ["server", "client"]
rate = "1 Mbps"
delay = "10 ms"
protocol = { kind = "selective-repeat", window = 8 }
errors = { kind = "uniform", loss = 0.01 }

[flow.f]
from = "server"
to = "client"
app = { kind = "file", size = "10 kB" }
transport = { kind = "tcp", variant = "reno", congestion_control = "cubic" }

[run]
replications = 1
"""

BAD: dict[str, tuple[str, str, int, str]] = {
    "value": ('"1 Mbps"', '"fast"', 5, 'link.air.rate: found "fast"; expected a rate'),
    "unit": ('"10 ms"', '"10 kB"', 6, 'link.air.delay: found "10 kB"; expected a '),
    "key": ("window = 8", "windov = 8", 7, "link.air.protocol.windov: unknown key"),
    "kind": ('"uniform"', '"unifrom"', 8, 'link.air.errors.kind: found "unifrom" (did you mean'),
    "range": ("loss = 0.01", "loss = 1.5", 8, "link.air.errors.loss: found 1.5; expected"),
    "host": ('to = "client"', 'to = "clint"', 12, "flow.f.to: found"),
    "missing": ('from = "server"\n', "", 10, "flow.f.from: missing key; expected"),
    "two keys": ('"cubic" }', '"cubic", ecn = true, profile = "ns-2" }', 14, "flow.f.transport."),
    "end": ("replications = 1", "replications = 0", 17, "run.replications: found 0; expected"),
    "repeated": ("name = ", "name = 1\nname = ", 2, "scenario: found broken TOML: duplicate key"),
}

COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "check": lambda file: ["check", file],
    "run": lambda file: ["run", file],
    "trace": lambda file: ["trace", file],
    "explain": lambda file: ["explain", file],
    "live": lambda file: ["live", file, "--", "true"],
}


@pytest.mark.parametrize("case", BAD)
def test_every_command_reports_file_line_key_value_and_expectation(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from lasthop import commands

    old, new, line, message = BAD[case]
    assert TEXT.count(old) == 1
    file = tmp_path / "bad.toml"
    file.write_text(TEXT.replace(old, new))
    for name, arguments in COMMANDS.items():
        assert commands._main(arguments(str(file))) == 2, name
        printed = capsys.readouterr()
        assert printed.out == "", name
        column = ":1" if case == "repeated" else ""
        assert printed.err.startswith(f"lasthop: {file}:{line}{column}: {message}"), name
        assert printed.err.count("\n") == 1, name
        assert "expected" in printed.err, name


def test_a_json_file_has_no_lines_and_text_has_no_file(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    tables = lasthop.Scenario.from_toml(TEXT).to_dict()
    tables["link"]["air"]["rate"] = "fast"
    file.write_text(json.dumps(tables))
    with pytest.raises(lasthop.ScenarioError) as caught:
        lasthop.load(file)
    assert str(caught.value).startswith(f'{file}: link.air.rate: found "fast"; expected')
    with pytest.raises(lasthop.ScenarioError, match=r"^link.air.rate: .*\(line 5\)$"):
        lasthop.Scenario.from_toml(TEXT.replace("1 Mbps", "fast"))


def test_a_changed_key_is_not_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "good.toml"
    file.write_text(TEXT)
    scenario = lasthop.load(file)
    assert scenario.place("link.air.errors.loss") == f"{file}:8"
    assert scenario.place("flow.f.start") == f"{file}:10"
    changed = scenario.with_({"link.air.errors.loss": 7})
    assert changed.place("link.air.errors.loss") is None
    with pytest.raises(lasthop.ScenarioError, match=r"^link.air.errors.loss: found 7; expected"):
        changed.points()
    # A key of the file that does not agree with the changed one has its line.
    changed = scenario.with_({"flow.f.transport.variant": "udp"})
    with pytest.raises(lasthop.ScenarioError, match=r"^flow.f.transport.variant: found"):
        changed.points()
    changed = scenario.with_({"link.air.between": ["server", "relay"]})
    with pytest.raises(lasthop.ScenarioError) as caught:
        changed.points()
    assert str(caught.value).startswith(f"{file}:12: flow.f.to: found")


def test_a_live_run_reports_the_line_of_an_unsupported_part(tmp_path: Path) -> None:
    file = tmp_path / "live.toml"
    links = TEXT.partition("[flow.f]")[0].replace('kind = "selective-repeat", window = 8', "KIND")
    file.write_text(links.replace("KIND", 'kind = "ideal-sr"'))
    refused = command("live", file, "--", "true")
    assert refused.returncode == 2
    place = f'lasthop: {file}:7: link.air.protocol: found "ideal-sr", whose frames have no byte'
    assert refused.stderr.startswith(place)
    # Flows are added to a file without flows; its lines do not change.
    file.write_text(links.replace("KIND", 'kind = "raw"').replace("1 Mbps", "fast"))
    refused = command("live", file, "--", "true")
    assert refused.stderr.startswith(f'lasthop: {file}:5: link.air.rate: found "fast"')


FORMER = TEXT.replace("congestion_control =", "law =")
NOTE = "renamed to `congestion_control`; the next minor version will reject `law`"


def test_a_former_name_warns_and_gives_the_same_results(tmp_path: Path) -> None:
    file = tmp_path / "former.toml"
    file.write_text(FORMER)
    with pytest.warns(FutureWarning) as caught:
        former = lasthop.load(file)
    assert [str(one.message) for one in caught] == [f"{file}:14: flow.f.transport.law: {NOTE}"]
    assert caught[0].filename == __file__
    present = lasthop.Scenario.from_toml(TEXT)
    assert former.to_dict() == present.to_dict()
    assert former.points()[0].hash == present.points()[0].hash
    with pytest.warns(FutureWarning, match=r"^flow.f.transport.law: "):
        changed = present.with_({"flow.f.transport.law": "veno"})
    assert changed["flow.f.transport.congestion_control"] == "veno"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A note is given once, not for every copy.
        former.with_({"link.air.rate": "2 Mbps"})


@pytest.mark.parametrize(
    "name", ["check", "run", "explain", pytest.param("trace", marks=pytest.mark.slow)]
)
def test_commands_note_a_former_name_once(name: str, tmp_path: Path) -> None:
    file = tmp_path / "former.toml"
    file.write_text(FORMER + '[sweep]\n"flow.f.transport.law" = ["veno", "vegas"]\n')
    arguments = ["--out", str(tmp_path / "t")] if name == "trace" else []
    done = command(name, file, *arguments)
    assert done.returncode == 0
    assert done.stderr.count(f"lasthop: {file}:14: flow.f.transport.law: {NOTE}\n") == 1
    assert done.stderr.count("renamed") == 1
