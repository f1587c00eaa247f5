"""Maximum likelihood: Baum–Welch first, Newton to the end, intervals from the curvature.

The engine gives the likelihood and its derivative with respect to each matrix of a model
(crates/lasthop/src/analysis/loss_likelihood.rs). Where a model has a closed form for it, some
steps of Baum and Welch approach the maximum from each start; then quasi-Newton and Newton steps, in
coordinates without bounds, finish where Baum–Welch would take thousands. Long records are first
searched in a part of them.

Intervals are those of the normal law in these coordinates, from the observed information. Where the
likelihood is no paraboloid, as for a parameter near the edge of what it can be (a loss of 0 or 1),
they end where its profile has fallen by 1.92; on the side of the edge there may be no end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lasthop import _lasthop
from lasthop.fit.models.base import BOUND, Array, Model
from lasthop.fit.records import Record

__all__ = ["Estimate", "Fitted", "estimate"]

# Frames of the part that is searched from every start.
SEARCHED = 200_000
STEPS = 40
# Beyond this coordinate a probability cannot be told from 0 or 1 by its curvature.
EDGE = 11.5
# Half-widths in these coordinates up to which the likelihood is taken for a paraboloid.
WIDE = 1.5
# Half of the 95 % quantile of chi-squared with one degree of freedom.
DROP = 1.9207


@dataclass(frozen=True, slots=True)
class Estimate:
    """A parameter, or what follows from several.

    Attributes:
        name: Of the parameter.
        unit: `probability`, `s` or `frames`.
        value: The estimate.
        low: Lower end of its 95 % interval.
        high: Upper end; infinite where the record sets no bound.
    """

    name: str
    unit: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """A model at its maximum.

    Attributes:
        model: The model, bound to the record.
        values: Its parameters.
        log_likelihood: At these.
        estimates: Parameters with intervals, then what follows from them; empty if not asked for.
        frames: Of the record.
    """

    model: Model
    values: Array
    log_likelihood: float
    estimates: tuple[Estimate, ...]
    frames: int

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return 2.0 * self.model.size - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion: the family with the smallest is chosen."""
        return self.model.size * float(np.log(self.frames)) - 2.0 * self.log_likelihood

    @property
    def errors(self) -> str | None:
        """The `errors` table of a scenario; None if scenarios have no such process."""
        names = (parameter.name for parameter in self.model.parameters)
        return self.model.errors(dict(zip(names, self.values.tolist(), strict=True)))


class _Target:
    """The likelihood of a record under a model, over coordinates without bounds."""

    def __init__(self, model: Model, record: Record) -> None:
        self.model = model
        events = np.ascontiguousarray(model.events(record))
        self.runs = _lasthop.LossRuns(events.tobytes())

    def log(self, free: Array) -> float:
        law, matrices = self.model.matrices(self.model.values(free))
        log, _, _ = self.runs.likelihood(law.tolist(), matrices.ravel().tolist(), False)
        return log

    def counts(self, values: Array) -> tuple[float, Array]:
        """Logarithm of the likelihood, and expected counts of each event and change of state."""
        law, matrices = self.model.matrices(values)
        log, _, slopes = self.runs.likelihood(law.tolist(), matrices.ravel().tolist(), True)
        return log, matrices * np.reshape(slopes, matrices.shape)

    def log_and_slope(self, free: Array) -> tuple[float, Array]:
        """With its gradient: the slopes of the matrices, by the chain rule."""
        law, matrices = self.model.matrices(self.model.values(free))
        log, first, slopes = self.runs.likelihood(law.tolist(), matrices.ravel().tolist(), True)
        by_matrix, by_law = np.reshape(slopes, matrices.shape), np.array(first)
        gradient = np.empty(free.size)
        for index in range(free.size):
            step = 1e-5
            up, down = free.copy(), free.copy()
            up[index] += step
            down[index] -= step
            law_up, up_matrices = self.model.matrices(self.model.values(up))
            law_down, down_matrices = self.model.matrices(self.model.values(down))
            change = (by_matrix * (up_matrices - down_matrices)).sum()
            gradient[index] = (change + by_law @ (law_up - law_down)) / (2.0 * step)
        return log, gradient

    def curvature(self, free: Array, slope: Array | None = None) -> Array:
        """Second derivatives, from differences of the gradient: one-sided if it is given here."""
        size, step = free.size, 1e-3
        found = np.empty((size, size))
        for index in range(size):
            up, down = free.copy(), free.copy()
            up[index] += step
            down[index] -= step
            if slope is None:
                change = (self.log_and_slope(up)[1] - self.log_and_slope(down)[1]) / (2.0 * step)
            else:
                change = (self.log_and_slope(up)[1] - slope) / step
            found[index] = change
        return 0.5 * (found + found.T)


def estimate(model: Model, record: Record, *, with_intervals: bool = True) -> Fitted:
    """Fits a model to a record.

    Args:
        model: A model that applies to the record.
        record: Frames, of which some were lost and some arrived.
        with_intervals: Also say how well parameters are known, which takes as long again.
    """
    model = model.bound(record)
    part = record.part(0, SEARCHED)
    if part.lost.all() or not part.lost.any():
        part = record
    is_part = part.lost.size < record.lost.size
    target = _Target(model, part)
    best: tuple[float, Array] | None = None
    for start in model.starts(part):
        free, log = _climb(target, _baum_welch(target, start), 150)
        if best is None or log > best[0]:
            best = (log, free)
    assert best is not None  # noqa: S101 - every model has a start
    if is_part:
        target = _Target(model, record)
    # What a part says of the whole record is near enough for few steps to finish.
    free, log = _newton(target, best[1], 3 if is_part else 6)
    intervals = _intervals(target, free, log) if with_intervals else ()
    return Fitted(model, model.values(free), log, intervals, record.lost.size)


def _baum_welch(target: _Target, values: Array) -> Array:
    """Some steps of Baum and Welch, where the model has a closed form; coordinates."""
    model = target.model
    before = -np.inf
    for _ in range(STEPS):
        log, counts = target.counts(values)
        again = model.reestimated(values, counts)
        if again is None or log - before < 1e-3:
            break
        values, before = again, log
    return np.clip(model.free(values), -BOUND / 2, BOUND / 2)


def _climb(target: _Target, free: Array, steps: int) -> tuple[Array, float]:
    """A quasi-Newton search, until a step gains less than a hundredth in log likelihood."""
    from scipy.optimize import minimize

    def value(at: Array) -> tuple[float, Array]:
        log, slope = target.log_and_slope(at)
        return (-log, -slope) if np.isfinite(log) else (1e300, np.zeros_like(at))

    scale = max(abs(target.log(free)), 1.0)
    found = minimize(
        value,
        free,
        jac=True,
        method="L-BFGS-B",
        bounds=[(-BOUND, BOUND)] * free.size,
        options={"maxiter": steps, "ftol": 1e-2 / scale, "gtol": 1e-6 * scale},
    )
    return found.x, -float(found.fun)


def _newton(target: _Target, free: Array, steps: int) -> tuple[Array, float]:
    """Newton steps, shortened where the likelihood is no paraboloid."""
    log, slope = target.log_and_slope(free)
    for _ in range(steps):
        values, vectors = np.linalg.eigh(-target.curvature(free, slope))
        # Uphill in every direction, and not far where nothing bends.
        bent = np.maximum(np.abs(values), 1e-3 * max(np.abs(values).max(), 1e-6))
        step = vectors @ ((vectors.T @ slope) / bent)
        step *= min(1.0, 2.0 / max(np.abs(step).max(), 1e-300))
        if slope @ step < 1e-3:
            break
        for _ in range(8):
            there = np.clip(free + step, -BOUND, BOUND)
            log_there, slope_there = target.log_and_slope(there)
            if log_there > log:
                break
            step *= 0.4
        else:
            break
        gain, free, log, slope = log_there - log, there, log_there, slope_there
        if gain < 1e-3:
            break
    return free, log


def _intervals(target: _Target, free: Array, log: float) -> tuple[Estimate, ...]:
    """Parameters and what follows from them, with intervals."""
    model = target.model
    values = model.values(free)
    is_inside = np.abs(free) < EDGE
    for index, parameter in enumerate(model.parameters):
        if parameter.unit == "s":
            is_inside[index] = True
    covariance = _covariance(target, free, is_inside)
    deviation = np.sqrt(np.diag(covariance))
    found = []
    for index, parameter in enumerate(model.parameters):
        half = 1.96 * deviation[index]
        least, most = 0.0, 1.0 if parameter.unit == "probability" else np.inf
        if is_inside[index] and not np.isfinite(half):
            low, high = least, most
        elif is_inside[index] and half < WIDE:
            low, high = (parameter.value(free[index] + end) for end in (-half, half))
        else:
            ends = [_profile_end(target, free, index, log, way) for way in (-1.0, 1.0)]
            low = least if ends[0] is None else parameter.value(ends[0])
            high = most if ends[1] is None else parameter.value(ends[1])
        found.append(
            Estimate(parameter.name, parameter.unit, float(values[index]), float(low), float(high))
        )
    derived = model.derive(values)
    if derived.size:
        slopes = np.empty((derived.size, free.size))
        for index in range(free.size):
            up, down = free.copy(), free.copy()
            up[index] += 1e-5
            down[index] -= 1e-5
            change = np.log(model.derive(model.values(up)) / model.derive(model.values(down)))
            slopes[:, index] = change / 2e-5
        inside = np.ix_(is_inside, is_inside)
        kept = slopes[:, is_inside]
        widths = 1.96 * np.sqrt(np.einsum("ij,jk,ik->i", kept, covariance[inside], kept))
        for parameter, value, width in zip(model.derived, derived, widths, strict=True):
            low, high = value * np.exp([-width, width])
            if not np.isfinite(width):
                low, high = 0.0, 1.0 if parameter.unit == "probability" else np.inf
            found.append(
                Estimate(parameter.name, parameter.unit, float(value), float(low), float(high))
            )
    return tuple(found)


def _covariance(target: _Target, free: Array, is_inside: np.ndarray) -> Array:
    """Of the coordinates that are not at an edge; infinite where the record tells nothing."""
    size = free.size
    found = np.full((size, size), np.nan)
    inside = np.flatnonzero(is_inside)
    information = -target.curvature(free)[np.ix_(inside, inside)]
    values, vectors = np.linalg.eigh(information)
    if inside.size and values[0] > 1e-8 * max(values[-1], 1e-300) and values[0] > 1e-6:
        found[np.ix_(inside, inside)] = vectors @ np.diag(1.0 / values) @ vectors.T
    else:
        found[np.ix_(inside, inside)] = np.inf
    return found


def _profile_end(target: _Target, free: Array, index: int, log: float, way: float) -> float | None:
    """Coordinate at which the likelihood, the others at their best, has fallen by 1.92.

    None if it has not as far as that can be told from the edge.
    """
    from scipy.optimize import minimize

    others = np.arange(free.size) != index
    best = free.copy()

    def drop(at: float) -> float:
        def value(rest: Array) -> tuple[float, Array]:
            point = best.copy()
            point[others], point[index] = rest, at
            value, slope = target.log_and_slope(point)
            return -value, -slope[others]

        if not others.any():
            return log - target.log(np.array([at]))
        found = minimize(
            value,
            best[others],
            jac=True,
            method="L-BFGS-B",
            bounds=[(-BOUND, BOUND)] * int(others.sum()),
            options={"maxiter": 30, "ftol": 1e-2 / max(abs(log), 1.0)},
        )
        best[others] = found.x
        return log + float(found.fun)

    near = float(free[index])
    far = near + 2.0 * way
    while drop(far) < DROP:
        near, far = far, far + 2.0 * way
        if far * way > BOUND / 2:
            return None
    for _ in range(8):
        middle = 0.5 * (near + far)
        near, far = (middle, far) if drop(middle) < DROP else (near, middle)
    return 0.5 * (near + far)
