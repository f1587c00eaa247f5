from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import lasthop
from conftest import ROOT
from lasthop.commands import _main as run_command
from lasthop.running.tracing import EVENTS, FRAMES

LONG = """
name = "long"

[link.radio]
between = ["a", "b"]
rate = "2 Mbps"
delay = "20 ms"
queue = "1000 packets"
errors = { kind = "uniform", loss = "1 %" }

[flow.file]
from = "a"
to = "b"
transport = { kind = "tcp", variant = "newreno", profile = "rfc" }
app = { kind = "file", size = "1 GB" }

[run]
duration = "1000 s"
"""


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("steady") / "long.toml"
    path.write_text(LONG)
    return path


def row(table: pl.DataFrame, entity: str, quantity: str) -> dict[str, Any]:
    (found,) = table.filter(entity=entity, quantity=quantity).to_dicts()
    return found


def made(levels: list[float]) -> lasthop.Trace:
    """A trace of a queue whose length changes every second."""
    events = pl.DataFrame(
        {
            "time_s": np.arange(float(len(levels))),
            "entity": "link.a.forward",
            "event": "queue",
            "sequence": None,
            "value": levels,
        },
        schema=EVENTS,
    )
    return lasthop.Trace(events, pl.DataFrame(schema=FRAMES), {}, {}, "made")


def test_start_is_cut_off_and_the_rest_averaged() -> None:
    random = np.random.default_rng(1)
    levels = [50.0] * 100 + list(random.uniform(0.0, 2.0, 1901))
    found = row(lasthop.steady_state(made(levels), step=1.0), "link.a.forward", "queue_packets")
    assert 100.0 <= found["warm_up_s"] <= 110.0
    # The mean of 1900 uniform values has a standard error of 0.013; this seed is well within the
    # tolerance.
    assert found["mean"] == pytest.approx(1.0, abs=0.04)
    assert found["ci95"] < 0.05
    assert found["independent"]


def test_what_never_settles_has_no_mean() -> None:
    growing = row(lasthop.steady_state(made(list(range(2001)))), "link.a.forward", "queue_packets")
    assert growing["mean"] is None
    assert growing["independent"] is None


def test_steps_out_of_range_are_refused() -> None:
    for step in (0.0, -1.0, 1e9, float("nan")):
        with pytest.raises(ValueError, match="for `step`: expected"):
            lasthop.steady_state(made([1.0, 2.0, 3.0]), step=step)


@pytest.mark.slow
def test_goodput_is_that_of_the_run(long: Path) -> None:
    trace = lasthop.trace(long)
    table = lasthop.steady_state(trace)
    found = row(table, "flow.file", "goodput_bps")
    # Only the goodput of the run includes the warm-up of a second.
    assert found["mean"] == pytest.approx(trace.metrics["flow.file.goodput_bps"], rel=0.01)
    # Another replication is within the limits of both intervals; false-positive rate below 1 %.
    other = row(lasthop.steady_state(long, replication=1), "flow.file", "goodput_bps")
    assert abs(found["mean"] - other["mean"]) < 1.4 * (found["ci95"] + other["ci95"])
    assert found["independent"]


@pytest.mark.parametrize("protocol", ["raw", "selective-repeat", "stop-and-wait"])
def test_queues_obey_littles_law(long: Path, protocol: str) -> None:
    # The mean number of packets in the queue times the duration equals the total time of all
    # packets in the queue.
    scenario = lasthop.load(long).with_(
        {"link.radio.protocol": protocol, "flow.file.app.size": "300 kB"}
    )
    trace = lasthop.trace(scenario)
    events = trace.frame.filter(event="queue", entity="link.radio.forward")
    value = events["value"].to_numpy()
    assert value.min() == 0.0
    assert value[-1] == 0.0
    assert np.all(np.abs(np.diff(np.concatenate([[0.0], value]))) == 1.0)
    area = float(value[:-1] @ np.diff(events["time_s"].to_numpy()))
    sent = trace.frame.filter(pl.col("event") == "segment_sent", entity="flow.file")
    frames = trace.transmissions.filter(pl.col("kind") == "data", entity="link.radio.forward")
    first = frames.filter(~pl.col("repeated"))
    assert first.height == sent.height
    waits = first["end_s"].to_numpy() - sent["time_s"].to_numpy()
    # With a link protocol, retransmissions and acknowledgments occupy the transmitter, too.
    others = trace.transmissions.filter(
        (pl.col("kind") != "data") | pl.col("repeated"), entity="link.radio.forward"
    )
    busy = float((others["end_s"] - others["start_s"]).sum())
    assert area == pytest.approx(waits.sum() + busy, rel=1e-9)


def test_web_connections_come_and_go() -> None:
    study = ROOT / "python/lasthop/papers/link-enhancements/www.toml"
    table = lasthop.steady_state(lasthop.load(study).with_({"run.duration": "60 s"}))
    assert set(table["entity"].str.split(".").list.first()) == {"link"}


@pytest.mark.slow
def test_command_prints_what_it_settles_to(long: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["steady", str(long)]) == 0
    printed = capsys.readouterr().out
    assert "flow.file.goodput_bps" in printed
    assert "independent" in printed
    assert run_command(["steady", str(long), "--format", "csv", "--set", "run.duration=2 s"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "entity,quantity,mean,ci95,warm_up_s,batch_s,independent"
    assert run_command(["steady", str(long), "--step", "1 h"]) == 2
    assert "invalid value `3600 s` for `--step`" in capsys.readouterr().err
