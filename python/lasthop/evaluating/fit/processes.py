"""Processes of rates and delays over time: constant, steps, autoregressive.

A series of measurements is resampled to equal intervals. Three models with Gaussian deviations are
compared by BIC:

| model | value in interval t | parameters |
|---|---|---|
| `constant` | m + e | mean, deviation |
| `steps` | m of the present step + e | a level per step, a time per change, deviation |
| `autoregressive` | m + φ (value in t - 1 - m) + e | mean, φ, deviation |

Steps are found by binary segmentation (A. J. Scott and M. Knott, *Biometrics* 30, 1974): the change
that reduces the sum of squares most, until BIC increases. The autoregressive process of order 1 has
the autocorrelation φ^k, an exponential with the correlation time -interval / ln φ; a scenario uses a
sampled path of it.

*Not modelled*: periods (handovers at fixed times appear as steps), trends, several time scales,
deviations that are not Gaussian. `Processes.warnings` reports residuals that are correlated.
"""  # noqa: E501 - a table

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lasthop.evaluating.fit.records import FitError
from lasthop.evaluating.fit.series import Series

__all__ = ["Process", "Processes", "autocorrelations", "fit_process"]

Floats = NDArray[np.float64]

# Maximum number of intervals; longer series are averaged over wider ones.
MOST_INTERVALS = 5000
LEAST_INTERVALS = 20
MOST_STEPS = 60
# Steps in a sampled path of an autoregressive process, and its interval in correlation times.
PATH_STEPS, PATH_INTERVAL = 100, 0.25
SEED = 1
# Lags at which residuals are tested.
RESIDUAL_LAGS = 10


@dataclass(frozen=True, slots=True)
class Process:
    """A fitted process.

    Attributes:
        name: `constant`, `steps` or `autoregressive`.
        parameters: Number of estimated parameters.
        log_likelihood: Natural logarithm of the likelihood.
        bic: Bayesian information criterion; lower is better.
        levels: Level of each step, in SI units; one for the other models.
        starts_s: Start of each step.
        deviation: Standard deviation from the level, in SI units.
        persistence: φ; 0 for the other models.
        interval_s: Interval of the series.
        expected: Conditional mean of each interval.
    """

    name: str
    parameters: int
    log_likelihood: float
    bic: float
    levels: Floats
    starts_s: Floats
    deviation: float
    persistence: float
    interval_s: float
    expected: Floats

    @property
    def correlation_s(self) -> float:
        """Correlation time of an autoregressive process in seconds; 0 for the others."""
        if self.persistence <= 0.0:
            return 0.0
        return -self.interval_s / math.log(self.persistence)

    def path(self, count: int, *, interval_s: float | None = None, seed: int = SEED) -> Floats:
        """Returns a sample of the process.

        Args:
            count: Number of values.
            interval_s: Interval between values in seconds; None: the interval of the series.
            seed: Seed of the sample.

        Returns:
            Values in bit/s or seconds. After the last step, the process repeats from the first.
        """
        interval = self.interval_s if interval_s is None else interval_s
        random = np.random.default_rng(seed)
        if self.name != "autoregressive":
            period = self.interval_s * self.expected.size
            times = (np.arange(count) * interval) % period
            levels = self.levels[np.searchsorted(self.starts_s, times + 1e-9, side="right") - 1]
            noise: Floats = random.normal(0.0, self.deviation, count)
            return np.asarray(levels + noise, dtype=np.float64)
        # The fitted process at another interval: its correlation decays exponentially.
        ratio = interval / self.interval_s
        keep = self.persistence if ratio == 1.0 else max(self.persistence, 0.0) ** ratio
        deviations = np.empty(count)
        state = random.normal(0.0, self.deviation)
        for place, step in enumerate(random.normal(0.0, 1.0, count)):
            deviations[place] = state
            state = keep * state + math.sqrt(1.0 - keep**2) * self.deviation * step
        return np.asarray(deviations + self.levels[0], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Processes:
    """Models of a series.

    Attributes:
        series: The measurements.
        values: The series at equal intervals.
        interval_s: The interval in seconds.
        fitted: All models, the best by BIC first.
        warnings: Limitations of the best model.
    """

    series: Series
    values: Floats
    interval_s: float
    fitted: tuple[Process, ...]
    warnings: tuple[str, ...]

    @property
    def best(self) -> Process:
        """The model with the lowest BIC."""
        return self.fitted[0]

    @property
    def line(self) -> str:
        """The line of a scenario: a value, or a table of steps."""
        best, series = self.best, self.series
        if best.name == "constant":
            return f'{series.key} = "{series.text(float(best.levels[0]))}"'
        if best.name == "steps":
            starts, levels = best.starts_s, best.levels
            repeat = self.interval_s * self.values.size
        else:
            wide = max(self.interval_s, PATH_INTERVAL * best.correlation_s)
            starts = np.asarray(np.arange(PATH_STEPS) * wide, dtype=np.float64)
            # Gaussian tails beyond the measured values are not possible values of a link.
            sampled = best.path(PATH_STEPS, interval_s=wide)
            levels = np.clip(sampled, self.values.min(), self.values.max())
            repeat = PATH_STEPS * wide
        at = ", ".join(
            f'["{start:.9g} s", "{series.text(float(level))}"]'
            for start, level in zip(starts, levels, strict=True)
        )
        return f'{series.key} = {{ kind = "steps", at = [{at}], repeat = "{repeat:.9g} s" }}'

    def to_dict(self) -> dict[str, Any]:
        """Returns the object that `lasthop fit --format json` prints."""
        return {
            "source": self.series.source,
            "values": int(self.series.values.size),
            "interval_s": self.interval_s,
            "mean": float(self.values.mean()),
            "deviation": float(self.values.std()),
            "autocorrelation": autocorrelations(self.values, 10).tolist(),
            "models": [
                {
                    "name": one.name,
                    "parameters": one.parameters,
                    "log_likelihood": one.log_likelihood,
                    "bic": one.bic,
                    "levels": one.levels.tolist(),
                    "starts_s": one.starts_s.tolist(),
                    "deviation": one.deviation,
                    "persistence": one.persistence,
                    "correlation_s": one.correlation_s,
                }
                for one in self.fitted
            ],
            "notes": list(self.series.notes),
            "warnings": list(self.warnings),
            "line": self.line,
        }


def fit_process(series: Series) -> Processes:
    """Fits all models to a series.

    Raises:
        FitError: If the series has fewer than 20 intervals.
    """
    values, interval = _regular(series)
    if values.size < LEAST_INTERVALS:
        raise FitError(
            f"{series.source}: {values.size} intervals of {interval:.3g} s: expected at least "
            f"{LEAST_INTERVALS}"
        )
    fitted = sorted(
        (
            _steps(values, interval, 1),
            _autoregressive(values, interval),
            _best_steps(values, interval),
        ),
        key=lambda one: (one.bic, one.parameters),
    )
    return Processes(series, values, interval, tuple(fitted), _warnings(values, fitted[0]))


def autocorrelations(values: Floats, most: int) -> Floats:
    """Returns the autocorrelation at 1 to `most` intervals; 0 for equal values."""
    centred = values - values.mean()
    power = float(centred @ centred)
    lags = range(1, min(most, values.size - 1) + 1)
    if power <= 0.0:
        return np.zeros(len(lags))
    return np.array([float(centred[:-lag] @ centred[lag:]) / power for lag in lags])


def _regular(series: Series) -> tuple[Floats, float]:
    """The series at equal intervals: means of those with several values, held in empty ones."""
    times = series.times_s - series.times_s[0]
    span = float(times[-1])
    interval = series.interval_s or float(np.median(np.diff(times)))
    if interval <= 0.0 or span <= 0.0:
        raise FitError(f"{series.source}: all values have the same time: expected increasing times")
    interval = max(interval, span / MOST_INTERVALS)
    count = max(round(span / interval) + 1, 1)
    places = np.minimum(np.floor(times / interval + 0.5).astype(int), count - 1)
    sums = np.bincount(places, series.values, count)
    numbers = np.bincount(places, minlength=count)
    held = np.maximum.accumulate(np.where(numbers > 0, np.arange(count), 0))
    return (sums / np.maximum(numbers, 1))[held], interval


def _gaussian(squares: float, values: Floats) -> float:
    """Log-likelihood of deviations with this sum of squares, at their own variance."""
    count = values.size
    # Without deviations but those of rounding, all models have the same likelihood.
    variance = max(squares / count, (1e-9 * float(np.abs(values).max())) ** 2, 1e-300)
    return -0.5 * count * (math.log(2.0 * math.pi * variance) + 1.0)


def _steps(values: Floats, interval: float, count: int, starts: Floats | None = None) -> Process:
    """A constant, or steps that begin at these intervals."""
    begin = np.zeros(1, dtype=int) if starts is None else starts.astype(int)
    lengths = np.diff(np.r_[begin, values.size])
    levels = np.add.reduceat(values, begin) / lengths
    expected = np.repeat(levels, lengths)
    squares = float(np.square(values - expected).sum())
    likelihood = _gaussian(squares, values)
    parameters = 2 * count
    return Process(
        "constant" if count == 1 else "steps",
        parameters,
        likelihood,
        parameters * math.log(values.size) - 2.0 * likelihood,
        levels,
        begin * interval,
        math.sqrt(squares / values.size),
        0.0,
        interval,
        expected,
    )


def _best_steps(values: Floats, interval: float) -> Process:
    """Steps by binary segmentation; the number of steps has the lowest BIC, at least 2."""
    sums = np.r_[0.0, np.cumsum(values - values.mean())]
    begins, gains = [0], {0: _split(sums, 0, values.size)}
    best = None
    while len(begins) < min(MOST_STEPS, values.size // 2):
        first = max(gains, key=lambda one: gains[one][0])
        gain, place = gains[first]
        if gain <= 0.0 and best is not None:
            return best
        begins = sorted([*begins, place])
        for begin in (first, place):
            after = begins.index(begin) + 1
            end = begins[after] if after < len(begins) else values.size
            gains[begin] = _split(sums, begin, end)
        found = _steps(values, interval, len(begins), np.array(begins, dtype=float))
        if best is None or found.bic < best.bic:
            best = found
    return best or _steps(values, interval, 1)


def _split(sums: Floats, begin: int, end: int) -> tuple[float, int]:
    """Reduction of the sum of squares by the best change within a step, and its place."""
    if end - begin < 2:
        return 0.0, begin
    places = np.arange(begin + 1, end)
    left, right = places - begin, end - places
    gains = (
        (sums[places] - sums[begin]) ** 2 / left
        + (sums[end] - sums[places]) ** 2 / right
        - (sums[end] - sums[begin]) ** 2 / (end - begin)
    )
    best = int(np.argmax(gains))
    return float(gains[best]), int(places[best])


def _autoregressive(values: Floats, interval: float) -> Process:
    """Conditional maximum likelihood, with the first value from the stationary distribution."""
    mean = float(values.mean())
    before, after = values[:-1] - mean, values[1:] - mean
    power = float(before @ before)
    persistence = float(np.clip(before @ after / power, -0.999, 0.999)) if power > 0 else 0.0
    expected = np.r_[mean, mean + persistence * before]
    squares = float(np.square(values[1:] - expected[1:]).sum())
    squares += (1.0 - persistence**2) * float(values[0] - mean) ** 2
    likelihood = _gaussian(squares, values) + 0.5 * math.log(1.0 - persistence**2)
    return Process(
        "autoregressive",
        3,
        likelihood,
        3 * math.log(values.size) - 2.0 * likelihood,
        np.array([mean]),
        np.zeros(1),
        math.sqrt(squares / values.size / (1.0 - persistence**2)),
        persistence,
        interval,
        expected,
    )


def _warnings(values: Floats, best: Process) -> tuple[str, ...]:
    lines = []
    left = autocorrelations(values - best.expected, RESIDUAL_LAGS)
    largest = int(np.argmax(np.abs(left)))
    # 3.5 standard errors of white noise: by chance in 0.5 % of series, for all lags together.
    if abs(left[largest]) > 3.5 / math.sqrt(values.size):
        lines.append(
            f"the residuals of model {best.name} are correlated ({left[largest]:.2f} at "
            f"{largest + 1} intervals): the variation has a structure that no model here has; "
            "replay the recording instead"
        )
    if best.name == "steps" and best.levels.size >= MOST_STEPS:
        lines.append(
            f"{MOST_STEPS} steps are the maximum of model steps: replay the recording instead"
        )
    if best.name == "autoregressive":
        lines.append(
            f"the line has one sampled path of {PATH_STEPS} steps, which all replications share"
        )
    return tuple(lines)
