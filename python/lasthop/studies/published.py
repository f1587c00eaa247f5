"""The numbers that a paper prints, as in `published.toml`.

A row of a table names the coordinate of its row. It holds either absolute values or improvements.
An absolute value is a number, or `[value, low, high]` with the printed interval. A row of
improvements has `kbps` for the first column and percentages for the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lasthop.studies.artefacts import Artefact

__all__ = ["Key", "Published", "read_published"]

Key: TypeAlias = tuple[str, str, str]
"""Row, column and unit of a printed number."""


@dataclass(frozen=True, slots=True)
class Published:
    """Numbers that a paper prints.

    Attributes:
        values: By table and key.
        intervals: The printed 95 % intervals, by table and key.
    """

    values: Mapping[str, Mapping[Key, float]]
    intervals: Mapping[str, Mapping[Key, tuple[float, float]]]


def read_published(
    tables: Mapping[str, Any], artefacts: Sequence[Artefact], combinations: Sequence[str]
) -> Published:
    """Reads `published.toml`.

    Args:
        tables: Its tables.
        artefacts: Those of the study, which a table names.
        combinations: The columns of tables of improvements; the first is the baseline.

    Raises:
        ValueError: If a table is not named after an artefact.
    """
    known = {artefact.name: artefact for artefact in artefacts}
    values: dict[str, dict[Key, float]] = {}
    intervals: dict[str, dict[Key, tuple[float, float]]] = {}
    baseline, *others = combinations
    for name, rows in tables.items():
        if name == "source":
            continue
        if name not in known:
            raise ValueError(f"published.toml: found {name!r}; expected {', '.join(known)}")
        axis, unit = known[name].axis.name, known[name].quantity.unit
        cells, ranges = values.setdefault(name, {}), intervals.setdefault(name, {})
        for row in rows:
            label = f"{row[axis]:g}"
            if "kbps" not in row:
                for column, found in row.items():
                    if column == axis:
                        continue
                    value, *ends = found if isinstance(found, list) else [found]
                    cells[label, column, unit] = value
                    if ends:
                        ranges[label, column, unit] = (ends[0], ends[1])
                continue
            cells[label, baseline, "kbps"] = row["kbps"]
            for column in others:
                cells[label, column, "%"] = row[column]
                improved = row["kbps"] * (1.0 + row[column] / 100.0)
                # To the paper's own precision: both factors are rounded in print.
                cells[label, column, "kbps"] = round(improved, 2)
    return Published(values, intervals)
