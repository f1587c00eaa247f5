"""Reports as Markdown, for generated documentation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from lasthop.showing import study_tables
from lasthop.studies import Report, ReportCell
from lasthop.studies.artefacts import Artefact
from lasthop.studies.claims import Claim
from lasthop.studies.paired import PairedCell
from lasthop.studies.readings import REPLICATIONS, ReadingsReport
from lasthop.studies.record import original_tally
from lasthop.studies.sensitivity import REPLICATIONS as SENSITIVITY_REPLICATIONS
from lasthop.studies.sensitivity import SensitivityReport
from lasthop.studies.verdicts import Verdict, show

__all__ = ["differences", "every_report", "readings", "report", "sensitivity"]


def report(report: Report) -> str:
    """Returns tables, data of figures and claims as Markdown."""
    study = report.study
    results = report.results
    count = max((cell.n for cell in report.cells), default=0)
    options = ""
    usual = {study.replications_of(study.grid.cell(one.parameters)) for one in results.points}
    if max(usual, default=count) != count or min(usual, default=count) != (
        _fewest(report) or count
    ):
        options = f" --replications {count}"
    options += "".join(f" --set '{key}={text}'" for key, text in study.changes.items())
    options += "".join(f" --judge-at {first}" for first in report.earlier)
    parts = [
        f"<!-- Written by `lasthop reproduce {study.key}{options} --format markdown`. -->",
        f"{_replications(report, count)}, seed {results.seed}.",
    ]
    decided = [one for one in report.verdicts if one.judgements]
    by_id = {one.claim.id: one for one in decided}
    for highlight in study.highlights:
        if all(name in by_id for name in highlight.claims):
            chosen = [by_id[name] for name in highlight.claims]
            parts += [f"## {highlight.title}", _comparisons(chosen, report)]
    if decided:
        parts += _claims(report, decided)
    if any(cell.published is not None for cell in report.cells):
        parts += ["## All printed numbers", _printed(report)]
    if decided:
        parts += _record(report)
    for artefact in report.artefacts:
        own = [cell for cell in report.cells if cell.artefact == artefact.name]
        parts += [f"## {artefact.title}", _numbers(artefact, own)]
    return "\n\n".join(parts)


def _fewest(report: Report) -> int:
    """Returns the minimum number of replications of points that have any."""
    rows = np.bincount(report.results.point)
    return int(rows[rows > 0].min()) if rows.any() else 0


def _replications(report: Report, count: int) -> str:
    """Returns the number of replications per cell as text; cells may differ."""
    fewest = _fewest(report)
    if fewest in (0, count):
        return f"{count} replications per cell"
    return f"{fewest} to {count} replications per cell"


def every_report(reports: Sequence[Report]) -> str:
    """Returns the reports of several studies as one, with a table of contents."""
    contents, parts = [], []
    for one in reports:
        name = one.study.key
        decided = [verdict for verdict in one.verdicts if verdict.judgements]
        contents.append(f"- [{one.study.title}](#{name}): {study_tables.tally_words(decided)}")
        contents += [
            f"    - [{artefact.title}](#{name}-{artefact.file_name})" for artefact in one.artefacts
        ]
        text = report(one).replace("\n## ", "\n### ")
        for artefact in one.artefacts:
            heading = f"\n### {artefact.title}\n"
            text = text.replace(heading, f'\n<a id="{name}-{artefact.file_name}"></a>\n{heading}')
        parts.append(f'<a id="{name}"></a>\n\n## {one.study.title}\n\n{text}')
    return "\n\n".join(["# Reproduced studies", "\n".join(contents), *parts])


def differences(cells: Sequence[PairedCell]) -> str:
    """Returns paired differences of a study's columns from one of them, as Markdown."""
    headings = ("of", "at", "column", "difference", "unit", "ratio", "p (Holm)", "n")
    rows = [study_tables.paired_texts(cell) for cell in cells]
    title = f"## Difference from {cells[0].baseline}"
    return f"{title}\n\n{_table(headings, rows)}"


def _claims(report: Report, decided: Sequence[Verdict]) -> list[str]:
    """Returns the paper's claims with verdicts, then the added ones."""
    own = [one for one in decided if not one.claim.addition]
    parts = [f"## Claims: {study_tables.tally_words(own)}", _verdicts(report, own)]
    if report.earlier:
        at = " and ".join(
            f"{study_tables.tally_words(verdicts)} on the first {count} replications"
            for count, verdicts in report.earlier.items()
        )
        parts.insert(1, f"Against {at}.")
    if any(one.claim.reworded is not None for one in own):
        words = ", ".join(f"{count} {word}" for word, count in original_tally(own).items())
        parts.append(f"Under the original wordings of those that were reworded: {words}.")
    added = [one for one in decided if one.claim.addition]
    if added:
        parts += [
            "## Additional claims, not counted among the paper's",
            _verdicts(report, added),
        ]
    return parts


def _printed(report: Report) -> str:
    """All numbers of the paper, compared with ours."""
    digits = {one.name: one.quantity.digits for one in report.artefacts}
    gains = {one.name for one in report.artefacts if one.has_gains}
    tables = {one.name for one in report.artefacts if one.kind == "table"}
    rows = []
    for cell in report.cells:
        if cell.published is None or cell.artefact not in tables:
            continue
        places = 1 if cell.unit == "%" and cell.artefact in gains else digits[cell.artefact]

        def text(value: float, places: int = places) -> str:
            return f"{value:.{places}f}"

        ends = cell.interval
        printed = "not printed" if ends is None else f"{text(ends[0])} to {text(ends[1])}"
        low, high = cell.value - cell.ci95, cell.value + cell.ci95
        ours = "none" if math.isnan(cell.ci95) else f"{text(low)} to {text(high)}"
        # Percentages differ by points, and of 0 there is no percentage.
        if cell.unit == "%" or math.isnan(cell.error):
            error = f"{cell.value - cell.published:+.{places}f}"
        else:
            error = f"{cell.error:+.1f} %"
        values = (text(cell.published), printed, text(cell.value), ours, error)
        rows.append((cell.artefact, cell.row, cell.column, cell.unit or "1", *values))
    headings = ("table", "row", "column", "unit", "published", "its interval", "ours")
    return _table((*headings, "our interval (95 %)", "error"), rows)


def _record(report: Report) -> list[str]:
    """Untested sentences of the paper, and numbers that were known when choices were made."""
    study, parts = report.study, []
    if study.untested:
        rows = [(one.where, one.text, one.reason) for one in study.untested]
        parts += ["## Sentences that are not tested", _table(("where", "sentence", "reason"), rows)]
    if study.provenance:
        known = [(one.choice, one.known) for one in study.provenance]
        parts += ["## Provenance", _table(("choice", "known when it was made"), known)]
    return parts


def _verdicts(report: Report, verdicts: Sequence[Verdict]) -> str:
    printed = report.printed()
    headings = ["id", "verdict", "claim", "evidence"]
    if report.earlier:
        total = max((cell.n for cell in report.cells), default=0)
        headings[1:2] = [*(f"verdict at {count}" for count in report.earlier), f"at {total}"]
    if printed:
        headings.append("on the paper's own numbers")
    rows = []
    for one in verdicts:
        claim = one.claim
        row = [claim.id, one.words, _with_remarks(claim), one.evidence]
        row[1:1] = report.earlier_words(claim.id).values()
        if printed:
            row.append(printed[claim.id].words)
        rows.append(row)
    return _table(headings, rows)


def _with_remarks(claim: Claim) -> str:
    return "<br>".join((claim.text, *(f"*{remark}*" for remark in claim.remarks)))


def sensitivity(report: SensitivityReport) -> str:
    """Returns a table of claims and variants, and a line per claim, as Markdown."""
    summary = report.summary()
    words = ("holds", "in part", "fails", "open")
    rows = [
        (
            claim,
            row.chosen,
            *(str(row.counts[word]) for word in words),
            "; ".join(f"{name}: {word}" for name, word in row.others.items()),
        )
        for claim, row in summary.items()
    ]
    options = "--sensitivity"
    if report.replications != SENSITIVITY_REPLICATIONS:
        options += f" --replications {report.replications}"
    headings = ("claim", "as chosen", *words, "variants with another verdict")
    parts = [
        f"<!-- Written by `lasthop reproduce {report.study.key} {options} --format markdown`. -->",
        f"{report.replications} replications per cell.",
        "## Every claim over all variants",
        _table(headings, rows),
    ]
    for one in report.study.sensitivities:
        values = [value for value, _ in one.values]
        rows = [
            (claim, report.word(claim), *(report.word(claim, one.name, value) for value in values))
            for claim in one.claims
        ]
        parts += [f"## {one.name}", one.about, _table(("claim", "as chosen", *values), rows)]
    return "\n\n".join(parts)


def readings(report: ReadingsReport) -> str:
    """Readings against the orders that the paper draws, as Markdown."""
    names = [order.name for order in report.orders]
    rows = [
        (name, *(report.text(name, order) for order in names), f"{report.count(name)}")
        for name in report.ratios
    ]
    alone, pairs = report.most(pairs=False), report.most(pairs=True)
    verdict = (
        "No reading reproduces all orders"
        if max(alone, pairs) < len(names)
        else "Readings that reproduce all orders exist"
    )
    best = f"alone at most {alone} of {len(names)} hold"
    if report.pairs:
        best += f", in pairs of the best readings (marked +) at most {pairs}"
    options = (
        "" if report.replications == REPLICATIONS else f" --replications {report.replications}"
    )
    command = f"lasthop reproduce {report.study.key} --readings{options}"
    return "\n\n".join(
        [
            f"<!-- Written by `{command} --format markdown`. -->",
            f"{report.replications} replications per cell; ratios of means over all cells of an "
            f"order, smallest to largest. {verdict}: {best}.",
            _table(("reading", *names, "orders that hold"), rows),
        ]
    )


def _comparisons(verdicts: Sequence[Verdict], report: Report) -> str:
    rows = [
        (
            one.claim.id,
            one.claim.text,
            study_tables.OUTCOMES[j.holds],
            show(j, report.study.grid.default),
        )
        for one in verdicts
        for j in one.judgements
    ]
    return _table(("id", "claim", "outcome", "comparison"), rows)


def _numbers(artefact: Artefact, cells: Sequence[ReportCell]) -> str:
    def column(name: str) -> Iterable[ReportCell]:
        own = [cell for cell in cells if cell.column == name]
        improved = [cell for cell in own if artefact.has_gains and cell.unit == "%"]
        return improved or own

    columns = [list(column(name)) for name in artefact.columns]
    is_compared = study_tables.has_published(artefact, cells)
    rows = [
        (
            f"{value:g}",
            *(study_tables.cell_text(one[row], artefact, is_compared) for one in columns),
        )
        for row, value in enumerate(artefact.rows)
    ]
    unit = artefact.quantity.unit
    note = ", ".join(filter(None, (unit, "mean ± half-width of the 95 % interval")))
    if artefact.spread:
        note += " (standard deviation)"
    if is_compared:
        note += f" | {study_tables.PUBLISHED}"
    if artefact.has_gains:
        note += "; improvements in %"
    return f"{note}\n\n" + _table(
        (artefact.axis.heading or artefact.axis.label, *artefact.columns), rows
    )


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )
