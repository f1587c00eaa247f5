"""Whether a record looks like the model that was fitted to it, and is fit to be fitted at all.

Runs and correlations are compared with 199 records drawn from the model at its estimates: p is the
share of them that lie at least as far from their common mean as the record does. Parameters are not
estimated again in them, so that a test calls a right model wrong in less than its 1 % of cases
(tests/test_fit.py and benches/fit_coverage.py hold that).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lasthop import _lasthop
from lasthop.fit.estimate import Fitted
from lasthop.fit.models.base import Array
from lasthop.fit.models.two_state import TwoState
from lasthop.fit.records import Record, run_lengths

__all__ = ["LAGS", "Check", "autocorrelation", "checks", "draw", "warnings"]

DRAWS = 199
# Frames that are compared with draws.
COMPARED = 100_000
LAGS = np.array([1, 2, 3, 4, 5, 7, 10, 14, 20, 30, 50, 100, 200, 500])
WINDOWS = 20
LEVEL = 0.01
LEAST_BURSTS = 50
WIDE = 0.5


@dataclass(frozen=True, slots=True)
class Check:
    """A test of fit.

    Attributes:
        name: What is compared.
        p_value: Chance of a difference so large, were the model right; None if nothing can be said.
        detail: What was found, in words.
    """

    name: str
    p_value: float | None
    detail: str

    @property
    def failed(self) -> bool:
        """Whether the model is called wrong, at 1 %."""
        return self.p_value is not None and self.p_value < LEVEL


def draw(fitted: Fitted, frames: int, replication: int, seed: int = 1) -> np.ndarray:
    """Losses drawn from a fitted model, for the sizes and times of the record it was fitted to."""
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
    """Correlation of losses at distances in frames; 0 where all frames or none are lost."""
    frames, rate = lost.size, lost.mean()
    if rate in (0.0, 1.0):
        return np.zeros(lags.size)
    places = np.flatnonzero(lost)
    both = [lost[places[places < frames - lag] + lag].sum() / (frames - lag) for lag in lags]
    return np.asarray((np.array(both, dtype=np.float64) - rate**2) / (rate * (1.0 - rate)))


def _tails(lengths: np.ndarray) -> Array:
    """Share of runs of at least 1, 2, 4, 8, … frames."""
    edges = 2 ** np.arange(0, 21)
    if lengths.size == 0:
        return np.zeros(edges.size)
    ordered = np.sort(lengths)
    return 1.0 - np.searchsorted(ordered, edges, side="left") / lengths.size


def checks(record: Record, fitted: Fitted, chain: Fitted) -> tuple[Check, ...]:
    """Tests of fit.

    Args:
        record: What was fitted.
        fitted: The model that was chosen.
        chain: The best one that steps once a frame: for what windows may differ by.
    """
    part = record.part(0, COMPARED)
    lags = LAGS[: max(int(np.searchsorted(LAGS, part.lost.size // 20)), 1)]
    own = _features(part.lost, lags)
    drawn = [_features(draw(fitted, part.lost.size, k), lags) for k in range(DRAWS)]
    found = []
    for index, name in enumerate(("bursts of losses", "runs of arrivals", "autocorrelation")):
        there = np.array([features[index] for features in drawn])
        found.append(_compared(name, own[index], there, lags if index == 2 else None))
    found.append(_windows(record, chain))
    length = _length(record)
    return (*found, length) if length else tuple(found)


def _features(lost: np.ndarray, lags: np.ndarray) -> tuple[Array, Array, Array]:
    return (
        _tails(run_lengths(lost, of=True)),
        _tails(run_lengths(lost, of=False)),
        autocorrelation(lost, lags),
    )


def _compared(name: str, own: Array, drawn: Array, lags: np.ndarray | None) -> Check:
    """The largest distance from the mean of draws, in their deviations."""
    pool = np.vstack([drawn, own])
    mean, deviation = pool.mean(axis=0), pool.std(axis=0)
    used = deviation > 1e-12
    if not used.any():
        return Check(name, None, "too few to compare")
    away = np.abs(pool - mean)[:, used] / deviation[used]
    largest = away.max(axis=1)
    p = float((largest[:-1] >= largest[-1]).sum() + 1) / len(pool)
    place = int(np.flatnonzero(used)[int(away[-1].argmax())])
    where = f"at distance {lags[place]}" if lags is not None else f"of {2**place} frames or more"
    return Check(name, p, f"farthest {where}: {own[place]:.3g}, the model says {mean[place]:.3g}")


def _windows(record: Record, chain: Fitted) -> Check:
    """Losses in twenty parts of the record: their variance against that of the chain."""
    from scipy.stats import chi2

    frames = record.lost.size // WINDOWS
    name = "stationary"
    if frames < 10 or not record.lost.any():
        return Check(name, None, "too short to tell")
    losses = record.lost[: frames * WINDOWS].reshape(WINDOWS, frames).sum(axis=1)
    law, matrices = chain.model.matrices(chain.values)
    variance = _count_variance(law, matrices, frames)
    if variance <= 0.0 or losses.sum() < 5 * WINDOWS:
        return Check(name, None, "too few losses to tell")
    statistic = float(((losses - losses.mean()) ** 2).sum() / variance)
    p = float(chi2.sf(statistic, WINDOWS - 1))
    shares = losses / frames
    return Check(
        name,
        p,
        f"loss of twenty parts from {100 * shares.min():.3g} to {100 * shares.max():.3g} %, "
        f"{np.sqrt(statistic / (WINDOWS - 1)):.2g} times the deviation that the chain says",
    )


def _count_variance(law: Array, matrices: Array, frames: int) -> float:
    """Variance of the number of losses among so many frames, of a chain in its stationary law."""
    step, lost = matrices.sum(axis=0), matrices[1]
    rate = float((law @ lost).sum())
    column = lost.sum(axis=1)
    row = law @ lost - rate * law @ step
    # Σ_k (n - k) γ_k by doubling would do for any n; correlations die out long before.
    total = frames * rate * (1.0 - rate)
    for distance in range(1, min(frames, 200_000)):
        covariance = float(row @ column)
        total += 2.0 * (frames - distance) * covariance
        if abs(covariance) < 1e-9 * rate:
            break
        row = row @ step
    return total


def _length(record: Record) -> Check | None:
    """Whether lost frames are longer than others; batches of frames stand for independent ones."""
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
    """What a reader of the estimates should know."""
    told = []
    bursts = record.bursts.size
    if bursts < LEAST_BURSTS:
        told.append(f"too short: {bursts} bursts of losses; {LEAST_BURSTS} are the least to trust")
    wide = [
        one.name
        for one in fitted.estimates
        if not np.isfinite(one.high)
        or (one.value > 0.0 and 0.5 * (one.high - one.low) > WIDE * one.value)
    ]
    if wide and bursts >= LEAST_BURSTS:
        told.append(f"known to worse than ± 50 %: {', '.join(wide)}")
    for check in found:
        if not check.failed:
            continue
        if check.name == "stationary":
            told.append(f"not stationary, or correlated for longer than the model: {check.detail}")
        elif check.name == "loss does not depend on length":
            if not has_sizes_in_model:
                told.append(f"loss depends on length, which the model has not: {check.detail}")
        else:
            told.append(f"{check.name} are not those of {fitted.model.name}: {check.detail}")
    return tuple(told)
