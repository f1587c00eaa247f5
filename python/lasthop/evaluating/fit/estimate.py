"""Maximum likelihood estimation: Baum–Welch, then Newton steps; intervals from the curvature.

The engine computes the likelihood and its derivative with respect to each matrix of a model
(crates/lasthop-analysis/src/loss_likelihood.rs). If a model has a closed form, several Baum–Welch
steps approach the maximum from each start. Quasi-Newton and Newton steps in unbounded coordinates
then converge where Baum–Welch would need thousands of steps. For long records, a part is searched
first.

Intervals are normal in these coordinates, from the observed information. If the log likelihood is
not quadratic, as for a parameter near its bound (a loss of 0 or 1), the ends are the points at
which the profile likelihood has decreased by 1.92; on the side of the bound, there may be no end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lasthop import _lasthop
from lasthop.evaluating.fit.models.base import BOUND, Array, Model
from lasthop.evaluating.fit.records import Record

__all__ = ["Estimate", "Fitted", "estimate", "with_intervals"]

# Number of frames of the part that is searched from every start.
SEARCHED = 200_000
STEPS = 40
# Minimum information of a coordinate; below it, the parameter is near a bound.
LEAST = 0.5
# Tolerance of the decrease of the log likelihood at the ends of a normal interval, relative to a
# quadratic function.
PARABOLIC = 0.1
# Relative tolerance of the square root of the decrease at an end.
PRECISE = 0.02
# Half of the 95 % quantile of chi-squared with 1 degree of freedom.
DROP = 1.9207


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate of a parameter or derived value.

    Attributes:
        name: Name of the parameter.
        unit: `probability`, `s` or `frames`.
        value: The estimate.
        low: Lower end of the 95 % confidence interval; NaN before `with_intervals`.
        high: Upper end; infinite if the record gives no bound.
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
        values: Parameters.
        log_likelihood: Log likelihood at the parameters.
        estimates: Parameters, then derived values; with intervals after `with_intervals`.
        frames: Number of frames of the record.
    """

    model: Model
    values: Array
    log_likelihood: float
    estimates: tuple[Estimate, ...]
    frames: int

    @property
    def aic(self) -> float:
        """Akaike information criterion."""
        return 2.0 * self.model.size - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Bayesian information criterion (Schwarz); the family with the minimum is chosen."""
        return self.model.size * float(np.log(self.frames)) - 2.0 * self.log_likelihood

    @property
    def errors(self) -> str:
        """The `errors` table of a scenario."""
        names = (parameter.name for parameter in self.model.parameters)
        return self.model.errors(dict(zip(names, self.values.tolist(), strict=True)))


class _Target:
    """The likelihood of a record under a model, as a function of unbounded coordinates."""

    def __init__(self, model: Model, record: Record) -> None:
        self.model = model
        events = np.ascontiguousarray(model.events(record))
        self.runs = _lasthop.LossRuns(events.tobytes())

    def log(self, free: Array) -> float:
        law, matrices = self.model.matrices(self.model.values(free))
        log, _, _ = self.runs.likelihood(law.tolist(), matrices.ravel().tolist(), False)
        return log

    def counts(self, values: Array) -> tuple[float, Array]:
        """Returns the log likelihood and expected counts of each event and state transition."""
        law, matrices = self.model.matrices(values)
        log, _, slopes = self.runs.likelihood(law.tolist(), matrices.ravel().tolist(), True)
        return log, matrices * np.reshape(slopes, matrices.shape)

    def log_and_slope(self, free: Array) -> tuple[float, Array]:
        """Returns the log likelihood and its gradient, by the chain rule over the matrices."""
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
        """Returns second derivatives by differences of the gradient; one-sided if it is given."""
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


def estimate(model: Model, record: Record) -> Fitted:
    """Fits a model to a record, without intervals.

    Args:
        model: A model that applies to the record.
        record: A record with lost and received frames.
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
    # The estimate from a part is close enough for few steps on the whole record.
    free, log = _newton(target, best[1], 3 if is_part else 25)
    values = model.values(free)
    pairs = zip((*model.parameters, *model.derived), (*values, *model.derive(values)), strict=True)
    plain = tuple(Estimate(one.name, one.unit, float(v), np.nan, np.nan) for one, v in pairs)
    return Fitted(model, values, log, plain, record.lost.size)


def with_intervals(fitted: Fitted, record: Record) -> Fitted:
    """Adds intervals, which takes longer than the fit for poorly determined parameters."""
    target = _Target(fitted.model, record)
    return replace(
        fitted,
        estimates=_intervals(target, fitted.model.free(fitted.values), fitted.log_likelihood),
    )


def _baum_welch(target: _Target, values: Array) -> Array:
    """Runs Baum–Welch steps if the model has a closed form; returns coordinates."""
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
    """Runs a quasi-Newton search until a step gains less than 0.01 in log likelihood."""
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
    """Runs Newton steps, shortened if the log likelihood is not quadratic."""
    log, slope = target.log_and_slope(free)
    for _ in range(steps):
        values, vectors = np.linalg.eigh(-target.curvature(free, slope))
        # Uphill in every direction; short steps where the curvature is small.
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
    """Returns parameters and derived values with intervals."""
    model = target.model
    values = model.values(free)
    information = -target.curvature(free)
    is_inside = np.diag(information) > LEAST
    covariance = _covariance(information, is_inside)
    ends = [_ends(target, free, index, log, covariance) for index in range(free.size)]
    found = []
    for parameter, value, (low, high) in zip(model.parameters, values, ends, strict=True):
        most = 1.0 if parameter.unit == "probability" else np.inf
        found.append(
            Estimate(
                parameter.name,
                parameter.unit,
                float(value),
                0.0 if low is None else parameter.value(low),
                float(most if high is None else parameter.value(high)),
            )
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


def _covariance(information: Array, is_inside: np.ndarray) -> Array:
    """Returns the covariance of coordinates that are not at a bound; infinite if undetermined."""
    found = np.full(information.shape, np.nan)
    inside = np.flatnonzero(is_inside)
    values, vectors = np.linalg.eigh(information[np.ix_(inside, inside)])
    if inside.size and values[0] > 1e-8 * max(values[-1], 1e-300) and values[0] > 1e-6:
        found[np.ix_(inside, inside)] = vectors @ np.diag(1.0 / values) @ vectors.T
    else:
        found[np.ix_(inside, inside)] = np.inf
    return found


def _ends(
    target: _Target, free: Array, index: int, log: float, covariance: Array
) -> tuple[float | None, float | None]:
    """Returns the ends of the interval of a coordinate; None if the record gives none.

    Uses the normal approximation if the log likelihood is approximately quadratic up to the ends,
    otherwise the profile likelihood.
    """
    variance = covariance[index, index]
    if np.isinf(variance):
        return None, None
    half = 1.96 * float(np.sqrt(variance))
    line = np.nan_to_num(covariance[:, index] / variance)

    def end(way: float) -> float | None:
        if np.isfinite(half):
            drop = log - target.log(free + way * half * line)
            if abs(drop / DROP - 1.0) < PARABOLIC:
                return float(free[index] + way * half)
        return _profile_end(target, free, index, log, way, covariance)

    return end(-1.0), end(1.0)


def _profile_end(
    target: _Target, free: Array, index: int, log: float, way: float, covariance: Array
) -> float | None:
    """Returns the coordinate at which the profile log likelihood has decreased by 1.92.

    Returns None if it does not decrease by this amount within the distinguishable range.
    """
    from scipy.optimize import minimize

    others = np.flatnonzero(np.arange(free.size) != index)
    variance = covariance[index, index]
    is_known = bool(np.isfinite(variance))
    # Steps of the other coordinates are scaled by their standard deviations and start at the
    # quadratic approximation.
    spread = np.eye(others.size)
    line = np.zeros(others.size)
    if is_known:
        line = np.nan_to_num(covariance[others, index] / variance)
        inside = np.isfinite(covariance[others, others])
        part = covariance[np.ix_(others[inside], others[inside])]
        across = covariance[others[inside], index]
        given = part - np.outer(across, across) / variance
        shares, vectors = np.linalg.eigh(given)
        spread[np.ix_(inside, inside)] = vectors * np.sqrt(np.maximum(shares, 1e-12))
    best, at_best = free.copy(), float(free[index])

    def drop(at: float) -> float:
        nonlocal at_best
        point = best.copy()
        point[index] = at
        start = np.clip(best[others] + line * (at - at_best), -BOUND, BOUND)

        def value(steps: Array) -> tuple[float, Array]:
            point[others] = np.clip(start + spread @ steps, -BOUND, BOUND)
            value, slope = target.log_and_slope(point)
            return (-value, -spread.T @ slope[others]) if np.isfinite(value) else (1e300, 0 * steps)

        if not others.size:
            return log - target.log(point)
        found = minimize(
            value,
            np.zeros(others.size),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 30, "ftol": 3e-3 / max(abs(log), 1.0)},
        )
        best[others] = np.clip(start + spread @ found.x, -BOUND, BOUND)
        at_best = at
        return log + float(found.fun)

    # The square root of the decrease is linear for a quadratic log likelihood.
    width = 1.96 * float(np.sqrt(variance)) if is_known else 2.0
    step = way * min(width, 4.0)
    near, near_root, far, far_root = float(free[index]), 0.0, None, np.inf
    for _ in range(20):
        if far is None:
            at = near + step
        else:
            share = (1.0 - near_root) / (far_root - near_root)
            at = near + float(np.clip(share, 0.1, 0.9)) * (far - near)
        root = float(np.sqrt(max(drop(at), 0.0) / DROP))
        if abs(root - 1.0) < PRECISE:
            return at
        if root > 1.0:
            far, far_root = at, root
            continue
        if at * way > BOUND / 2:
            return None
        growth = (root - near_root) / (at - near) * way
        wanted = 1.1 * (1.0 - root) / growth if growth > 0.0 else np.inf
        step = way * float(np.clip(wanted, 0.25 * abs(step), 4.0 * abs(step)))
        near, near_root = at, root
    return at
