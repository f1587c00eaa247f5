"""Congestion control algorithms in Python."""

import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import lasthop
from lasthop import _lasthop
from lasthop import commands as cli
from lasthop.evaluating.suite import sender
from lasthop.running import algorithms

EXAMPLES = Path(__file__).parents[1] / "examples" / "congestion-control"
BASE = """
name = "t"
[link.air]
between = ["server", "client"]
rate = "10 Mbps"
delay = "20 ms"
queue = { kind = "drop-tail", limit = "30 packets" }
[flow.f]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "sack", profile = "rfc" }
app = { kind = "file", size = "2 MB" }
"""
HEAD = "from lasthop import CongestionControl\nclass Own(CongestionControl):\n"
GOOD = HEAD + (
    "    def on_ack(self, ack): self.cwnd += 1 / self.cwnd\n"
    "    def on_loss(self, loss): self.cwnd = max(self.cwnd / 2, 2)\n"
    "    def on_timeout(self, timeout): self.cwnd = 1\n"
)


@pytest.fixture(autouse=True)
def permissions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restores the permitted files after a test."""
    monkeypatch.setenv(algorithms.PERMISSION, "")


def scenario(**keys: object) -> lasthop.Scenario:
    own = {"link.air.errors": {"kind": "uniform", "loss": "1 %"}, **keys}
    return lasthop.Scenario.from_toml(BASE).with_(own)


def of_class(file: Path, name: str, **keys: object) -> lasthop.Scenario:
    lasthop.allow_code(file)
    own = {"kind": "python", "class": f"{file}:{name}"}
    return scenario(**{"flow.f.transport.congestion_control": own, **keys})


def written(folder: Path, text: str) -> Path:
    file = folder / "own.py"
    file.write_text(text)
    return file


CASES: list[dict[str, object]] = [
    {},
    {"link.air.errors": "none", "flow.f.app.size": "20 MB"},
    {"link.air.errors": {"kind": "uniform", "loss": "10 %"}},
    {"link.air.errors": {"kind": "on-off", "up": "exp 2 s", "down": "exp 300 ms"}},
    {"flow.f.transport.variant": "newreno", "flow.f.transport.delayed_ack": "off"},
    {
        "flow.f.transport.undo": "eifel",
        "flow.f.transport.timestamps": True,
        "link.air.delay": {"kind": "steps", "at": [["0 s", "20 ms"], ["1 s", "900 ms"]]}
        | {"repeat": "2 s"},
    },
    {
        "flow.f.transport.ecn": True,
        "link.air.queue": {"kind": "codel"},
        "flow.f.app.size": "20 MB",
        "link.air.errors": "none",
    },
    {"flow.f.transport.pacing": True},
    {"flow.f.app": {"kind": "web"}, "run.duration": "60 s"},
]


@pytest.mark.parametrize("keys", CASES, ids=lambda keys: "-".join(keys) or "loss")
@pytest.mark.parametrize("name", ["reno", "cubic"])
def test_examples_give_the_bytes_of_the_engine(name: str, keys: dict[str, object]) -> None:
    built_in = scenario(**{"flow.f.transport.congestion_control": name, **keys})
    own = of_class(EXAMPLES / f"{name}.py", name.title(), **keys)
    expected, found = (lasthop.run(one, replications=3, seed=7) for one in (built_in, own))
    assert found.metrics == expected.metrics
    for metric in found.metrics:
        np.testing.assert_array_equal(found.samples(metric, 0), expected.samples(metric, 0), metric)
    assert not np.isnan(found.samples("flow.f.goodput_bps", 0)).all()


def windows(one: lasthop.Scenario) -> list[float]:
    """The windows of the sender in segments, in the order of their changes."""
    events = lasthop.trace(one, seed=3).frame
    own = events.filter(pl.col("entity") == "flow.f", pl.col("event") == "cwnd")
    return own["value"].to_list()


def test_an_example_has_the_windows_of_the_engine() -> None:
    expected = windows(scenario(**{"flow.f.transport.congestion_control": "cubic"}))
    assert windows(of_class(EXAMPLES / "cubic.py", "Cubic")) == expected
    assert len(set(expected)) > 100


def test_the_interpreter_reads_attributes_without_a_call_or_a_search() -> None:
    # Member descriptors, and no class attributes that hide those of an instance: otherwise an ACK
    # takes half as many instructions again (docs/congestion-control.md).
    for name in ("now_ns", "acked", "delivered_segments", "in_flight"):
        assert isinstance(getattr(lasthop.Ack, name), types.MemberDescriptorType), name
    for name in ("cwnd", "ssthresh", "pacing_rate"):
        assert not hasattr(lasthop.CongestionControl, name), name


def test_attributes_of_an_ack_that_is_kept_do_not_change(tmp_path: Path) -> None:
    kept = HEAD + (
        "    def __init__(self): self.before, self.seen = None, ()\n"
        "    def on_ack(self, ack):\n"
        "        if self.before is not None:\n"
        "            now = self.before.now_ns, self.before.acked, self.before.in_flight\n"
        "            assert now == self.seen, (now, self.seen)\n"
        "        self.before, self.seen = ack, (ack.now_ns, ack.acked, ack.in_flight)\n"
        "        assert abs(ack.now - ack.now_ns / 1e9) < 1e-9\n"
        "        self.cwnd += 1 / self.cwnd\n"
        "    def on_loss(self, loss): self.cwnd = max(self.cwnd / 2, 2)\n"
        "    def on_timeout(self, timeout): self.cwnd = 1\n"
    )
    own = of_class(written(tmp_path, kept), "Own")
    plain = tmp_path / "plain"
    plain.mkdir()
    expected = of_class(written(plain, GOOD), "Own")
    found = [
        lasthop.run(one, replications=1).samples("flow.f.goodput_bps", 0) for one in (own, expected)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (GOOD.replace("self.cwnd += 1 / self.cwnd", "1 / 0"), 3, "ZeroDivisionError"),
        (GOOD.replace("self.cwnd += 1 / self.cwnd", "self.cwnd = float('nan')"), 3, "found nan"),
        (GOOD.replace("self.cwnd += 1 / self.cwnd", "self.cwnd = None"), 3, "cwnd: found None"),
        (GOOD.replace("self.cwnd = max(self.cwnd / 2, 2)", "ack.now"), 4, "NameError"),
        (GOOD + "    def __init__(self): self.pacing_rate = -1\n", 6, "pacing_rate: found -1"),
        (GOOD + "    def on_sent(self, now): pass\n", 6, "TypeError"),
        (GOOD + "    def on_delivery(self, own):\n        raise KeyError(1)\n", 7, "KeyError"),
    ],
)
def test_an_error_has_the_line_and_the_simulated_time(
    tmp_path: Path, text: str, line: int, reason: str
) -> None:
    own = of_class(written(tmp_path, text), "Own")
    for work in (lasthop.run, lasthop.trace):
        with pytest.raises(lasthop.RunError) as caught:
            work(own)
        message = str(caught.value)
        assert message.startswith(f"own.py:{line}: "), message
        assert reason in message
        assert message.endswith(" s")
        assert "\n" not in message
    # The next run is not affected.
    assert lasthop.run(scenario(), replications=1).rows == 1


def test_the_command_line_reports_an_error_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, GOOD.replace("self.cwnd += 1 / self.cwnd", "1 / 0"))
    monkeypatch.setenv(algorithms.PERMISSION, str(file))
    own = 'congestion_control = { kind = "python", class = "own.py:Own" }, profile'
    (tmp_path / "s.toml").write_text(BASE.replace("profile", own))
    assert cli._main(["run", str(tmp_path / "s.toml"), "--replications", "2"]) != 0
    error = capsys.readouterr().err
    assert "own.py:3: ZeroDivisionError: division by zero in Own.on_ack, at 0." in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("class Own:\n    def on_ack(self: pass\n", "own.py:2: "),
        ("x = 1\nraise OSError('no')\n", "own.py:2: OSError: no"),
        ("class Other: pass\n", "own.py has no class Own; its classes: Other"),
        ("class Own: pass\n", "own.py: class Own has no method on_ack"),
        (HEAD + "    pass\n", "own.py: class Own has no method on_ack"),
        (GOOD + "    marks = 'all'\n", "own.py: Own.marks: found 'all'; expected one of classic"),
    ],
)
def test_a_class_is_checked_with_the_scenario(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(lasthop.ScenarioError, match=r"congestion_control\.class") as caught:
        of_class(written(tmp_path, text), "Own").points()
    assert reason in str(caught.value)


@pytest.mark.parametrize("name", ["own.py", ":Own", "own.py:", 1])
def test_a_name_has_a_file_and_a_class(name: object) -> None:
    own = {"kind": "python", "class": name}
    with pytest.raises(lasthop.ScenarioError, match="expected"):
        scenario(**{"flow.f.transport.congestion_control": own}).points()


@pytest.mark.parametrize("name", [{"python": "my_cc.py:MyCc"}, "my_cc.py:MyCc", "python"], ids=str)
def test_a_class_as_variant_is_refused_with_the_key_of_classes(name: object) -> None:
    with pytest.raises(lasthop.ScenarioError) as caught:
        scenario(**{"flow.f.transport.variant": name}).points()
    message = str(caught.value)
    assert message.startswith("flow.f.transport.variant: found ")
    assert message.endswith('congestion_control = { kind = "python", class = "FILE.py:CLASS" }')


def test_code_runs_only_if_permitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(
        tmp_path, f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n" + GOOD
    )
    own = {"kind": "python", "class": f"{file}:Own"}
    changed = scenario().with_({"flow.f.transport.congestion_control": own})
    with pytest.raises(lasthop.ScenarioError, match="not permitted to run"):
        changed.points()
    assert not (tmp_path / "ran").exists()
    monkeypatch.setenv(algorithms.PERMISSION, f"/elsewhere.py{os.pathsep}{file}")
    assert changed.points()
    assert (tmp_path / "ran").exists()


def test_quic_does_not_take_a_class() -> None:
    lasthop.allow_code(EXAMPLES / "reno.py")
    own = {"kind": "python", "class": f"{EXAMPLES / 'reno.py'}:Reno"}
    with pytest.raises(lasthop.ScenarioError, match="congestion_control"):
        scenario(**{"flow.f.transport": {"kind": "quic", "congestion_control": own}}).points()


def test_the_text_of_a_class_is_an_input_of_the_results(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    before = of_class(file, "Own").points()[0].hash
    assert of_class(file, "Own").points()[0].hash == before
    written(tmp_path, GOOD.replace("/ 2", "/ 3"))
    assert of_class(file, "Own").points()[0].hash != before


def test_random_numbers_follow_from_the_seed(tmp_path: Path) -> None:
    text = GOOD.replace("1 / self.cwnd", "self.random.random() / self.cwnd")
    own = of_class(written(tmp_path, text), "Own", **{"link.air.errors": "none"})

    def sent(seed: int, jobs: int = 1) -> list[float]:
        results = lasthop.run(own, replications=4, seed=seed, jobs=jobs)
        return list(results.samples("flow.f.duration_s", 0))

    assert sent(1) == sent(1, jobs=2)
    assert sent(1) != sent(2)
    assert len(set(sent(1))) > 1


def test_optional_methods_and_attributes(tmp_path: Path) -> None:
    text = GOOD + (
        "    paces = True\n"
        "    def __init__(self): self.best = 0.0; self.pacing_rate = 4e6\n"
        "    def on_delivery(self, delivery):\n"
        "        assert delivery.now == delivery.now_ns * 1e-9\n"
        "        self.best = max(self.best, delivery.delivery_rate or 0)\n"
        "        assert self.best < 10.5e6, self.best\n"
        "        self.cwnd = 100\n"
    )
    own = of_class(written(tmp_path, text), "Own", **{"link.air.errors": "none"})
    goodput = lasthop.run(own, replications=1).samples("flow.f.goodput_bps", 0)[0]
    assert 3.4e6 < goodput < 4e6


def test_without_ssthresh_recovery_ends_at_the_window_of_on_loss(tmp_path: Path) -> None:
    text = GOOD.replace("self.cwnd += 1 / self.cwnd", "self.cwnd = 20")
    text = text.replace("max(self.cwnd / 2, 2)", "7")
    own = of_class(written(tmp_path, text), "Own", **{"link.air.errors": "none"})
    # One loss; the window after recovery is that of `on_loss`, until the next ACK.
    lost = own.with_({"link.air.errors": {"kind": "listed", "lose": [200]}})
    assert set(windows(own)) == {1.0, 10.0, 20.0}
    assert 7.0 in set(windows(lost))


def test_a_class_is_a_sender_of_evaluate(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    transport = sender(f"{file}:Own@rfc").transport
    assert transport["profile"] == "rfc"
    assert scenario(**{"flow.f.transport": dict(transport)}).points()
    words = [f"{file}:Own", "--family", "proxy", "--replications", "2", "--out", str(tmp_path)]
    assert cli._main(["evaluate", *words]) in (0, 5)
    written_pages = {one.name for one in tmp_path.glob("*.html")}
    assert len(written_pages) == 2
    assert any(name.endswith("own.py-Own.html") for name in written_pages)


@pytest.mark.slow
def test_new_writes_a_class_with_its_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli._main(["new", "--congestion-control", "my_cc"]) == 0
    assert "lasthop evaluate my_cc.py:MyCc" in capsys.readouterr().err
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_cc.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
    assert cli._main(["new", "--congestion-control", "my_cc"]) == 2
    assert cli._main(["new", "--congestion-control", "My-cc"]) == 2
    assert cli._main(["new", "--rust"]) == 2


def test_new_writes_an_algorithm_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli._main(["new", "--congestion-control", "my_cc", "--rust"]) == 0
    assert "my_cc: MyCc(MyCcKeys);" in capsys.readouterr().err
    text = (tmp_path / "my_cc.rs").read_text()
    assert 'pub struct MyCcKeys as "my-cc" {}' in text
    assert not {"CLASS", "NAME", "KEBAB"} & set(text.split())


def test_replications_of_a_class_can_be_abandoned() -> None:
    """Threads that wait for the interpreter's lock end although the caller holds it."""
    point = of_class(EXAMPLES / "reno.py", "Reno").points()[0]
    for wait in (0.0, 0.05):
        stream = _lasthop.Stream([point], [(0, 0, 10_000, -1.0)], seed=1, jobs=2)
        stream.next(wait)
        del stream
