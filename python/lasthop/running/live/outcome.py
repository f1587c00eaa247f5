"""Results of a live run: a line per second and a summary, from the messages of its driver.

The messages count from the start of the run. A line contains the differences from the line before,
so each can be read alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["COUNTED", "DELAYS", "Outcome", "values"]

COUNTED = ("offered", "delivered", "frames", "lost", "drops", "retransmissions")
"""Counters of a direction, by their names in messages."""

DELAYS = ("mean", "p50", "p90", "p95", "p99", "max")
"""Statistics of delays."""

# Number of samples above which two neighbours become one.
MOST_SAMPLES = 12_000


class Outcome:
    """The results of a run so far.

    Attributes:
        addresses: Name of each host by address.
        samples: State of each direction, every 0.1 s or, in long runs, less often.
        changes: Changes of the links during the run.
        end: The message at the end; None if the run has not ended, or its driver was killed.
        tick: The latest state of each direction; None in the first second.
    """

    def __init__(self) -> None:
        """Starts without results."""
        self.addresses: dict[str, str] = {}
        self.samples: list[Mapping[str, Any]] = []
        self.changes: list[Mapping[str, Any]] = []
        self.end: Mapping[str, Any] | None = None
        self.tick: Mapping[str, Any] | None = None
        self.before: Mapping[str, Any] | None = None

    def add(self, message: Mapping[str, Any]) -> None:
        """Adds a message of the driver."""
        match message["kind"]:
            case "start":
                for name, addresses in message["hosts"].items():
                    self.addresses.update(dict.fromkeys(addresses, name))
            case "sample":
                self.samples.append(message)
                if len(self.samples) > MOST_SAMPLES:
                    pairs = zip(self.samples[::2], self.samples[1::2], strict=False)
                    self.samples = [_merged(*pair) for pair in pairs]
            case "tick":
                self.before, self.tick = self.tick, message
            case "change":
                self.changes.append(message)
            case "end":
                self.end = message

    def line(self) -> dict[str, Any]:
        """Returns the line of the latest second; call it after the first tick."""
        tick, before = self.tick or {"time": 0.0, "links": [], "round_trips": {}}, self.before
        seconds = tick["time"] - (before["time"] if before else 0.0)
        old = before["links"] if before else [{}] * len(tick["links"])
        directions = []
        for now, was in zip(tick["links"], old, strict=True):
            bits = 8 * (now["delivered_bytes"] - was.get("delivered_bytes", 0))
            directions.append(
                {
                    "link": now["link"],
                    "direction": now["direction"],
                    "goodput_bps": bits / seconds if seconds > 0 else 0.0,
                    "queue": now["queue"],
                    **{name: now[name] - was.get(name, 0) for name in COUNTED},
                    "delay": now["delay"],
                    "queueing": now["queueing"],
                }
            )
        return {
            "kind": "second",
            "time": tick["time"],
            "directions": directions,
            "round_trips": tick["round_trips"],
        }

    def summary(self) -> dict[str, Any]:
        """Returns the summary; of a run that was cut, its counters until the last second."""
        changes = [dict(change) for change in self.changes]
        if self.end is None:
            names = ("link", "direction", *COUNTED, "delivered_bytes")
            tick = self.tick or {"time": 0.0, "links": []}
            directions = [{name: one[name] for name in names} for one in tick["links"]]
            return {
                "kind": "summary",
                "complete": False,
                "time": tick["time"],
                "directions": directions,
                "round_trips": {},
                "changes": changes,
            }
        end = self.end
        return {
            "kind": "summary",
            "complete": True,
            "time": end["time"],
            "code": end["code"],
            "programs": end["programs"],
            "directions": end["summary"]["directions"],
            "round_trips": end["summary"]["round_trips"],
            "changes": changes,
            "lateness": end["lateness"],
            "notes": end["notes"],
        }


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Returns one sample for two: the later counters, the mean rate and the delays of both."""
    directions = []
    for old, new in zip(first["directions"], second["directions"], strict=True):
        rates = [one["rate_bps"] for one in (old, new) if one["rate_bps"] is not None]
        means = [one["delay_mean_s"] for one in (old, new) if one["delay_mean_s"] is not None]
        most = [one["delay_max_s"] for one in (old, new) if one["delay_max_s"] is not None]
        directions.append(
            {
                **new,
                "rate_bps": sum(rates) / len(rates) if rates else None,
                "delay_mean_s": sum(means) / len(means) if means else None,
                "delay_max_s": max(most, default=None),
            }
        )
    return {**second, "directions": directions}


def values(summary: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers of a summary by name, such as `link.radio.forward.delay_p95`.

    Delays are in seconds, rates in bits per second. A direction without packets has no delays.
    """
    found: dict[str, float] = {"duration": float(summary["time"])}
    if "code" in summary:
        found["exit"] = float(summary["code"])
    for one in summary["directions"]:
        path = f"link.{one['link']}.{one['direction']}"
        for name in ("goodput_bps", "repaired", "discarded", *COUNTED):
            if name in one:
                found[f"{path}.{name.removesuffix('_bps')}"] = float(one[name])
        if one.get("frames"):
            found[f"{path}.loss"] = one["lost"] / one["frames"]
        found.update(_delays(f"{path}.delay", one.get("delay")))
        found.update(_delays(f"{path}.queueing", one.get("queueing")))
    for link, part in summary["round_trips"].items():
        found.update(_delays(f"link.{link}.rtt", part))
    return found


def _delays(path: str, part: Mapping[str, float] | None) -> Iterator[tuple[str, float]]:
    if part is not None:
        for name in DELAYS:
            yield f"{path}_{name}", float(part[f"{name}_s"])
