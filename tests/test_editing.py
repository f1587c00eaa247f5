"""Tools for writing scenarios: starters, explanations, the JSON Schema."""

import itertools
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lasthop
from conftest import ROOT
from lasthop import commands as cli
from lasthop.evaluating.theory.network import frame_loss
from lasthop.scenarios.catalogue import variants
from lasthop.scenarios.explain import explain
from lasthop.scenarios.starter import SCHEMA_FILE, TEMPLATES, starter

SCENARIOS = sorted(
    path
    for folder in ("examples", "docs/links/scenarios", "python/lasthop/papers")
    for path in (ROOT / folder).rglob("*.toml")
    if path.name not in ("study.toml", "claims.toml", "published.toml", "words.toml", "Cargo.toml")
    # Scenarios for live runs have no flows: programs generate their traffic.
    if path.parent.name != "live"
)


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = cli._main(list(map(str, arguments)))
    captured = capsys.readouterr()
    return code, captured.out + captured.err


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_starter_runs_at_once(
    template: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out = call(capsys, "new", "my link", "--template", template)
    assert (code, out.split("\n")) == (0, ["my-link.toml", SCHEMA_FILE, ""])
    assert json.loads(Path(SCHEMA_FILE).read_text()) == lasthop.schema()
    code, out = call(capsys, "check", "my-link.toml")
    assert code == 0
    scenario = lasthop.load("my-link.toml")
    assert scenario.name == "my link"
    results = lasthop.run(scenario.with_({"run.replications": 1}))
    assert results.complete
    assert results.wide.height == len(scenario.points()) > 1
    code, out = call(capsys, "explain", "my-link.toml")
    assert code == 0
    assert out.startswith("my link\n")


@pytest.mark.parametrize("template", TEMPLATES)
def test_comments_are_the_models_own_words(template: str) -> None:
    text = starter(template, "n")
    assert text.startswith(f"#:schema ./{SCHEMA_FILE}\n#")
    assert max(map(len, text.splitlines())) <= 100
    assert not re.search(r"\n\n\n", text)
    # A comment or a table header precedes every line that sets a key, and every table.
    lines = text.splitlines()
    for above, line in itertools.pairwise(lines):
        if re.match(r"\w+ = |\[", line):
            assert above.startswith(("# ", "[")), line
    flat = " ".join(line.removeprefix("# ") for line in lines if line.startswith("#"))
    run = lasthop.schema()["properties"]["run"]["properties"]
    assert f"{run['seed']['description']} Default: 1." in flat
    assert re.search(r"Other keys of \[link\.\w+\]: preset, ", flat)
    assert re.search(r"Other kinds: ((udp|tcp), udp-lite, quic|tcp, udp, udp-lite)\.", flat)


@pytest.mark.slow
def test_new_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file.toml").write_text("mine")
    Path(SCHEMA_FILE).write_text("mine too")
    code, out = call(capsys, "new")
    assert code == 2
    assert "cannot write `file.toml`: file exists; use `--force` to overwrite it" in out
    assert Path("file.toml").read_text() == "mine"
    code, out = call(capsys, "new", "--force")
    assert (code, out) == (0, "file.toml\n")
    assert tomllib.loads(Path("file.toml").read_text())["name"] == "file"
    assert Path(SCHEMA_FILE).read_text() == "mine too"
    for arguments, words in [
        (["--template", "x"], "unknown template `x`: expected file, page, web, speech, radio"),
        ([" "], "invalid value `` for `NAME`"),
        (["--out", "no/such.toml"], "No such file"),
    ]:
        code, out = call(capsys, "new", *arguments)
        assert code == 2
        assert words in out
    # If a file is named, that file is written.
    code, out = call(capsys, "new", "mine.toml", "--template", "web")
    assert (code, out) == (0, "mine.toml\n")
    assert lasthop.load("mine.toml").name == "mine"
    code, out = call(capsys, "new", 'a "b" \\', "--out", "other.toml")
    assert lasthop.load("other.toml").name == 'a "b" \\'


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_can_be_explained(path: Path) -> None:
    scenario = lasthop.load(path)
    text = explain(scenario)
    tables = scenario.to_dict()
    assert "None" not in text
    for kind in ("link", "flow"):
        for name, table in tables.get(kind, {}).items():
            first = f"{name}1" if "count" in table else name
            assert f"{kind.capitalize()} {first}: " in text
    for key in tables.get("sweep", {}):
        assert f"  {key}: " in text
    points = len(scenario.points())
    assert f"Runs: {points} point{'' if points == 1 else 's'} x " in text
    last = explain(scenario, point=points - 1)
    assert last.splitlines()[0] == text.splitlines()[0]


def test_the_first_example_in_words() -> None:
    """By hand: 1500 B at 2 Mbps take 6 ms, an ACK of 52 B 0.208 ms; 46.208 ms hold 11 552 B."""
    assert explain(lasthop.load(ROOT / "examples/first.toml")).splitlines() == [
        "first",
        "",
        "  server --- wireless --- client",
        "              2 Mbps",
        "              20 ms",
        "               raw",
        "          errors uniform",
        "  -------------------------> transfer",
        "",
        "Link wireless: server to client",
        "  protocol: raw; frame header 0 B",
        "  each direction: 2 Mbps, 20 ms, queue 50 packets; errors uniform: loss 1 %",
        "    largest frame 1500 B: transmission time 6 ms, loss probability 1 %",
        "",
        "Flow transfer: server to client",
        "  a file of 1 MB",
        "  TCP cubic, profile linux: segments of 1448 B, an autotuned receive window, "
        "initial window 10, delayed ACKs 40 ms, minimum RTO 200 ms",
        "  over wireless: RTT 46.21 ms for a full segment and its acknowledgment, queues empty",
        "  bandwidth-delay product 2 Mbps (wireless) x 46.21 ms = 11.55 kB, 7.7 full packets",
        "",
        "Runs: 1 point x 30 replications = 30, seed 1. Each ends when every file is "
        "acknowledged, at the latest at 100000 s.",
    ]


def test_directions_that_differ_are_told_apart() -> None:
    scenario = lasthop.load(ROOT / "examples/first.toml").with_(
        {
            "link.wireless.reverse": {"rate": "64 kbps"},
            "flow.transfer.transport.receive_window": "4 segments",
        }
    )
    text = explain(scenario)
    assert "2 Mbps | 64 kbps" in text
    assert "  server to client: 2 Mbps, 20 ms" in text
    assert "  client to server: 64 kbps, 20 ms" in text
    # 4 segments per round trip of 6 + 6.5 + 40 ms.
    assert "limited to 882.6 kbps by the receive window of 4 segments, not by the network" in text


def test_the_frames_that_are_lost_are_listed() -> None:
    scenario = lasthop.load(ROOT / "examples/first.toml")
    few = scenario.with_({"link.wireless.errors": {"kind": "listed", "lose": [25, 27]}})
    lines = explain(few).splitlines()
    assert lines[6].strip() == "loses 25, 27"
    assert lines[11].endswith("queue 50 packets; errors listed: lose 25, 27")
    many = few.with_({"link.wireless.errors.lose": list(range(1, 101))})
    assert "errors listed: lose 1, 2, 3, 4, 5, 6, 7, 8, …, 100 (100 values)" in explain(many)


def test_of_a_long_sweep_the_first_values_and_the_last_are_told() -> None:
    rates = [f"{index} kbps" for index in range(1, 1001)]
    text = explain(lasthop.load(ROOT / "examples/first.toml").sweep({"link.wireless.rate": rates}))
    assert "link.wireless.rate: 1 kbps*, 2 kbps" in text
    assert "8 kbps, …, 1000 kbps (1000 values)" in text


def test_hosts_that_make_no_row_are_drawn_link_by_link() -> None:
    tables = lasthop.load(ROOT / "examples/first.toml").to_dict()
    for name, host in (("second", "other"), ("third", "fourth")):
        tables["link"][name] = {**tables["link"]["wireless"], "between": ["server", host]}
    lines = explain(lasthop.Scenario(tables)).splitlines()
    assert sum(line.startswith("  server ---") for line in lines) == 3


def test_the_expected_loss_is_that_of_the_frame() -> None:
    # 125 bytes are 1000 bits.
    assert frame_loss({"kind": "bit", "ber": 1e-3}, 125, 1e6) == pytest.approx(1 - 0.999**1000)
    law = {"p_good_to_bad": 0.1, "p_bad_to_good": 0.3, "loss_good": 0.0, "loss_bad": 1.0}
    assert frame_loss({"kind": "gilbert-elliott", **law}, 125, 1e6) == pytest.approx(0.25)
    assert frame_loss({"kind": "trace"}, 125, 1e6) is None


def test_a_radio_is_explained_by_its_frames() -> None:
    """By hand: 1000 B take 25 frames of 42 B, all slots of one frame; half of them are bad."""
    text = explain(lasthop.load(ROOT / "python/lasthop/papers/arq-and-tcp/alone.toml"))
    assert "Radio cell: station and mobile\n  frames of 10 ms with slots of 42 B: 25 to" in text
    statement = "a packet of 1000 B takes 25 frames of 42 B, loss probability 45.5 %"
    assert statement in text
    assert "over cell.mobile: minimum delay of a packet of 1000 B: 10 ms" in text


@pytest.mark.parametrize(
    ("window", "header", "message"),
    [
        # RTT_L = 4.168 + 500 + 0.008 ms, with 126 044 B in flight: 120.96 frames of 1042 B.
        (8, 2, "the window of 8 frames is smaller than the bandwidth-delay product of the link, "),
        (120, 2, "the window of 120 frames is smaller"),
        (121, 2, ""),
        (300, 4, ""),
    ],
)
def test_a_link_window_that_is_too_small_is_told(window: int, header: int, message: str) -> None:
    text = lasthop.Scenario(
        {
            "name": "satellite",
            "link": {
                "air": {
                    "between": ["a", "b"],
                    "rate": "2 Mbps",
                    "delay": "250 ms",
                    "protocol": {"kind": "selective-repeat", "window": window},
                }
            },
            "flow": {
                "f": {
                    "from": "a",
                    "to": "b",
                    "transport": {
                        "kind": "tcp",
                        "variant": "reno",
                        "profile": "rfc",
                        "segment": "1000 B",
                    },
                    "app": {"kind": "file", "size": "1 MB"},
                }
            },
        }
    )
    explained = explain(text)
    assert ("smaller than the bandwidth-delay product of the link" in explained) == bool(message)
    assert message in explained
    assert f"frame header {header} B, control frame {header} B" in explained
    if window == 8:
        assert "121 frames (126 kB): it limits the rate to 132.3 kbps" in explained


def test_a_link_without_a_limit_is_explained_as_such() -> None:
    text = explain(lasthop.load(ROOT / "examples/wired-loss.toml"))
    assert "server to client: unlimited, 200 ms, queue 50 packets; errors uniform" in text
    assert "largest frame 1040 B: transmission time 0 s, loss probability 1 %" in text
    assert "only the window limits the rate, to 1.28 Mbps" in text
    assert "18446744074" not in text


def test_small_probabilities_are_explained_as_numbers() -> None:
    scenario = lasthop.load(ROOT / "examples/sr-file-transfer.toml").set(
        "link.wireless.errors",
        {"kind": "two-state", "good": "1 s", "bad": "100 ms", "good_ber": 1e-6, "bad_ber": 1e-3},
    )
    assert "good 1 s, bad 100 ms, good BER 1e-6, bad BER 0.1 %" in explain(scenario)


def test_values_are_explained_in_the_quantities_of_the_schema() -> None:
    scenario = lasthop.load(ROOT / "examples/sr-file-transfer.toml").set(
        "link.wireless.queue", {"kind": "codel", "target": "7 ms", "interval": "70 ms"}
    )
    union = lasthop.schema()["properties"]["link"]["additionalProperties"]["properties"]["queue"]
    codel = next(one for one in variants(union) if one["title"] == "codel")["properties"]
    assert codel["target"]["x-quantity"] == codel["interval"]["x-quantity"] == "duration"
    assert codel["limit"]["x-quantity"] == "packets"
    assert "target 7 ms, interval 70 ms" in explain(scenario)


@pytest.mark.parametrize(
    ("queue", "is_told"),
    [
        ("50 packets", True),
        ({"kind": "red", "ecn": False}, True),
        ({"kind": "biased"}, True),
        ({"kind": "red"}, False),
        ({"kind": "dualpi2"}, False),
        ({"kind": "step"}, False),
    ],
)
def test_lt_tcp_without_marks_is_explained(queue: object, is_told: bool) -> None:
    scenario = lasthop.load(ROOT / "examples/first.toml")
    links = {f"link.{name}.queue": queue for name in scenario.to_dict()["link"]}
    (flow,) = scenario.to_dict()["flow"]
    tcp = {"kind": "tcp", "variant": "lt-tcp", "profile": "rfc"}
    changed = scenario.with_({**links, f"flow.{flow}.transport": tcp})
    assert ("lt-tcp detects congestion only by ECN marks" in explain(changed)) == is_told


def test_explain_refuses_points_that_are_not_there(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = call(capsys, "explain", small, "--point", "2")
    assert code == 2
    assert "invalid value `2` for `--point`: expected 0 to 1" in out
    code, out = call(capsys, "explain", small, "--point", "1")
    assert "TCP sack" in out
    assert "flow.transfer.transport.variant: reno, sack*" in out


def properties(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Every key of the schema: its path, its schema, and whether it is required."""
    if isinstance(node, list):
        for number, item in enumerate(node):
            yield from properties(item, f"{path}[{number}]")
    if isinstance(node, dict):
        for name, known in node.get("properties", {}).items():
            yield f"{path}.{name}", known, name in node.get("required", [])
        for name, item in node.items():
            if name not in ("default", "const", "enum"):
                yield from properties(item, f"{path}.{name}")


def _allows(schema: dict[str, Any], text: str) -> bool:
    """Whether a schema accepts a text, by a word, a pattern or one of its alternatives."""
    return (
        text in schema.get("enum", ())
        or text == schema.get("const")
        or bool(re.search(schema.get("pattern", "$^"), text))
        or any(_allows(one, text) for key in ("anyOf", "oneOf") for one in schema.get(key, ()))
    )


def test_the_schema_describes_every_key() -> None:
    keys = list(properties(lasthop.schema()))
    assert len(keys) > 100
    for path, known, is_required in keys:
        about = known.get("description", "")
        assert about.endswith("."), path
        assert not (is_required and "default" in known), path
        # The description of a quantity names its units.
        pattern = known.get("pattern", "")
        if "kbps" in pattern:
            assert "kbps" in about, path
        if "|ms|" in pattern:
            assert " ms" in about, path
        if "|kB|" in pattern:
            assert re.search(r" (B|kB|KiB)\b", about), path
        # A default is a valid value of the key.
        default = known.get("default")
        if isinstance(default, str):
            assert _allows(known, default), path
        elif isinstance(default, dict) and default:
            kinds = [option["properties"]["kind"]["const"] for option in variants(known)]
            assert default["kind"] in kinds, path


def test_the_command_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = call(capsys, "schema")
    assert code == 0
    assert json.loads(out) == lasthop.schema()


def test_times_of_protocols_and_errors_have_their_unit() -> None:
    first = lasthop.load(ROOT / "examples/first.toml")
    rlc = {"kind": "rlc-am", "timer_poll": "200 ms", "discard_timer": "1 s"}
    text = explain(first.set("link.wireless.protocol", rlc))
    assert "discard timer 1 s," in text
    assert "timer poll 200 ms," in text
    text = explain(lasthop.load(ROOT / "examples/radio.toml"))
    assert "slot 10 ms, stay good 90 %, stay bad 90 %," in text


@pytest.mark.parametrize("name", ["", "two\nlines", "bell\a"])
def test_a_name_that_a_scenario_cannot_have_is_refused(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out = call(capsys, "new", name)
    assert code == 2
    assert out.startswith(f"lasthop: invalid value `{repr(name)[1:-1]}` for `NAME`: expected n")
    assert not list(tmp_path.iterdir())


def test_a_name_too_long_for_a_file_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out = call(capsys, "new", "x" * 300)
    assert code == 2
    assert "File name too long" in out


def test_explain_shows_the_mode_and_the_limits_of_a_mpdus() -> None:
    tables = lasthop.load(ROOT / "examples/wifi6.toml").to_dict()
    del tables["sweep"], tables["wlan"]["home"]["errors"]
    tables["wlan"]["home"] |= {"snr": "25 dB", "rate_control": "ideal", "scheduler": "airtime"}
    lines = [line.strip() for line in explain(lasthop.Scenario(tables)).splitlines()]
    for line in (
        "MCS 9, 1 spatial stream, 80 MHz, guard interval 800 ns, at 5 GHz",
        "A-MPDUs up to 6.501 MB and 256 MPDUs, block-ack window 256",
        "at most 10 transmissions per MPDU, lifetime 500 ms",
        "errors by SNR, ideal MCS",
        "a queue per station, airtime",
    ):
        assert line in lines, (line, lines)
    fading = {"kind": "rayleigh", "period": "50 ms"}
    tables["wlan"]["home"]["driver_queue"] = "aql"
    tables["wlan"]["home"] |= {"rate_control": "minstrel-ht", "edca": True, "fading": fading}
    tables["wlan"]["home"]["category"] = {"video": {"txop_limit": "3008 us"}}
    tables["flow"]["call"]["dscp"] = "AF41"
    lines = [line.strip() for line in explain(lasthop.Scenario(tables)).splitlines()]
    assert "errors by SNR, minstrel-ht MCS" in lines
    assert "rate control up to this mode, by the losses of MPDUs" in lines
    place = lines.index("access categories by the dscp of flows (EDCA)")
    assert lines[place + 1].startswith(
        "best-effort: AIFS 43 us, contention windows 15 to 1023, one"
    )
    assert lines[place + 2] == (
        "video: AIFS 34 us, contention windows 7 to 15, TXOPs up to 3.008 ms"
    )
    assert lines.count("access category video") == 1
    assert "rayleigh fading" in lines
    assert "packets in the driver: aql" in lines
    text = """
    name = "arf"
    wlan.cell = { access_point = "ap", stations = ["a"], snr = "9 dB", rate_control = "arf" }
    [flow.up]
    from = "a"
    to = "ap"
    transport = { kind = "tcp", variant = "cubic" }
    app = { kind = "file", size = "1 MB" }
    """
    lines = [line.strip() for line in explain(lasthop.Scenario.from_toml(text)).splitlines()]
    assert "errors by SNR, arf rate" in lines
    assert "rate control up to this rate, by failures in a row (ARF)" in lines


@pytest.mark.parametrize(
    ("standard", "delay"),
    [
        # Durations of PPDUs of 1538 B with HT, MCS 7, and of 1542 B with HE, MCS 9, at 20 MHz.
        ('standard = "802.11n"\nmcs = 7', "228 us"),
        ('standard = "802.11ax"\nmcs = 9', "152 us"),
        # A long preamble of 192 us and 1536 B at 11 Mbps.
        ('standard = "802.11b"', "1.309 ms"),
    ],
)
def test_the_delay_of_a_frame_of_a_wlan_includes_its_preamble(standard: str, delay: str) -> None:
    text = f"""
    name = "frame"
    [wlan.cell]
    access_point = "ap"
    stations = ["a"]
    {standard}
    [flow.up]
    from = "a"
    to = "ap"
    transport = "udp"
    app = {{ kind = "on-off", rate = "1 Mbps", packet = "1500 B", on = "1 s", off = "0 s" }}
    [run]
    duration = "1 s"
    """
    lines = explain(lasthop.Scenario.from_toml(text)).splitlines()
    assert f"  over cell.a: minimum delay of a packet of 1500 B: {delay}" in lines
