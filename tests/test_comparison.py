"""Comparison of two campaigns: metrics that changed significantly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import lasthop
from lasthop.evaluating.comparison import diff
from lasthop.evaluating.results import Point, Results


def results(values: np.ndarray, *, seed: int = 1, first: int = 0, points: int = 1) -> Results:
    """Results of `points` points from values of shape (points * replications, metrics)."""
    rows, metrics = values.shape
    each = rows // points
    return Results(
        scenario={"name": "made up"},
        points=[Point({"x": index}, f"{index:016x}") for index in range(points)],
        metrics=[f"flow.f.m{index}" for index in range(metrics)],
        point=np.repeat(np.arange(points, dtype=np.uint32), each),
        replication=np.tile(np.arange(first, first + each, dtype=np.uint64), points),
        values=values,
        seed=seed,
    )


def test_the_same_run_twice_is_the_same_to_the_bit(small: Path) -> None:
    a, b = lasthop.run(small), lasthop.run(small)
    found = diff(a, b)
    assert found.frame.height > 0
    assert found.moved.is_empty()
    assert (found.frame["difference"] == 0.0).all()
    assert "0 changed significantly" in found.summary()


def test_what_really_moved_is_found_and_comes_first(small: Path) -> None:
    slower = lasthop.load(small).set("link.wireless.rate", "32 kbps")
    found = diff(lasthop.run(small, replications=8), lasthop.run(slower, replications=8))
    goodput = found.moved.filter(pl.col("metric") == "flow.transfer.goodput_bps")
    assert goodput.height == 2
    assert (goodput["relative"] < -0.2).all()
    assert goodput["paired"].all()
    flags = found.frame["moved"].to_list()
    assert flags == sorted(flags, reverse=True)


@pytest.mark.slow
def test_nothing_moves_by_chance() -> None:
    # 400 metrics without any difference, 60 times: with Holm's method at 5 %, at most 5 % of the
    # comparisons report a change. P(more than 9 of 60 at p = 0.05) < 0.1 %.
    rng = np.random.default_rng(5)
    for seeds in ((1, 1), (1, 2)):
        wrong = 0
        for _ in range(60):
            a, b = (results(rng.normal(size=(12, 400)), seed=seed) for seed in seeds)
            wrong += not diff(a, b).moved.is_empty()
        assert wrong <= 9


def test_counts_that_two_replications_share_are_chance() -> None:
    # Two replications with one timeout each and two without: no variance within a group, and yet no
    # difference. Of 40 such metrics, at least one looks like this in 84 % of the comparisons.
    rng = np.random.default_rng(7)
    for seeds in ((1, 1), (1, 2)):
        wrong = 0
        for _ in range(60):
            a, b = (results(rng.poisson(1.0, size=(2, 40)) * 1.0, seed=seed) for seed in seeds)
            wrong += not diff(a, b).moved.is_empty()
        assert wrong <= 9
    ones, twos = np.ones((4, 1)), np.full((4, 1), 2.0)
    noise = rng.normal(size=(4, 1))
    left, right = np.hstack([ones, noise]), np.hstack([twos, noise])
    # 8 replications can be split into two groups of 4 in 70 ways; 4 pairs have 16 combinations of
    # signs.
    assert diff(results(left), results(right, seed=2)).frame["p_value"].min() == pytest.approx(
        2 / 70
    )
    assert diff(results(left), results(right)).frame["p_value"].min() == pytest.approx(2 / 16)
    # Metrics without variance are not random.
    for seed in (1, 2):
        assert diff(results(ones), results(twos, seed=seed)).frame["p_value"][0] == 0.0


@pytest.mark.parametrize("n", [5, 10, 30, 400])
def test_campaigns_of_different_sizes_do_not_differ_by_chance(n: int) -> None:
    # Rare counts are constant in small samples; heavy tails have outliers in large ones. Holm's
    # method at 5 % reports a metric in at most 5 % of 60 comparisons: P(more than 9 of 60 at p =
    # 0.05) < 0.1 %.
    rng = np.random.default_rng(8)

    def sample(size: int) -> np.ndarray:
        counts = rng.poisson([0.003, 0.02, 0.1, 0.3, 1.0, 3.0], size=(size, 6))
        bits = rng.random((size, 2)) < [0.25, 0.95]
        return np.hstack([counts, bits, rng.normal(size=(size, 4)), rng.lognormal(size=(size, 4))])

    wrong = 0
    for _ in range(60):
        wrong += not diff(results(sample(400)), results(sample(n), seed=2)).moved.is_empty()
    assert wrong <= 9


def test_few_replications_find_a_clear_change() -> None:
    # A shift by eight standard deviations in one of ten metrics, with five replications.
    rng = np.random.default_rng(9)
    shift = np.r_[8.0, np.zeros(9)]
    for n in (5, 10, 30, 400):
        a, b = rng.normal(size=(400, 10)), rng.normal(size=(n, 10)) + shift
        found = diff(results(a), results(b, seed=2)).moved
        assert found["metric"].to_list() == ["flow.f.m0"]
    # With this few replications on both sides, too few permutations exist.
    a, b = rng.normal(size=(5, 10)), rng.normal(size=(5, 10)) + shift
    assert diff(results(a), results(b, seed=2)).moved["metric"].to_list() == ["flow.f.m0"]


def test_missing_replications_do_not_decide() -> None:
    rng = np.random.default_rng(10)
    a, b = rng.poisson(0.1, size=(400, 8)) * 1.0, rng.poisson(0.1, size=(6, 8)) * 1.0
    a[rng.random(a.shape) < 0.3] = np.nan
    b[:4, 0] = np.nan
    b[:, 1] = np.nan
    found = diff(results(a), results(b, seed=2))
    assert found.moved.is_empty()
    assert found.frame.height == 7


def test_common_random_numbers_sharpen_and_are_used_only_with_one_seed() -> None:
    rng = np.random.default_rng(6)
    base = rng.normal(scale=10.0, size=(10, 1))
    moved = base + 0.1 + rng.normal(scale=0.01, size=base.shape)
    paired, unpaired = (diff(results(base), results(moved, seed=seed)) for seed in (1, 2))
    assert paired.moved.height == 1
    assert unpaired.moved.is_empty()
    assert paired.frame["ci95"][0] < unpaired.frame["ci95"][0] / 100


def test_only_replications_that_both_have_are_paired() -> None:
    values = np.arange(9.0).reshape(-1, 1)
    found = diff(results(values), results(values[2:] + 1.0, first=2))
    row = found.frame.row(0, named=True)
    assert (row["n"], row["difference"], row["moved"]) == (7, 1.0, True)


def test_points_of_one_side_are_named_and_nothing_in_common_is_an_error() -> None:
    values = np.zeros((6, 1))
    found = diff(results(values, points=3), results(values[:4], points=2))
    assert (found.only_a, found.only_b) == (("x = 2",), ())
    other = results(values, points=1)
    other = Results(**{**other.__dict__, "points": [Point({"y": 1}, "0")]})
    with pytest.raises(ValueError, match="have no common point"):
        diff(results(values), other)
    with pytest.raises(ValueError, match="invalid value `2` for `level`"):
        diff(results(values), results(values), level=2.0)


def test_single_replications_are_said_to_decide_nothing() -> None:
    found = diff(results(np.zeros((1, 3))), results(np.ones((1, 3)), seed=2))
    assert "3 metrics compared at 1 point: 0 changed significantly" in found.summary()
    assert "; 3 are inconclusive with a single replication" in found.summary()
