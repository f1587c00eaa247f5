"""LaTeX table of results, with `booktabs`: means and half-widths of 95 % confidence intervals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from lasthop.evaluating.metric import metric_label, metric_unit
from lasthop.evaluating.swept import point_words
from lasthop.showing.labels import key_labels, measured_row, scaled, value_name
from lasthop.showing.terminal import HEADLINES

if TYPE_CHECKING:
    from lasthop.evaluating.results import Results

__all__ = ["summary"]

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "µ": r"$\mu$",
    "–": "--",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}


def _escaped(text: str) -> str:
    return re.sub(r"[\\~^±−µ–&%$#_{}]", lambda found: SPECIAL[found[0]], text)


def _value(text: str) -> str:
    """Returns a mean with its interval; an asymmetric one as subscript and superscript."""
    uneven = re.fullmatch(r"(\S+) −(\S+) \+(\S+)", text)
    return "{}$_{{-{}}}^{{+{}}}$".format(*uneven.groups()) if uneven else _escaped(text)


def summary(results: Results, metrics: Sequence[str] = ()) -> str:
    """Returns a `tabular`: one row per point, one column per metric.

    Args:
        results: The results.
        metrics: Full names; empty: the main metrics.
    """
    there = {(row["point"], row["metric"]): row for row in results.summary_rows()}
    chosen = [
        metric
        for metric in metrics or results.metrics
        if (
            metrics
            or metric in results.unfinished
            or any(fnmatchcase(metric, one) for one in HEADLINES)
        )
        and any(name == metric for _, name in there)
    ]
    words = point_words(results.points)
    units = {
        metric: scaled(
            metric_unit(metric), (row["mean"] for (_, name), row in there.items() if name == metric)
        )
        for metric in chosen
    }
    flows = {metric.partition(".")[2].rpartition(".")[0] for metric in chosen}
    heads = [
        units[metric].label(
            metric_label(metric)
            + (f" of {metric.partition('.')[2].rpartition('.')[0]}" if len(flows) > 1 else "")
        )
        for metric in chosen
    ]
    lines = [
        f"\\begin{{tabular}}{{{'l' * len(words)}{'r' * len(chosen)}}}",
        r"\toprule",
        _row(map(_escaped, [*key_labels(list(words)), *heads])),
        r"\midrule",
    ]
    for index in range(len(results.points)):
        cells = [_escaped(value_name(cell[index])) for cell in words.values()]
        for metric in chosen:
            row = there.get((index, metric))
            text = "–" if row is None else measured_row(row, units[metric])
            cells.append(_value(text))
        lines.append(_row(cells))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"
