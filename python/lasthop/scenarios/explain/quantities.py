"""Rates, sizes, times and lists in words, each with the unit in which it reads best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Table = Mapping[str, Any]

MOST_LISTED = 8
"""Values of a list that are shown; of more the first ones and the last."""


def scaled_text(value: float, units: Iterable[tuple[float, str]]) -> str:
    """With the largest unit in which the value is at least 1; units from large to small."""
    units = list(units)
    fitting = (size for size, _ in units if abs(value) >= size * (1 - 1e-9))
    size = next(fitting, units[-1][0])
    number = value / size
    return f"{f'{number:.4g}' if number < 10_000 else round(number)} {dict(units)[size]}"


UNLIMITED_BPS = 2**64 - 1
"""What the engine calls a rate that takes no time."""


def rate_text(bps: float) -> str:
    """In bits a second, or that it takes no time."""
    if bps == UNLIMITED_BPS:
        return "unlimited"
    return scaled_text(bps, [(1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps"), (1, "bps")])


def size_text(octets: float) -> str:
    """In bytes."""
    if octets < 10_000:
        return f"{octets:.4g} B"
    return scaled_text(octets, [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")])


def time_text(seconds: float) -> str:
    """In seconds or less."""
    if seconds == 0:
        return "0 s"
    return scaled_text(seconds, [(1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")])


def share_text(probability: float) -> str:
    """In per cent."""
    return f"{100 * probability:.3g} %"


def law_text(law: Table) -> str:
    """How a duration is drawn."""
    if law["mean"] == 0:
        return "0 s"
    if law["law"] == "pareto":
        return f"Pareto of shape {law['shape']:g}, mean {time_text(law['mean'])}"
    if law["law"] == "uniform":
        return f"between {time_text(law['shortest'])} and {time_text(law['longest'])}"
    return f"{'exponential, mean ' if law['law'] == 'exp' else ''}{time_text(law['mean'])}"


def count_text(number: int, thing: str) -> str:
    """So many things."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def delay_text(side: Table) -> str:
    """The delay of a direction; of one that changes, from where to where."""
    return span_text(*side["delays"])


def span_text(shortest: float, longest: float) -> str:
    """From where to where a time goes."""
    if shortest == longest:
        return time_text(longest)
    return f"{time_text(shortest)} to {time_text(longest)}"


def list_text(texts: Sequence[str]) -> str:
    """A list; of a long one its first values, its last one and how many there are."""
    if len(texts) <= MOST_LISTED + 2:
        return ", ".join(texts)
    return f"{', '.join(texts[:MOST_LISTED])}, …, {texts[-1]} ({len(texts)} values)"
