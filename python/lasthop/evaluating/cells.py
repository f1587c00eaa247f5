"""Swept values and numbers in cells of tables: numbers with units, text, JSON."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from lasthop import _lasthop

__all__ = ["UNITS", "number", "plain", "plus_minus", "quantity_of", "rounded", "value_text"]

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


def rounded(value: float, digits: int = 3, *, sign: bool = False) -> str:
    """Returns a number with significant digits, without an exponent from 1e-6 to 1e15.

    Args:
        value: The number; NaN is a dash.
        digits: Significant digits; further digits of integers are zeros.
        sign: Whether positive numbers have a sign.
    """
    if math.isnan(value):
        return "–"
    if value == 0.0 or not 1e-6 <= abs(value) < 1e15:
        return f"{value:{'+' if sign else ''}.{digits}g}"
    cut = float(f"{value:.{digits - 1}e}")
    places = max(digits - 1 - math.floor(math.log10(abs(cut))), 0)
    text = f"{cut:{'+' if sign else ''}.{places}f}"
    return text.rstrip("0").rstrip(".") if places else text


def plus_minus(value: float, width: float | None) -> str:
    """Returns a number and the half-width of its interval, to two digits of the half-width.

    Both have the same decimal places, none if the half-width is above 10.

    Args:
        value: The number; NaN is a dash.
        width: The half-width; None or infinite without an interval.
    """
    if math.isnan(value):
        return "–"
    if width is None or not math.isfinite(width):
        return rounded(value, 5)
    if width == 0.0:
        return f"{rounded(value, 5)} ± 0"
    places = 1 - math.floor(math.log10(width))
    if places > 9:
        return f"{value:.6g} ± {width:.1e}"
    return f"{value:.{max(places, 0)}f} ± {width:.{max(places, 0)}f}"


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
