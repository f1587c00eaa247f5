"""A connection of a traced replication as qlog.

The file is a JSON text sequence (RFC 7464) of draft-ietf-quic-qlog-main-schema, version 0.3, which
qvis reads. Events are those of the trace: packets with their ACK and STREAM frames, losses and
windows. Frames of other types are not listed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lasthop.running.tracing import trace
from lasthop.running.writing import write_file
from lasthop.scenarios.arguments import ArgumentError, check_point, invalid
from lasthop.scenarios.scenario import Scenario, as_scenario

__all__ = ["write_qlog"]

RECORD = "\x1e"
TYPES = {"initial": "initial", "handshake": "handshake", "early": "0RTT", "packet": "1RTT"}
"""Packet types by the first word of an event."""

CONTENTS = ("ack_range", "stream_id", "stream_frame")
"""Events of the contents of a packet; `stream_id` precedes a frame of another stream than 0."""

VOLUMES = {
    "cwnd": ("congestion_window", True),
    "ssthresh": ("ssthresh", True),
    "pacing_rate_bps": ("pacing_rate", False),
    "in_flight_bytes": ("bytes_in_flight", False),
}
"""Names of events in qlog, and whether their values are windows in datagrams."""

TIMES = {"min_rtt_s": "min_rtt", "smoothed_rtt_s": "smoothed_rtt", "latest_rtt_s": "latest_rtt"}
"""Names of RTTs in qlog."""


def write_qlog(
    scenario: Scenario | Mapping[str, Any] | str | Path,
    path: str | Path,
    *,
    flow: str | None = None,
    seed: int | None = None,
    replication: int = 0,
    point: int = 0,
) -> int:
    """Runs one replication and writes the events of the sender of a flow over QUIC as qlog.

    The sender of pages is the server of their connection; of several connections, of the first one.

    Args:
        scenario: As for `lasthop.run`.
        path: Output file.
        flow: Name of the flow; None: the only one over QUIC.
        seed: Master seed; None: the scenario's.
        replication: Index of the replication, as in `run`.
        point: Point of the scenario's sweep.

    Returns:
        The number of events.

    Raises:
        ArgumentError: If the scenario has no such flow, or several over QUIC.
        OSError: If the file cannot be written.
    """
    scenario = as_scenario(scenario)
    points = scenario.points()
    check_point(point, len(points))
    flows = json.loads(points[point].resolved())["flows"]
    known = [name for name, keys in flows.items() if keys["quic"]]
    if flow is None and len(known) == 1:
        flow = known[0]
    if flow is None or flow not in known:
        allowed = "one of the flows over QUIC: " + ", ".join(known) if known else "a flow over QUIC"
        raise ArgumentError(invalid("flow", flow, allowed))
    recorded = trace(scenario, seed=seed, replication=replication, point=point)
    names = recorded.frame["entity"].unique(maintain_order=True).to_list()
    servers = (
        one for one in names if one.startswith(f"flow.{flow}.") and one.endswith(" acceptor")
    )
    entity = next(servers, f"flow.{flow}")
    rows = recorded.frame.filter(entity=entity).iter_rows(named=True)
    events = list(_events(list(rows), flows[flow]["quic"]["datagram"]))
    side = "client" if entity == f"flow.{flow}" else "server"
    records = [_header(recorded.name, flow, side), *events]
    text = "".join(f"{RECORD}{json.dumps(one, separators=(',', ':'))}\n" for one in records)
    write_file(Path(path), text.encode())
    return len(events)


def _header(name: str, flow: str, side: str) -> dict[str, Any]:
    return {
        "qlog_version": "0.3",
        "qlog_format": "JSON-SEQ",
        "title": f"{name}, flow {flow}",
        "trace": {
            "vantage_point": {"name": flow, "type": side},
            "common_fields": {
                "ODCID": "00",
                "time_format": "relative",
                "reference_time": 0,
                "protocol_type": ["QUIC"],
            },
        },
    }


def _events(rows: list[dict[str, Any]], datagram: int) -> Iterator[dict[str, Any]]:
    place = 0
    early = {row["sequence"] for row in rows if row["event"] == "early_sent"}
    while place < len(rows):
        row = rows[place]
        place += 1
        kind, _, what = row["event"].partition("_")
        if kind in TYPES and what in ("sent", "received"):
            frames: list[dict[str, Any]] = []
            ranges: list[list[int]] = []
            stream = 0
            while place < len(rows) and rows[place]["event"] in CONTENTS:
                number, count = int(rows[place]["sequence"]), rows[place]["value"]
                if rows[place]["event"] == "stream_id":
                    stream = number
                elif rows[place]["event"] == "ack_range":
                    ranges.append([number, number + int(count) - 1])
                else:
                    frame = {"frame_type": "stream", "stream_id": stream}
                    frames.append(frame | {"offset": number, "length": int(count)})
                    stream = 0
                place += 1
            if ranges:
                frames.insert(0, {"frame_type": "ack", "acked_ranges": ranges})
            data = {
                "header": {"packet_type": TYPES[kind], "packet_number": int(row["sequence"])},
                "raw": {"length": int(row["value"])},
                "frames": frames,
            }
            yield _event(row, f"transport:packet_{what}", data)
        elif row["event"] == "packet_lost":
            sent_as = "0RTT" if row["sequence"] in early else "1RTT"
            header = {"packet_type": sent_as, "packet_number": int(row["sequence"])}
            yield _event(row, "recovery:packet_lost", {"header": header})
        elif row["event"] in TIMES:
            data = {TIMES[row["event"]]: _milliseconds(row["value"])}
            yield _event(row, "recovery:metrics_updated", data)
        elif row["event"] in VOLUMES and math.isfinite(row["value"]):
            name, is_window = VOLUMES[row["event"]]
            data = {name: round(row["value"] * (datagram if is_window else 1))}
            yield _event(row, "recovery:metrics_updated", data)


def _event(row: dict[str, Any], name: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"time": _milliseconds(row["time_s"]), "name": name, "data": data}


def _milliseconds(seconds: float) -> float:
    """Converts a time, to the nanosecond."""
    return round(seconds * 1e3, 6)
