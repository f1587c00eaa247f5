"""Self-contained HTML report of a campaign or a reproduced study.

The page needs no network: it includes style, pictures and the script of interactive charts. Without
script and in print, it shows the pictures. It contains the scenario, figures, tables with
intervals, claims with verdicts, and the command and versions needed to reproduce it.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np
import polars as pl

from lasthop._lasthop import ScenarioError
from lasthop.evaluating.cells import plain
from lasthop.evaluating.comparison import from_baseline
from lasthop.evaluating.metric import metric_unit
from lasthop.evaluating.swept import have_scale, point_words
from lasthop.scenarios.explain import explain
from lasthop.scenarios.scenario import Scenario
from lasthop.showing import embedded, study_tables, terminal
from lasthop.showing.figures import PlotError, plot
from lasthop.showing.findings import sentences
from lasthop.showing.labels import interval_note, key_labels, measured_row, scaled
from lasthop.studies.verdicts import tally

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lasthop.evaluating.results import Results
    from lasthop.evaluating.verdicts import Evaluation
    from lasthop.studies import Report
    from lasthop.studies.verdicts import Printed, Verdict

__all__ = ["evaluation_page", "page"]

MOST_FIGURES = 6
"""Maximum number of pictures of a sweep without stated metrics of interest."""

MOST_CURVES = 8
"""Maximum number of curves per picture, if there are keys to choose from."""


@dataclass(frozen=True, slots=True)
class _Table:
    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: bool = False


def page(
    results: Results, report: Report | None = None, *, baseline: tuple[str, Any] | None = None
) -> str:
    """Returns the page.

    Args:
        results: The results.
        report: Report of a study, whose figures, tables and claims replace those of the sweep.
        baseline: A swept key and one of its values: adds paired differences from these points.

    Returns:
        HTML.
    """
    contents = _sweep(results, baseline) if report is None else _study(report)
    if baseline is not None:
        contents["tables"] = [_differences(results, *baseline), *contents["tables"]]
    return _template().render(
        version=results.engine_version,
        facts=_facts(results),
        complete=results.complete,
        points=_points(results),
        live=_live() if any(figure["chart"] for figure in contents["figures"]) else None,
        **contents,
    )


def evaluation_page(
    *,
    title: str,
    about: str,
    evaluation: Evaluation,
    command: str,
    claims: Sequence[Mapping[str, Any]],
    figures: Iterable[tuple[str, Figure]],
    tables: Iterable[tuple[str, Sequence[str], Sequence[Sequence[str]]]],
    note: str,
    explained: str,
    links: Sequence[tuple[str, str]],
    lead: tuple[str, Sequence[str], Sequence[Sequence[str]]] | None = None,
) -> str:
    """Returns a page of an evaluation as HTML; `lasthop.showing.evaluation` has its contents."""
    results = evaluation.results
    counts = collections.Counter(str(claim["verdict"]) for claim in claims)
    return _template().render(
        title=title,
        about=about,
        version=results.engine_version,
        facts=[
            (
                "suite",
                f"{evaluation.prepared.suite.key}, version {evaluation.prepared.suite.version}",
            ),
            ("baselines", ", ".join(one.name for one in evaluation.prepared.baselines)),
            *_facts(results)[:-1],
        ],
        complete=results.complete,
        points=_points(results),
        live=None,
        claims=claims,
        claims_title="Criteria",
        is_evaluation=True,
        links=links,
        lead=None if lead is None else _Table(*lead),
        added=[],
        tally=counts.items(),
        figures=[{**_picture(figure, caption), "chart": None} for caption, figure in figures],
        tables=[_Table(*table) for table in tables],
        note=note,
        explained=explained,
        scenario="",
        command=command,
    )


@functools.cache
def _template() -> jinja2.Template:
    """Compiles the template once per process."""
    return embedded.template("report.html.jinja")


def _differences(results: Results, key: str, value: object) -> _Table:
    """Returns paired differences from a baseline, as printed by the command line."""
    table = terminal.show_differences(from_baseline(results, (), key, value), key, value)
    headings = [str(column.header).replace("\n", " ") for column in table.columns]
    cells = [[str(cell) for cell in column.cells] for column in table.columns]
    return _Table(str(table.title), headings, list(zip(*cells, strict=True)))


def _sweep(results: Results, baseline: tuple[str, Any] | None) -> dict[str, Any]:
    """Returns the contents of the page of a campaign without a study."""
    scenario = results.scenario
    return {
        "title": str(scenario.get("name", "Campaign")),
        "about": scenario.get("description"),
        "findings": sentences(results, baseline),
        "claims": [],
        "added": [],
        "tally": [],
        "figures": [_picture(figure, caption) for caption, figure in _sweep_figures(results)],
        "tables": [*_headline(results), *_every_metric(results)],
        "note": " ".join(_sentence(text) for text in (_interval_note(results), *results.notes)),
        "explained": _explained(results),
        "scenario": json.dumps(scenario, indent=2, ensure_ascii=False),
        "command": None,
    }


def _interval_note(results: Results) -> str:
    return interval_note(results.summary()["method"])


def _sentence(text: str) -> str:
    """Returns a sentence; a name such as `link.air.forward` at its beginning is unchanged."""
    is_name = "." in text.partition(" ")[0].rstrip(".")
    return (text[:1] if is_name else text[:1].upper()) + text[1:].rstrip(".") + "."


def _explained(results: Results) -> str | None:
    """Returns the explanation of the scenario; None if its files no longer exist."""
    # The scenario may specify another number than was run.
    most = int(_replications(results).max())
    try:
        scenario = Scenario(results.scenario)
        return explain(scenario.with_({"run.replications": most, "run.seed": results.seed}))
    except ScenarioError:
        return None


def _study(report: Report) -> dict[str, Any]:
    """Returns the contents of the page of a reproduced study."""
    from lasthop.showing.figures.studies import draw_figure

    study = report.study
    decided = [one for one in report.verdicts if one.judgements]
    own = [one for one in decided if not one.claim.addition]
    printed = report.printed()
    figures = [
        _picture(draw_figure(artefact, report.cells), artefact.title)
        for artefact in report.artefacts
        if artefact.kind == "figure"
    ]
    return {
        "title": study.title,
        "about": study.about,
        "claims": [_claim(one, report, printed) for one in own],
        "added": [_claim(one, report, printed) for one in decided if one.claim.addition],
        "tally": list(tally(own).items()),
        "figures": figures,
        "tables": list(_study_tables(report)),
        "note": (
            "Mean ± half-width of the 95 % confidence interval; tables with published values: "
            f"ours | {study_tables.PUBLISHED}. Figures show published values as crosses, with a "
            "ring if they differ significantly."
        ),
        "explained": None,
        "scenario": None,
        "command": _command(report),
    }


def _claim(one: Verdict, report: Report, printed: Mapping[str, Printed]) -> dict[str, Any]:
    """Returns one claim with its verdicts and notes."""
    claim = one.claim
    notes = [f"Verdict on the first {n}: {w}." for n, w in report.earlier_words(claim.id).items()]
    if claim.id in printed and printed[claim.id].judgements:
        notes.append(f"On the paper's own numbers: {printed[claim.id].words}.")
    return {
        "id": claim.id,
        "verdict": one.verdict,
        "text": " – ".join(filter(None, (claim.text, claim.condition))),
        "evidence": one.evidence,
        "remarks": [*claim.remarks, *notes],
    }


def _command(report: Report) -> str | None:
    """Returns the command that reproduces the page; None if replications differ by point."""
    counts = set(_replications(report.results).tolist())
    if len(counts) > 1:
        return None
    return (
        f"lasthop reproduce {report.study.key} --replications {counts.pop()} "
        f"--seed {report.results.seed}"
    )


def _study_tables(report: Report) -> Iterable[_Table]:
    for artefact in report.artefacts:
        own = [cell for cell in report.cells if cell.artefact == artefact.name]
        # Tables show improvements over the first column, as printed in the paper.
        improved = {cell.column for cell in own if artefact.has_gains and cell.unit == "%"}
        unit = {
            name: "%" if name in improved else artefact.quantity.unit for name in artefact.columns
        }
        is_compared = study_tables.has_published(artefact, own)
        texts = {
            (cell.row, cell.column): study_tables.cell_text(cell, artefact, is_compared)
            for cell in own
            if cell.unit == unit[cell.column]
        }
        rows = [
            (row, *(texts.get((row, name), "–") for name in artefact.columns))
            for row in dict.fromkeys(cell.row for cell in own)
        ]
        headings = [f"{name} ({unit[name]})" for name in artefact.columns]
        title = artefact.title
        first = artefact.axis.heading or artefact.axis.label
        yield _Table(title, (first, *headings), rows, folded=artefact.kind == "figure")


def _facts(results: Results) -> list[tuple[str, str]]:
    counts = _replications(results)
    least, most = int(counts.min()), int(counts.max())
    facts = [
        ("points", f"{len(results.points)}"),
        ("replications per point", f"{most}" if least == most else f"{least} to {most}"),
        ("replications in total", f"{len(results.point):,}".replace(",", " ")),
        ("seed", f"{results.seed}"),
        ("engine", f"lasthop {results.engine_version}"),
    ]
    varied = _varied(results)
    if varied:
        facts.append(("varied", ", ".join(key_labels(varied))))
    return facts


def _varied(results: Results) -> list[str]:
    """Returns keys with several values."""
    values: dict[str, set[str]] = {}
    for point in results.points:
        for key, value in point.parameters.items():
            values.setdefault(key, set()).add(repr(value))
    return [key for key, found in values.items() if len(found) > 1]


def _replications(results: Results) -> np.ndarray[Any, np.dtype[np.intp]]:
    return np.bincount(results.point, minlength=len(results.points))


def _points(results: Results) -> list[dict[str, str]]:
    return [
        {
            "parameters": _label(point.parameters) or "as in the scenario",
            "replications": f"{count}",
            "hash": point.scenario_hash,
        }
        for point, count in zip(results.points, _replications(results), strict=True)
    ]


def _label(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {plain(value)}" for key, value in parameters.items())


def _headline(results: Results) -> Iterable[_Table]:
    """Returns a table of the main metrics, one row per point."""

    def is_of_note(metric: str) -> bool:
        is_headline = any(fnmatchcase(metric, pattern) for pattern in terminal.HEADLINES)
        is_headline = is_headline and not terminal.is_repeated(results, metric)
        return is_headline or metric in results.unfinished

    if len(results.points) > 1:
        yield _summary(results, "By point", is_of_note)


def _every_metric(results: Results) -> Iterable[_Table]:
    """Returns a table of all metrics, one column per point; collapsed if there is a shorter one."""
    if len(results.points) == 1:
        rows = []
        for row in results.summary().iter_rows(named=True):
            unit = scaled(metric_unit(row["metric"]), [row["mean"]])
            value = measured_row(row, unit)
            rows.append((row["metric"], f"{value} {unit.name}".strip()))
        yield _Table("Every metric", ("metric", "value"), rows)
        return
    kinds = dict.fromkeys(metric.rpartition(".")[0] for metric in results.metrics)
    for entity in kinds:

        def belongs(metric: str, entity: str = entity) -> bool:
            return metric.rpartition(".")[0] == entity

        yield _summary(results, entity, belongs, folded=True)


def _summary(
    results: Results, title: str, chosen: Callable[[str], bool], *, folded: bool = False
) -> _Table:
    keys = list(dict.fromkeys(key for point in results.points for key in point.parameters))
    found = [row for row in results.summary().iter_rows(named=True) if chosen(row["metric"])]
    means: dict[str, list[float]] = {}
    for row in found:
        means.setdefault(row["metric"], []).append(row["mean"])
    units = {name: scaled(metric_unit(name), own) for name, own in means.items()}
    cells = {
        (row["point"], row["metric"]): measured_row(row, units[row["metric"]]) for row in found
    }
    metrics = [name for name in results.metrics if name in units]
    words = point_words(results.points)
    rows = [
        (
            *(words[key][index] for key in keys),
            *(cells.get((index, metric), "–") for metric in metrics),
        )
        for index in range(len(results.points))
    ]
    short = [
        terminal.metric_heading(metric, metrics, units[metric]).replace("\n", " ")
        for metric in metrics
    ]
    return _Table(title, (*key_labels(keys), *short), rows, folded)


def _sweep_figures(results: Results) -> Iterator[tuple[str, Figure]]:
    """Yields figures of the main metrics over the sweep; none without a sweep."""
    if not _varied(results):
        return
    chosen = [
        metric
        for pattern in terminal.HEADLINES
        for metric in results.metrics
        if fnmatchcase(metric, pattern)
        and _moves(results, metric)
        and not terminal.is_repeated(results, metric)
    ]
    # Adjacent panels need the width of a page.
    size = "full" if len(_varied(results)) > 2 else "column"
    for metric in chosen[:MOST_FIGURES]:
        try:
            yield metric, plot(results, y=metric, size=size)
        except PlotError:
            # Several axes, none with numbers, or too many curves: select some.
            with contextlib.suppress(PlotError):
                yield _chosen_figure(results, metric)


def _chosen_figure(results: Results, metric: str) -> tuple[str, Figure]:
    """Returns a caption and a figure of a metric over the key with most values.

    Numeric keys are preferred. Curves distinguish other keys up to a readable number; the remaining
    keys are held at the value of the first point, which the caption states.
    """
    points = [point.parameters for point in results.points]
    values = {key: [repr(one.get(key)) for one in points] for key in _varied(results)}

    def combinations(keys: Iterable[str]) -> int:
        columns = [values[key] for key in keys]
        return len(set(zip(*columns, strict=True))) if columns else 1

    numeric = [
        key
        for key in values
        if all(key in one for one in points) and have_scale([one[key] for one in points])
    ]
    across = max(numeric or values, key=lambda key: combinations([key]))
    # Keys that are zipped with the axis add no information.
    tied = [
        key
        for key in values
        if key != across and combinations([across, key]) == combinations([across])
    ]
    rest = [key for key in values if key != across and key not in tied]
    try:
        frame = results.frame.drop(tied)
        figure = plot(frame, x=across, y=metric, by=rest or None, size="full")
    except PlotError:
        # Too many for panels: select some.
        pass
    else:
        by_all = f"; by {', '.join(key_labels(rest))}" if rest else ""
        return f"{metric}{by_all}", figure
    by: list[str] = []
    # Prefer keys with words, such as protocols, over numbers.
    for key in sorted(rest, key=lambda key: (key in numeric, combinations([key]))):
        if combinations([*by, key]) <= MOST_CURVES:
            by.append(key)
    held = [key for key in rest if key not in by]
    shown = [
        place for place in range(len(points)) if all(values[k][place] == values[k][0] for k in held)
    ]
    frame = results.frame.filter(pl.col("point").is_in(shown)).drop(tied)
    figure = plot(frame, x=across, y=metric, by=by or None)
    words = point_words(results.points)
    said = dict(zip(held, key_labels(held), strict=True))
    where = ", ".join(f"{said[key]} {words[key][0]}" for key in held)
    caption = [metric]
    if by:
        caption.append(f"by {', '.join(key_labels(by))}")
    if where:
        caption.append(f"at {where}")
    return "; ".join(caption), figure


def _moves(results: Results, metric: str) -> bool:
    """Returns `True` if a metric has more than one value."""
    column = results.values[:, results.metrics.index(metric)]
    there = column[~np.isnan(column)]
    return there.size > 1 and bool(np.ptp(there) > 0.0)


def _live() -> dict[str, str]:
    """Returns the script of the charts, its hash for the content security policy, and the style."""
    folder = resources.files("lasthop.showing")
    vendor = resources.files("lasthop.page") / "static" / "vendor"
    parts = (vendor / "uplot-1.6.32.iife.min.js", folder / "report.js")
    script = "\n".join(part.read_text(encoding="utf-8").strip() for part in parts)
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    style = (vendor / "uplot-1.6.32.min.css").read_text(encoding="utf-8")
    return {"script": script, "hash": f"sha256-{digest}", "style": style}


def _picture(figure: Figure, caption: str) -> dict[str, Any]:
    """Returns a figure as an embedded picture and as data of an interactive chart."""
    from lasthop.showing.figures.live import chart

    uri, width, height = embedded.picture(figure)
    return {
        "uri": uri,
        "caption": caption,
        "chart": chart(figure),
        "width": width,
        "height": height,
    }
