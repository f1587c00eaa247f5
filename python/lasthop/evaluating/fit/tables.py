"""Tables of measurements: CSV with and without a header, and JSON lines."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lasthop.evaluating.fit.records import FitError
from lasthop.scenarios.files import quoted

__all__ = ["Table", "csv_rows", "csv_table", "json_table", "separator_of"]

# In case of a tie: a comma may also separate decimals.
SEPARATORS = (";", "\t", ",")
# Numbers, dates, times and addresses: a row with such a cell is not a header.
DATUM = re.compile(r"[-+.:/TZe ]*\d[-+\d.:/TZe ]*", re.ASCII)


@dataclass(slots=True)
class Table:
    """Columns of equal length.

    Attributes:
        name: Name of the file.
        columns: Cells by column; None where a row has no cell.
        lines: Line of each row in the file.
        has_header: Whether the first row had names; otherwise columns are named 1, 2, …
    """

    name: str
    columns: dict[str, list[Any]]
    lines: list[int] = field(default_factory=list)
    has_header: bool = True

    def where(self, row: int) -> str:
        """Returns the place of a row, for messages."""
        return f"{self.name}:{self.lines[row]}"

    def first(self, column: str, matches: Callable[[Any], bool]) -> int | None:
        """Returns the first row whose cell matches, or None."""
        cells = self.columns[column]
        return next((row for row, cell in enumerate(cells) if matches(cell)), None)


def separator_of(line: str) -> str:
    """Returns the separator of the columns of a line; empty: it has one column."""
    found = max(SEPARATORS, key=line.count)
    return found if found in line else ""


def csv_rows(text: str, name: str) -> csv.DictReader[str]:
    """Returns a reader of CSV with commas and a header.

    Raises:
        FitError: If two columns have the same name.
    """
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    _check_unique(list(reader.fieldnames or ()), name, 1)
    return reader


def csv_table(text: str, name: str, separator: str) -> Table:
    """Returns the table in a text; blank lines and comments (`#`) are skipped.

    Args:
        text: The lines.
        name: Name of the file.
        separator: Separator of the columns; a blank: any number of blanks.

    Raises:
        FitError: If two columns have the same name.
    """
    rows = _blank_separated(text) if separator == " " else _separated(text, separator)
    header, rows = _header(rows)
    width = len(rows[0][1]) if rows else 0
    names = header or [str(number) for number in range(1, width + 1)]
    _check_unique(names, name, 1 if header is None else 0)
    columns: dict[str, list[Any]] = {column: [] for column in names}
    for _, cells in rows:
        for place, column in enumerate(names):
            columns[column].append(cells[place].strip() if place < len(cells) else None)
    return Table(name, columns, [line for line, _ in rows], has_header=header is not None)


def _check_unique(names: list[str], name: str, line: int) -> None:
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice is not None:
        raise FitError(
            f"{name}:{max(line, 1)}: {names.count(twice)} columns are named `{twice}`: expected "
            "unique names"
        )


def _separated(text: str, separator: str) -> list[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text), delimiter=separator or ",", skipinitialspace=True)
    return [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]


def _blank_separated(text: str) -> list[tuple[int, list[str]]]:
    """Returns rows whose last column takes the rest of the line, such as `timed out`."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    width = max(len(next((line for _, line in lines if not _is_comment(line)), "").split()), 1)
    return [(number, line.split(None, width - 1)) for number, line in lines]


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _header(
    rows: list[tuple[int, list[str]]],
) -> tuple[list[str] | None, list[tuple[int, list[str]]]]:
    """Returns the names of the columns, or None, and the rows without header and comments."""
    kept = [(line, cells) for line, cells in rows if not _is_comment(cells[0])]
    if not kept:
        return None, []
    first = [cell.strip() for cell in kept[0][1]]
    if not any(DATUM.fullmatch(cell) for cell in first):
        return first, kept[1:]
    # A header may begin with `#`.
    above = [cells for line, cells in rows if line < kept[0][0]]
    names = [cell.strip(" #") for cell in above[-1]] if above else []
    if len(names) == len(first) > 1 and not any(DATUM.fullmatch(cell) for cell in names):
        return names, kept
    return None, kept


class _Twice(ValueError):
    """A duplicate key in a table."""


def _table_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(repr(next(name for name in names if names.count(name) > 1)[:40]))
    return table


def json_table(text: str, name: str) -> Table:
    """Returns the table in JSON lines: an object per line.

    Raises:
        FitError: If a line is not an object.
    """
    table = Table(name, {})
    for line, row in _objects(text, name):
        for key in row:
            table.columns.setdefault(key, [None] * len(table.lines))
        for key, cells in table.columns.items():
            cells.append(row.get(key))
        table.lines.append(line)
    return table


def _objects(text: str, name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        try:
            row = json.loads(line, object_pairs_hook=_table_of)
        except _Twice as error:
            raise FitError(f"{where}: duplicate key {error}") from None
        except ValueError as error:
            raise FitError(f"{where}: invalid JSON: {error}: expected an object") from None
        if not isinstance(row, dict):
            raise FitError(f"{where}: {quoted(line)}: expected an object")
        yield number, row
