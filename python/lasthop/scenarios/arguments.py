"""What is said of an argument that cannot be used.

Messages begin with the argument's name, `seed: found -1; allowed: …`, so that the command line can
say which option it was. This module imports nothing: the command line knows its errors before it
loads what raises them.
"""

from __future__ import annotations

__all__ = ["ArgumentError", "Refused", "UnknownMetric", "check_least", "check_point"]


class Refused(ValueError):
    """Something that was asked for is refused; the message says what was found and is allowed."""


class ArgumentError(ValueError):
    """An argument is out of range, or does not go with another one."""


class UnknownMetric(ArgumentError, KeyError):
    """An argument names a metric that there is not."""

    def __str__(self) -> str:
        # That of KeyError would put the message into quotes.
        return str(self.args[0])


def check_least(name: str, value: int, least: int) -> None:
    """Refuses what the engine's numbers cannot hold.

    Raises:
        ArgumentError: If the value is below `least` or at least 2^63.
    """
    if not least <= value < 2**63:
        raise ArgumentError(f"{name}: found {value}; allowed: from {least} to 2^63 - 1")


def check_point(point: int, points: int) -> None:
    """Refuses what is not the index of one of so many points.

    Raises:
        ArgumentError: If there is no such point.
    """
    if not 0 <= point < points:
        raise ArgumentError(f"point: found {point}; allowed: from 0 to {points - 1}")
