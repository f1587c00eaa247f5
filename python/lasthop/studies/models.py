"""Analytical models of the cells of a study: functions of `lasthop.analysis`, named in data.

A study that has model curves lists them as `[[model]]` tables in `study.toml`. Each gives a name to
a value: an expression (`value`), or a function of `lasthop.analysis` (`function`) with its
arguments (`with`). Expressions are made of numbers, quoted words, coordinates of the cell, other
names of models, `name.column` for the only row of a table that a function returns, `min`, `max` and
the operators + - * / // **.
Of several tables with one name, the first whose `when` matches the cell applies. In a model cell, a
quantity of the study is the model of that name.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from lasthop.evaluating import analysis

__all__ = ["UNLIMITED", "Models", "evaluate", "fill", "matches"]

UNLIMITED = "unlimited"
"""No limit, as in scenarios; passed to functions of `lasthop.analysis` as None."""

OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}

Lookup = Callable[[str], Any]


def matches(when: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    """Returns `True` if all coordinates match: each is one value or one of a list."""
    return all(
        where.get(key) in (value if isinstance(value, list) else [value])
        for key, value in when.items()
    )


def evaluate(expression: str, lookup: Lookup) -> Any:
    """The value of an expression.

    Args:
        expression: In the syntax described at the head of this module.
        lookup: The value of a name; raises `KeyError` for one that it does not know.

    Raises:
        ValueError: If the expression contains anything else, or an unknown name.
    """

    def of(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() | str() as value):
                return value
            case ast.Name(id=name):
                return lookup(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -of(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](of(left), of(right))
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=[left, right], keywords=[]):
                return {"min": min, "max": max}[name](of(left), of(right))
            case ast.Attribute(value=inner, attr=column):
                table = of(inner)
                if isinstance(table, pl.DataFrame) and column in table.columns:
                    return table[column].item()
        raise ValueError(f"cannot evaluate {ast.unparse(node)!r}")

    try:
        return of(ast.parse(expression, mode="eval").body)
    except (KeyError, SyntaxError, TypeError, ZeroDivisionError) as error:
        raise ValueError(f"cannot evaluate {expression!r}: {error}") from None


def fill(value: Any, lookup: Lookup) -> Any:
    """Returns a value of a scenario with the expressions in braces computed.

    Text that is one expression in braces becomes its value. Otherwise the values are inserted into
    the text, numbers with nine digits. Tables and lists are filled element by element.
    """
    match value:
        case str():
            whole = re.fullmatch(r"\{([^{}]*)\}", value)
            if whole:
                return evaluate(whole[1], lookup)
            return re.sub(r"\{([^{}]*)\}", lambda part: _text(evaluate(part[1], lookup)), value)
        case Mapping():
            return {key: fill(one, lookup) for key, one in value.items()}
        case list():
            return [fill(one, lookup) for one in value]
    return value


def _text(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


class Models:
    """The models of a study."""

    def __init__(self, tables: Sequence[Mapping[str, Any]], where: Mapping[str, Any]) -> None:
        """Stores the tables of `study.toml`.

        Args:
            tables: Its `[[model]]` tables.
            where: Coordinates of model cells; if empty, no cell is a model cell.
        """
        self._tables = tuple(tables)
        self._where = where
        self._known: dict[tuple[str, tuple[tuple[str, Any], ...]], Any] = {}

    def has(self, cell: Mapping[str, Any]) -> bool:
        """Returns `True` if a cell is computed by a model and not run."""
        return bool(self._where) and matches(self._where, cell)

    def value(self, name: str, cell: Mapping[str, Any]) -> Any:
        """Returns the value of a name in a cell.

        Raises:
            KeyError: If it is neither a model there nor a coordinate.
        """
        key = (name, tuple(sorted(cell.items())))
        if key not in self._known:
            self._known[key] = self._value(name, cell)
        return self._known[key]

    def _value(self, name: str, cell: Mapping[str, Any]) -> Any:
        for table in self._tables:
            if table["name"] == name and matches(table.get("when", {}), cell):
                if "value" in table:
                    return evaluate(str(table["value"]), lambda other: self.value(other, cell))
                arguments = self._arguments(table["with"], cell)
                function = table["function"]
                if function not in analysis.__all__:
                    raise ValueError(f"model {name}: lasthop.analysis has no {function!r}")
                return getattr(analysis, function)(**arguments)
        if name in cell:
            return cell[name]
        raise KeyError(name)

    def _arguments(self, value: Any, cell: Mapping[str, Any]) -> Any:
        """Returns arguments with their text evaluated; other values are unchanged."""
        match value:
            case str():
                found = evaluate(value, lambda other: self.value(other, cell))
                return None if isinstance(found, str) and found == UNLIMITED else found
            case Mapping():
                return {key: self._arguments(one, cell) for key, one in value.items()}
            case list():
                return [self._arguments(one, cell) for one in value]
        return value
