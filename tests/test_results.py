import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import lasthop
from lasthop.evaluating.cells import value_text
from lasthop.evaluating.results import Point, Results
from lasthop.running.replications import run_points
from lasthop.showing.labels import Unit, measured_row

VARIANT = "flow.transfer.transport.variant"
GOODPUT = "flow.transfer.goodput_bps"


def synthetic() -> Results:
    """Two variants at two rates, three replications; the link has no flow named web."""
    settings = [("reno", 1), ("sack", 1), ("reno", 2), ("sack", 2)]
    means = [100.0, 110.0, 200.0, 190.0]
    rows = [
        (point, replication, mean + 10.0 * replication)
        for point, mean in enumerate(means)
        for replication in range(3)
    ]
    return Results(
        scenario={"name": "synthetic"},
        points=[Point({VARIANT: variant, "rate": rate}, "00") for variant, rate in settings],
        metrics=[GOODPUT, "link.a.forward.frames_lost", "flow.web.pages"],
        point=np.array([row[0] for row in rows], dtype=np.uint32),
        replication=np.array([row[1] for row in rows], dtype=np.uint64),
        values=np.array([[row[2], 5.0, math.nan] for row in rows]),
        seed=7,
    )


def test_frame_has_a_row_for_each_point_replication_and_entity() -> None:
    frame = synthetic().frame
    assert frame.height == 4 * 3 * 2
    assert set(frame["name"]) == {"transfer", "a.forward"}
    flow = frame.filter(pl.col("kind") == "flow")
    assert flow["goodput_bps"].to_list()[:3] == [100.0, 110.0, 120.0]
    assert flow["frames_lost"].null_count() == flow.height
    assert frame["seed"].unique().to_list() == [7]
    assert {"scenario_hash", "engine_version", VARIANT, "rate"} <= set(frame.columns)


def test_summary_leaves_out_what_does_not_apply() -> None:
    summary = synthetic().summary()
    assert summary.height == 4 * 2
    first = summary.row(0, named=True)
    assert (first["mean"], first["n"]) == (110.0, 3)
    assert first["ci95"] == pytest.approx(4.302652729 * 10.0 / math.sqrt(3.0))


def test_differences_are_paired_within_the_other_settings() -> None:
    differences = synthetic().differences(GOODPUT, by=VARIANT, baseline="reno")
    assert differences["rate"].to_list() == [1, 2]
    assert differences["mean"].to_list() == [10.0, -10.0]
    # The replications differ, but their differences do not: pairing removes all noise.
    assert differences["ci95"].to_list() == [0.0, 0.0]
    assert differences["ratio"].to_list() == pytest.approx([120.0 / 110.0, 200.0 / 210.0])


def test_no_interval_of_a_metric_reaches_below_zero() -> None:
    results = synthetic()
    lost = results.metrics.index("link.a.forward.frames_lost")
    results.values[:3, lost] = [0.0, 0.0, 3.0]
    (row,) = results.summary().filter(point=0, metric=results.metrics[lost]).to_dicts()
    # Half of the unclipped length: 4.303.
    assert (row["mean"], row["low"]) == (1.0, 0.0)
    assert (row["ci95"], row["high"]) == pytest.approx((4.303, 5.303), abs=1e-3)
    assert measured_row(row, Unit("", 1.0)) == "1.0 −1.0 +4.3"
    (same,) = results.intervals(results.metrics[lost]).filter(point=0).to_dicts()
    assert (same["low"], same["high"]) == (row["low"], row["high"])


def test_differences_refuse_what_is_not_there() -> None:
    results = synthetic()
    with pytest.raises(KeyError, match="goodputs"):
        results.differences("goodputs", by=VARIANT, baseline="reno")
    with pytest.raises(KeyError, match="unknown swept key"):
        results.differences(GOODPUT, by="delay", baseline="reno")
    with pytest.raises(ValueError, match=r"`vegas`.*reno, sack"):
        results.differences(GOODPUT, by=VARIANT, baseline="vegas")


def test_json_has_null_for_nan() -> None:
    results = synthetic()
    keep = results.replication == 0
    one = replace(
        results,
        point=results.point[keep],
        replication=results.replication[keep],
        values=results.values[keep],
    )
    metrics = json.loads(one.to_json())["points"][0]["metrics"]
    nothing = dict.fromkeys(("ci95", "low", "high", "method"))
    assert metrics == {
        GOODPUT: {"mean": 100.0, "n": 1, **nothing},
        "link.a.forward.frames_lost": {"mean": 5.0, "n": 1, **nothing},
    }


def test_missing_replications_are_nan_in_their_place() -> None:
    results = synthetic()
    keep = ~((results.point == 1) & (results.replication == 1))
    partial = Results(
        scenario={},
        points=results.points,
        metrics=results.metrics,
        point=results.point[keep],
        replication=results.replication[keep],
        values=results.values[keep],
        seed=1,
        complete=False,
    )
    np.testing.assert_array_equal(partial.samples(GOODPUT, 1), [110.0, math.nan, 130.0])
    row = partial.differences(GOODPUT, by=VARIANT, baseline="reno").row(0, named=True)
    assert (row["mean"], row["n"]) == (10.0, 2)


def test_run_is_the_same_for_any_number_of_jobs(small: Path) -> None:
    one = lasthop.run(small, jobs=1)
    two = lasthop.run(small, jobs=2)
    assert one.metrics == two.metrics
    np.testing.assert_array_equal(one.values, two.values)
    assert one.complete
    assert one.values.shape == (2 * 4, len(one.metrics))
    assert (one.summary().filter(metric=GOODPUT)["mean"] > 0.0).all()


def test_replications_can_be_added_later(small: Path) -> None:
    whole = lasthop.run(small, replications=4)
    rest = lasthop.run(small, replications=2, first_replication=2)
    assert rest.replication.tolist() == [2, 3, 2, 3]
    for point in (0, 1):
        np.testing.assert_array_equal(
            whole.samples(GOODPUT, point)[2:], rest.samples(GOODPUT, point)
        )


def test_seed_decides(small: Path) -> None:
    assert not np.array_equal(
        lasthop.run(small, seed=1).samples(GOODPUT, 0),
        lasthop.run(small, seed=2).samples(GOODPUT, 0),
    )


def test_numbers_out_of_range_are_refused(small: Path) -> None:
    with pytest.raises(ValueError, match="invalid value `0` for `replications`"):
        lasthop.run(small, replications=0)
    with pytest.raises(ValueError, match="invalid value `-1` for `jobs`"):
        lasthop.run(small, jobs=-1)
    with pytest.raises(ValueError, match="invalid value `2` for `point`: expected 0 to 1"):
        lasthop.trace(small, point=2)


def test_equal_points_are_run_once(small: Path) -> None:
    first, other = lasthop.load(small).points()
    runs = []
    results = run_points(
        [first, other, first],
        replications=2,
        seed=1,
        progress=lambda done, total: runs.append((done, total)),
    )
    assert runs[-1][1] == 2 * len({first.hash, other.hash})
    assert results.point.tolist() == [0, 0, 1, 1, 2, 2]
    assert results.replication.tolist() == [0, 1] * 3
    np.testing.assert_array_equal(results.values[:2], results.values[4:])
    alone = run_points([first], replications=2, seed=1)
    np.testing.assert_array_equal(results.values[4:], alone.values)


def test_progress_reaches_the_end_and_its_errors_come_out(small: Path) -> None:
    seen: list[tuple[int, int]] = []
    lasthop.run(small, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (8, 8)

    def fail(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lasthop.run(small, progress=fail)


def test_swept_values_are_told_in_words() -> None:
    assert value_text(None) == "–"
    assert value_text(True) == "true"
    assert value_text({"kind": "raw"}) == "raw"
    assert value_text({"kind": "rlc-am", "window": 8, "poll": True}) == (
        "rlc-am (window 8, poll true)"
    )
    assert (
        value_text({"rate": "64 kbps", "errors": {"kind": "none"}}) == "(rate 64 kbps, errors none)"
    )


@pytest.mark.parametrize("point", [-1, 2])
def test_samples_of_a_point_that_is_not_there(small: Path, point: int) -> None:
    results = lasthop.run(small, replications=1)
    with pytest.raises(ValueError, match=f"invalid value `{point}` for `point`: expected 0 to 1"):
        results.samples("flow.transfer.goodput_bps", point)


def test_swept_quantities_are_numbers_too(small: Path) -> None:
    scenario = lasthop.load(small).sweep(
        {"link.wireless.rate": ["64 kbps", "1 Mbit/s"], "link.wireless.errors.loss": ["5 %", 0.1]}
    )
    results = lasthop.run(scenario, replications=1)
    frame = results.frame
    assert sorted(frame["link.wireless.rate_bps"].unique()) == [64_000.0, 1_000_000.0]
    assert sorted(frame["link.wireless.errors.loss_share"].unique()) == [0.05, 0.1]
    assert f"{VARIANT}_s" not in frame.columns
    # Figures still know their axes.
    axes = lasthop.plot(results, x="rate", where={"variant": "reno", "loss": "5 %"}).axes[0]
    assert axes.get_xlabel().startswith("Link rate (Mbps)")


def test_reprs_are_a_line(small: Path) -> None:
    results = lasthop.run(small, replications=1)
    texts = [repr(one) for one in (results, lasthop.trace(small), lasthop.load(small))]
    assert texts[0].startswith("<Results of 'small': 2 points, 2 replications, ")
    assert texts[1].startswith("<Trace of 'small': ")
    assert all(len(text) < 100 and "\n" not in text for text in texts)
