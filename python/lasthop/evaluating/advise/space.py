"""Candidates for a link: protocols with parameters, and transports.

The table lists values that the race compares and ranges for the search. Kinds that are not
realisable (`ideal-sr`) or need a separate design (`services`) are excluded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lasthop import _lasthop
from lasthop.scenarios.scenario import Scenario, inline_toml

__all__ = [
    "PROTOCOLS",
    "Candidate",
    "Range",
    "candidate",
    "candidates",
    "kind_of",
    "ranges",
    "swept",
]


@dataclass(frozen=True, slots=True)
class Range:
    """Range of a parameter in the search.

    Attributes:
        key: Key of the protocol.
        low: Minimum.
        high: Maximum.
        unit: Unit written after the number; empty for integers.
    """

    key: str
    low: float
    high: float
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Space:
    """A protocol: values for the race, ranges for the search."""

    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    ranges: tuple[Range, ...] = ()


PROTOCOLS: Mapping[str, Space] = {
    "raw": Space(),
    "go-back-n": Space({"window": (8, 32)}, (Range("window", 2, 128),)),
    "selective-repeat": Space(
        {"window": (8, 32, 128)}, (Range("window", 4, 128), Range("timeout", 1.1, 4.0, "rtt"))
    ),
    "karn-rlp": Space(
        {"retransmissions": (1, 3, 8)},
        (Range("retransmissions", 0, 20), Range("nack_timeout", 1.1, 4.0, "rtt")),
    ),
    "oos-rlp": Space(
        {"retransmissions": (1, 3, 8)},
        (Range("retransmissions", 0, 20), Range("nack_timeout", 1.1, 4.0, "rtt")),
    ),
    "stop-and-wait": Space(),
    "xor-fec": Space({"block": (2, 4, 8)}, (Range("block", 1, 64),)),
    "harq": Space({"units": (10, 20)}, (Range("units", 2, 64),)),
    "rlc-am": Space(
        {"payload": ("40 B", "160 B")},
        (Range("payload", 20, 400, "B"), Range("poll_sdu", 1, 16)),
    ),
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate.

    Attributes:
        name: Name in tables.
        changes: Dotted keys of the scenario, and their values.
        protocol: Kind of the link protocol.
        point: The scenario, resolved.
        is_tuned: Whether a search has chosen its parameters.
    """

    name: str
    changes: Mapping[str, str]
    protocol: str
    point: _lasthop.Point
    is_tuned: bool = False

    @property
    def hash(self) -> str:
        """Hash of the scenario; equal for identical candidates."""
        return f"{self.point.hash:016x}"


def candidates(
    scenario: Scenario, link: str, protocols: Sequence[str], transports: Sequence[str]
) -> Iterator[tuple[Candidate | None, str, str]]:
    """Yields each candidate, or the reason why the engine refuses it: (candidate, name, message).

    Args:
        scenario: Link and traffic.
        link: Name of the link.
        protocols: Kinds, from `PROTOCOLS`.
        transports: TCP variants for all TCP flows; empty: unchanged.
    """
    flows = scenario.to_dict().get("flow", {})
    tcp = [
        name
        for name, flow in flows.items()
        if isinstance(flow.get("transport"), dict) and flow["transport"].get("kind") == "tcp"
    ]
    for variant in transports if tcp and transports else [None]:
        own = {} if variant is None else {f"flow.{name}.transport.variant": variant for name in tcp}
        for kind in protocols:
            for settings in _grid(PROTOCOLS[kind].grid):
                yield candidate(scenario, link, kind, settings, own)


def swept(scenario: Scenario) -> Iterator[Candidate]:
    """Yields the points of a scenario's sweep as candidates."""
    for point in scenario.points():
        changes = {
            key: value if isinstance(value, str) else inline_toml(value)
            for key, value in json.loads(point.parameters).items()
        }
        words = [f"{key.rpartition('.')[2]} {value}" for key, value in changes.items()]
        yield Candidate(", ".join(words), changes, "", point)


def _grid(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    settings: list[dict[str, Any]] = [{}]
    for key, values in grid.items():
        settings = [{**one, key: value} for one in settings for value in values]
    return settings


def candidate(
    scenario: Scenario,
    link: str,
    kind: str,
    settings: Mapping[str, Any],
    others: Mapping[str, str],
    *,
    is_tuned: bool = False,
) -> tuple[Candidate | None, str, str]:
    """Returns one candidate, or the reason why the engine refuses it."""
    table = ", ".join(
        f"{key} = {value if isinstance(value, int) else f'{value!r}'}".replace("'", '"')
        for key, value in {"kind": kind, **settings}.items()
    )
    changes = {f"link.{link}.protocol": f"{{ {table} }}", **others}
    words = [kind, *(f"{key} {value}" for key, value in settings.items()), *others.values()]
    name = " ".join(dict.fromkeys(words))
    try:
        points = scenario.with_(changes).points()
        points[0].metrics()
    except (_lasthop.ScenarioError, _lasthop.RunError) as error:
        return None, name, str(error)
    return Candidate(name, changes, kind, points[0], is_tuned), name, ""


def ranges(kind: str, round_trip_s: float) -> list[Range]:
    """Returns the ranges of a protocol; times in RTT of the link are converted to ms."""
    found = []
    for one in PROTOCOLS[kind].ranges:
        if one.unit == "rtt":
            milliseconds = 1000.0 * round_trip_s
            found.append(Range(one.key, one.low * milliseconds, one.high * milliseconds, "ms"))
        else:
            found.append(one)
    return found


def kind_of(table: Any) -> str:
    """Returns the `kind` of a table in a scenario; `none` if the key is missing."""
    return str(table.get("kind", "none") if isinstance(table, Mapping) else table or "none")
