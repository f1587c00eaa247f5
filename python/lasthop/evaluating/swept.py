"""Labels of swept values in tables and figures, and numeric axes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lasthop.evaluating.cells import quantity_of, value_text
from lasthop.showing.labels import key_words, spaced, value_name

if TYPE_CHECKING:
    from lasthop.evaluating.results import Point
    from lasthop.evaluating.statistics import Floats

__all__ = [
    "Parameter",
    "have_scale",
    "key_label",
    "names_of",
    "parameter",
    "point_words",
    "same_quantity",
]


@dataclass(frozen=True)
class Parameter:
    """A swept key on the x-axis.

    Attributes:
        label: Label of the swept key.
        positions: Shape (values,).
        kind: Unit, as in `style.scaled`.
        words: Labels of values that are not numbers; None for numbers.
    """

    label: str
    positions: Floats
    kind: str
    words: tuple[str, ...] | None


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Returns the leaves of nested tables by dotted names."""
    if not isinstance(value, dict):
        return {path: value}
    found: dict[str, Any] = {}
    for key, child in value.items():
        found |= _leaves(child, f"{path}.{key}" if path else key)
    return found


def _table(cell: Any) -> Any:
    """Parses a swept table, which is text in tables of results."""
    if isinstance(cell, str) and cell.startswith("{"):
        try:
            return json.loads(cell)
        except ValueError:
            return cell
    return cell


def _differing(cells: Iterable[Any]) -> list[dict[str, Any]] | None:
    """Returns the leaves that differ between tables; None if a value is not a table."""
    tables = [_table(cell) for cell in cells]
    if not any(isinstance(table, dict) for table in tables):
        return None
    # A table without other keys may be given as its kind.
    tables = [{"kind": table} if isinstance(table, str) else table for table in tables]
    if not all(isinstance(table, dict) for table in tables):
        return None
    leaves = [_leaves(table) for table in tables]
    names = list(dict.fromkeys(name for one in leaves for name in one))
    varying = [n for n in names if len({json.dumps(one.get(n)) for one in leaves}) > 1]
    return [{name: one.get(name) for name in varying} for one in leaves]


def have_scale(cells: Sequence[Any]) -> bool:
    """Returns `True` if swept values are numbers of one unit, with positions on an axis."""
    return parameter("", dict(enumerate(cells)))[0].words is None


def _cell_words(cells: Sequence[Any]) -> list[str]:
    """Returns labels of the values of a swept key: differences of tables, other values as text."""
    if _differing(cells) is None:
        return [", ".join(map(str, c)) if isinstance(c, list) else str(c) for c in cells]
    names = names_of("", dict(enumerate(cells)))
    # Equal tables have no differences.
    return [
        name or value_text(_table(cell)) for name, cell in zip(names.values(), cells, strict=True)
    ]


def point_words(points: Sequence[Point]) -> dict[str, list[str]]:
    """Returns labels of the values of each swept key at each point; `–` if it is not swept."""
    found = {}
    for key in dict.fromkeys(key for point in points for key in point.parameters):
        there = [key in point.parameters for point in points]
        words = iter(_cell_words([p.parameters[key] for p in points if key in p.parameters]))
        found[key] = [next(words) if is_there else "–" for is_there in there]
    return found


def same_quantity(one: tuple[float, str] | None, other: tuple[float, str] | None) -> bool:
    """Returns `True` if two quantities are equal; one without unit has the other's unit."""
    if one is None or other is None:
        return False
    return one[0] == other[0] and (one[1] == other[1] or "" in (one[1], other[1]))


def parameter(key: str, cells: Mapping[int, Any]) -> tuple[Parameter, dict[int, int]]:
    """Returns an x-axis and the index of each point's value on it."""
    import numpy as np  # late: `lasthop list` needs none

    values, label = list(cells.values()), key_label(key)
    differing = _differing(values)
    if differing is not None and all(len(one) == 1 for one in differing):
        (leaf,) = differing[0]
        values = [one[leaf] for one in differing]
        label = label if leaf == "kind" else key_label(f"{key}.{leaf}")
    numbers = [quantity_of(value) for value in values]
    kinds = {number[1] for number in numbers if number is not None}
    # Fractions may be written as 0.05 or "5 %".
    if None not in numbers and len(kinds - {""}) <= 1 and (len(kinds) == 1 or "%" in kinds):
        found = np.array([number[0] for number in numbers if number is not None])
        positions, places = np.unique(found, return_inverse=True)
        axis = Parameter(label, positions, max(kinds), None)
        return axis, dict(zip(cells, places.tolist(), strict=True))
    # The label of the axis names the quantity.
    names = names_of("", cells, of_papers=True)
    words = tuple(dict.fromkeys(names.values()))
    axis = Parameter(label, np.arange(len(words), dtype=np.float64), "", words)
    return axis, {point: words.index(name) for point, name in names.items()}


def names_of(key: str, cells: Mapping[int, Any], *, of_papers: bool = False) -> dict[int, str]:
    """Returns labels of the values of a key for tables and legends; numbers include the key.

    Args:
        key: The swept key; empty if its name is shown next to its values.
        cells: Value at each point.
        of_papers: Whether labels are as in papers, `ARQ window 8`; otherwise `window 8`.
    """

    def name(path: str, value: Any) -> str:
        if not of_papers:
            return _name(path.rpartition(".")[2], value)
        word = key_words(path)[0] if path.count(".") > 1 else path.rpartition(".")[2]
        return _name(word, value_name(value) if isinstance(value, str) else value)

    differing = _differing(cells.values())
    if differing is not None:
        kinds = {json.dumps(one.get("kind")): json.dumps(one) for one in differing}
        if all(json.dumps(one) == kinds[json.dumps(one.get("kind"))] for one in differing):
            # The kind is sufficient to distinguish them.
            differing = [{"kind": one["kind"]} if "kind" in one else one for one in differing]
    names = {}
    for index, (point, cell) in enumerate(cells.items()):
        if differing is None:
            names[point] = name(key, cell)
            continue
        parts = [
            name(f"{key}.{leaf}" if key else leaf, value)
            for leaf, value in differing[index].items()
            if value is not None
        ]
        names[point] = ", ".join(parts) or key.rpartition(".")[2]
    return names


def _name(word: str, value: Any) -> str:
    if not word and (value is None or isinstance(value, bool)):
        return "yes" if value else "none" if value is None else "no"
    if isinstance(value, bool):
        return spaced(word) if value else f"no {spaced(word)}"
    if value is None:
        return f"no {word}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if quantity_of(value) is None else f"{spaced(word)} {text}".strip()


def key_label(key: str) -> str:
    """Returns the label of a swept key: `link.wireless.errors.bad` is `Mean fade`."""
    return key_words(key)[0]
