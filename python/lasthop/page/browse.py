"""Contents of campaigns: the page selects axes, groups and facets; statistics are computed here."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from lasthop.evaluating.results import Results
from lasthop.evaluating.swept import Parameter, key_label
from lasthop.page.question import Refused, check_files
from lasthop.running.campaign import Campaign, CampaignError
from lasthop.scenarios.scenario import Scenario
from lasthop.showing.figures import PlotError
from lasthop.showing.figures.selection import Curve, Table
from lasthop.studies import Study, studies

__all__ = ["campaigns", "contents", "figures", "point_of", "study_of"]

DEEPEST = 3
"""Folders below the one that the server was started in where campaigns are looked for."""

MOST_FOLDERS = 2_000
"""Folders that are looked into."""

MOST_FACETS = 12
"""Panels of a figure."""

LEDGER = "ledger.sqlite"


def campaigns(root: Path) -> list[dict[str, Any]]:
    """Campaigns in a folder and below: `folder` (relative), `runs`."""
    found: list[dict[str, Any]] = []
    for folder in _folders(root):
        try:
            runs = Campaign(folder).runs()
        except (CampaignError, OSError) as error:
            found.append({"folder": _relative(folder, root), "runs": [], "error": str(error)})
            continue
        found.append(
            {
                "folder": _relative(folder, root),
                "runs": [
                    {
                        "id": one.id,
                        "name": one.name,
                        "state": one.state,
                        "points": len(one.points),
                        "replications": int(sum(one.replications)),
                        "started": one.started,
                    }
                    for one in runs
                ],
            }
        )
    return found


def _relative(folder: Path, root: Path) -> str:
    return str(folder.relative_to(root)) or "."


def _folders(root: Path) -> Iterator[Path]:
    """Folders with a ledger, without following links."""
    for place, folders, files in islice(os.walk(root), MOST_FOLDERS):
        here = Path(place)
        if LEDGER in files:
            yield here
        deep = len(here.relative_to(root).parts) >= DEEPEST
        folders[:] = sorted(
            name
            for name in folders
            if not deep and not name.startswith(".") and name not in ("node_modules", "target")
        )


def open_campaign(body: Mapping[str, Any], root: Path) -> tuple[str, Results]:
    """The run that a page asks for.

    Args:
        body: With `folder`, relative to the root, and `run`, its number; the last if missing.
        root: Where campaigns must be.

    Raises:
        Refused: If it is elsewhere.
        CampaignError: If there is none.
    """
    folder, run = body.get("folder"), body.get("run")
    if not isinstance(folder, str) or "\0" in folder:
        raise Refused("missing `folder`: expected the folder of a campaign")
    inside = root.resolve()
    place = (inside / folder).resolve()
    if not place.is_relative_to(inside):
        raise Refused(
            f"invalid value `{json.dumps(folder)}` for `folder`: expected one in {inside.name}/"
        )
    if run is not None and (not isinstance(run, int) or isinstance(run, bool)):
        raise Refused("invalid `run`: expected a number")
    campaign = Campaign(place)
    results = campaign.results(run=run)
    if not len(results.point):
        raise Refused("the run has no finished replication")
    name = str(results.scenario.get("name", ""))
    return name, results


def contents(name: str, results: Results) -> dict[str, Any]:
    """Returns the choices of the page: keys with their values, metrics, claims of a study."""
    table = Table(results.frame)
    counts = np.bincount(results.point, minlength=len(results.points))
    keys = []
    for key in table.keys:
        values = list(
            dict.fromkeys(json.dumps(point.parameters.get(key)) for point in results.points)
        )
        keys.append(
            {
                "key": key,
                "label": key_label(key),
                "values": [json.loads(value) for value in values[:200]],
            }
        )
    return {
        "name": name,
        "keys": keys,
        "metrics": table.metrics,
        "points": len(results.points),
        "replications": [int(counts.min()), int(counts.max())],
        "seed": results.seed,
        "engine": results.engine_version,
        "complete": results.complete,
        "study": study_of(name, results),
    }


def study_of(name: str, results: Results) -> dict[str, Any] | None:
    """Claims with their verdicts and evidence, if the run is a study's."""
    study = studies().get(name) if dict(results.scenario) == {"name": name} else None
    if study is None:
        return None
    report = study.report_on(results)
    return {
        "title": study.title,
        "about": study.about,
        "claims": [
            {
                "id": one.claim.id,
                "text": one.claim.text,
                "condition": one.claim.condition,
                "where": one.claim.where,
                "verdict": one.verdict,
                "evidence": one.evidence,
                "comparisons": [
                    {
                        "holds": judged.holds,
                        "what": (
                            f"{judged.comparison.left} {judged.comparison.relation} "
                            f"{judged.comparison.right}"
                        ),
                        "cell": ", ".join(
                            f"{name} {value}" for name, value in judged.comparison.cell
                        ),
                        "left": _number(judged.left),
                        "right": _number(judged.right),
                    }
                    for judged in one.judgements[:40]
                ],
            }
            for one in report.verdicts
            if one.judgements
        ],
    }


def figures(results: Results, body: Mapping[str, Any]) -> dict[str, Any]:
    """A figure's numbers: one panel for each value of the key `facet`.

    Args:
        results: The results.
        body: `kind` (`line`, `bar` or `cdf`), `x`, `y`, `by` (a list), `facet`, `where`.

    Returns:
        `panels`, each with its `title`, `x` (label, positions or words) and `curves`: label,
        points, places, mean, low, high, n, and the numbers themselves.

    Raises:
        PlotError: If the table cannot be drawn.
        Refused: If a value is invalid.
    """
    kind = body.get("kind", "line")
    if kind not in ("line", "bar", "cdf"):
        raise Refused(f"invalid value `{kind}` for `kind`: expected line, bar, cdf")
    where = body.get("where") or {}
    by = body.get("by")
    if not isinstance(where, dict) or not (by is None or isinstance(by, list)):
        raise Refused("invalid `where` or `by`: expected a table and a list")
    names = [body.get("x"), body.get("facet"), *(by or [])]
    metrics = body.get("y")
    names += metrics if isinstance(metrics, list) else [metrics]
    if not all(one is None or isinstance(one, str) for one in names):
        raise Refused("invalid `x`, `y`, `by` or `facet`: expected names of keys and metrics")
    table = Table(results.frame).where(where)
    facet = body.get("facet")
    panels = []
    for title, part in _facets(table, facet):
        across, curves = part.curves(body.get("x"), body.get("y"), by, over_x=kind != "cdf")
        panels.append({"title": title, "x": _axis(across), "curves": list(map(_curve, curves))})
    return {"kind": kind, "panels": panels}


def _facets(table: Table, facet: Any) -> Iterator[tuple[str, Table]]:
    if not facet:
        yield "", table
        return
    key = table.key(str(facet), "facet")
    column = table.frame.select("point", key).unique("point", maintain_order=True).sort("point")
    values = list(dict.fromkeys(map(str, column[key].to_list())))
    if len(values) > MOST_FACETS:
        raise PlotError(
            f"{len(values)} values of {key} for `facet`: expected at most {MOST_FACETS}"
        )
    for value in values:
        yield f"{key_label(key)}: {value}", table.where({key: value})


def _axis(across: Parameter | None) -> dict[str, Any] | None:
    if across is None:
        return None
    return {
        "label": across.label,
        "kind": across.kind,
        "positions": [float(place) for place in across.positions],
        "words": list(across.words) if across.words is not None else None,
    }


def _curve(curve: Curve) -> dict[str, Any]:
    estimates = curve.estimates()
    return {
        "label": curve.label,
        "metric": curve.metric,
        "places": list(curve.places),
        "points": list(curve.points),
        "mean": [_number(one.value) for one in estimates],
        "low": [_number(one.low) for one in estimates],
        "high": [_number(one.high) for one in estimates],
        "n": [one.n for one in estimates],
        "samples": [_numbers(own) for own in curve.samples],
    }


def point_of(results: Results, body: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """One point: its parameters, the numbers of its replications, the scenario to trace.

    Raises:
        Refused: If there is no such point.
    """
    number, metric = body.get("point"), body.get("metric")
    if not isinstance(number, int) or not 0 <= number < len(results.points):
        raise Refused(
            f"invalid value `{number}` for `point`: expected 0 to {len(results.points) - 1}"
        )
    if metric not in results.metrics:
        raise Refused(f"unknown metric `{metric}`: expected a metric of the run")
    point = results.points[number]
    rows = results.point == number
    return {
        "parameters": dict(point.parameters),
        "hash": point.scenario_hash,
        "metric": metric,
        "replications": [int(one) for one in results.replication[rows]],
        "values": _numbers(results.values[rows, results.metrics.index(metric)]),
        "seed": results.seed,
        "scenario": _scenario(results, number, root),
    }


def _scenario(results: Results, number: int, root: Path) -> dict[str, Any] | None:
    """Returns the scenario of a point; None if it cannot be derived from the run."""
    tables = dict(results.scenario)
    if "flow" not in tables:
        study = studies().get(str(tables.get("name")))
        return None if study is None else _study_scenario(study, results, number)
    try:
        point = Scenario(tables, base=root).points()[number]
    except (ValueError, IndexError):
        return None
    found: dict[str, Any] = json.loads(point.to_json())
    found.pop("sweep", None)
    check_files(found, root)
    return found


def _study_scenario(study: Study, results: Results, number: int) -> dict[str, Any] | None:
    """The scenario of the cell that a point stands for."""
    for cell in study.cells(study.find([])):
        point = study.scenario(cell).points()[0]
        if f"{point.hash:016x}" == results.points[number].scenario_hash:
            found: dict[str, Any] = json.loads(point.to_json())
            found.pop("sweep", None)
            return found
    return None


def _numbers(values: Sequence[float] | np.ndarray[Any, Any]) -> list[float | None]:
    return [_number(float(value)) for value in values]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
