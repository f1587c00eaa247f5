"""What the command line shows: tables for people, progress on a terminal."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from lasthop.claims import Verdict
from lasthop.results import Results
from lasthop.studies import Artefact, Report, ReportCell

__all__ = ["console", "progress", "show_list", "show_report", "show_results"]

HEADLINES = (
    "flow.*.goodput_bps",
    "flow.*.duration_s",
    "flow.*.residual_loss",
    "flow.*.delay_mean_plus_2sd_s",
    "flow.*.deadline_miss",
    "flow.*.timeouts",
)
VERDICTS = {"reproduced": "green", "contradicted": "red", "undecided": "yellow"}


def console() -> Console:
    """Standard output; in a pipe wide enough that no cell is cut."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(file=sys.stdout, width=200, highlight=False, color_system=None)


@contextlib.contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error with the time left; None where that is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = Progress(
        TextColumn("{task.description}"),
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


def _number(value: float) -> str:
    if math.isnan(value):
        return "–"
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value)}"
    magnitude = abs(value)
    return f"{value:.0f}" if magnitude >= 10_000 else f"{value:.5g}"


def _interval(mean: float, ci95: float | None) -> str:
    return f"{_number(mean)} ± {'–' if ci95 is None else f'{ci95:.3g}'}"


def show_results(results: Results, patterns: tuple[str, ...]) -> Table:
    """The summary: a row for each metric of a single point, otherwise one for each point.

    Args:
        results: What to show.
        patterns: Metrics to show, with `*` and `?`; those of note if empty.
    """
    single = len(results.points) == 1
    chosen = patterns or (("*",) if single else HEADLINES)
    cells: dict[tuple[int, str], tuple[str, int]] = {}
    for row in results.summary().iter_rows(named=True):
        cells[row["point"], row["metric"]] = (_interval(row["mean"], row["ci95"]), row["n"])
    metrics = [
        metric
        for metric in results.metrics
        if any(fnmatchcase(metric, pattern) for pattern in chosen)
        and any(key[1] == metric for key in cells)
    ]
    table = Table(caption="mean ± half-width of its 95 % interval", caption_justify="left")
    if single:
        for heading in ("metric", "mean", "n"):
            table.add_column(heading, justify="left" if heading == "metric" else "right")
        for metric in metrics:
            text, n = cells[0, metric]
            table.add_row(metric, text, str(n))
        return table
    keys = list(dict.fromkeys(key for point in results.points for key in point.parameters))
    for key in keys:
        table.add_column(key, overflow="fold")
    for metric in metrics:
        table.add_column(metric, justify="right", overflow="fold")
    table.add_column("n", justify="right")
    for index, point in enumerate(results.points):
        own = [cells.get((index, metric), ("–", 0)) for metric in metrics]
        table.add_row(
            *(str(point.parameters.get(key, "–")) for key in keys),
            *(text for text, _ in own),
            str(max((n for _, n in own), default=0)),
        )
    return table


def show_report(report: Report) -> Iterator[Table | Text]:
    """Each table in the paper's form, each figure's numbers, then the claims."""
    for artefact in report.artefacts:
        cells = {
            (cell.row, cell.column, cell.unit): cell
            for cell in report.cells
            if cell.artefact == artefact.name
        }
        yield _artefact(artefact, report.study.combinations, cells)
    decided = [one for one in report.verdicts if one.judgements]
    if decided:
        yield _claims(decided)
    waiting = [one.claim.id for one in report.verdicts if not one.judgements]
    if waiting:
        yield Text(f"Claims that need tables or figures not asked for: {', '.join(waiting)}.")


def _artefact(
    artefact: Artefact, columns: tuple[str, ...], cells: dict[tuple[str, str, str], ReportCell]
) -> Table:
    baseline, *others = columns
    is_table = artefact.kind == "table"
    table = Table(
        title=f"{artefact.name}. {artefact.caption}",
        title_justify="left",
        caption="ours ± half-width of the 95 % interval | published (– where our copy has none)"
        if is_table
        else "kbps, mean ± half-width of the 95 % interval",
        caption_justify="left",
    )
    table.add_column("FLR (%)", justify="right")
    table.add_column(f"{baseline} (kbps)", justify="right")
    for column in others:
        unit = "improvement, %" if is_table else "kbps"
        table.add_column(f"{column} ({unit})", justify="right")
    for flr in artefact.losses:
        row = f"{flr:g}"
        texts = [_cell(cells[row, baseline, "kbps"], with_published=is_table)]
        for column in others:
            cell = cells[row, column, "%" if is_table else "kbps"]
            texts.append(_cell(cell, with_published=is_table))
        table.add_row(row, *texts)
    return table


def _cell(cell: ReportCell, *, with_published: bool) -> str:
    digits = 1 if cell.unit == "%" else 2

    def text(value: float | None) -> str:
        return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"

    ours = f"{text(cell.value)} ± {text(cell.ci95)}"
    return f"{ours} | {text(cell.published)}" if with_published else ours


def _claims(verdicts: list[Verdict]) -> Table:
    counts = {word: sum(one.verdict == word for one in verdicts) for word in VERDICTS}
    table = Table(
        title="Claims: " + ", ".join(f"{count} {word}" for word, count in counts.items()),
        title_justify="left",
        show_lines=True,
    )
    table.add_column("id")
    table.add_column("verdict")
    table.add_column("claim", overflow="fold", ratio=2)
    table.add_column("evidence", overflow="fold", ratio=3)
    for one in verdicts:
        verdict = Text(one.verdict, style=VERDICTS[one.verdict])
        table.add_row(one.claim.id, verdict, Text(one.claim.text), Text(one.evidence))
    return table


def show_list(title: str, rows: list[tuple[str, str]]) -> Table:
    """One category of `lasthop list`."""
    table = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, about in rows:
        table.add_row(f"  {name}", Text(about))
    return table
