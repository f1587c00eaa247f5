"""Tables of a study on the command line: tables, figures, claims, sensitivity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from lasthop.showing.labels import Unit, measured

if TYPE_CHECKING:
    from lasthop.studies import Report, ReportCell
    from lasthop.studies.artefacts import Artefact
    from lasthop.studies.paired import PairedCell
    from lasthop.studies.readings import ReadingsReport
    from lasthop.studies.sensitivity import SensitivityReport
    from lasthop.studies.verdicts import Verdict

VERDICTS = {
    "reproduced": "green",
    "in part": "cyan",
    "contradicted": "red",
    "undecided": "yellow",
}
WORDS = {"holds": "green", "in part": "cyan", "fails": "red", "open": "yellow"}
OUTCOMES = {True: "holds", False: "fails", None: "open"}


PUBLISHED = "published (–: not printed; *: significantly different, at 95 %)"
"""Description of the second number in a cell."""


def show_report(report: Report) -> Iterator[Table | Text]:
    """Yields each table in the paper's form, the data of each figure, then the claims."""
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
        yield _claims("Additional claims, not counted among the paper's", added, report)
    by_id = {one.claim.id: one for one in decided}
    for highlight in report.study.highlights:
        if all(name in by_id for name in highlight.claims):
            verdicts = [by_id[name] for name in highlight.claims]
            yield _highlight(highlight.title, verdicts, report.study.grid.default)
    waiting = [one.claim.id for one in report.verdicts if not one.judgements]
    if waiting:
        yield Text(f"Claims that require other tables or figures: {', '.join(waiting)}.")


def _artefact(artefact: Artefact, cells: dict[tuple[str, str, str], ReportCell]) -> Table:
    baseline, *others = artefact.columns
    main = artefact.quantity.unit
    is_compared = has_published(artefact, cells.values())
    caption = ", ".join(filter(None, (main, "mean ± half-width of the 95 % interval")))
    if artefact.spread:
        caption += " (standard deviation over replications)"
    if is_compared:
        caption = f"ours ± half-width of the 95 % interval | {PUBLISHED}"
    table = Table(
        title=artefact.title,
        title_justify="left",
        caption=caption,
        caption_justify="left",
    )
    table.add_column(artefact.axis.heading or artefact.axis.label, justify="right")
    table.add_column(_with_unit(baseline, main), justify="right")
    for column in others:
        unit = "improvement, %" if artefact.has_gains else main
        table.add_column(_with_unit(column, unit), justify="right")
    for value in artefact.rows:
        row = f"{value:g}"
        own = [cells[row, baseline, main]]
        own += [cells[row, column, "%" if artefact.has_gains else main] for column in others]
        table.add_row(row, *(cell_text(cell, artefact, is_compared) for cell in own))
    return table


def has_published(artefact: Artefact, cells: Iterable[ReportCell]) -> bool:
    """Returns `True` for a table of which the paper prints numbers."""
    return artefact.kind == "table" and any(cell.published is not None for cell in cells)


def _with_unit(heading: str, unit: str) -> str:
    return f"{heading} ({unit})" if unit else heading


def cell_text(cell: ReportCell, artefact: Artefact, is_compared: bool) -> str:
    """Returns a number with its interval and, if any, deviation; if compared, the published one."""
    is_improvement = artefact.has_gains and cell.unit == "%"
    digits = 1 if is_improvement else artefact.quantity.digits

    def text(value: float | None) -> str:
        return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"

    if cell.n == 0 and not math.isnan(cell.value):
        return text(cell.value)  # theory
    ours = text(cell.value) if cell.n == 1 else f"{text(cell.value)} ± {text(cell.ci95)}"
    if artefact.spread:
        ours += f" ({text(cell.sd)})"
    mark = " *" if cell.misses else ""
    return f"{ours} | {text(cell.published)}{mark}" if is_compared else ours


def tally_words(verdicts: Iterable[Verdict]) -> str:
    """Returns the number of claims per outcome, excluding claims added to the paper's."""
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
    """Yields one table of claims and values per varied choice, then a line per claim."""
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
    for heading in ("claim", "as chosen", *WORDS, "variants with another verdict"):
        table.add_column(heading, overflow="fold")
    for claim, row in report.summary().items():
        others = "; ".join(f"{name}: {word}" for name, word in row.others.items())
        word = Text(row.chosen, style=WORDS[row.chosen])
        table.add_row(claim, word, *(str(row.counts[w]) for w in WORDS), Text(others))
    yield table


def show_readings(report: ReadingsReport) -> Table:
    """Returns a table of interpretations of the paper and published orderings."""
    table = Table(title=f"Readings of {report.study.key}", title_justify="left", show_lines=True)
    table.caption = f"{report.replications} replications; ratios of means, smallest to largest"
    table.add_column("reading", overflow="fold")
    for order in report.orders:
        table.add_column(order.name, overflow="fold")
    for name in report.ratios:
        texts = [report.text(name, order.name) for order in report.orders]
        table.add_row(name, *texts)
    return table


def show_paired(cells: Sequence[PairedCell]) -> Table:
    """Returns paired differences of a study's columns from one of them, one row per cell."""
    table = Table(
        title=f"Difference from {cells[0].baseline}",
        title_justify="left",
        caption="paired by replication; mean ± half-width of the 95 % confidence interval "
        "(Student's t); p by Holm over each table or figure",
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
    """Returns a row of the table of differences."""
    p = "–" if math.isnan(cell.p_holm) else f"{cell.p_holm:.2g}"
    ratio = "–" if math.isnan(cell.ratio) else f"{cell.ratio:.3g}"
    width = None if math.isnan(cell.ci95) else cell.ci95
    difference = measured(cell.difference, width, Unit(cell.unit, 1.0))
    return [cell.artefact, cell.row, cell.column, difference, cell.unit, ratio, p, str(cell.n)]
