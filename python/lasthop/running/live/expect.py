"""Expectations about a live run, such as `delay_p95 < 200 ms`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lasthop import _lasthop
from lasthop.running.live.outcome import COUNTED, DELAYS, values
from lasthop.scenarios.arguments import ArgumentError, invalid, suggestion

__all__ = ["Expectation", "Finding", "find", "parse", "shown"]

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
# Kinds of quantities; other names are counts.
QUANTITIES = {
    "duration": "duration",
    "goodput": "rate",
    "loss": "probability",
    **{f"{name}_{part}": "duration" for name in ("delay", "queueing", "rtt") for part in DELAYS},
}
OF_RUN = ("duration", "exit")
OF_LINK = tuple(f"rtt_{part}" for part in DELAYS)
OF_DIRECTION = (
    *("goodput", "loss", "repaired", "discarded", *COUNTED),
    *(f"{name}_{part}" for name in ("delay", "queueing") for part in DELAYS),
)
FORM = "NAME < VALUE, with <, <=, =, !=, >= or >"


@dataclass(frozen=True, slots=True)
class Expectation:
    """A condition on the summary of a run.

    Attributes:
        text: The condition as given.
        name: Name of the value, with the link and its direction if given.
        comparison: Comparison operator.
        limit: Value on its right side, in SI units.
    """

    text: str
    name: str
    comparison: str
    limit: float

    def holds(self, value: float) -> bool:
        """Returns whether a value meets the condition."""
        return COMPARISONS[self.comparison](value, self.limit)


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a condition was met, and the reason.

    Attributes:
        expectation: The condition.
        met: Whether it was met.
        found: The value with its unit, and where it was measured.
    """

    expectation: Expectation
    met: bool
    found: str

    def __str__(self) -> str:
        return f"{'met' if self.met else 'not met'}: {self.expectation.text}: {self.found}"


def parse(text: str, links: Mapping[str, Any]) -> Expectation:
    """Reads a condition.

    Args:
        text: The condition.
        links: Tables of the links of the scenario.

    Raises:
        lasthop.scenarios.arguments.ArgumentError: If it is malformed, or names an unknown value.
    """
    parts = re.fullmatch(r"\s*([^\s<>=!]+)\s*(<=|>=|!=|<|>|==?)\s*(.+?)\s*", text)
    if parts is None:
        raise ArgumentError(invalid("expect", text, FORM))
    name, comparison = _checked_name(parts[1], links, text), parts[2].replace("==", "=")
    kind = QUANTITIES.get(name.rpartition(".")[2])
    try:
        limit = float(parts[3]) if kind is None else _lasthop.quantity(kind, parts[3])
    except ValueError:
        example = {None: "a number", "duration": "200 ms", "rate": "5 Mbps", "probability": "1 %"}
        raise ArgumentError(
            f"invalid value `{parts[3]}` of `{name}` for `expect`: expected {example[kind]}"
        ) from None
    return Expectation(text, name, comparison, limit)


def _checked_name(name: str, links: Mapping[str, Any], text: str) -> str:
    """Returns the full name of a value; without link and direction if they are not given."""
    short = name.removeprefix("link.")
    path, _, value = short.rpartition(".")
    known: list[str] = [*OF_RUN, *OF_LINK, *OF_DIRECTION]
    if value not in known:
        raise ArgumentError(
            f"unknown value `{value}` in `{text}` for `expect`"
            + (suggestion(value, known) or f": expected {', '.join(known)}")
        )
    if not path:
        return value
    link, _, direction = path.rpartition(".")
    if direction not in ("forward", "reverse"):
        link, direction = path, ""
    places = [one for one in links if one == link] or ([""] if not link and direction else [])
    if not places or value in OF_RUN or (value in OF_LINK and direction):
        raise ArgumentError(
            f"unknown place `{path}` of `{value}` in `{text}` for `expect`: expected "
            + _places(value, links)
        )
    return ".".join(part for part in ("link", link, direction, value) if part)


def _places(value: str, links: Mapping[str, Any]) -> str:
    if value in OF_RUN:
        return "none"
    ends = ("",) if value in OF_LINK else ("", ".forward", ".reverse")
    return ", ".join(f"link.{link}{end}" for link in links for end in ends)


def _measured(expectation: Expectation, summary: Mapping[str, Any]) -> tuple[float | None, str]:
    """Returns the value of a condition's name in a summary, and where it was measured.

    A name without link or direction is the largest delay, or else the value of the direction that
    delivered the most bytes. None if there is no value: of a delay without packets, or of a run
    that was cut.
    """
    path, _, value = expectation.name.rpartition(".")
    known = values(summary)
    if value in OF_RUN:
        return known.get(value), ""
    link, _, direction = path.removeprefix("link").lstrip(".").rpartition(".")
    if direction not in ("forward", "reverse"):
        link, direction = path.removeprefix("link").lstrip("."), ""
    places = [
        (f"link.{one['link']}" + ("" if value in OF_LINK else f".{one['direction']}"), one)
        for one in summary["directions"]
        if link in ("", one["link"]) and direction in ("", one["direction"])
    ]
    found = [(where, one) for where, one in places if f"{where}.{value}" in known]
    if not found:
        return None, ""
    if QUANTITIES.get(value) == "duration":
        where, _ = max(found, key=lambda place: known[f"{place[0]}.{value}"])
    else:
        where, _ = max(found, key=lambda place: float(place[1]["delivered_bytes"]))
    return known[f"{where}.{value}"], where


def shown(name: str, value: float) -> str:
    """Returns a value with its unit."""
    from lasthop.running.live.words import rate

    match QUANTITIES.get(name.rpartition(".")[2]):
        case "duration":
            return f"{value * 1e3:.4g} ms" if value < 1 else f"{value:.4g} s"
        case "rate":
            return rate(value)
        case "probability":
            return f"{value * 100:.3g} %"
        case _:
            return f"{value:g}"


def find(expectation: Expectation, summaries: Sequence[Mapping[str, Any]]) -> Finding:
    """Decides on a condition from one run or several.

    The mean of several runs decides; `exit` and conditions with `=` or `!=` must be met by each of
    them.
    """
    from lasthop.evaluating.statistics.means import interval

    measured = [_measured(expectation, summary) for summary in summaries]
    known = [value for value, _ in measured if value is not None]
    if len(known) < len(measured) or not known:
        number = next((k for k, (value, _) in enumerate(measured, 1) if value is None), 1)
        which = f"run {number}: " if len(measured) > 1 else ""
        return Finding(
            expectation, False, f"{which}no value: no packet was delivered, or the run was cut"
        )
    where = next((f" ({where})" for _, where in measured if where), "")
    if len(known) == 1:
        text = shown(expectation.name, known[0])
        return Finding(expectation, expectation.holds(known[0]), text + where)
    good = sum(map(expectation.holds, known))
    count = f"; {good} of {len(known)} runs meet it"
    if expectation.name == "exit" or expectation.comparison in ("=", "!="):
        bad = next((value for value in known if not expectation.holds(value)), known[0])
        text = shown(expectation.name, bad)
        return Finding(expectation, good == len(known), f"{text}{where}{count}")
    own = interval(known)
    text = f"mean {shown(expectation.name, own.mean)} ± {shown(expectation.name, own.ci95)}"
    return Finding(expectation, expectation.holds(own.mean), f"{text}{where}{count}")
