"""Evaluations of senders as Markdown, HTML pages and small multiples."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lasthop.evaluating.metric import metric_label
from lasthop.evaluating.suite import Criterion, Family
from lasthop.evaluating.verdicts import Cell, Evaluation
from lasthop.showing.labels import Unit, measured, scaled, value_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["figure", "markdown", "pages"]

INTERVALS = (
    "Mean ± half-width of the 95 % confidence interval over replications (Student's t). Ratios are "
    "paired: sender and baseline have the same random numbers."
)
WORST = (
    "The comparison shows the worst point of each criterion: its ratio to the first baseline, or "
    "its value if the bound refers to the value or the baseline is 0. Without bound, it is the "
    "point whose ratio is furthest from 1."
)
VERDICTS = (
    "fail: the ratio misses the bound, by a one-sided paired t-test at 5 % with Holm's correction "
    "over all cells of the sender; pass: it keeps the bound by the same test without correction; "
    "open: neither; number: no bound."
)


def _counts(cells: Sequence[Cell]) -> str:
    """Returns the number of cells by verdict: `7 pass, 1 fail`."""
    found = Counter(one.verdict for one in cells)
    return ", ".join(f"{found[one]} {one}" for one in ("fail", "open", "pass") if found[one])


def _unit(cells: Sequence[Cell]) -> Unit:
    return scaled(cells[0].criterion.unit, [one.value.mean for one in cells])


def _text(one: Any, unit: Unit) -> str:
    return measured(one.mean, None if math.isnan(one.ci95) else one.ci95, unit)


def _ratio(one: Cell) -> str:
    if not math.isfinite(one.ratio):
        return "–"
    return measured(
        one.ratio, one.ratio_ci95 if math.isfinite(one.ratio_ci95) else None, Unit("", 1.0)
    )


def _is_ratio(one: Cell) -> bool:
    """Returns `True` if the ratio to the baseline decides, and is known."""
    return math.isfinite(one.ratio) and not one.criterion.absolute


def _value(one: Cell) -> str:
    """Returns the value with its unit, and the baseline if no ratio to it is known."""
    unit = _unit([one])
    text = f"{_text(one.value, unit)} {unit.name}".rstrip()
    if one.criterion.absolute or math.isfinite(one.ratio):
        return text
    return f"{text} ({one.baseline}: {one.reference.mean:g})"


def _worst(criterion: Criterion, cells: Sequence[Cell]) -> Cell | None:
    """Returns the cell with the worst ratio; without bound, the one that differs most from 1.

    Values decide if the bound refers to them or no ratio is known. With an upper bound, the worst
    cells are those whose baseline is 0 and whose value is not.
    """
    over = [one for one in cells if one.reference.mean == 0.0 < one.value.mean]
    known = [one for one in cells if math.isfinite(one.ratio) and one.ratio > 0.0]
    if criterion.absolute or (criterion.at_most is not None and over) or not known:
        worst = min if criterion.at_most is None else max
        return worst(cells, key=lambda one: one.value.mean, default=None)
    if criterion.at_least is not None:
        return min(known, key=lambda one: one.ratio)
    if criterion.at_most is not None:
        return max(known, key=lambda one: one.ratio)
    return max(known, key=lambda one: abs(math.log(one.ratio)))


def _matrix(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Returns the table of criteria and senders."""
    senders = evaluation.prepared.senders
    headings = ["criterion", "family", "bound", *(one.name for one in senders)]
    rows = []
    for criterion in evaluation.prepared.suite.criteria:
        family = evaluation.prepared.suite.families[criterion.family]
        row = [criterion.id, family.title, criterion.bound]
        for one in senders:
            cells = evaluation.of(one.name, criterion)
            worst = _worst(criterion, cells)
            parts = [evaluation.verdict(one.name, criterion)]
            if worst is not None:
                parts.append(f"{worst.ratio:.3g} ×" if _is_ratio(worst) else _value(worst))
            row.append(", ".join(parts))
        rows.append(row)
    return headings, rows


def _cells(evaluation: Evaluation, sender: str, criterion: Criterion) -> list[list[str]]:
    """Returns the rows of a criterion: one per point, with all baselines."""
    baselines = [one.name for one in evaluation.prepared.baselines]
    first = evaluation.of(sender, criterion)
    found = {
        (name, one.place): one
        for name in baselines
        for one in evaluation.of(sender, criterion, name)
    }
    rows = []
    unit = _unit(first)
    for one in first:
        row = [one.name, _text(one.value, unit)]
        for name in baselines:
            own = found.get((name, one.place))
            row += ["–", "–"] if own is None else [_text(own.reference, unit), _ratio(own)]
        rows.append([*row, one.verdict])
    return rows


def _headings(evaluation: Evaluation, sender: str, unit: Unit) -> list[str]:
    head = ["point", f"{sender} ({unit.name})" if unit.name else sender]
    for one in evaluation.prepared.baselines:
        head += [one.name, f"ratio to {one.name}"]
    return [*head, "verdict"]


def _tables(
    evaluation: Evaluation, sender: str
) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Yields title, headings and rows of the criteria of a sender."""
    for criterion in evaluation.prepared.suite.criteria:
        cells = evaluation.of(sender, criterion)
        if cells:
            unit = _unit(cells)
            title = f"{criterion.id}: {criterion.question}"
            yield title, _headings(evaluation, sender, unit), _cells(evaluation, sender, criterion)


def markdown(evaluation: Evaluation) -> str:
    """Returns the comparison and all numbers in Markdown."""
    suite = evaluation.prepared.suite
    parts = [f"# {suite.title}\n\n{suite.about}\n\n{INTERVALS} {VERDICTS} {WORST}\n"]
    parts.append(_grid(*_matrix(evaluation)))
    for one in evaluation.prepared.senders:
        parts.append(f"## {one.name}\n")
        for title, headings, rows in _tables(evaluation, one.name):
            parts.append(f"### {title}\n\n{_grid(headings, rows)}")
    for (family, name), reason in evaluation.prepared.refused.items():
        parts.append(f"{name} was not run in {family}: {reason}\n")
    parts.append("Not tested:\n\n" + "\n".join(f"- {one}" for one in suite.not_tested) + "\n")
    return "\n".join(parts)


def _grid(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |\n" for row in lines)


def figure(evaluation: Evaluation, family: Family, tested: str | None = None) -> Figure | None:
    """Returns one panel per criterion of a family: senders and baselines over the points.

    Args:
        evaluation: The evaluation.
        family: The family.
        tested: The sender; None: all senders.
    """
    from lasthop.showing.figures import style

    every_criterion = evaluation.prepared.suite.criteria
    criteria = [one for one in every_criterion if one.family == family.key and not one.observed]
    names = [one.name for one in evaluation.prepared.senders if tested in (None, one.name)]
    panels: list[tuple[Criterion, dict[str, list[Cell]]]] = []
    for one in criteria:
        own = {name: cells for name in names if (cells := evaluation.of(name, one))}
        panels += [(one, own)] if own else []
    if not panels:
        return None
    places = evaluation.prepared.names[family.key]
    height = 1.7 * len(panels) + 0.07 * max(map(len, places)) + 0.4
    with style.sheet():
        drawn, axes = style.new_figure("full", len(panels), height=height)
        baselines = [one.name for one in evaluation.prepared.baselines]
        everyone = list(dict.fromkeys([*names, *baselines]))
        looks = dict(zip(everyone, style.looks(map(value_name, everyone)), strict=True))
        for axis, (criterion, found) in zip(axes, panels, strict=True):
            series = {name: [(one.place, one.value) for one in own] for name, own in found.items()}
            first = next(iter(found))
            for name in baselines:
                cells = evaluation.of(first, criterion, name)
                series.setdefault(name, [(one.place, one.reference) for one in cells])
            every = [one.mean for means in series.values() for _, one in means]
            quantity = criterion.quantity
            unit = scaled(criterion.unit, every)
            for at, (name, means) in enumerate(series.items()):
                color, marker = looks[name][0], looks[name][1]
                shift = 0.18 * (at - (len(series) - 1) / 2.0)
                axis.errorbar(
                    [place + shift for place, _ in means],
                    [one.mean / unit.per for _, one in means],
                    [0.0 if math.isnan(one.ci95) else one.ci95 / unit.per for _, one in means],
                    color=color,
                    marker=marker,
                    linestyle="none",
                    label=value_name(name),
                )
            label = "Jain's index" if quantity == "fairness" else metric_label(quantity)
            axis.set_ylabel(style.folded(unit.label(label), 1.5))
            axis.set_title(criterion.id, loc="left", fontsize=8)
            tops = [
                one.mean + (0.0 if math.isnan(one.ci95) else one.ci95)
                for means in series.values()
                for _, one in means
            ]
            axis.set_ylim(0.0, 1.08 * max(tops) / unit.per or 1.0)
            axis.set_xlim(-0.6, len(places) - 0.4)
        axes[-1].set_xticks(range(len(places)), places, rotation=60, ha="right", fontsize=6.5)
        style.legend(drawn, axes[0])
    return drawn


def page_name(name: str) -> str:
    """Returns the name of the page of a sender, without suffix: `quic-bbr` for `quic:bbr`."""
    return re.sub(r"[:@/\\]", "-", name).lstrip("-.")


def pages(evaluation: Evaluation, command: str) -> dict[str, str]:
    """Returns self-contained HTML pages by name: `index`, and one for each sender.

    Args:
        evaluation: The evaluation.
        command: Command that computes it again.
    """
    from lasthop.showing import report

    prepared = evaluation.prepared
    suite = prepared.suite
    refused = [
        f"{name} was not run in {suite.families[family].title}: {reason}."
        for (family, name), reason in prepared.refused.items()
    ]
    note = " ".join([INTERVALS, VERDICTS, WORST, *refused])
    missing = "Not tested:\n" + "\n".join(f"- {one}" for one in suite.not_tested)
    what = "\n".join(f"{one.title}: {one.about}" for one in suite.families.values())
    names = ["index", *(one.name for one in prepared.senders)]
    page = functools.partial(
        report.evaluation_page,
        links=[
            ("comparison" if name == "index" else value_name(name), f"{page_name(name)}.html")
            for name in names
        ],
        evaluation=evaluation,
        command=command,
        note=note,
        explained=f"{what}\n\n{missing}",
    )
    headings, rows = _matrix(evaluation)
    found = {
        "index": page(
            title=f"{suite.title}: comparison",
            about=suite.about,
            claims=[],
            lead=("Criteria", headings, rows),
            figures=[
                (one.title, drawn)
                for one in suite.families.values()
                if (drawn := figure(evaluation, one)) is not None
            ],
            tables=[],
        )
    }
    for one in prepared.senders:
        claims = [
            {
                "id": criterion.id,
                "verdict": evaluation.verdict(one.name, criterion),
                "text": criterion.question,
                "evidence": _evidence(evaluation, one.name, criterion),
                "remarks": [
                    f"Bound: {criterion.bound} ({criterion.source}). A miss is not a defect for "
                    f"{criterion.refuted_by}."
                ]
                if criterion.bound
                else [],
            }
            for criterion in suite.criteria
        ]
        found[page_name(one.name)] = page(
            title=f"{value_name(one.name)}: {suite.title.lower()}",
            about=suite.about,
            claims=claims,
            figures=[
                (family.title, drawn)
                for family in suite.families.values()
                if (drawn := figure(evaluation, family, one.name)) is not None
            ],
            tables=list(_tables(evaluation, one.name)),
        )
    return found


def _evidence(evaluation: Evaluation, sender: str, criterion: Criterion) -> str:
    cells = evaluation.of(sender, criterion)
    if not cells:
        return "The sender has no such metric, or was not run."
    worst = _worst(criterion, cells)
    parts = [_counts(cells)] if criterion.bound else []
    if worst is not None:
        word = "worst" if criterion.bound else "furthest from the baseline"
        said = f"{_value(worst)} at {worst.name}"
        if _is_ratio(worst):
            said = f"{_ratio(worst)} × {evaluation.reference} at {worst.name} ({_value(worst)})"
        parts.append(f"{word}: {said}")
    return "; ".join(parts)
