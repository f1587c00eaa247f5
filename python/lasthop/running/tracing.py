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
from lasthop.showing.labels import point_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Trace", "capture", "trace", "write_script"]

WINDOW_EVENTS = (
    "cwnd",
    "ssthresh",
    "pacing_rate_bps",
    "max_bw_bps",
    "min_rtt_s",
    "bw_shortterm_bps",
    "inflight_shortterm",
    "inflight_longterm",
    "extra_acked",
    "smoothed_rtt_s",
    "latest_rtt_s",
    "in_flight_bytes",
)
PHASE = "phase_"
"""First part of the events that report the beginning of a phase of congestion control."""
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
"""Columns of frames that traces of earlier versions lack."""
REQUIRED = ("time_s", "entity", "event", "kind", "count", "repeated", "bytes", "start_s", "end_s")
"""Columns of events and frames in which every row has a value."""
ABOUT = ("name", "point", "complete", "hosts", "agents", "metrics")


@dataclass(frozen=True, repr=False)
class Trace:
    """Events, frames and metrics of one replication.

    Attributes:
        frame: One row per event, in order of time: `time_s`, `entity` (such as `flow.transfer` or
            `link.wireless.forward`), `event`, `sequence` and `value`, whose meaning depends on the
            event; null if not applicable.
        transmissions: One row per transmitted frame, including control frames, ordered by the end
            of transmission: `entity` (such as `link.wireless.forward`); `kind` (`data`, `segment`,
            `ack`, `nack`, `keepalive`, `parity`, `skip`); `sequence` (`data`, `segment`: sequence
            number; `ack`: next expected number; `nack`: missing number; `keepalive`: next new
            number; `parity`: first number of the block; `skip`: first number that is not
            discarded); `count` (`parity`: frames in the block; otherwise 1); `ack` (cumulative
            acknowledgment in the frame, or null); `repeated` (whether the frame is a
            retransmission). On a link without protocol, for the TCP segment in the frame,
            otherwise null: `connection` and `incarnation`; `segment` (first byte, where the SYN is
            byte 0; null for a pure ACK); `segment_ack` (cumulative acknowledgment); `sack` (SACK
            blocks as `first-end` in bytes, where `end` is the byte after the block, separated by
            spaces; null if none). `bytes`: frame size; `start_s`, `end_s`: start and end of
            transmission; `arrival_s`: arrival of the last bit, null if the frame was lost. Without
            a link protocol, packets are numbered in transmission order.
        hosts: Source and destination host of the forward direction, by link.
        metrics: Metrics of the replication by their full names.
        name: Name of the scenario.
        complete: Whether the run was finished; after an interruption, events up to that time.
        agents: Host of the agent, by link.
        point: Swept values of the point as text; empty without a sweep.
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
        """Returns events by subject, with the columns of `frame`.

        `cwnd` has the state of congestion control: windows, rates, bounds and phases; the others
        are `sequence`, `queue` and `link`.
        """
        is_link = pl.col("entity").str.starts_with("link.")
        event = pl.col("event")
        window = event.is_in(WINDOW_EVENTS) | event.str.starts_with(PHASE)
        queue = pl.col("event").is_in(QUEUE_EVENTS)
        return {
            "cwnd": self.frame.filter(~is_link & window),
            "sequence": self.frame.filter(~is_link & ~window),
            "queue": self.frame.filter(is_link & queue),
            "link": self.frame.filter(is_link & ~queue),
        }

    def write(self, folder: str | Path) -> list[Path]:
        """Writes the tables of `series` and the frames as CSV, other attributes as `trace.json`.

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
        """Reads a trace written by `write` or `lasthop trace --out`.

        Simultaneous events are ordered by subject. `sack` is null in traces of earlier versions,
        which lack this column.

        Raises:
            OSError: If a file cannot be read.
            ValueError: If a file is not part of a valid trace.
        """
        folder = Path(folder)
        try:
            parts = [
                _whole(pl.read_csv(read_bytes(folder / f"{name}.csv"), schema=EVENTS))
                for name in ("cwnd", "sequence", "queue", "link")
            ]
            frames = _whole(_read_frames(read_bytes(folder / "frames.csv")))
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
                f"{folder}: damaged files ({error}): expected a folder written by `lasthop trace`"
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
        """Draws a time-sequence diagram of one link: its frames as arrows between hosts.

        Args:
            link: Name of the link.
            start: Start of the diagram in seconds since the start of the run; None: shortly before
                the first lost frame.
            end: End of the diagram; None: when that frame is delivered or discarded.
            title: Title; None: scenario, link and point.
            size: `column` (3.4 inches wide) or `full` (7 inches); None: 6.2 inches.

        Raises:
            ValueError: If there is no such link, or if it sent no frame or too many to draw.
        """
        from lasthop.showing.figures.ladder import draw_link

        return draw_link([self], link, start, end, title=title, size=size)


def _write(path: Path, text: str) -> None:
    """Writes a file; errors contain its name, also errors of a full disk."""
    write_file(path, text.encode())


def _whole(frame: pl.DataFrame) -> pl.DataFrame:
    """Refuses a table with a row that lacks a required value or has an impossible time."""
    for name in (name for name in REQUIRED if name in frame.columns):
        valid = frame[name].is_not_null()
        if name.endswith("_s"):
            valid &= frame[name].is_between(0.0, math.inf, closed="left")
        if not valid.all():
            row = int(valid.arg_min() or 0)
            found = "" if frame[name][row] is None else frame[name][row]
            # The header is line 1.
            raise ValueError(f"line {row + 2}: invalid value `{found}` for `{name}`")
    return frame


def _read_frames(data: bytes) -> pl.DataFrame:
    """Reads frames from CSV; columns that were added later may be missing."""
    header = data.split(b"\n", 1)[0].decode("utf-8", "replace").rstrip("\r").split(",")
    there = {name: kind for name, kind in FRAMES.items() if name in header or name not in ADDED}
    frames = pl.read_csv(data, schema=pl.Schema(there))
    added = (pl.lit(None, dtype=FRAMES[name]).alias(name) for name in ADDED if name not in there)
    return frames.with_columns(*added).select(FRAMES.names())


def _host(agents: Any) -> str | None:
    """Returns the host of a link's agents: the first one given."""
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
        seed: Master seed; None: the scenario's.
        replication: Index of the replication, as in `run`.
        point: Point of the scenario's sweep.

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
    """Runs one replication and writes its packets to a pcapng file for tools such as Wireshark.

    Each direction of a link is an interface. The page "Packet captures" of the documentation
    describes the headers.

    Args:
        scenario: As for `lasthop.run`.
        path: Output file.
        link: Capture only this link; None: all links.
        host: Capture at this host's network layer: sent packets at the start of transmission,
            received packets at delivery by the link. None: capture on the medium, at the start of
            transmission, all frames that contain a packet, including link-layer retransmissions.
        snap: Maximum bytes per packet; None: all.
        seed: Master seed; None: the scenario's.
        replication: Index of the replication, as in `run`.
        point: Point of the scenario's sweep.

    Returns:
        The number of packets.

    Raises:
        lasthop.ScenarioError: If the scenario is refused.
        lasthop.RunError: If the replication cannot be finished.
        OSError: If the file cannot be written.
        ValueError: If there is no such link or host, or a number is out of range.
    """
    chosen = _chosen(as_scenario(scenario), seed, replication, point)
    if snap is not None and not 1 <= snap <= PACKET:
        raise ArgumentError(f"invalid value `{snap}` for `snap`: expected 1 to {PACKET}")
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


def write_script(
    scenario: Scenario | Mapping[str, Any] | str | Path,
    path: str | Path,
    *,
    flow: str | None = None,
    host: str | None = None,
    seed: int | None = None,
    replication: int = 0,
    point: int = 0,
) -> int:
    """Runs one replication and writes one end of a TCP connection as a conformance script.

    `lasthop tcp-script` runs the script against the endpoint, packetdrill-compatible tools against
    a kernel. The page "Conformance scripts" of the documentation describes the language.

    Args:
        scenario: As for `lasthop.run`.
        path: Output file.
        flow: Name of the flow, whose first connection is recorded; None: the only one over TCP.
        host: Host of the recorded end; None: the host that opens the connection.
        seed: Master seed; None: the scenario's.
        replication: Index of the replication, as in `run`.
        point: Point of the scenario's sweep.

    Returns:
        The number of segments in the script.

    Raises:
        lasthop.RunError: If the replication cannot be finished.
        OSError: If the file cannot be written.
        ValueError: If there is no such flow or host, or a script cannot set a parameter of the
            transport.
    """
    chosen = _chosen(as_scenario(scenario), seed, replication, point)
    try:
        text = _lasthop.host_script(
            chosen,
            seed=chosen.seed if seed is None else seed,
            replication=replication,
            flow=flow,
            host=host,
        )
    except ValueError as error:
        raise ArgumentError(str(error)) from None
    write_file(Path(path), text.encode())
    return sum(line.split(" ", 2)[1:2] in (["<"], [">"]) for line in text.splitlines())


def _chosen(scenario: Scenario, seed: int | None, replication: int, point: int) -> _lasthop.Point:
    """Returns a point of the sweep after checking all indices."""
    points = scenario.points()
    check_point(point, len(points))
    for name, value in (("seed", seed or 0), ("replication", replication)):
        check_least(name, value, 0)
    return points[point]


def _words(names: list[str], codes: bytes) -> pl.Series:
    """Decodes a column of names from their indices in a list."""
    return pl.Series(names, dtype=pl.String).gather(np.frombuffer(codes, dtype=np.uint32))


def _times(nanoseconds: bytes) -> pl.Series:
    """Returns a column of times in seconds; equal times are equal in every table."""
    whole = np.frombuffer(nanoseconds, dtype=np.uint64)
    return pl.Series(whole / 1e9).set(pl.Series(whole == NONE), None)


def _numbers(values: bytes) -> pl.Series:
    """Returns a column of integers; `NONE` becomes null."""
    column = pl.Series(np.frombuffer(values, dtype=np.uint64))
    return column.set(column == NONE, None)
