"""Sharing of capacity by several flows: shares, Jain's index, convergence time."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import lasthop
from lasthop import commands as cli
from lasthop.running.tracing import EVENTS, FRAMES
from lasthop.showing.terminal import number_text

TWO_FLOWS = """
name = "two-flows"
[link.path]
between = ["server", "client"]
rate = "2 Mbps"
delay = "10 ms"
queue = "20 packets"
[flow.first]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "sack", profile = "rfc" }
app = { kind = "file", size = "3 MB" }
[flow.second]
from = "server"
to = "client"
start = "2 s"
transport = { kind = "tcp", variant = "cubic", profile = "rfc" }
app = { kind = "file", size = "3 MB" }
[run]
replications = 2
"""


def drawn(rates: Mapping[str, tuple[float, Sequence[float]]]) -> lasthop.Trace:
    """A trace of flows with an ACK every 100 ms: start in s, kB acknowledged in each second."""
    rows: list[tuple[float, str, str, float, float | None]] = []
    for name, (start, each) in rates.items():
        acked = 1.0
        rows.append((start, f"flow.{name}", "segment_sent", 1.0, 1000.0))
        rows.append((start, f"flow.{name}", "ack_received", acked, None))
        for tenth in range(10 * len(each)):
            acked += 100.0 * each[tenth // 10]
            rows.append((start + 0.1 * tenth + 0.05, f"flow.{name}", "ack_received", acked, None))
    frame = pl.DataFrame(rows, schema=EVENTS, orient="row").sort("time_s", maintain_order=True)
    return lasthop.Trace(frame, pl.DataFrame(schema=FRAMES), {}, {}, "drawn")


def test_convergence_worked_by_hand() -> None:
    # Both flows are active from 4 s onwards; 9:1 has the index 100/164 = 0.61, 6:4 has 100/104 =
    # 0.96.
    found = lasthop.convergence(
        drawn({"a": (0.0, [10.0] * 4 + [9.0] * 3 + [6.0] * 8), "b": (4.0, [1.0] * 3 + [4.0] * 8)})
    )
    assert found.flows == ("flow.a", "flow.b")
    assert found.time_s == pytest.approx(3.0)
    assert found.index["time_s"][0] == pytest.approx(4.05)
    np.testing.assert_allclose(found.index["jain"][[0, 1, 2]], 100 / 164)
    np.testing.assert_allclose(found.index["jain"][[3, 8]], 100 / 104)
    np.testing.assert_allclose(found.index["goodput_bps"][3].to_list(), [48_000, 32_000])


def test_a_lapse_begins_the_count_anew_and_never_is_nan() -> None:
    fair, unfair = [5.0], [1.0]
    lapse = {"a": (0.0, [5.0] * 20), "b": (0.0, unfair * 2 + fair * 4 + unfair + fair * 8)}
    assert lasthop.convergence(drawn(lapse)).time_s == pytest.approx(7.0)
    assert lasthop.convergence(drawn(lapse), hold=4).time_s == pytest.approx(2.0)
    assert math.isnan(lasthop.convergence(drawn(lapse), hold=9).time_s)
    assert lasthop.convergence(drawn(lapse), level=0.5).time_s == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 0.0}, "invalid value `0` for `step`"),
        ({"level": 1.5}, "invalid value `1.5` for `level`"),
        ({"hold": 0}, "invalid value `0` for `hold`"),
        ({"step": 100.0}, "2 TCP flows of one connection"),
    ],
)
def test_bad_numbers_are_refused(options: dict[str, float], message: str) -> None:
    trace = drawn({"a": (0.0, [1.0] * 9), "b": (0.0, [1.0] * 9)})
    with pytest.raises(ValueError, match=message):
        lasthop.convergence(trace, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="1 TCP flows of one connection"):
        lasthop.convergence(drawn({"a": (0.0, [1.0] * 9)}))


def test_shares_and_index_of_a_run() -> None:
    scenario = lasthop.Scenario(tomllib.loads(TWO_FLOWS))
    results = lasthop.run(scenario)
    shares = results.shares()
    assert shares["metric"].to_list() == ["flow.first.goodput_bps", "flow.second.goodput_bps"]
    assert sum(shares["value"]) == pytest.approx(1.0)
    first, second = (results.samples(name, 0) for name in shares["metric"])
    assert shares["value"][0] == pytest.approx(np.mean(first / (first + second)))
    found = lasthop.convergence(scenario)
    assert set(found.flows) == {"flow.first", "flow.second"}
    assert found.index["jain"].is_between(0.5, 1.0 + 1e-12).all()


SEVERAL = """
name = "several"
[link.path]
between = ["server", "client"]
rate = "4 Mbps"
delay = "{delay}"
queue = "{queue}"
errors = {{ kind = "uniform", loss = "0.2 %" }}
{flows}
[run]
duration = "60 s"
replications = 2
"""


@pytest.mark.parametrize(
    ("variants", "delay", "queue", "options"),
    [
        (("sack", "sack"), "10 ms", "20 packets", ""),
        (("cubic", "vegas", "sack"), "25 ms", "50 packets", ""),
        (("sack", "bbr"), "25 ms", "60 packets", ""),
        (("reno", "reno"), "30 ms", "20 packets", ", handshake = false"),
    ],
)
def test_a_run_tells_what_its_trace_tells(
    variants: Sequence[str], delay: str, queue: str, options: str
) -> None:
    flows = "".join(
        f"""
        [flow.{place}-{variant}]
        from = "server"
        to = "client"
        start = "{2 * place} s"
        transport = {{ kind = "tcp", variant = "{variant}", profile = "rfc"{options} }}
        app = {{ kind = "file", size = "100 MB" }}
        """
        for place, variant in enumerate(variants)
    )
    text = SEVERAL.format(delay=delay, queue=queue, flows=flows)
    scenario = lasthop.Scenario(tomllib.loads(text))
    times = lasthop.run(scenario).samples("flows.convergence_time_s", 0)
    for replication, found in enumerate(times):
        expected = lasthop.convergence(scenario, replication=replication).time_s
        assert found == pytest.approx(expected, nan_ok=True), replication


def test_one_flow_has_no_time_to_share() -> None:
    document = tomllib.loads(TWO_FLOWS)
    del document["flow"]["second"]
    results = lasthop.run(lasthop.Scenario(document))
    assert not [name for name in results.metrics if name.startswith("flows.")]


def test_run_shows_how_flows_share(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(TWO_FLOWS)
    assert cli._main(["run", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "Fairness" in shown
    assert "fair after" in shown
    assert "index" in shown
    assert shown.index("first") < shown.index("Fairness")
    assert shown.index("Fairness") < shown.index("Retransmissions") < shown.index("spurious", -400)


def test_mean_counts_have_three_digits_and_all_of_their_integer_part() -> None:
    found = [number_text(value, 3) for value in (12.3333, 0.66667, 1234.4, 19.0)]
    assert found == ["12.3", "0.667", "1234", "19"]
