import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lasthop.evaluating.statistics import Estimate, difference, half_width, interval

# Multiples of a thousandth: near zero, a ratio of deviations would consist of rounding errors.
THOUSANDTHS = st.integers(-(10**9), 10**9).map(lambda number: number / 1000.0)
SAMPLES = st.lists(THOUSANDTHS, min_size=2, max_size=40)


def test_interval_worked_by_hand() -> None:
    # 1..5: mean 3, standard deviation sqrt(2.5), t(0.975, 4) = 2.776445.
    result = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert result.mean == 3.0
    assert result.n == 5
    assert result.ci95 == pytest.approx(2.7764451052 * math.sqrt(2.5) / math.sqrt(5.0), rel=1e-9)


def test_one_sample_has_no_interval_and_none_has_no_mean() -> None:
    one = interval([7.0])
    assert (one.mean, one.n) == (7.0, 1)
    assert math.isnan(one.ci95)
    none = interval([math.nan, math.nan])
    assert none.n == 0
    assert math.isnan(none.mean)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.7e9])
def test_constant_samples_have_an_interval_of_zero(value: float) -> None:
    result = interval([value] * 7)
    assert (result.mean, result.ci95, result.n) == (value, 0.0, 7)


def test_nan_is_left_out() -> None:
    assert interval([1.0, math.nan, 3.0]) == interval([1.0, 3.0])


def test_paired_difference_worked_by_hand() -> None:
    # Differences 1, 2, 3: mean 2, standard deviation 1, t(0.975, 2) = 4.302653, t = 2 sqrt(3).
    result = difference([11.0, 22.0, 33.0], [10.0, 20.0, 30.0])
    assert result.mean == 2.0
    assert result.ci95 == pytest.approx(4.3026527297 / math.sqrt(3.0), rel=1e-9)
    assert result.p_value == pytest.approx(0.0741799, rel=1e-5)
    # Every pair has the ratio 1.1, so that the ratio is exact although the means are not.
    assert result.ratio == pytest.approx(1.1)
    assert result.ratio_ci95 == pytest.approx(0.0, abs=1e-12)


def test_pairs_with_a_missing_side_are_left_out() -> None:
    result = difference([1.0, math.nan, 5.0, 4.0], [0.0, 1.0, math.nan, 2.0])
    assert result.n == 2
    assert result.mean == 1.5


def test_nothing_is_known_of_samples_without_a_pair() -> None:
    nothing = difference([1.0, math.nan], [math.nan, 2.0])
    assert nothing.n == 0
    for value in (nothing.mean, nothing.ci95, nothing.p_value, nothing.ratio, nothing.ratio_ci95):
        assert math.isnan(value)


def test_equal_differences() -> None:
    same = difference([1.0, 2.0, 4.0], [1.0, 2.0, 4.0])
    assert (same.mean, same.ci95, same.p_value) == (0.0, 0.0, 1.0)
    shifted = difference([2.0, 3.0, 5.0], [1.0, 2.0, 4.0])
    assert (shifted.mean, shifted.ci95, shifted.p_value) == (1.0, 0.0, 0.0)


def test_samples_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\)"):
        difference([1.0, 2.0], [1.0, 2.0, 3.0])


@given(SAMPLES)
def test_interval_is_that_of_scipy(samples: list[float]) -> None:
    result = interval(samples)
    if np.ptp(samples) == 0.0:
        assert result.ci95 == 0.0
        return
    low, high = stats.t.interval(
        0.95, len(samples) - 1, loc=np.mean(samples), scale=stats.sem(samples)
    )
    assert result.ci95 == pytest.approx((high - low) / 2.0, rel=1e-6, abs=1e-9)


@given(SAMPLES, st.floats(-1e3, 1e3), st.floats(0.01, 100.0))
def test_interval_moves_and_scales_with_its_samples(
    samples: list[float], shift: float, scale: float
) -> None:
    before = interval(samples)
    after = interval([scale * sample + shift for sample in samples])
    size = max(map(abs, samples)) * scale + abs(shift) + 1.0
    assert after.mean == pytest.approx(scale * before.mean + shift, abs=1e-9 * size)
    assert after.ci95 == pytest.approx(scale * before.ci95, rel=1e-6, abs=1e-7 * size)


@given(st.lists(st.tuples(THOUSANDTHS, THOUSANDTHS), min_size=2, max_size=30))
def test_difference_of_estimates_is_the_paired_interval(pairs: list[tuple[float, float]]) -> None:
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    paired = difference(left, right)
    estimate = Estimate.of(left) - Estimate.of(right)
    assert estimate.value == pytest.approx(paired.mean, abs=1e-6)
    assert estimate.half_width() == pytest.approx(paired.ci95, rel=1e-6, abs=1e-6)


@given(st.integers(2, 30), st.integers(0, 2**32 - 1))
def test_difference_and_its_opposite(n: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    left, right = random.normal(10.0, 1.0, n), random.normal(11.0, 1.0, n)
    there, back = difference(left, right), difference(right, left)
    assert there.mean == pytest.approx(-back.mean)
    assert there.ci95 == pytest.approx(back.ci95)
    assert there.p_value == pytest.approx(back.p_value)
    expected = stats.ttest_rel(left, right).pvalue
    assert there.p_value == pytest.approx(expected, rel=1e-6)


def test_ratio_interval_covers_as_often_as_it_says() -> None:
    random = np.random.default_rng(20261121)
    runs, covered = 2000, 0
    for _ in range(runs):
        common = random.normal(0.0, 3.0, 30)
        baseline = 50.0 + common + random.normal(0.0, 1.0, 30)
        samples = 60.0 + common + random.normal(0.0, 1.0, 30)
        result = difference(samples, baseline)
        covered += abs(result.ratio - 1.2) <= result.ratio_ci95
    # Four standard deviations of a binomial with p = 0.95 on either side.
    assert abs(covered / runs - 0.95) < 4.0 * math.sqrt(0.95 * 0.05 / runs)


def test_estimates_follow_the_rules_of_differentiation() -> None:
    a, b = Estimate.of([1.0, 3.0]), Estimate.of([2.0, 6.0])
    product = a * b
    assert product.value == 8.0
    np.testing.assert_allclose(product.influence, [4.0 * -1.0 + 2.0 * -2.0, 8.0])
    quotient = b / a
    assert quotient.value == 2.0
    np.testing.assert_allclose(quotient.influence, [0.0, 0.0], atol=1e-15)
    shifted = Estimate.constant(1.0) + a
    assert shifted.value == 3.0
    assert shifted.half_width() == pytest.approx(half_width([1.0, 3.0]))
    assert math.isnan((a / Estimate.constant(0.0)).value)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 2.0])
def test_impossible_confidence_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="level"):
        half_width([1.0, 2.0], level)
