"""Figures of a fit, measured and by the models.

Losses: run lengths, correlation and loss over time. Rates and delays: values over time, their
distribution and autocorrelation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from lasthop.evaluating.fit.checks import LAGS, autocorrelation, draw
from lasthop.evaluating.fit.estimate import Fitted
from lasthop.evaluating.fit.fitting import Fit
from lasthop.evaluating.fit.processes import Processes, autocorrelations
from lasthop.evaluating.fit.records import run_lengths
from lasthop.showing.figures import style

__all__ = ["draw_fit", "draw_process"]

# Frames sampled from each model for its curve, and models shown in addition to the best one.
DRAWN, OTHERS = 400_000, 2
PARTS = 100
# Lags of the autocorrelation of rates and delays, and values sampled from each process.
LAGS_SHOWN, SAMPLED = 200, 20_000


def draw_fit(fit: Fit) -> Figure:
    """Draws measurements as dots and models as lines, in four panels."""
    with style.sheet():
        figure = Figure(figsize=(style.FULL, 4.8), layout="constrained")
        bursts, gaps, correlation, parts = (style.clean(a) for a in figure.subplots(2, 2).ravel())
        lost = fit.record.lost
        lags = LAGS[: max(int(np.searchsorted(LAGS, lost.size // 20)), 1)]
        measured: dict[str, Any] = {
            "color": style.BLACK,
            "linestyle": "none",
            "marker": "o",
            "markersize": 2.6,
        }
        for axes, of in ((bursts, True), (gaps, False)):
            lengths, shares = _tail(run_lengths(lost, of=of))
            shown = _spread(lengths)
            axes.plot(lengths[shown], shares[shown], label="measured", **measured)
        correlation.plot(lags, autocorrelation(lost, lags), **measured)
        for fitted, look in zip(_shown(fit), style.SPARE, strict=False):
            frames = DRAWN if fitted.model.name != "two-state" else min(DRAWN, lost.size)
            drawn = draw(fitted, frames, 0)
            name = f"{fitted.model.name}, best by BIC" if fitted is fit.best else fitted.model.name
            line: dict[str, Any] = {"color": look[0], "linestyle": look[2]}
            for axes, of in ((bursts, True), (gaps, False)):
                axes.plot(*_tail(run_lengths(drawn, of=of)), label=name, **line)
            correlation.plot(lags, autocorrelation(drawn, lags), **line)
        for axes, label in (
            (bursts, "Length of loss bursts (frames)"),
            (gaps, "Length of runs of arrivals (frames)"),
        ):
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_xlabel(label)
            axes.set_ylabel("Complementary distribution")
        correlation.set_xscale("log")
        correlation.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        correlation.set_xlabel("Distance (frames)")
        correlation.set_ylabel("Correlation of losses")
        correlation.axhline(0.0, color=style.BLACK, linewidth=0.5)
        _over_time(parts, fit)
        style.legend(figure, bursts)
    return figure


def _shown(fit: Fit) -> list[Fitted]:
    """Returns the best model and the next best ones of other kinds."""
    worse = [one for one in fit.fitted[1:] if one.bic - fit.best.bic > 2.0]
    return [fit.best, *worse[:OTHERS]]


def _tail(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns distinct lengths and the fraction of runs of at least this length."""
    distinct, counts = np.unique(lengths, return_counts=True)
    reached = counts[::-1].cumsum()[::-1] / max(counts.sum(), 1)
    # Omit the noisy tail of single runs.
    kept = reached * counts.sum() >= 5
    return distinct[kept], reached[kept]


def _spread(lengths: np.ndarray) -> np.ndarray:
    """Returns indices of lengths that are approximately evenly spaced on a logarithmic axis."""
    if lengths.size == 0:
        return np.zeros(0, dtype=int)
    wanted = np.geomspace(lengths[0], lengths[-1], 40)
    return np.unique(np.searchsorted(lengths, wanted).clip(max=lengths.size - 1))


def _over_time(axes: Axes, fit: Fit) -> None:
    lost = fit.record.lost
    size = max(lost.size // PARTS, 1)
    count = lost.size // size
    shares = lost[: size * count].reshape(count, size).mean(axis=1)
    axes.step(np.arange(count) * size, shares, where="post", color=style.BLACK, linewidth=0.8)
    axes.axhline(fit.record.loss, color=style.BLUE, linewidth=0.8)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("Frame")
    axes.set_ylabel(f"Loss among {size} frames")


def draw_process(found: Processes) -> Figure:
    """Draws a series with the chosen and the second-best process.

    The panels are values over time with the conditional means of steps or a sampled path, the
    cumulative distribution, and the autocorrelation.
    """
    series = found.series
    unit = style.scaled("bps" if series.key == "rate" else "s", np.abs(found.values))
    measured = found.values / unit.per
    most = min(max(found.values.size // 10, 5), LAGS_SHOWN)
    with style.sheet():
        figure = Figure(figsize=(style.FULL, 2.9), layout="constrained")
        over_time, shares, correlation = (
            style.clean(a) for a in figure.subplots(1, 3, width_ratios=[1.8, 1.0, 1.0]).ravel()
        )
        times = np.arange(measured.size) * found.interval_s
        over_time.plot(times, measured, label="measured", color="0.35", linewidth=0.6, zorder=2)
        dots: dict[str, Any] = {"color": style.BLACK, "linestyle": "none", "marker": "o"}
        dots["markersize"] = 2.4
        places = np.unique(np.linspace(0, measured.size - 1, 40).astype(int))
        shares.plot(np.sort(measured)[places], (places + 1) / measured.size, **dots)
        lags = np.arange(1, most + 1) * found.interval_s
        few = np.unique(np.geomspace(1, most, 24).astype(int)) - 1
        correlation.plot(lags[few], autocorrelations(found.values, most)[few], **dots)
        for place, (one, spare) in enumerate(zip(found.fitted[:2], style.SPARE, strict=False)):
            line: dict[str, Any] = {"color": spare[0], "linestyle": spare[2]}
            name = f"{one.name}, {'best' if place == 0 else 'second'} by BIC"
            path = one.path(max(measured.size, SAMPLED)) / unit.per
            if one.name == "autoregressive":
                path = np.clip(path, measured.min(), measured.max())
                drawn: dict[str, Any] = {"linewidth": 0.6, "alpha": 0.7, "zorder": 1}
                over_time.plot(
                    times, path[: times.size], label=f"{name} (a sample)", **line, **drawn
                )
            else:
                expected = one.expected / unit.per
                over_time.plot(times, expected, label=name, linewidth=1.2, zorder=3, **line)
            ticks = np.linspace(0, path.size - 1, 200).astype(int)
            shares.plot(np.sort(path)[ticks], (ticks + 1) / path.size, **line)
            correlation.plot(lags, autocorrelations(path, most), **line)
        label = "Rate" if series.key == "rate" else "Delay"
        over_time.set_xlabel("Time (s)")
        over_time.set_ylabel(unit.label(label))
        shares.set_xlabel(unit.label(label))
        shares.set_ylabel("Cumulative distribution")
        shares.set_ylim(0.0, 1.0)
        correlation.set_xlabel("Distance (s)")
        correlation.set_ylabel("Autocorrelation")
        correlation.axhline(0.0, color=style.BLACK, linewidth=0.5)
        style.legend(figure, over_time)
    return figure
