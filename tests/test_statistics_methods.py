"""Resampling, series, multiple comparisons, sequential plans: worked examples and properties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lasthop.evaluating.statistics import (
    Estimate,
    SequentialPlan,
    batch_means,
    bonferroni,
    confidence,
    half_width,
    holm,
    interval,
    jain_index,
    ratio,
    skewness,
    step_averages,
    totals,
    warm_up,
)
from lasthop.studies.claims import Claim, Comparison, Rule
from lasthop.studies.verdicts import judge


def test_holm_worked_by_hand() -> None:
    # Sorted: 0.01, 0.02, 0.03, 0.04. Multiplied by 4, 3, 2, 1, and never less than the previous
    # value.
    np.testing.assert_allclose(holm([0.03, 0.01, 0.04, 0.02]), [0.06, 0.04, 0.06, 0.06])
    np.testing.assert_allclose(bonferroni([0.03, 0.01, 0.5]), [0.09, 0.03, 1.0])


def test_no_interval_leaves_the_bounds_of_its_quantity() -> None:
    # By hand: mean 1, standard deviation sqrt(3), t 4.303 over sqrt(3).
    for found in (interval([0.0, 0.0, 3.0]), confidence([0.0, 0.0, 3.0])):
        assert (found.low, found.high) == pytest.approx((1.0 - 4.303, 1.0 + 4.303), abs=1e-3)
        counts = found.within((0.0, math.inf))
        assert (counts.low, counts.high) == pytest.approx((0.0, 5.303), abs=1e-3)
        share = found.within((0.0, 1.0))
        assert (share.low, share.high) == (0.0, 1.0)
        assert found.within((2.0, 3.0)) == found, "these are not its bounds"
    assert math.isnan(confidence([1.0]).within((0.0, 1.0)).low)


def test_holm_counts_what_is_not_known() -> None:
    corrected = holm([0.01, math.nan, 0.5])
    np.testing.assert_allclose(corrected, [0.03, math.nan, 1.0])


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20))
def test_holm_is_between_raw_and_bonferroni(p_values: list[float]) -> None:
    corrected = holm(p_values)
    assert np.all(corrected >= p_values)
    assert np.all(corrected <= bonferroni(p_values) + 1e-12)
    order = np.argsort(p_values, kind="stable")
    assert np.all(np.diff(corrected[order]) >= 0.0)


def test_holm_holds_the_level_of_the_family() -> None:
    # 2,000 families of 10 true hypotheses; four standard deviations of a binomial above 5 %.
    random = np.random.default_rng(1)
    wrong = sum(holm(row).min() <= 0.05 for row in random.uniform(size=(2000, 10)))
    assert wrong / 2000 <= 0.05 + 4.0 * math.sqrt(0.05 * 0.95 / 2000)


def claims_and_samples() -> tuple[list[Claim], dict[str, Estimate]]:
    """Three claims: a exceeds c significantly, b exceeds c with p = 0.02, and d exceeds c with p =
    0.03.
    """
    base = np.arange(12.0) - 5.5
    error = float(np.std(base, ddof=1)) / math.sqrt(12.0)
    shift = {name: float(stats.t.isf(p / 2, 11)) for name, p in (("b", 0.02), ("d", 0.03))}
    means = {"a": 50.0, "b": error * shift["b"], "d": error * shift["d"], "c": 0.0}
    noise = {"c": np.zeros(12)}
    samples = {name: Estimate.of(noise.get(name, base) + mean) for name, mean in means.items()}
    claims = [
        Claim(name, "", "", (Comparison(name, "greater", "c", math.nan, math.nan, (("k", "x"),)),))
        for name in ("a", "b", "d")
    ]
    return claims, samples


@pytest.mark.parametrize(
    ("correction", "verdicts", "corrected"),
    [
        ("none", ["reproduced"] * 3, [0.0, 0.02, 0.03]),
        ("bonferroni", ["reproduced"] * 3, [0.0, 0.02, 0.03]),
        # 0.02 * 2 = 0.04 is significant; 0.03 * 1 is raised to 0.04.
        ("holm", ["reproduced"] * 3, [0.0, 0.04, 0.04]),
    ],
)
def test_rule_corrects_claims(correction: str, verdicts: list[str], corrected: list[float]) -> None:
    claims, samples = claims_and_samples()
    rule = Rule(about=0.03, level=0.95, losses=(1.0,), correction=correction)
    found = list(
        judge(
            claims,
            lambda cell, _: samples[dict(cell)["combination"]],
            {name: name for name in samples},
            rule,
        )
    )
    assert [one.verdict for one in found] == verdicts
    raw = [one.judgements[0].p_value for one in found]
    np.testing.assert_allclose(raw, [0.0, 0.02, 0.03], atol=1e-12)
    got = [one.judgements[0].p_corrected for one in found]
    np.testing.assert_allclose(got, corrected, atol=1e-12)


def test_holm_leaves_open_what_the_family_does_not_bear() -> None:
    claims, samples = claims_and_samples()
    # b and d twice: five tests. 0.02 * 4 is above 0.05, so that neither is decided.
    rule = Rule(about=0.03, level=0.95, losses=(1.0,), correction="holm")
    found = list(
        judge(
            [*claims, *claims[1:]],
            lambda cell, _: samples[dict(cell)["combination"]],
            {name: name for name in samples},
            rule,
        )
    )
    assert [one.verdict for one in found] == ["reproduced"] + ["undecided"] * 4
    # The reported interval is that of the decision: at the level of this step, it contains zero.
    for one in found[1:]:
        (judgement,) = one.judgements
        assert abs(judgement.difference) <= judgement.half_width
        assert judgement.p_corrected == pytest.approx(0.08)


def test_unknown_correction_is_refused() -> None:
    with pytest.raises(ValueError, match="bonferroni, holm, none"):
        Rule(about=0.0, level=0.95, losses=(), correction="sidak")


def test_confidence_of_normal_samples_is_that_of_t() -> None:
    samples = np.random.default_rng(2).normal(5.0, 1.0, 30)
    found = confidence(samples)
    plain = interval(samples)
    assert found.method == "t"
    assert (found.low, found.high) == pytest.approx(
        (plain.mean - plain.ci95, plain.mean + plain.ci95)
    )


def test_skewed_samples_get_the_bootstrap_and_a_longer_upper_side() -> None:
    samples = np.random.default_rng(3).lognormal(0.0, 1.0, 30)
    assert 25.0 * skewness(samples) ** 2 > 30
    found = confidence(samples)
    assert found.method == "percentile-t bootstrap"
    assert found.high - found.value > found.value - found.low > 0.0
    assert confidence(samples) == found
    assert confidence(samples, method="t").method == "t"


def test_bootstrap_agrees_with_that_of_scipy() -> None:
    # BCa has the same limit; for 60 samples of moderate skewness, the intervals differ little.
    samples = np.random.default_rng(4).gamma(4.0, 1.0, 60)
    found = confidence(samples, method="bootstrap")
    other = stats.bootstrap((samples,), np.mean, rng=np.random.default_rng(5)).confidence_interval
    width = other.high - other.low
    assert found.low == pytest.approx(other.low, abs=0.08 * width)
    assert found.high == pytest.approx(other.high, abs=0.08 * width)


def test_bootstrap_does_not_pretend_on_samples_without_spread() -> None:
    # One of 12 differs: a third of the bootstrap samples are constant, and their variance is
    # meaningless. That also holds if the others differ slightly.
    same = np.zeros(12)
    for rest in (same, np.random.default_rng(1).normal(0.0, 1e-6, 12)):
        rest[-1] = 1.0
        found = confidence(rest)
        assert found.method == "t, corrected for skewness"
        # For one in 12, the exact limits are 0.2 and 38.5 % (Clopper and Pearson).
        assert -0.1 < found.low < 0.02
        assert 0.385 < found.high < 0.7
    paired = ratio([2.0] * 11 + [1.0], np.random.default_rng(2).normal(1.0, 1e-7, 12))
    assert paired.method == "t"
    assert 1.5 < paired.low < paired.high < 2.5
    constant = confidence([3.0] * 12)
    assert (constant.value, constant.low, constant.high) == (3.0, 3.0, 3.0)


def test_skewness_correction_worked_by_hand() -> None:
    # 0, 0, 0, 0, 5: mean 1, sd sqrt(5), skewness 1.5; t(4) = 2.7764. y = ± 2.7764 / sqrt(5) =
    # ± 1.24164, 3 / g = 2, g^2 / 6n = 0.075: 2 (cbrt(0.925 ± 1.86246) - 1) = 0.81470, -3.95741.
    found = confidence([0.0, 0.0, 0.0, 0.0, 5.0])
    assert found.method == "t, corrected for skewness"
    assert found.low == pytest.approx(1.0 - 5.0**0.5 * 0.81470, abs=1e-4)
    assert found.high == pytest.approx(1.0 + 5.0**0.5 * 3.95741, abs=1e-4)


def test_few_or_no_samples() -> None:
    assert confidence([]).n == 0
    one = confidence([4.0, math.nan])
    assert (one.value, one.n, one.method) == (4.0, 1, "")
    assert math.isnan(one.low)
    assert math.isnan(confidence([1.0, 2.0], "p95").high)


def test_quantile_by_order_statistics_worked_by_hand() -> None:
    # For 1..10, the interval of the median is the 2nd to the 9th: P(2 <= B(10, 1/2) <= 8) = 97.9 %.
    found = confidence(np.arange(1.0, 11.0), "median")
    assert (found.value, found.low, found.high) == (5.5, 2.0, 9.0)
    assert found.method == "order statistics"
    # 30 samples cannot bound a 95th percentile from above: 0.95^30 = 21 %.
    assert math.isnan(confidence(np.arange(30.0), "p95").high)


@pytest.mark.parametrize("text", ["mode", "p0", "p100", "95", ""])
def test_unknown_statistics_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="for `statistic`: expected"):
        confidence([1.0, 2.0], text)


def test_ratio_of_proportional_samples_is_exact() -> None:
    below = np.random.default_rng(6).uniform(1.0, 2.0, 20)
    found = ratio(3.0 * below, below)
    assert (found.value, found.low, found.high) == pytest.approx((3.0, 3.0, 3.0))
    assert math.isnan(ratio([1.0, 2.0], [0.0, 0.0]).value)
    with pytest.raises(ValueError, match="shapes"):
        ratio([1.0], [1.0, 2.0])


@given(st.integers(10, 40), st.integers(0, 2**32 - 1), st.floats(1e-9, 1e9))
def test_ratio_does_not_depend_on_units(n: int, seed: int, unit: float) -> None:
    random = np.random.default_rng(seed)
    above, below = random.uniform(1.0, 3.0, n), random.uniform(2.0, 3.0, n)
    one, other = ratio(above, below), ratio(unit * above, unit * below)
    assert (other.value, other.low, other.high) == pytest.approx(
        (one.value, one.low, one.high), rel=1e-6
    )


def test_jain_index_worked_by_hand() -> None:
    np.testing.assert_allclose(
        jain_index([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 3.0, math.nan]]),
        [1.0, 1.0 / 3.0, 16.0 / 20.0],
    )
    assert math.isnan(float(jain_index([0.0, 0.0])))


def test_step_averages_worked_by_hand() -> None:
    # 2 from 1 s, 5 from 3 s: no value in [0, 1); 2 in [1, 2); (2 + 5) / 2 in [2, 4); then 5.
    found = step_averages([1.0, 3.0], [2.0, 5.0], [0.0, 1.0, 2.0, 4.0, 5.0])
    np.testing.assert_allclose(found, [math.nan, 2.0, 3.5, 5.0])


def test_totals_worked_by_hand() -> None:
    found = totals([0.0, 0.5, 1.0, 1.0, 2.5], [1.0, 2.0, 4.0, 8.0, 16.0], [0.0, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(found, [3.0, 12.0, 16.0])


def test_series_that_are_not_in_order_are_refused() -> None:
    with pytest.raises(ValueError, match="times"):
        totals([1.0, 0.5], [1.0, 1.0], [0.0, 1.0])
    with pytest.raises(ValueError, match="edges"):
        step_averages([0.0], [1.0], [1.0, 1.0])


def test_warm_up_is_found_where_it_ends() -> None:
    random = np.random.default_rng(7)
    steady = random.normal(10.0, 1.0, 1000)
    steady[:100] += np.linspace(20.0, 0.0, 100)
    cut = warm_up(steady)
    assert cut is not None
    assert 70 <= cut <= 110
    # Most of a steady series is retained.
    cuts = [warm_up(random.normal(0.0, 1.0, 1000)) for _ in range(200)]
    assert np.median([math.inf if cut is None else cut for cut in cuts]) <= 100


def test_a_series_that_never_settles_has_no_end_of_warm_up() -> None:
    assert warm_up(np.arange(1000.0)) is None
    assert warm_up([1.0, 2.0]) is None
    with pytest.raises(ValueError, match="run longer"):
        batch_means(np.arange(1000.0))


def test_batch_means_say_when_batches_are_too_short() -> None:
    random = np.random.default_rng(8)
    walk = np.cumsum(random.normal(0.0, 1.0, 1000))
    assert not batch_means(walk, cut=0).independent
    with pytest.raises(ValueError, match="79 values after the warm-up"):
        batch_means(np.zeros(79), cut=0)


def test_batch_means_worked_by_hand() -> None:
    found = batch_means([1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0, 9.0], batches=2, cut=0)
    assert (found.mean, found.batches, found.batch, found.warm_up) == (2.0, 2, 4, 0)
    assert found.ci95 == pytest.approx(half_width([1.0, 3.0]))


def test_plan_looks_at_fixed_numbers() -> None:
    assert list(SequentialPlan(0.1, most=100).looks()) == [20, 30, 45, 68, 100]
    assert list(SequentialPlan(0.1, first=10, most=10).looks()) == [10]


def test_plan_asks_for_more_until_the_next_look() -> None:
    plan = SequentialPlan(0.01, most=40)
    samples = np.random.default_rng(9).normal(1.0, 0.5, 40)
    asked = [plan.look(samples[:n]).more for n in (0, 5, 20, 25, 30)]
    assert asked == [20, 15, 10, 5, 10]
    last = plan.look(samples)
    assert last.enough
    assert not last.reached


def test_plan_pays_for_looking() -> None:
    samples = np.random.default_rng(10).normal(1.0, 0.01, 20)
    look = SequentialPlan(0.02).look(samples)
    assert look.enough
    assert look.reached
    assert look.interval.ci95 == pytest.approx(half_width(samples) * math.sqrt(20.0 / 17.0))


def test_plan_does_not_stop_on_skewed_samples() -> None:
    # One of 20 differs: skewness 4.1, and Cochran's rule requires 423 samples.
    samples = [0.0] * 19 + [1.0]
    plan = SequentialPlan(5.0, relative=False)
    assert not plan.look(samples).enough
    assert plan.look([1.0] * 20).reached


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 0.0}, "width"),
        ({"width": math.inf}, "width"),
        ({"width": 0.1, "first": 9}, "first"),
        ({"width": 0.1, "most": 19}, "most"),
        ({"width": 0.1, "level": 1.0}, "level"),
    ],
)
def test_impossible_plans_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SequentialPlan(**arguments)  # type: ignore[arg-type]
