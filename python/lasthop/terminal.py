"""What the command line shows: tables for people, progress on a terminal."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lasthop.cells import number, value_text
from lasthop.swept import point_words
from lasthop.words import (
    Unit,
    interval_note,
    key_labels,
    measured,
    measured_row,
    metric_label,
    metric_unit,
    scaled,
)

if TYPE_CHECKING:
    import polars as pl

    from lasthop.campaign import Plan
    from lasthop.results import Results
    from lasthop.studies import Report, ReportCell
    from lasthop.studies.artefacts import Artefact
    from lasthop.studies.paired import PairedCell
    from lasthop.studies.sensitivity import SensitivityReport
    from lasthop.studies.verdicts import Verdict
    from lasthop.theory import Comparison

__all__ = [
    "cell_text",
    "console",
    "interval_text",
    "number_text",
    "paired_texts",
    "progress",
    "show_fairness",
    "show_list",
    "show_paired",
    "show_plan",
    "show_repetitions",
    "show_report",
    "show_results",
    "show_sensitivity",
    "show_steady",
    "show_theory",
]

HEADLINES = (
    "flow.*.goodput_bps",
    "flow.*.duration_s",
    "flow.*.residual_loss",
    "flow.*.delay_mean_plus_2sd_s",
    "flow.*.deadline_miss",
    "flow.*.timeouts",
)
VERDICTS = {
    "reproduced": "green",
    "in part": "cyan",
    "contradicted": "red",
    "undecided": "yellow",
}
WORDS = {"holds": "green", "in part": "cyan", "fails": "red", "open": "yellow"}
OUTCOMES = {True: "holds", False: "fails", None: "open"}


def console() -> Console:
    """Standard output; in a pipe wide enough that no cell is cut.

    What is printed is plain text: names may hold what rich takes for its markup.
    """
    if sys.stdout.isatty():
        return Console(highlight=False, markup=False, emoji=False)
    return Console(
        file=sys.stdout, width=200, highlight=False, color_system=None, markup=False, emoji=False
    )


@contextlib.contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error with the time left; None where that is not a terminal."""
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


def number_text(value: float) -> str:
    """A number with as many digits as tables show."""
    if math.isnan(value):
        return "–"
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value)}"
    magnitude = abs(value)
    return f"{value:.0f}" if magnitude >= 10_000 else f"{value:.5g}"


def interval_text(mean: float, ci95: float | None) -> str:
    """A mean and its interval, as tables show them; one replication has none."""
    width = "" if ci95 is None else f" ± {number_text(float(f'{ci95:.3g}'))}"
    return number_text(mean) + width


def show_results(results: Results, patterns: tuple[str, ...]) -> Table:
    """The summary: a row for each metric of a single point, otherwise one for each point.

    Args:
        results: What to show.
        patterns: Metrics to show, with `*` and `?`; those of note if empty.
    """
    single = len(results.points) == 1
    chosen = patterns or (("*",) if single else HEADLINES)
    rows = list(results.summary().iter_rows(named=True))
    cells = {(row["point"], row["metric"]): row for row in rows}
    metrics = [
        metric
        for metric in results.metrics
        if (
            any(fnmatchcase(metric, pattern) for pattern in chosen)
            or (not patterns and metric in results.unfinished)
        )
        and any(key[1] == metric for key in cells)
    ]
    note = interval_note(row["method"] for row in rows if row["metric"] in metrics)
    table = Table(caption=note, caption_justify="left")
    if single:
        for heading in ("metric", "mean", "", "n"):
            table.add_column(heading, justify="left" if heading in ("metric", "") else "right")
        for metric in metrics:
            row = cells[0, metric]
            unit = scaled(metric_unit(metric), [row["mean"]])
            table.add_row(metric, measured_row(row, unit), unit.name, str(row["n"]))
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


#: How long several TCP flows take until they share fairly.
CONVERGENCE = "flows.convergence_time_s"


def show_fairness(results: Results) -> Table | None:
    """How flows share where several have a goodput: Jain's index, each flow's share, and how long
    several TCP flows take until they share fairly.
    """  # noqa: D205 - one sentence that needs two lines
    flows = [name for name in results.metrics if fnmatchcase(name, "flow.*.goodput_bps")]
    if len(flows) < 2:
        return None
    index = {row["point"]: row for row in results.fairness().iter_rows(named=True)}
    shares = {(row["point"], row["metric"]): row for row in results.shares().iter_rows(named=True)}
    has_times = CONVERGENCE in results.metrics
    words = point_words(results.points)
    table = Table(
        title="Fairness",
        title_justify="left",
        caption="Jain's index and shares of the flows' goodput, means over replications"
        + ("; –: no 5 s in a row of fair shares while all were active" if has_times else ""),
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
        cells = ["–" if row is None else number_text(float(f"{row['value']:.3g}")) for row in own]
        if has_times:
            cells.append(_fair_after(results, point))
        table.add_row(*(cell[point] for cell in words.values()), *cells)
    return table


def _fair_after(results: Results, point: int) -> str:
    """The mean time until flows share fairly, and in how many replications if not in all."""
    samples = results.samples(CONVERGENCE, point)
    found = [time for time in samples.tolist() if not math.isnan(time)]
    if not found:
        return "–"
    part = "" if len(found) == len(samples) else f" (in {len(found)} of {len(samples)})"
    return f"{number_text(float(f'{sum(found) / len(found):.3g}'))} s{part}"


#: Counts of a flow over TCP, and their headings.
REPETITIONS = {
    "retransmissions": "retransmissions",
    "spurious_retransmissions": "of these\nspurious",
    "timeouts": "timeouts",
    "spurious_timeouts": "of these\nspurious",
}


def show_repetitions(results: Results) -> Table | None:
    """What several flows over TCP sent again, and how much of it was a mistake."""
    flows = [
        name.split(".")[1]
        for name in results.metrics
        if fnmatchcase(name, "flow.*.spurious_timeouts")
    ]
    if len(flows) < 2:
        return None
    cells = {(row["point"], row["metric"]): row for row in results.summary().iter_rows(named=True)}
    words = point_words(results.points)
    table = Table(
        title="Sent again",
        title_justify="left",
        caption="counts of a replication, means",
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
                    "–" if row is None or row["mean"] is None else number_text(row["mean"])
                    for row in own
                ),
            )
    return table


def show_differences(found: pl.DataFrame, key: str, baseline: object) -> Table:
    """Paired differences from a baseline, a row for each metric and point."""
    others = found.columns[1 : found.columns.index("baseline")]
    table = Table(
        title=f"Difference from {key_labels([key])[0]} {value_text(baseline)}",
        title_justify="left",
        caption="paired by replication; mean ± half-width of its 95 % interval; p by Holm over "
        "each metric",
        caption_justify="left",
    )
    table.add_column("metric", overflow="fold")
    for heading in key_labels(others):
        table.add_column(heading.replace(" ", "\n"), overflow="fold")
    for heading in ("difference", "", "ratio", "p\n(Holm)", "n"):
        table.add_column(heading, justify="left" if not heading else "right")
    # What the baseline does not have, as a raw link has no timeouts, has no difference.
    found = found.drop_nulls("mean")
    metrics = found["metric"].unique(maintain_order=True).to_list()
    for row in found.iter_rows(named=True):
        unit = scaled(metric_unit(row["metric"]), [row["mean"]])
        ratio = "–" if row["ratio"] is None else f"{row['ratio']:.3g}"
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


def show_paired(cells: Sequence[PairedCell]) -> Table:
    """Differences of a study's columns from one of them, a row for each cell."""
    table = Table(
        title=f"Difference from {cells[0].baseline}",
        title_justify="left",
        caption="paired by replication; mean ± half-width of its 95 % interval (Student's t); p by "
        "Holm over each table or figure",
        caption_justify="left",
    )
    for heading in ("of", "at", "column"):
        table.add_column(heading, overflow="fold")
    for heading in ("difference", "", "ratio", "p\n(Holm)", "n"):
        table.add_column(heading, justify="left" if not heading else "right")
    for cell in cells:
        table.add_row(*paired_texts(cell))
    return table


def paired_texts(cell: PairedCell) -> list[str]:
    """A row of such a table."""
    p = "–" if math.isnan(cell.p_holm) else f"{cell.p_holm:.2g}"
    ratio = "–" if math.isnan(cell.ratio) else f"{cell.ratio:.3g}"
    width = None if math.isnan(cell.ci95) else cell.ci95
    difference = measured(cell.difference, width, Unit(cell.unit, 1.0))
    return [cell.artefact, cell.row, cell.column, difference, cell.unit, ratio, p, str(cell.n)]


def _swept(cell: object) -> object:
    """A swept value of a table of results, which holds tables and lists as JSON text."""
    if isinstance(cell, str) and cell[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            return json.loads(cell)
    return cell


def metric_heading(metric: str, among: Sequence[str], unit: Unit) -> str:
    """A metric above a column, a word a line: its flow or link only where there are several."""
    name = metric.partition(".")[2].rpartition(".")[0]
    names = {one.partition(".")[2].rpartition(".")[0] for one in among}
    label = metric_label(metric).replace(" ", "\n")
    of = f"{name}:\n" if len(names) > 1 else ""
    return f"{of}{label}" + (f"\n({unit.name})" if unit.name else "")


def show_theory(results: Results, comparisons: list[Comparison]) -> Iterator[Table | Text]:
    """Simulated values beside theoretical ones, then what each formula needs."""
    words = point_words(results.points)
    table = Table(
        caption="simulated: mean ± half-width of its 95 % interval. inside: theory is in that "
        "interval, or the bound is kept; near: off by no more than the formula's known error. "
        "In brackets: a hypothesis is broken",
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
        percent = "–" if one.percent is None else f"{one.percent:+.3g}"
        sign = "≤ " if one.prediction.is_bound else ""
        table.add_row(
            *([str(one.point)] if words else []),
            one.prediction.metric,
            one.prediction.rule,
            interval_text(one.simulated.mean, number(one.simulated.ci95)),
            sign + number_text(one.prediction.value),
            f"{one.difference:+.3g}",
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
    """The hypotheses of each formula, with the points at which they stand so."""
    points: dict[tuple[str, str, str, str, str], list[int]] = {}
    for one in comparisons:
        for need in one.prediction.hypotheses:
            key = one.prediction.rule, one.prediction.metric, need.text, need.status, need.detail
            points.setdefault(key, []).append(one.point)
    table = Table(title="What the formulas need", title_justify="left")
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


PUBLISHED = "published (–: not available to us; *: differs by more than chance, at 95 %)"
"""What the second number of a table's cell is."""


def show_report(report: Report) -> Iterator[Table | Text]:
    """Each table in the paper's form, each figure's numbers, then the claims."""
    for artefact in report.artefacts:
        cells = {
            (cell.row, cell.column, cell.unit): cell
            for cell in report.cells
            if cell.artefact == artefact.name
        }
        yield _artefact(artefact, cells)
    decided = [one for one in report.verdicts if one.judgements]
    own = [one for one in decided if not one.claim.addition]
    if own:
        yield _claims(f"Claims: {tally_words(own)}", own, report)
    added = [one for one in decided if one.claim.addition]
    if added:
        yield _claims("Added to the paper's claims, and not counted among them", added, report)
    by_id = {one.claim.id: one for one in decided}
    for highlight in report.study.highlights:
        if all(name in by_id for name in highlight.claims):
            verdicts = [by_id[name] for name in highlight.claims]
            yield _highlight(highlight.title, verdicts, report.study.grid.default)
    waiting = [one.claim.id for one in report.verdicts if not one.judgements]
    if waiting:
        yield Text(f"Claims that need tables or figures not asked for: {', '.join(waiting)}.")


def _artefact(artefact: Artefact, cells: dict[tuple[str, str, str], ReportCell]) -> Table:
    baseline, *others = artefact.columns
    main = artefact.quantity.unit
    is_table = artefact.kind == "table"
    caption = ", ".join(filter(None, (main, "mean ± half-width of the 95 % interval")))
    if artefact.spread:
        caption += " (standard deviation over replications)"
    table = Table(
        title=artefact.title,
        title_justify="left",
        caption=f"ours ± half-width of the 95 % interval | {PUBLISHED}" if is_table else caption,
        caption_justify="left",
    )
    table.add_column(artefact.axis.heading or artefact.axis.label, justify="right")
    table.add_column(_with_unit(baseline, main), justify="right")
    for column in others:
        unit = "improvement, %" if is_table else main
        table.add_column(_with_unit(column, unit), justify="right")
    for value in artefact.rows:
        row = f"{value:g}"
        own = [cells[row, baseline, main]]
        own += [cells[row, column, "%" if is_table else main] for column in others]
        table.add_row(row, *(cell_text(cell, artefact) for cell in own))
    return table


def _with_unit(heading: str, unit: str) -> str:
    return f"{heading} ({unit})" if unit else heading


def cell_text(cell: ReportCell, artefact: Artefact) -> str:
    """A number with its interval, and what the artefact has besides."""
    is_improvement = artefact.kind == "table" and cell.unit == "%"
    digits = 1 if is_improvement else artefact.quantity.digits

    def text(value: float | None) -> str:
        return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"

    if cell.n == 0 and not math.isnan(cell.value):
        return text(cell.value)  # theory
    ours = text(cell.value) if cell.n == 1 else f"{text(cell.value)} ± {text(cell.ci95)}"
    if artefact.spread:
        ours += f" ({text(cell.sd)})"
    mark = " *" if cell.misses else ""
    return f"{ours} | {text(cell.published)}{mark}" if artefact.kind == "table" else ours


def tally_words(verdicts: Iterable[Verdict]) -> str:
    """How many claims came out how; the additions to a paper's claims are left out."""
    from lasthop.studies.verdicts import tally

    return ", ".join(f"{count} {word}" for word, count in tally(verdicts).items())


def _claims(title: str, verdicts: Sequence[Verdict], report: Report) -> Table:
    table = Table(title=title, title_justify="left", show_lines=True)
    table.add_column("id")
    for count in report.earlier:
        table.add_column(f"verdict at {count}")
    table.add_column("verdict")
    table.add_column("claim", overflow="fold", ratio=2)
    table.add_column("evidence", overflow="fold", ratio=3)
    printed = report.printed()
    for one in verdicts:
        claim = one.claim
        verdict = Text(one.words, style=VERDICTS[one.verdict])
        text = "\n".join((claim.text, *claim.remarks))
        evidence = [one.evidence]
        if printed and printed[claim.id].judgements:
            evidence.append(f"On the paper's own numbers: {printed[claim.id].words}.")
        earlier = report.earlier_words(claim.id).values()
        table.add_row(claim.id, *earlier, verdict, Text(text), Text("\n".join(evidence)))
    return table


def _highlight(title: str, verdicts: list[Verdict], usual: Mapping[str, object]) -> Table:
    from lasthop.studies.verdicts import show

    table = Table(title=title, title_justify="left", show_lines=True)
    table.add_column("id")
    table.add_column("verdict")
    table.add_column("claim", overflow="fold", ratio=2)
    table.add_column("every comparison", overflow="fold", ratio=3)
    for one in verdicts:
        lines = [f"{OUTCOMES[j.holds]}: {show(j, usual)}" for j in one.judgements]
        verdict = Text(one.words, style=VERDICTS[one.verdict])
        table.add_row(one.claim.id, verdict, Text(one.claim.text), Text("\n".join(lines)))
    return table


def show_sensitivity(report: SensitivityReport) -> Iterator[Table | Text]:
    """One table for each thing varied: claims against values; then a line for each claim."""
    for one in report.study.sensitivities:
        table = Table(title=f"Sensitivity: {one.name}", title_justify="left", caption=one.about)
        table.caption_justify = "left"
        table.add_column("claim")
        table.add_column("as chosen")
        for name, _ in one.values:
            table.add_column(name)
        for claim in one.claims:
            texts = [report.word(claim)]
            texts += [report.word(claim, one.name, value) for value, _ in one.values]
            table.add_row(claim, *(Text(word, style=WORDS.get(word, "")) for word in texts))
        yield table
    table = Table(title="Sensitivity: every claim over all variants", title_justify="left")
    for heading in ("claim", "as chosen", *WORDS, "otherwise than as chosen at"):
        table.add_column(heading, overflow="fold")
    for claim, row in report.summary().items():
        others = "; ".join(f"{name}: {word}" for name, word in row.others.items())
        word = Text(row.chosen, style=WORDS[row.chosen])
        table.add_row(claim, word, *(str(row.counts[w]) for w in WORDS), Text(others))
    yield table


def show_steady(found: pl.DataFrame) -> Table:
    """What `lasthop.steady_state` found, a row each."""
    table = Table(
        caption="mean over one replication ± half-width of its 95 % interval by 20 batch means; "
        "–: run longer",
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
            number_text(float(f"{row['warm_up_s']:.3g}")),
            number_text(float(f"{row['batch_s']:.3g}")),
            "independent" if row["independent"] else "too short",
        )
    return table


def show_plan(plan: Plan) -> Table:
    """What `--dry-run` says."""
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
        table.add_row("", f"{_time(plan.cost_s)} of processor time, from {plan.source}")
    return table


def _time(seconds: float) -> str:
    """A duration for people."""
    for size, unit in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s" if seconds < 1.0 else f"{seconds:.0f} s"


def show_list(title: str, rows: list[tuple[str, str]]) -> Table:
    """One category of `lasthop list`."""
    table = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, about in rows:
        table.add_row(f"  {name}", Text(about))
    return table
