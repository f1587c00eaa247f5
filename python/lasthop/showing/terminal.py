"""Tables and progress bar of the command line."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lasthop.evaluating.cells import number, plus_minus, rounded, value_text
from lasthop.evaluating.metric import metric_label, metric_unit, repeated_in, window_of
from lasthop.evaluating.swept import point_words
from lasthop.showing.labels import Unit, interval_note, key_labels, measured, measured_row, scaled

if TYPE_CHECKING:
    import polars as pl

    from lasthop.evaluating.results import Results
    from lasthop.evaluating.similar import Group
    from lasthop.evaluating.theory import Comparison
    from lasthop.running.campaign import Plan

__all__ = [
    "console",
    "interval_text",
    "is_repeated",
    "number_text",
    "progress",
    "show_fairness",
    "show_list",
    "show_plan",
    "show_repetitions",
    "show_results",
    "show_similar",
    "show_steady",
    "show_theory",
]

WHOLE_RUN = (
    "flow.*.goodput_bps",
    "flow.*.duration_s",
    "flow.*.page_load_s",
    "flow.*.head_of_line_s",
    "flow.*.residual_loss",
    "flow.*.delay_mean_plus_2sd_s",
    "flow.*.deadline_miss",
    "flow.*.timeouts",
    *(f"flows.?*.{name}" for name in ("goodput_bps", "duration_s", "residual_loss", "timeouts")),
)

HEADLINES = (*WHOLE_RUN, *(f"window.*.{pattern}" for pattern in WHOLE_RUN))
"""The main metrics, of the whole run and of its windows."""


def console() -> Console:
    """Returns a console on standard output; in a pipe, it is wide enough for every cell.

    Markup is disabled, because names may contain it.
    """
    if sys.stdout.isatty():
        return Console(highlight=False, markup=False, emoji=False)
    return Console(
        file=sys.stdout, width=200, highlight=False, color_system=None, markup=False, emoji=False
    )


@contextlib.contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yields a progress bar with the remaining time; None if standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("replications"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(label, total=None)

        def update(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None)

        yield update


def number_text(value: float, digits: int = 5) -> str:
    """Returns a number with significant digits as in tables, and all digits of its integer part."""
    whole = len(f"{abs(value):.0f}") if abs(value) < 1e15 else 0
    return rounded(value, max(digits, whole))


def interval_text(mean: float, ci95: float | None) -> str:
    """Returns a mean and the half-width of its interval, if any."""
    return plus_minus(mean, ci95)


def show_results(
    results: Results, patterns: tuple[str, ...], groups: Sequence[Group] = ()
) -> Table:
    """Returns the summary: one row per metric for a single point, otherwise one row per point.

    Args:
        results: The results.
        patterns: Metrics to show, with `*` and `?`; empty: the main metrics.
        groups: Groups of flows and links whose means are in `results`; see
            `lasthop.evaluating.similar`.
    """
    single = len(results.points) == 1
    chosen = patterns or (("*",) if single else HEADLINES)
    rows = results.summary_rows()
    cells = {(row["point"], row["metric"]): row for row in rows}
    metrics = [
        metric
        for metric in results.metrics
        if (
            any(fnmatchcase(metric, pattern) for pattern in chosen)
            or (not patterns and metric in results.unfinished)
        )
        and any(key[1] == metric for key in cells)
        # The flows of a table with `count` are summarised in a sweep.
        and (single or patterns or not is_repeated(results, metric))
    ]
    note = interval_note(row["method"] for row in rows if row["metric"] in metrics)
    table = Table(caption=note, caption_justify="left")
    if single:
        spread = ("spread", "worst", "of") if groups else ()
        for heading in ("metric", "mean", "", *spread, "n"):
            is_text = heading in ("metric", "", "of")
            table.add_column(heading, justify="left" if is_text else "right")
        group_of = {group.name: group for group in groups}
        for metric in metrics:
            row = cells[0, metric]
            unit = scaled(metric_unit(metric), [row["mean"]])
            group = group_of.get(metric.rpartition(".")[0])
            more = _between(group, metric, unit) if group else [""] * len(spread)
            table.add_row(metric, measured_row(row, unit), unit.name, *more, str(row["n"]))
        return table
    words = point_words(results.points)
    for heading in key_labels(list(words)):
        table.add_column(heading.replace(" ", "\n"), overflow="fold")
    units = {
        metric: scaled(
            metric_unit(metric), (row["mean"] for row in rows if row["metric"] == metric)
        )
        for metric in metrics
    }
    for metric in metrics:
        table.add_column(metric_heading(metric, metrics, units[metric]), justify="right")
    table.add_column("n", justify="right")
    for index in range(len(results.points)):
        own = [(metric, cells.get((index, metric))) for metric in metrics]
        table.add_row(
            *(cell[index] for cell in words.values()),
            *("–" if one is None else measured_row(one, units[name]) for name, one in own),
            str(max((one["n"] for _, one in own if one is not None), default=0)),
        )
    return table


def is_repeated(results: Results, metric: str) -> bool:
    """Whether a metric belongs to a flow of a table with `count`."""
    kind, _, name = window_of(metric)[1].partition(".")
    first = name.partition(".")[0].partition("…")[0]
    return kind == "flow" and repeated_in(results.scenario, first) is not None


def _between(group: Group, metric: str, unit: Unit, point: int = 0) -> list[str]:
    """Returns spread, worst mean and its flow or link for a metric of similar ones."""
    quantity = metric.rpartition(".")[2]
    spread, worst = group.spread(quantity, point) / unit.per, group.worst(quantity, point)
    cells = [rounded(spread)]
    if worst is None:
        return [*cells, "", ""]
    return [*cells, rounded(worst[0] / unit.per, 4), worst[1]]


def show_similar(results: Results, groups: Sequence[Group]) -> Iterator[Table]:
    """Yields spread, minimum and Jain's index of the goodput of each group of similar flows.

    Args:
        results: Results with every flow.
        groups: See `lasthop.evaluating.similar`.
    """
    words = point_words(results.points)
    for group in groups:
        if f"{group.members[0]}.goodput_bps" not in results.metrics or "link." in group.name[:5]:
            continue
        table = Table(
            title=f"Goodput of {len(group.members)} similar flows, {group.name}",
            title_justify="left",
            caption="spread: standard deviation of the flows' means; worst: minimum mean",
            caption_justify="left",
        )
        for heading in key_labels(list(words)):
            table.add_column(heading.replace(" ", "\n"), overflow="fold")
        for heading in ("mean", "", "spread", "worst", "of", "Jain's\nindex"):
            table.add_column(heading, justify="left" if heading in ("", "of") else "right")
        for point in range(len(results.points)):
            mean = group.mean("goodput_bps", point)
            unit = scaled("bps", [mean])
            table.add_row(
                *(cell[point] for cell in words.values()),
                rounded(mean / unit.per, 4),
                unit.name,
                *_between(group, "goodput_bps", unit, point),
                rounded(group.jain(point)),
            )
        yield table


#: Time until several TCP flows share fairly.
CONVERGENCE = "flows.convergence_time_s"


def show_fairness(results: Results) -> Table | None:
    """Returns Jain's index, the goodput shares of flows and the convergence time of TCP flows."""
    flows = [name for name in results.metrics if fnmatchcase(name, "flow.*.goodput_bps")]
    if len(flows) < 2:
        return None
    index, shares = results.fairness_by_point(), results.shares_by_point()
    has_times = CONVERGENCE in results.metrics
    words = point_words(results.points)
    table = Table(
        title="Fairness",
        title_justify="left",
        caption="Jain's index and shares of the flows' goodput, means over replications"
        + ("; –: never fair for 5 s while all flows were active" if has_times else ""),
        caption_justify="left",
    )
    for heading in key_labels(list(words)):
        table.add_column(heading.replace(" ", "\n"), overflow="fold")
    for heading in ("Jain's\nindex", *(name.split(".")[1] for name in flows)):
        table.add_column(heading, justify="right")
    if has_times:
        table.add_column("fair after", justify="right")
    for point in range(len(results.points)):
        own = [index.get(point), *(shares.get((point, name)) for name in flows)]
        cells = ["–" if one is None else rounded(one.value) for one in own]
        if has_times:
            cells.append(_fair_after(results, point))
        table.add_row(*(cell[point] for cell in words.values()), *cells)
    return table


def _fair_after(results: Results, point: int) -> str:
    """Returns the mean convergence time, and the number of converged replications if not all."""
    samples = results.columns(point)[CONVERGENCE]
    found = [time for time in samples if not math.isnan(time)]
    if not found:
        return "–"
    part = "" if len(found) == len(samples) else f" (in {len(found)} of {len(samples)})"
    return f"{rounded(sum(found) / len(found))} s{part}"


#: Counts of a flow over TCP, and their headings.
REPETITIONS = {
    "retransmissions": "retransmissions",
    "spurious_retransmissions": "of these\nspurious",
    "timeouts": "timeouts",
    "spurious_timeouts": "of these\nspurious",
}


def show_repetitions(results: Results) -> Table | None:
    """Returns retransmissions and timeouts of several TCP flows, and the spurious ones."""
    flows = [
        name.split(".")[1]
        for name in results.metrics
        if fnmatchcase(name, "flow.*.spurious_timeouts")
    ]
    if len(flows) < 2:
        return None
    cells = {(row["point"], row["metric"]): row for row in results.summary_rows()}
    words = point_words(results.points)
    table = Table(
        title="Retransmissions",
        title_justify="left",
        caption="mean counts per replication",
        caption_justify="left",
    )
    for heading in (*(one.replace(" ", "\n") for one in key_labels(list(words))), "flow"):
        table.add_column(heading, overflow="fold")
    for heading in REPETITIONS.values():
        table.add_column(heading, justify="right")
    for point in range(len(results.points)):
        for flow in flows:
            own = [cells.get((point, f"flow.{flow}.{metric}")) for metric in REPETITIONS]
            table.add_row(
                *(cell[point] for cell in words.values()),
                flow,
                *(
                    "–" if row is None or row["mean"] is None else number_text(row["mean"], 3)
                    for row in own
                ),
            )
    return table


def show_differences(found: pl.DataFrame, key: str, baseline: object) -> Table:
    """Returns paired differences from a baseline, one row per metric and point."""
    others = found.columns[1 : found.columns.index("baseline")]
    table = Table(
        title=f"Difference from {key_labels([key])[0]} {value_text(baseline)}",
        title_justify="left",
        caption="paired by replication; mean ± half-width of the 95 % confidence interval; p by "
        "Holm over "
        "each metric",
        caption_justify="left",
    )
    table.add_column("metric", overflow="fold")
    for heading in key_labels(others):
        table.add_column(heading.replace(" ", "\n"), overflow="fold")
    for heading in ("difference", "", "ratio", "p\n(Holm)", "n"):
        table.add_column(heading, justify="left" if not heading else "right")
    # A metric that the baseline lacks, such as timeouts of a raw link, has no difference.
    found = found.drop_nulls("mean")
    metrics = found["metric"].unique(maintain_order=True).to_list()
    for row in found.iter_rows(named=True):
        unit = scaled(metric_unit(row["metric"]), [row["mean"]])
        ratio = "–" if row["ratio"] is None else rounded(row["ratio"])
        p = "–" if row["p_holm"] is None else f"{row['p_holm']:.2g}"
        table.add_row(
            metric_heading(row["metric"], metrics, Unit("", 1.0)).replace("\n", " "),
            *(value_text(_swept(row[name])) for name in others),
            measured(row["mean"], row["ci95"], unit),
            unit.name,
            ratio,
            p,
            str(row["n"]),
        )
    return table


def _swept(cell: object) -> object:
    """Returns a swept value of a table of results, in which tables and lists are JSON text."""
    if isinstance(cell, str) and cell[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            return json.loads(cell)
    return cell


def metric_heading(metric: str, among: Sequence[str], unit: Unit) -> str:
    """Returns the heading of a metric, one word per line; includes flow or link if ambiguous."""
    name = metric.partition(".")[2].rpartition(".")[0]
    names = {one.partition(".")[2].rpartition(".")[0] for one in among}
    label = metric_label(metric).replace(" ", "\n")
    of = f"{name}:\n" if len(names) > 1 else ""
    return f"{of}{label}" + (f"\n({unit.name})" if unit.name else "")


def show_theory(results: Results, comparisons: list[Comparison]) -> Iterator[Table | Text]:
    """Yields simulated and theoretical values, then the hypotheses of each formula."""
    words = point_words(results.points)
    table = Table(
        caption="simulated: mean ± half-width of the 95 % confidence interval. inside: theory is "
        "in this interval, or the bound holds; near: the difference is at most the formula's known "
        "error. In brackets: a hypothesis is violated",
        caption_justify="left",
    )
    if words:
        table.add_column("point", justify="right")
    for heading in ("metric", "theory by"):
        table.add_column(heading, overflow="fold")
    for heading in ("simulated", "theory", "difference", "%"):
        table.add_column(heading, justify="right")
    for heading in ("inside", "hypotheses"):
        table.add_column(heading)
    for one in comparisons:
        inside = "?" if one.inside is None else "yes" if one.inside else "no"
        if one.agrees and not one.inside:
            inside = "near"
        is_broken = one.hypotheses == "broken"
        style = "yellow" if is_broken else "" if one.agrees else "red"
        percent = "–" if one.percent is None else rounded(one.percent, sign=True)
        sign = "≤ " if one.prediction.is_bound else ""
        table.add_row(
            *([str(one.point)] if words else []),
            one.prediction.metric,
            one.prediction.rule,
            interval_text(one.simulated.mean, number(one.simulated.ci95)),
            sign + number_text(one.prediction.value),
            rounded(one.difference, sign=True),
            percent,
            Text(f"({inside})" if is_broken else inside, style=style),
            Text(one.hypotheses, style="yellow" if is_broken else ""),
        )
    yield table
    yield _needs(comparisons, with_points=bool(words))
    if words:
        lines = [
            f"point {index}: "
            + ", ".join(f"{key} = {words[key][index]}" for key in point.parameters)
            for index, point in enumerate(results.points)
        ]
        yield Text("\n".join(lines))


def _needs(comparisons: list[Comparison], *, with_points: bool) -> Table:
    """Returns the hypotheses of each formula, with the points at which they hold or not."""
    points: dict[tuple[str, str, str, str, str], list[int]] = {}
    for one in comparisons:
        for need in one.prediction.hypotheses:
            key = one.prediction.rule, one.prediction.metric, need.text, need.status, need.detail
            points.setdefault(key, []).append(one.point)
    table = Table(title="Hypotheses of the formulas", title_justify="left")
    for heading in ("theory by", "metric", "needs", "here"):
        table.add_column(heading, overflow="fold")
    if with_points:
        table.add_column("points", overflow="fold")
    last: tuple[str, str] | None = None
    for (rule, metric, text, status, detail), where in points.items():
        is_first = last != (rule, metric)
        last = rule, metric
        word = Text(status, style="yellow" if status == "broken" else "")
        table.add_row(
            rule if is_first else "",
            metric if is_first else "",
            text,
            word + Text(f": {detail}" if detail else ""),
            *([", ".join(map(str, where))] if with_points else []),
        )
    return table


def show_steady(found: pl.DataFrame) -> Table:
    """Returns the results of `lasthop.steady_state`, one row per quantity."""
    table = Table(
        caption="mean over one replication ± half-width of the 95 % confidence interval by 20 "
        "batch means; –: a longer run is needed",
        caption_justify="left",
    )
    table.add_column("", overflow="fold")
    for heading in ("mean", "warm-up (s)", "batch (s)", "batches"):
        table.add_column(heading, justify="right")
    for row in found.iter_rows(named=True):
        name = f"{row['entity']}.{row['quantity']}"
        if row["mean"] is None:
            table.add_row(name, "–", "–", "–", "")
            continue
        table.add_row(
            name,
            interval_text(row["mean"], row["ci95"]),
            rounded(row["warm_up_s"]),
            rounded(row["batch_s"]),
            "independent" if row["independent"] else "too short",
        )
    return table


def show_plan(plan: Plan) -> Table:
    """Returns the table of `--dry-run`."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("points", str(plan.points))
    table.add_row("replications", f"{plan.replications}")
    table.add_row("stored", f"{plan.stored}")
    table.add_row("to run", f"{plan.missing}")
    if not plan.missing:
        return table
    if plan.cost_s is None or plan.duration_s is None:
        table.add_row("time", f"unknown: {plan.source}")
    else:
        table.add_row("time", f"about {_time(plan.duration_s)} on {plan.jobs} threads")
        table.add_row("", f"{_time(plan.cost_s)} of processor time, {plan.source}")
    return table


def _time(seconds: float) -> str:
    """Returns a duration in a suitable unit."""
    for size, unit in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s" if seconds < 1.0 else f"{seconds:.0f} s"


def show_list(title: str, rows: list[tuple[str, str]]) -> Table:
    """Returns one category of `lasthop list`."""
    table = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, about in rows:
        table.add_row(f"  {name}", Text(about))
    return table
