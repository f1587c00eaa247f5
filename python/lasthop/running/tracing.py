"""Time series and packets of one replication."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from lasthop import _lasthop
from lasthop.running.writing import remove_partial, write_file
from lasthop.scenarios.arguments import ArgumentError, check_least, check_point
from lasthop.scenarios.files import read_bytes
from lasthop.scenarios.scenario import Scenario, as_scenario
from lasthop.showing.words import point_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Trace", "capture", "trace"]

WINDOW_EVENTS = ("cwnd", "ssthresh")
QUEUE_EVENTS = ("queue", "drop")
NONE = 2**64 - 1
PACKET = 65_535

EVENTS = pl.Schema(
    {
        "time_s": pl.Float64,
        "entity": pl.String,
        "event": pl.String,
        "sequence": pl.Float64,
        "value": pl.Float64,
    }
)
FRAMES = pl.Schema(
    {
        "entity": pl.String,
        "kind": pl.String,
        **dict.fromkeys(("sequence", "count", "ack"), pl.UInt64),
        "repeated": pl.Boolean,
        **dict.fromkeys(("connection", "incarnation", "segment", "segment_ack"), pl.UInt64),
        "sack": pl.String,
        "bytes": pl.UInt64,
        **dict.fromkeys(("start_s", "end_s", "arrival_s"), pl.Float64),
    }
)
ADDED = ("sack",)
"""Columns of frames that traces of earlier versions do not have."""
ABOUT = ("name", "point", "complete", "hosts", "agents", "metrics")


@dataclass(frozen=True, repr=False)
class Trace:
    """What happened in one replication.

    Attributes:
        frame: One row per event, in order of time: `time_s`, `entity` (such as `flow.transfer` or
            `link.wireless.forward`), `event`, `sequence` and `value`, whose meaning goes with the
            event; null where it has none.
        transmissions: One row per frame on the air, control frames too, by the end of transmission:
            `entity` (such as `link.wireless.forward`); `kind` (`data`, `segment`, `ack`, `nack`,
            `keepalive`, `parity`, `skip`); `sequence` (of `data` and `segment` its number, of `ack`
            the next one expected, of `nack` the missing one, of `keepalive` the next new one, of
            `parity` the first of its block, of `skip` the first that was not given up);
            `count` (of `parity` the frames of its block, otherwise 1); `ack` (the cumulative
            acknowledgment that it carries, or null); `repeated` (was its number sent before?);
            on a link without protocol, of the TCP segment in it, `connection` and `incarnation`,
            `segment` (its first byte, the SYN being byte 0; null if it only acknowledges) and
            `segment_ack` (its cumulative acknowledgment) and `sack` (its SACK blocks as
            `first-end`, of bytes, `end` the one after the last, with spaces between them; null if
            it has none), otherwise null;
            `bytes` on the air; `start_s` and `end_s` of the transmission; `arrival_s` of the last
            bit, null if the frame was lost. Without link protocol, packets are numbered as they
            are sent.
        hosts: By link, the host where its forward direction starts and the one where it ends.
        metrics: The replication's metrics by their full names.
        name: Name of the scenario.
        complete: False if the run was interrupted; the events are those up to then.
        agents: By link, the host where its agent sits.
        point: Of a sweep, the swept values of the point that it is of, in words; else empty.
    """

    frame: pl.DataFrame
    transmissions: pl.DataFrame
    hosts: Mapping[str, tuple[str, str]]
    metrics: Mapping[str, float]
    name: str
    complete: bool = True
    agents: Mapping[str, str] = field(default_factory=dict)
    point: str = ""

    def __repr__(self) -> str:
        state = "" if self.complete else ", incomplete"
        return (
            f"<Trace of {self.name!r}: {self.frame.height} events, "
            f"{self.transmissions.height} frames{state}>"
        )

    def series(self) -> dict[str, pl.DataFrame]:
        """The events by subject: `cwnd`, `sequence`, `queue` and `link`, columns as in `frame`."""
        is_link = pl.col("entity").str.starts_with("link.")
        window = pl.col("event").is_in(WINDOW_EVENTS)
        queue = pl.col("event").is_in(QUEUE_EVENTS)
        return {
            "cwnd": self.frame.filter(~is_link & window),
            "sequence": self.frame.filter(~is_link & ~window),
            "queue": self.frame.filter(is_link & queue),
            "link": self.frame.filter(is_link & ~queue),
        }

    def write(self, folder: str | Path) -> list[Path]:
        """Writes the tables of `series` and the frames as CSV, the rest as `trace.json`.

        Args:
            folder: An existing folder.

        Returns:
            The files.

        Raises:
            OSError: If a file cannot be written.
        """
        folder = Path(folder)
        written = []
        for name, frame in {**self.series(), "frames": self.transmissions}.items():
            written.append(folder / f"{name}.csv")
            _write(written[-1], frame.write_csv())
        about = {name: getattr(self, name) for name in ABOUT}
        about["metrics"] = {
            name: None if math.isnan(value) else value for name, value in self.metrics.items()
        }
        written.append(folder / "trace.json")
        _write(written[-1], json.dumps(about, indent=2) + "\n")
        return written

    @classmethod
    def read(cls, folder: str | Path) -> Trace:
        """Reads back what `write`, and so `lasthop trace --out`, wrote.

        Events of one instant stand in the order of their subjects. `sack` is null in a trace that
        was written before there was this column.

        Raises:
            OSError: If a file cannot be read.
            ValueError: If a file is not what `write` writes.
        """
        folder = Path(folder)
        try:
            parts = [
                pl.read_csv(read_bytes(folder / f"{name}.csv"), schema=EVENTS)
                for name in ("cwnd", "sequence", "queue", "link")
            ]
            frames = _read_frames(read_bytes(folder / "frames.csv"))
            about = json.loads(read_bytes(folder / "trace.json"))
            hosts = {link: (first, last) for link, (first, last) in about["hosts"].items()}
            metrics = {
                name: math.nan if value is None else float(value)
                for name, value in about["metrics"].items()
            }
            rest = {name: about[name] for name in ("name", "complete", "agents")}
            rest["point"] = str(about.get("point", ""))
        except (pl.exceptions.PolarsError, ValueError, KeyError, AttributeError) as error:
            raise ValueError(
                f"{folder}: found damaged files ({error}); allowed: what lasthop trace wrote"
            ) from None
        events = pl.concat(parts).sort("time_s", maintain_order=True)
        return cls(events, frames, hosts=hosts, metrics=metrics, **rest)

    def plot(self) -> Figure:
        """Draws congestion window, sequence numbers, queues and losses over time."""
        from lasthop.showing.figures.overview import draw_trace

        return draw_trace(self)

    def plot_link(
        self,
        link: str,
        *,
        start: float | None = None,
        end: float | None = None,
        title: str | None = None,
        size: str | None = None,
    ) -> Figure:
        """Draws the time sequence of one link: its frames as arrows from host to host.

        Args:
            link: Name of the link.
            start: Where the picture begins, in seconds since the start of the run; if None, a
                little before the first lost frame.
            end: Where it ends; if None, when that frame has gone up or is given up.
            title: Above the picture, instead of its scenario, link and point.
            size: `column` (3.4 inches wide) or `full` (7 inches); 6.2 inches if None.

        Raises:
            ValueError: If there is no such link, or if it sent no frame or too many to draw.
        """
        from lasthop.showing.figures.ladder import draw_link

        return draw_link([self], link, start, end, title=title, size=size)


def _write(path: Path, text: str) -> None:
    """Writes a file; an error names it, also one that only comes when the disk is full."""
    write_file(path, text.encode())


def _read_frames(data: bytes) -> pl.DataFrame:
    """Frames from CSV, perhaps without the columns that were added later."""
    header = data.split(b"\n", 1)[0].decode("utf-8", "replace").rstrip("\r").split(",")
    there = {name: kind for name, kind in FRAMES.items() if name in header or name not in ADDED}
    frames = pl.read_csv(data, schema=pl.Schema(there))
    added = (pl.lit(None, dtype=FRAMES[name]).alias(name) for name in ADDED if name not in there)
    return frames.with_columns(*added).select(FRAMES.names())


def _host(agents: Any) -> str | None:
    """The host of a link's agents: that of the first one that names it."""
    if agents is None:
        return None
    several = agents if isinstance(agents, list) else [agents]
    return next((agent["at"] for agent in several if "at" in agent), None)


def trace(
    scenario: Scenario | Mapping[str, Any] | str | Path,
    *,
    seed: int | None = None,
    replication: int = 0,
    point: int = 0,
) -> Trace:
    """Runs one replication and records its events.

    Args:
        scenario: As for `lasthop.run`.
        seed: Master seed; what the scenario says if None.
        replication: Which replication; the same one that `run` averages over.
        point: Which point of the scenario's sweep.

    Raises:
        lasthop.ScenarioError: If the scenario is refused.
        lasthop.RunError: If the replication cannot be finished.
        ValueError: If a number is out of range.
    """
    scenario = as_scenario(scenario)
    chosen = _chosen(scenario, seed, replication, point)
    raw = _lasthop.trace(chosen, chosen.seed if seed is None else seed, replication)
    frame = pl.DataFrame(
        {
            "time_s": _times(raw.time_ns),
            "entity": _words(raw.entities, raw.entity),
            "event": _words(raw.events, raw.event),
            "sequence": pl.Series(np.frombuffer(raw.sequence), nan_to_null=True),
            "value": pl.Series(np.frombuffer(raw.value), nan_to_null=True),
        }
    )
    air = raw.transmissions
    transmissions = pl.DataFrame(
        {
            "entity": _words(air.entities, air.entity),
            "kind": _words(air.kinds, air.kind),
            "sequence": _numbers(air.sequence),
            "count": _numbers(air.count),
            "ack": _numbers(air.ack),
            "repeated": _numbers(air.is_repeated).cast(pl.Boolean),
            "connection": _numbers(air.connection),
            "incarnation": _numbers(air.incarnation),
            "segment": _numbers(air.segment),
            "segment_ack": _numbers(air.segment_ack),
            "sack": pl.Series(air.sack, dtype=pl.String).replace("", None),
            "bytes": _numbers(air.size),
            "start_s": _times(air.start_ns),
            "end_s": _times(air.end_ns),
            "arrival_s": _times(air.arrival_ns),
        }
    )
    links = scenario.to_dict().get("link", {})
    hosts = {name: (link["between"][0], link["between"][1]) for name, link in links.items()}
    agents = {name: at for name, link in links.items() if (at := _host(link.get("agent")))}
    for name, radio in scenario.to_dict().get("radio", {}).items():
        for station in radio["stations"]:
            hosts[f"{name}.{station}"] = (station, radio["base"])
            if at := _host(radio.get("agent")):
                agents[f"{name}.{station}"] = at
    for name, wlan in scenario.to_dict().get("wlan", {}).items():
        for station in wlan["stations"]:
            hosts[f"{name}.{station}"] = (station, wlan["access_point"])
            if at := _host(wlan.get("agent")):
                agents[f"{name}.{station}"] = at
    return Trace(
        frame,
        transmissions,
        hosts,
        dict(raw.metrics),
        scenario.name,
        complete=raw.complete,
        agents=agents,
        point=point_label(json.loads(chosen.parameters)),
    )


def capture(
    scenario: Scenario | Mapping[str, Any] | str | Path,
    path: str | Path,
    *,
    link: str | None = None,
    host: str | None = None,
    snap: int | None = None,
    seed: int | None = None,
    replication: int = 0,
    point: int = 0,
) -> int:
    """Runs one replication and writes its packets to a pcapng file, for Wireshark and its like.

    Each direction of a link is an interface. What is in the headers is told on the page "Packet
    captures" of the documentation.

    Args:
        scenario: As for `lasthop.run`.
        path: The file to write.
        link: Only this link; all of them if None.
        host: As this host's network layer sees them: what it sends when its first bit leaves, what
            it receives when the link hands it up. If None, as they are on the air: every frame
            that carries a packet, copies of the link layer too, when its first bit leaves.
        snap: Bytes kept of each packet; all if None.
        seed: Master seed; what the scenario says if None.
        replication: Which replication; the same one that `run` averages over.
        point: Which point of the scenario's sweep.

    Returns:
        How many packets there are.

    Raises:
        lasthop.ScenarioError: If the scenario is refused.
        lasthop.RunError: If the replication cannot be finished.
        OSError: If the file cannot be written.
        ValueError: If there is no such link or host, or a number is out of range.
    """
    chosen = _chosen(as_scenario(scenario), seed, replication, point)
    if snap is not None and not 1 <= snap <= PACKET:
        raise ArgumentError(f"snap: found {snap}; allowed: from 1 to {PACKET}")
    try:
        return _lasthop.capture(
            chosen,
            str(path),
            seed=chosen.seed if seed is None else seed,
            replication=replication,
            link=link,
            host=host,
            snap=snap,
        )
    except OSError as error:
        remove_partial(Path(path), error)
        raise
    except ValueError as error:
        raise ArgumentError(str(error)) from None


def _chosen(scenario: Scenario, seed: int | None, replication: int, point: int) -> _lasthop.Point:
    """The point of a sweep, once all numbers are known to be in range."""
    points = scenario.points()
    check_point(point, len(points))
    for name, value in (("seed", seed or 0), ("replication", replication)):
        check_least(name, value, 0)
    return points[point]


def _words(names: list[str], codes: bytes) -> pl.Series:
    """A column of names that is told as numbers of a list."""
    return pl.Series(names, dtype=pl.String).gather(np.frombuffer(codes, dtype=np.uint32))


def _times(nanoseconds: bytes) -> pl.Series:
    """A column of times in seconds; equal ones are equal in every table."""
    whole = np.frombuffer(nanoseconds, dtype=np.uint64)
    return pl.Series(whole / 1e9).set(pl.Series(whole == NONE), None)


def _numbers(values: bytes) -> pl.Series:
    """A column of whole numbers; `NONE` stands for none."""
    column = pl.Series(np.frombuffer(values, dtype=np.uint64))
    return column.set(column == NONE, None)
