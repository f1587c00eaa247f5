"""Errors for arguments, and the grammar of their messages.

A message states the problem, its location, the value found, the values that are accepted, and a
remedy, if any: ``invalid value `-1` for `seed`: expected 0 to 10``. Arguments are named in
backquotes as in Python; the command line replaces them with its options. This module imports no
other one: the command line knows its errors before it loads the modules that raise them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # that of `typing`, whose import takes a while
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ArgumentError",
    "Refused",
    "UnknownMetric",
    "check_least",
    "check_point",
    "invalid",
    "suggestion",
    "unknown",
    "warn_renamed",
]


class Refused(ValueError):
    """A request is refused; the message names the value found and the values accepted."""


class ArgumentError(ValueError):
    """An argument is out of range or conflicts with another one."""


class UnknownMetric(ArgumentError, KeyError):
    """An argument names a metric that does not exist."""

    def __str__(self) -> str:
        # `KeyError` would put the message into quotes.
        return str(self.args[0])


def warn_renamed(text: str) -> None:
    """Warns of a former name, at the line that calls this package."""
    import sys
    import warnings

    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals["__name__"].startswith("lasthop."):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, FutureWarning, stacklevel=level)


def invalid(name: str, value: object, expected: str) -> str:
    """Returns the message for a value that an argument does not accept."""
    return f"invalid value `{value}` for `{name}`: expected {expected}"


def suggestion(text: str, known: Iterable[str]) -> str:
    """Returns ``; did you mean `NAME`?`` for the known name most similar to a text, or nothing.

    A name also matches by its last component: `goodput_bps` for `flow.a.goodput_bps`. If no name is
    nearly equal, abbreviations such as `--reps` for `--replications` take precedence.
    """
    import difflib

    names = {name: name for name in known}
    ends = {name.rpartition(".")[2]: name for name in names}
    found = difflib.get_close_matches(text, [*names, *ends], n=1, cutoff=0.8)
    if not found:
        found = [one for one in names if _is_abbreviation(text.strip("-"), one.strip("-"))]
        found = [min(found, key=len)] if found else []
    if not found:
        found = difflib.get_close_matches(text, [*names, *ends], n=1, cutoff=0.5)
    return f"; did you mean `{names.get(found[0]) or ends[found[0]]}`?" if found else ""


def _is_abbreviation(text: str, name: str) -> bool:
    """Whether a name begins with the first three letters of a text and contains all in order."""
    rest = iter(name)
    return len(text) > 3 and name.startswith(text[:3]) and all(one in rest for one in text)


def unknown(kind: str, text: str, known: Iterable[str], name: str = "") -> str:
    """Returns the message for a name that does not exist.

    Args:
        kind: Kind of the name, such as `metric`.
        text: The name found.
        known: The names that exist. The most similar one is suggested; if none is similar, all are
            listed.
        name: Argument that contains the name, if the kind does not identify it.
    """
    names = list(known)
    where = f" for `{name}`" if name else ""
    near = suggestion(text, names)
    return f"unknown {kind} `{text}`{where}" + (near or f": expected {', '.join(names) or 'none'}")


def check_least(name: str, value: int, least: int) -> None:
    """Checks that an integer is at least `least` and fits the engine's integers.

    Raises:
        ArgumentError: If the value is below `least` or at least 2^63.
    """
    if not least <= value < 2**63:
        raise ArgumentError(invalid(name, value, f"{least} to 2^63 - 1"))


def check_point(point: int, points: int) -> None:
    """Checks that a point exists.

    Args:
        point: Index of the point.
        points: Number of points.

    Raises:
        ArgumentError: If there is no such point.
    """
    if not 0 <= point < points:
        raise ArgumentError(invalid("point", point, f"0 to {points - 1}"))
