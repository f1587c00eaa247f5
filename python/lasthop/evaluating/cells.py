"""Swept values and numbers in cells of tables: numbers with units, text, JSON."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from lasthop import _lasthop

__all__ = ["UNITS", "number", "plain", "quantity_of", "value_text"]

QUANTITIES = {
    "duration": "s",
    "rate": "bps",
    "size": "bytes",
    "distance": "m",
    "ratio": "dB",
    "probability": "%",
}
"""Kinds of quantities in scenarios, and their SI units."""


def quantity_of(cell: Any) -> tuple[float, str] | None:
    """Returns a swept value as a number, and its unit."""
    if isinstance(cell, bool) or cell is None:
        return None
    if isinstance(cell, (int, float)):
        return float(cell), ""
    text = str(cell).strip()
    counted = re.fullmatch(r"([0-9.]+) (packets?|segments?|frames?)", text)
    if counted:
        return float(counted[1]), counted[2].rstrip("s") + "s"
    if not re.match(r"[0-9.]", text):
        return None
    try:
        return float(text), ""
    except ValueError:
        pass
    for kind, unit in QUANTITIES.items():
        try:
            return _lasthop.quantity(kind, text), unit
        except ValueError:
            continue
    return None


UNITS = {"s": "_s", "bps": "_bps", "bytes": "_bytes", "%": "_share"}
"""Suffixes of columns by the unit of a quantity."""


def number(value: float) -> float | None:
    """Returns a number for JSON: None for NaN and infinities, which JSON lacks."""
    return value if math.isfinite(value) else None


def value_text(value: Any) -> str:
    """Returns a swept value as text; a table as its kind and other keys: `karn-rlp (window 8)`."""
    if value is None:
        return "–"
    if isinstance(value, dict):
        rest = ", ".join(
            f"{key} {value_text(part)}" for key, part in value.items() if key != "kind"
        )
        kind = value.get("kind")
        return f"({rest})" if kind is None else f"{kind} ({rest})" if rest else str(kind)
    return json.dumps(value) if isinstance(value, (bool, list)) else str(value)


def plain(value: Any) -> Any:
    """Returns a swept value as a table cell: tables and lists as compact text."""
    return json.dumps(value) if isinstance(value, (dict, list)) else value
