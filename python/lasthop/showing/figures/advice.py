"""The figure of advice: the first objective over the constraints, or its bars if it is alone."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lasthop.evaluating.advise import Advice, Constraint
from lasthop.evaluating.advise.intervals import Interval
from lasthop.showing.figures import style
from lasthop.showing.labels import value_name

__all__ = ["draw_advice"]


NOTE = (
    "bars: 95 % confidence intervals, simultaneous for all candidates and interim analyses; "
    "hollow: eliminated"
)
FRONT = "; grey: Pareto-optimal"


def draw_advice(advice: Advice) -> Figure:
    """Draws each candidate with its intervals: a panel for each constraint or further objective.

    An objective without others and without constraints is drawn as bars.
    """
    first = advice.wants.objectives[0]
    others: list[Constraint | str] = list(advice.wants.constraints)
    others += [one.metrics[0] for one in advice.wants.objectives[1:]]
    if not others:
        return _draw_bars(advice)
    panels = len(others)
    with style.sheet():
        figure = style.Picture(figsize=(style.FULL, 3.1), layout="constrained")
        axes_of = list(np.atleast_1d(figure.subplots(1, panels, sharey=True)))
        metric = first.metrics[0]
        unit = style.scaled(style.metric_unit(metric), [abs(one.value) for one in advice.standings])
        kinds = list(dict.fromkeys(one.candidate.protocol for one in advice.standings))
        look = dict(zip(kinds, style.looks(kinds), strict=True))
        has_front = False
        for axes, other in zip(axes_of, others, strict=True):
            style.clean(axes)
            name = other if isinstance(other, str) else other.metric
            has_front |= _draw(axes, advice, name, unit, look)
            if isinstance(other, Constraint):
                _limit(axes, other, name, advice)
        axes_of[0].margins(y=0.08)
        total = "Total " if len(first.metrics) > 1 else ""
        label = style.metric_label(metric)
        axes_of[0].set_ylabel(unit.label(f"{total}{label.lower()}" if total else label))
        figure.supxlabel(NOTE + FRONT * has_front, fontsize=7.0)
        style.legend(figure, axes_of[0])
    return figure


def _draw_bars(advice: Advice) -> Figure:
    """Draws the only objective of each candidate as a bar, the best one at the top."""
    first = advice.wants.objectives[0]
    metric = first.metrics[0]
    unit = style.scaled(style.metric_unit(metric), [abs(one.value) for one in advice.standings])
    order = sorted(advice.standings, key=lambda one: first.sign * abs(one.value))
    kinds = list(dict.fromkeys(one.candidate.protocol for one in advice.standings))
    look = dict(zip(kinds, style.looks(kinds), strict=True))
    with style.sheet():
        height = 0.9 + 0.24 * len(order)
        figure = style.Picture(figsize=(style.FULL, height), layout="constrained")
        axes = style.clean(figure.subplots())
        for place, one in enumerate(order):
            colour, _, _ = look[one.candidate.protocol]
            interval = one.metrics[metric]
            axes.barh(
                place,
                abs(one.value) / unit.per,
                height=0.62,
                color="white" if one.ruled_out else colour,
                edgecolor=colour,
                xerr=_bars(interval, unit.per) if len(first.metrics) == 1 else None,
                error_kw={"elinewidth": 0.8, "ecolor": style.BLACK},
            )
        names = [
            f"{one.candidate.name}{' (choice)' if one is advice.choice else ''}" for one in order
        ]
        axes.set_yticks(range(len(order)), names)
        label = style.metric_label(metric)
        total = f"Total {label.lower()}" if len(first.metrics) > 1 else label
        axes.set_xlabel(unit.label(total))
        figure.supxlabel(NOTE, fontsize=7.0)
    return figure


def _unit(advice: Advice, name: str) -> style.Unit:
    means = [one.metrics[name].mean for one in advice.standings if name in one.metrics]
    return style.scaled(style.metric_unit(name), [mean for mean in means if np.isfinite(mean)])


def _draw(
    axes: Axes, advice: Advice, name: str, unit: style.Unit, look: dict[str, style.Style]
) -> bool:
    """Draws the candidates of one panel; returns `True` if several are Pareto-optimal."""
    across = _unit(advice, name)
    flow = f", {name.split('.')[1]}" if name.startswith("flow.") else ""
    axes.set_xlabel(f"{across.label(style.metric_label(name))}{flow}")
    up = advice.wants.objectives[0].metrics
    places: list[tuple[float, float]] = []
    for one in advice.standings:
        colour, marker, _ = look[one.candidate.protocol]
        interval = one.metrics[name]
        x, y = interval.mean / across.per, abs(one.value) / unit.per
        is_in = not one.ruled_out
        height = one.metrics[up[0]] if len(up) == 1 else None
        axes.errorbar(
            x,
            y,
            xerr=_bars(interval, across.per),
            yerr=None if height is None else _bars(height, unit.per),
            color=colour,
            marker=marker,
            markerfacecolor=colour if is_in else "white",
            alpha=1.0 if is_in else 0.6,
            elinewidth=0.6,
            linestyle="none",
        )
        places.append((x, y))
        if one is advice.choice:
            axes.plot(x, y, "o", markersize=9, markerfacecolor="none", color=style.BLACK)
            axes.annotate(
                "choice",
                (x, y),
                xytext=(-6, 6),
                textcoords="offset points",
                ha="right",
                fontsize=7,
            )
    for kind, (colour, marker, _) in look.items():
        axes.plot([], [], color=colour, marker=marker, linestyle="none", label=value_name(kind))
    is_small_good = any(c.metric == name and c.is_upper for c in advice.wants.constraints)
    steps = _front(places, is_small_good=is_small_good)
    if len(steps) > 1:
        axes.step(
            *zip(*steps, strict=True),
            where="post" if is_small_good else "pre",
            color="0.6",
            linewidth=0.9,
            zorder=0,
        )
    values = [x for x, _ in places]
    positive = [value for value in values if value > 0.0]
    if positive and max(positive) > 30.0 * min(positive):
        least = min(positive)
        if len(positive) == len(values):
            axes.set_xscale("log")
            axes.set_xlim(left=0.5 * least)
        else:
            axes.set_xscale("symlog", linthresh=least)
            axes.set_xlim(left=0.0)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    return len(steps) > 1


def _front(places: list[tuple[float, float]], *, is_small_good: bool) -> list[tuple[float, float]]:
    """Returns the Pareto-optimal places from left to right; higher is better."""
    found: list[tuple[float, float]] = []
    sign = 1.0 if is_small_good else -1.0
    for x, y in sorted(places, key=lambda place: (sign * place[0], -place[1])):
        if not found or y > found[-1][1]:
            found.append((x, y))
    return sorted(found)


def _bars(interval: Interval, per: float) -> list[list[float]] | None:
    low, mean, high = interval.low, interval.mean, interval.high
    if not np.isfinite(low) or not np.isfinite(high):
        return None
    return [[(mean - max(low, 0.0)) / per], [(high - mean) / per]]


def _limit(axes: Axes, constraint: Constraint, name: str, advice: Advice) -> None:
    across = _unit(advice, name)
    value = constraint.limit / across.per
    axes.axvline(value, color=style.BLACK, linewidth=0.8, linestyle="--")
    # Next to the line, on the side that satisfies the constraint.
    axes.annotate(
        f"{'<' if constraint.is_upper else '>'} {value:g}{across.name and f' {across.name}'}",
        (value, 0.0),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-3 if constraint.is_upper else 3, 3),
        textcoords="offset points",
        ha="right" if constraint.is_upper else "left",
        fontsize=7,
    )
