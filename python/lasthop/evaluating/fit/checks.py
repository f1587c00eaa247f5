"""Tests of a fitted model against its record, and warnings about the record.

Run lengths, correlations and losses over windows are compared with records sampled from the model
at its estimates: p is the fraction of samples that are at least as far from the common mean as the
record. 99 samples decide clear cases; if a p-value is below 10 %, 299 samples are used. Parameters
are not re-estimated for the samples, which makes the tests conservative.

The levels of the tests add up to 5 %, so that all tests of one fit together reject a correct model
with at most 5 % probability (Bonferroni); tests/test_fit.py and benches/fit_misfits.py measure it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lasthop import _lasthop
from lasthop.evaluating.fit.estimate import Fitted
from lasthop.evaluating.fit.models.base import Array
from lasthop.evaluating.fit.models.two_state import TwoState
from lasthop.evaluating.fit.records import Record, all_run_lengths

__all__ = ["LAGS", "Check", "autocorrelation", "checks", "draw", "warnings"]

# Number of samples for clear cases, and for all others.
FEW, MANY, CLEAR = 99, 299, 0.1
# Maximum number of frames compared with samples.
COMPARED = 300_000
LAGS = np.array([1, 2, 3, 4, 5, 7, 10, 14, 20, 30, 50, 100, 200, 500])
WINDOWS = 20
# Shortest window of the test of windows, in frames, and the ratio of successive windows.
SHORTEST, RATIO = 16, 1.6
# Levels of the tests, which add up to 5 %.
LEVELS = {
    "bursts of losses": 0.005,
    "long bursts": 0.015,
    "runs of arrivals": 0.005,
    "autocorrelation": 0.005,
    "losses over windows": 0.01,
    "stationary": 0.005,
    "loss does not depend on length": 0.005,
}
LEAST_BURSTS = 50
WIDE = 0.5

# Lower ends of the classes of run lengths, four per octave, and the places of powers of two.
EDGES = np.unique(np.round(2.0 ** (np.arange(4 * 17 + 1) / 4)).astype(np.int64))
OCTAVES = np.flatnonzero((EDGES & (EDGES - 1)) == 0)


def _heavy_tails() -> Array:
    """Returns log probabilities of the classes for Pareto (Lomax) distributions."""
    shape = np.geomspace(0.6, 6.0, 12)[:, None, None]
    scale = np.geomspace(0.3, 1e5, 28)[None, :, None]
    beyond = (1.0 + (EDGES - 1) / scale) ** -shape
    inside = beyond - np.concatenate([beyond[:, :, 1:], np.zeros((12, 28, 1))], axis=2)
    return np.asarray(np.log(np.maximum(inside, 1e-300)).reshape(-1, EDGES.size))


HEAVY = _heavy_tails()


@dataclass(frozen=True, slots=True)
class Check:
    """A goodness-of-fit test.

    Attributes:
        name: Compared feature.
        p_value: Probability of such a difference if the model is correct; None if unknown.
        detail: Description of the result.
    """

    name: str
    p_value: float | None
    detail: str

    @property
    def failed(self) -> bool:
        """Whether the model is rejected, at 5 % over all tests."""
        return self.p_value is not None and self.p_value <= LEVELS[self.name]


def draw(fitted: Fitted, frames: int, replication: int, seed: int = 1) -> np.ndarray:
    """Samples losses from a fitted model, with the sizes and times of its record."""
    law, matrices = fitted.model.matrices(fitted.values)
    kinds = None
    if isinstance(fitted.model, TwoState):
        kinds = np.ascontiguousarray(fitted.model.kinds[:frames]).tobytes()
    drawn = _lasthop.simulate_losses(
        law.tolist(),
        matrices.ravel().tolist(),
        frames=frames,
        seed=seed,
        replication=replication,
        kinds=kinds,
    )
    return np.frombuffer(drawn, dtype=np.uint8).astype(bool)


def autocorrelation(lost: np.ndarray, lags: np.ndarray) -> Array:
    """Returns the correlation of losses at distances in frames; 0 if all or no frames are lost."""
    frames, rate = lost.size, lost.mean()
    if rate in (0.0, 1.0):
        return np.zeros(lags.size)
    both = [np.count_nonzero(lost[:-lag] & lost[lag:]) / (frames - lag) for lag in lags]
    return np.asarray((np.array(both, dtype=np.float64) - rate**2) / (rate * (1.0 - rate)))


def checks(record: Record, fitted: Fitted, chain: Fitted) -> tuple[Check, ...]:
    """Runs the goodness-of-fit tests.

    Args:
        record: The record.
        fitted: The chosen model.
        chain: The best model that steps once per frame, for the variance over windows.
    """
    lost = record.part(0, COMPARED).lost
    own = _features(lost)
    drawn: list[tuple[Array, ...]] = []
    found: list[Check] = []
    for draws in (FEW, MANY):
        drawn += [_features(draw(fitted, lost.size, k)) for k in range(len(drawn), draws)]
        found = _compared([np.vstack(rows) for rows in zip(*drawn, own, strict=True)], lost.size)
        if all(one.p_value is None or one.p_value > CLEAR for one in found):
            break
    found.append(_windows(record, chain))
    length = _length(record)
    return (*found, length) if length else tuple(found)


def _features(lost: np.ndarray) -> tuple[Array, Array, Array, Array]:
    """Classes of bursts and of gaps, autocorrelation, deviations of the losses in windows."""
    lags = LAGS[: max(int(np.searchsorted(LAGS, lost.size // 20)), 1)]
    bursts, gaps = (_classes(lengths) for lengths in all_run_lengths(lost))
    return bursts, gaps, autocorrelation(lost, lags), _deviations(lost)


def _classes(lengths: np.ndarray) -> Array:
    """Number of runs in each class of `EDGES`."""
    counts = np.bincount(np.minimum(lengths, EDGES[-1]), minlength=EDGES[-1] + 1)
    return np.add.reduceat(counts, EDGES).astype(np.float64)


def _scales(frames: int) -> list[int]:
    """Lengths of windows of which the record has at least twenty."""
    longest = max(frames // WINDOWS, 1)
    count = int(np.log(max(longest / SHORTEST, 1.0)) / np.log(RATIO)) + 1
    return [min(round(SHORTEST * RATIO**k), longest) for k in range(count)]


def _deviations(lost: np.ndarray) -> Array:
    """Standard deviation of the loss in windows, for each length of them."""
    sums = np.zeros(lost.size + 1, dtype=np.int32)
    np.cumsum(lost.view(np.uint8), dtype=np.int32, out=sums[1:])
    return np.array([np.diff(sums[::window]).std() / window for window in _scales(lost.size)])


def _compared(features: list[Array], frames: int) -> list[Check]:
    """Tests the last row of each feature against the other rows, which are samples."""
    bursts, gaps, correlations, deviations = features
    lags = [f"at distance {lag}" for lag in LAGS]
    windows = [f"in windows of {window} frames, standard deviation" for window in _scales(frames)]
    lengths = [f"of {EDGES[octave]} frames or more" for octave in OCTAVES]
    return [
        _farthest("bursts of losses", _tails(bursts), lengths),
        _long("long bursts", bursts),
        _farthest("runs of arrivals", _tails(gaps), lengths),
        _farthest("autocorrelation", correlations, lags),
        _farthest("losses over windows", deviations, windows),
    ]


def _tails(classes: Array) -> Array:
    """Fraction of runs of at least 1, 2, 4, 8, … frames."""
    beyond = np.cumsum(classes[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(beyond[:, OCTAVES] / np.maximum(beyond[:, :1], 1.0))


def _long(name: str, classes: Array) -> Check:
    """Ranks the likelihood ratio of the best power law among the samples.

    The statistic is that of Cox's test of separate families (J. R. Stat. Soc. B 24, 1962).
    """
    pooled = classes.sum(axis=0) + 0.5
    gain = (classes @ HEAVY.T).max(axis=1) - classes @ np.log(pooled / pooled.sum())
    text = f"likelihood ratio of a power law e^{gain[-1]:.3g}, e^{gain[:-1].mean():.3g}"
    return Check(name, float(_ranks(gain)[-1]), f"{text} in samples of the model")


def _farthest(name: str, feature: Array, places: list[str]) -> Check:
    """The rank of the largest deviation of a feature."""
    away, detail = _away(feature, places)
    return Check(name, None if away is None else float(_ranks(away)[-1]), detail)


def _ranks(statistic: Array) -> Array:
    """Fraction of rows whose statistic is at least as large as that of each row."""
    ordered = np.sort(statistic)
    below = np.searchsorted(ordered, statistic, side="left")
    return np.asarray((statistic.size - below) / statistic.size)


def _away(feature: Array, places: list[str]) -> tuple[Array | None, str]:
    """Largest distance of each row from the mean in deviations, and where that of the last is."""
    mean, deviation = feature.mean(axis=0), feature.std(axis=0)
    used = np.flatnonzero(deviation > 1e-12)
    if not used.size:
        return None, "too few to compare"
    away = np.abs(feature - mean)[:, used] / deviation[used]
    place = used[int(away[-1].argmax())]
    text = f"maximum deviation {places[place]}: {feature[-1, place]:.3g}, model {mean[place]:.3g}"
    return away.max(axis=1), text


def _windows(record: Record, chain: Fitted) -> Check:
    """Losses in twenty parts of the record: their variance against that of the chain."""
    from scipy.stats import chi2

    frames = record.lost.size // WINDOWS
    name = "stationary"
    if frames < 10 or not record.lost.any():
        return Check(name, None, "record too short")
    losses = record.lost[: frames * WINDOWS].reshape(WINDOWS, frames).sum(axis=1)
    law, matrices = chain.model.matrices(chain.values)
    variance = _count_variance(law, matrices, frames)
    if variance <= 0.0 or losses.sum() < 5 * WINDOWS:
        return Check(name, None, "too few losses")
    statistic = float(((losses - losses.mean()) ** 2).sum() / variance)
    p = float(chi2.sf(statistic, WINDOWS - 1))
    shares = losses / frames
    return Check(
        name,
        p,
        f"loss of twenty parts from {100 * shares.min():.3g} to {100 * shares.max():.3g} %, "
        f"{np.sqrt(statistic / (WINDOWS - 1)):.2g} times the standard deviation of the chain",
    )


def _count_variance(law: Array, matrices: Array, frames: int) -> float:
    """Returns the variance of the number of losses among frames of a stationary chain."""
    step, lost = matrices.sum(axis=0), matrices[1]
    rate = float((law @ lost).sum())
    column = lost.sum(axis=1)
    row = law @ lost - rate * law @ step
    # The sum Σ_k (n - k) γ_k converges long before k = n.
    total = frames * rate * (1.0 - rate)
    for distance in range(1, min(frames, 200_000)):
        covariance = float(row @ column)
        total += 2.0 * (frames - distance) * covariance
        if abs(covariance) < 1e-9 * rate:
            break
        row = row @ step
    return total


def _length(record: Record) -> Check | None:
    """Tests whether lost frames are longer than others; batches are assumed independent."""
    from scipy.stats import t

    if record.bits is None or np.ptp(record.bits) == 0.0 or not record.lost.any():
        return None
    batches = 20
    size = record.lost.size // batches
    if size < 10:
        return None
    lost = record.lost[: size * batches].reshape(batches, size).astype(float)
    bits = record.bits[: size * batches].reshape(batches, size)
    away = bits - bits.mean()
    slopes = (away * (lost - lost.mean())).mean(axis=1) / away.var()
    statistic = slopes.mean() / max(slopes.std(ddof=1) / np.sqrt(batches), 1e-300)
    p = float(2.0 * t.sf(abs(statistic), batches - 1))
    middle = np.median(record.bits)
    short, long = record.lost[record.bits <= middle], record.lost[record.bits > middle]
    text = f"loss {100 * short.mean():.3g} % up to {middle / 8:g} B"
    if long.size:
        text += f", {100 * long.mean():.3g} % beyond"
    return Check("loss does not depend on length", p, text)


def warnings(
    record: Record, fitted: Fitted, found: tuple[Check, ...], *, has_sizes_in_model: bool
) -> tuple[str, ...]:
    """Returns limitations of the estimates."""
    notes = []
    bursts = record.bursts.size
    if bursts < LEAST_BURSTS:
        notes.append(f"record too short: {bursts} loss bursts, at least {LEAST_BURSTS} are needed")
    wide = [
        one.name
        for one in fitted.estimates
        if not np.isfinite(one.high)
        or (one.value > 0.0 and 0.5 * (one.high - one.low) > WIDE * one.value)
    ]
    if wide and bursts >= LEAST_BURSTS:
        notes.append(f"uncertainty above ± 50 %: {', '.join(wide)}")
    for check in found:
        if not check.failed:
            continue
        if check.name == "stationary":
            notes.append(f"not stationary, or longer correlation than the model: {check.detail}")
        elif check.name == "loss does not depend on length":
            if not has_sizes_in_model:
                notes.append(f"loss depends on length, unlike in the model: {check.detail}")
        else:
            notes.append(f"{check.name} deviate from {fitted.model.name}: {check.detail}")
    return tuple(notes)
