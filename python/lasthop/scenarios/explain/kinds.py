"""Kinds and their parameters as text, in the units of the engine's schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lasthop.scenarios.catalogue import kind_keys
from lasthop.scenarios.explain.quantities import (
    Table,
    list_text,
    rate_text,
    share_text,
    size_text,
    time_text,
)
from lasthop.showing.labels import spaced


def _plain(number: float) -> str:
    """Returns a number without unit: 1e-6, not Python's 1e-06."""
    return f"{number:.12g}".replace("e-0", "e-")


def _probability(found: float) -> str:
    """Returns a probability in per cent, or as a number if it is small, such as bit error rates."""
    return _plain(found) if 0 < found < 1e-3 else share_text(found)


QUANTITIES: Mapping[str, Callable[[float], str]] = {
    "duration": time_text,
    "probability": _probability,
    "rate": rate_text,
    "size": size_text,
}
"""Text of a number by the quantity of its key."""


def kind_text(table: Table, union: Mapping[str, Any]) -> str:
    """Returns a kind and its parameters.

    Args:
        table: The resolved table, with numbers in SI units.
        union: The schema of the key that has this table.
    """
    keys = kind_keys(union, table["kind"])
    parameters = []
    for name, value in table.items():
        if name == "kind":
            continue
        key = keys.get(name, {})
        if isinstance(value, dict):
            if "kind" not in value:
                continue
            shown = f"({kind_text(value, key)})"
        elif isinstance(value, list):
            if any(isinstance(one, dict | list) for one in value):
                continue
            shown = list_text([_value(key, one) for one in value])
        else:
            shown = _value(key, value)
        parameters.append(f"{spaced(name)} {shown}")
    return f"{table['kind']}{': ' if parameters else ''}{', '.join(parameters)}"


def _value(key: Mapping[str, Any], value: object) -> str:
    """Returns a value in the unit of its key."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return QUANTITIES.get(key.get("x-quantity", ""), _plain)(value)
    return str(value)
