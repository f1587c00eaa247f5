"""Rates, sizes, times and lists as text, in suitable units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Table = Mapping[str, Any]

MOST_LISTED = 8
"""Number of values shown of a longer list, in addition to the last one."""


def scaled_text(value: float, units: Iterable[tuple[float, str]]) -> str:
    """Returns a value in the largest unit in which it is at least 1; units in descending order."""
    units = list(units)
    fitting = (size for size, _ in units if abs(value) >= size * (1 - 1e-9))
    size = next(fitting, units[-1][0])
    number = value / size
    return f"{f'{number:.4g}' if number < 10_000 else round(number)} {dict(units)[size]}"


UNLIMITED_BPS = 2**64 - 1
"""The engine's value for an unlimited rate."""


def rate_text(bps: float) -> str:
    """Returns a rate in bit/s, or `unlimited`."""
    if bps == UNLIMITED_BPS:
        return "unlimited"
    return scaled_text(bps, [(1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps"), (1, "bps")])


def size_text(octets: float) -> str:
    """Returns a size in bytes."""
    if octets < 10_000:
        return f"{octets:.4g} B"
    return scaled_text(octets, [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")])


def time_text(seconds: float) -> str:
    """Returns a duration in s, ms, us or ns."""
    if seconds == 0:
        return "0 s"
    return scaled_text(seconds, [(1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")])


def share_text(probability: float) -> str:
    """Returns a probability in per cent."""
    return f"{100 * probability:.3g} %"


def distribution_text(found: Table) -> str:
    """Returns the distribution of a duration."""
    if found["mean"] == 0:
        return "0 s"
    if found["distribution"] == "pareto":
        return f"Pareto of shape {found['shape']:g}, mean {time_text(found['mean'])}"
    if found["distribution"] == "uniform":
        return f"between {time_text(found['shortest'])} and {time_text(found['longest'])}"
    mean = time_text(found["mean"])
    return f"exponential, mean {mean}" if found["distribution"] == "exp" else mean


def count_text(number: int, thing: str) -> str:
    """Returns a number and its noun, in the plural if needed."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def delay_text(side: Table) -> str:
    """Returns the delay of a direction; the range if it is variable."""
    return span_text(*side["delays"])


def span_text(shortest: float, longest: float) -> str:
    """Returns a range of times, or one time if both ends are equal."""
    if shortest == longest:
        return time_text(longest)
    return f"{time_text(shortest)} to {time_text(longest)}"


def list_text(texts: Sequence[str]) -> str:
    """Returns a list of values; of a long list the first ones, the last one and their number."""
    if len(texts) <= MOST_LISTED + 2:
        return ", ".join(texts)
    return f"{', '.join(texts[:MOST_LISTED])}, …, {texts[-1]} ({len(texts)} values)"
