"""HTML of results and scenarios for notebooks: small tables without style sheets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from html import escape
from typing import TYPE_CHECKING, Any

from lasthop.evaluating.cells import value_text
from lasthop.evaluating.metric import metric_unit
from lasthop.evaluating.swept import point_words
from lasthop.showing.labels import interval_note, key_labels, measured_row, scaled
from lasthop.showing.terminal import HEADLINES, metric_heading

if TYPE_CHECKING:
    from lasthop.evaluating.results import Results
    from lasthop.scenarios.scenario import Scenario

__all__ = ["results_html", "scenario_html"]

MOST_ROWS = 24
MOST_METRICS = 4
RIGHT = ' style="text-align: right"'


def results_html(results: Results) -> str:
    """Returns means with 95 % confidence intervals of the main metrics, and their provenance."""
    cells = {(row["point"], row["metric"]): row for row in results.summary_rows()}
    there = {metric for _, metric in cells}
    rows: list[tuple[str, ...]]
    if len(results.points) == 1:
        metrics = [metric for metric in results.metrics if metric in there]
        rows = []
        for metric in metrics:
            row = cells[0, metric]
            unit = scaled(metric_unit(metric), [row["mean"]])
            text = f"{measured_row(row, unit)} {unit.name}".strip()
            rows.append((metric, text, str(row["n"])))
        table = _table(("metric", "mean", "n"), rows, 1)
        left = len(metrics) - MOST_ROWS
        what = "metrics"
    else:
        metrics = [
            metric
            for metric in results.metrics
            if metric in there and any(fnmatchcase(metric, one) for one in HEADLINES)
        ][:MOST_METRICS]
        metrics += [metric for metric in results.metrics if metric in results.unfinished]
        words = point_words(results.points)
        units = {
            metric: scaled(
                metric_unit(metric), [row["mean"] for key, row in cells.items() if key[1] == metric]
            )
            for metric in metrics
        }
        heads = [metric_heading(m, metrics, units[m]).replace("\n", " ") for m in metrics]
        rows = []
        for index in range(len(results.points)):
            found = [cells.get((index, metric)) for metric in metrics]
            n = max((one["n"] for one in found if one is not None), default=0)
            texts = [
                "–" if one is None else measured_row(one, units[metric])
                for metric, one in zip(metrics, found, strict=True)
            ]
            rows.append((*(cell[index] for cell in words.values()), *texts, str(n)))
        table = _table((*key_labels(list(words)), *heads, "n"), rows, len(words))
        left = len(rows) - MOST_ROWS
        what = "points"
    more = f"<p>… and {left} more {what}: <code>summary()</code></p>" if left > 0 else ""
    methods = (row["method"] for (_, metric), row in cells.items() if metric in metrics)
    more += "".join(
        f"<p><small>{escape(text)}</small></p>" for text in (interval_note(methods), *results.notes)
    )
    return f"<div>{table}{more}<p><small>{_provenance(results)}</small></p></div>"


def _provenance(results: Results) -> str:
    name = str(results.scenario.get("name", ""))
    hashes = list(dict.fromkeys(point.scenario_hash for point in results.points))
    first = hashes[0] + (f" and {len(hashes) - 1} more" if len(hashes) > 1 else "")
    parts = [
        *([f"<b>{escape(name)}</b>"] if name else []),
        f"lasthop {escape(results.engine_version)}",
        f"seed {results.seed}",
        f"{len(results.point)} replications",
        f"scenario {escape(first)}",
        *([] if results.complete else ["<b>incomplete</b>"]),
    ]
    return ", ".join(parts)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: int) -> str:
    """Returns an HTML table; the first `words` columns are text, the others numbers."""

    def line(tag: str, texts: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{RIGHT if index >= words else ''}>{escape(text)}</{tag}>"
            for index, text in enumerate(texts)
        )

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in list(rows)[:MOST_ROWS])
    return f"<table><thead><tr>{line('th', heads)}</tr></thead><tbody>{body}</tbody></table>"


def scenario_html(scenario: Scenario) -> str:
    """Returns the keys of a scenario with their values."""
    rows = [(key, value_text(value)) for key, value in _keys(scenario.to_dict())]
    body = "".join(
        f"<tr><td><code>{escape(key)}</code></td><td>{escape(text)}</td></tr>" for key, text in rows
    )
    name = escape(scenario.name)
    return f"<div><p><b>{name}</b></p><table><tbody>{body}</tbody></table></div>"


def _keys(tables: dict[str, Any], path: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in tables.items():
        name = f"{path}.{key}" if path else key
        # Tables with a kind are shown on one line, as in scenario files.
        if isinstance(value, dict) and "kind" not in value:
            yield from _keys(value, name)
        else:
            yield name, value
