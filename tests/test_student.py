"""Student's t distribution and sums, compared with SciPy and NumPy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from lasthop.evaluating.statistics import half_width, interval, skewness
from lasthop.evaluating.statistics.student import t_quantile, t_tail

FREEDOMS = [1, 2, 3, 4, 5, 9, 10, 29, 30, 98, 99, 100, 101, 999, 4999, 1_000_000]


@pytest.mark.parametrize("freedom", FREEDOMS)
@pytest.mark.parametrize("probability", [0.6, 0.9, 0.95, 0.975, 0.995, 0.9995, 1.0 - 1e-9])
def test_quantiles_are_those_of_scipy(probability: float, freedom: int) -> None:
    expected = float(special.stdtrit(freedom, probability))
    assert t_quantile(probability, freedom) == pytest.approx(expected, rel=1e-10)
    lower = float(special.stdtrit(freedom, 1.0 - probability))
    assert t_quantile(1.0 - probability, freedom) == pytest.approx(lower, rel=1e-10)


@pytest.mark.parametrize("freedom", FREEDOMS)
@pytest.mark.parametrize("t", [0.0, 1e-3, 0.1, 0.5, 1.0, 2.0, 3.0, 10.0, 30.0])
def test_tails_are_those_of_scipy(t: float, freedom: int) -> None:
    assert t_tail(t, freedom) == pytest.approx(float(special.stdtr(freedom, -t)), rel=1e-10)
    assert t_tail(-t, freedom) == pytest.approx(float(special.stdtr(freedom, t)), rel=1e-10)


def test_tails_of_one_degree_of_freedom_are_those_of_the_cauchy_distribution() -> None:
    for t in (1e-9, 0.2, 1.0, 50.0, 1e8):
        assert t_tail(t, 1) == pytest.approx(math.atan2(1.0, t) / math.pi, rel=1e-12)


def test_extreme_arguments() -> None:
    assert t_quantile(0.5, 7) == 0.0
    assert t_tail(math.inf, 3) == 0.0
    assert t_tail(-math.inf, 3) == 1.0
    assert t_tail(1e200, 3) == 0.0
    assert math.isnan(t_tail(math.nan, 3))


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=300))
def test_means_have_the_bits_of_numpy(values: list[float]) -> None:
    found = interval(values)
    is_constant = min(values) == max(values)
    assert found.mean == (values[0] if is_constant else float(np.mean(values)))
    assert found == interval(np.array(values))


@pytest.mark.parametrize("n", [2, 7, 8, 9, 30, 127, 128, 129, 1000, 5001])
def test_intervals_are_those_of_scipy(n: int) -> None:
    values = np.random.default_rng(n).lognormal(size=n)
    low, high = stats.t.interval(0.95, n - 1, loc=values.mean(), scale=stats.sem(values))
    assert half_width(values) == pytest.approx((high - low) / 2.0, rel=1e-10)
    if n > 2:
        assert skewness(values) == pytest.approx(float(stats.skew(values)), rel=1e-10)


def test_samples_of_any_shape() -> None:
    assert interval([[1.0, 2.0], [3.0, math.nan]]) == interval([1.0, 2.0, 3.0])
