"""LaTeX tables of results, with `booktabs`: means and half-widths of 95 % confidence intervals.

Each column has one unit, in its heading. With `siunitx`, numbers and units are its commands, so
that the preamble of a paper decides how they look.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from lasthop.evaluating.metric import metric_label, metric_unit
from lasthop.evaluating.swept import point_words
from lasthop.showing.labels import (
    PREFIXES,
    Unit,
    key_labels,
    measured_row,
    scaled,
    value_name,
)
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


UNITS = {
    "bps": r"\bit\per\second",
    "kbps": r"\kilo\bit\per\second",
    "Mbps": r"\mega\bit\per\second",
    "Gbps": r"\giga\bit\per\second",
    "µs": r"\micro\second",
    "ms": r"\milli\second",
    "s": r"\second",
    "B": r"\byte",
    "kB": r"\kilo\byte",
    "MB": r"\mega\byte",
    "GB": r"\giga\byte",
    "m": r"\metre",
    "km": r"\kilo\metre",
    "%": r"\percent",
}
"""Units in the commands of `siunitx`."""

PREAMBLE = r"% \usepackage{booktabs} \usepackage{siunitx} \sisetup{uncertainty-mode = separate}"


def _escaped(text: str) -> str:
    return re.sub(r"[\\~^±−µ–&%$#_{}]", lambda found: SPECIAL[found[0]], text)


def _value(text: str, *, siunitx: bool) -> str:
    """Returns a mean with its interval; an asymmetric one as subscript and superscript."""
    if text == "–":
        return _escaped(text)
    uneven = re.fullmatch(r"(\S+) −(\S+) \+(\S+)", text)
    if uneven:
        # siunitx has no asymmetric uncertainties in all its versions.
        mean, low, high = uneven.groups()
        return f"{_number(mean) if siunitx else mean}$_{{-{low}}}^{{+{high}}}$"
    if siunitx:
        return _number(text.replace("−", "-").replace("±", r"\pm"))
    return _escaped(text)


def _number(text: str) -> str:
    return rf"\num{{{text}}}"


def _heading(text: str, unit: Unit, *, siunitx: bool) -> str:
    if not siunitx or unit.name not in UNITS:
        return _escaped(unit.label(text))
    return rf"{_escaped(text)} (\unit{{{UNITS[unit.name]}}})"


def _quantities(words: Sequence[str]) -> tuple[list[str], Unit]:
    """Numbers in one unit, if all words of a column are quantities of a kind; else the words."""
    found = [re.fullmatch(r"(\d+(?:\.\d+)?) (\S+)", word) for word in words]
    given = [(float(one[1]), one[2]) for one in found if one is not None]
    for kind, units in PREFIXES.items():
        per = {unit.name: unit.per for unit in units}
        # Scenarios write microseconds in ASCII.
        per |= {"us": per["µs"]} if "µs" in per else {}
        if words and len(given) == len(words) and all(name in per for _, name in given):
            values = [value * per[name] for value, name in given]
            unit = scaled(kind, values)
            return [f"{value / unit.per:.6g}" for value in values], unit
    return list(words), Unit("", 1.0)


def summary(results: Results, metrics: Sequence[str] = (), *, siunitx: bool = False) -> str:
    """Returns a `tabular`: one row per point, one column per metric, with its unit in the heading.

    Args:
        results: The results.
        metrics: Full names; empty: the main metrics.
        siunitx: Whether numbers and units are commands of the package `siunitx`.
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
        _heading(
            metric_label(metric)
            + (f" of {metric.partition('.')[2].rpartition('.')[0]}" if len(flows) > 1 else ""),
            units[metric],
            siunitx=siunitx,
        )
        for metric in chosen
    ]
    columns = [_quantities(column) for column in words.values()]
    keys = [
        _heading(label, unit, siunitx=siunitx)
        for label, (_, unit) in zip(key_labels(list(words)), columns, strict=True)
    ]
    aligned = "".join("r" if unit.name else "l" for _, unit in columns)
    lines = [
        *([PREAMBLE] if siunitx else []),
        f"\\begin{{tabular}}{{{aligned}{'r' * len(chosen)}}}",
        r"\toprule",
        _row([*keys, *heads]),
        r"\midrule",
    ]
    for index in range(len(results.points)):
        cells = [
            (_number(column[index]) if siunitx else column[index])
            if unit.name
            else _escaped(value_name(column[index]))
            for column, unit in columns
        ]
        for metric in chosen:
            row = there.get((index, metric))
            text = "–" if row is None else measured_row(row, units[metric])
            cells.append(_value(text, siunitx=siunitx))
        lines.append(_row(cells))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"
