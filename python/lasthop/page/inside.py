"""Data of one replication for sequence diagrams, time-sequence diagrams and time series.

The events of a trace become columns, each a NumPy array; `pack` combines them into one binary body
that the page reads without parsing numbers. Losses and recoveries are determined from both
endpoints: see `lasthop.evaluating.transfers`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from lasthop.evaluating.statistics import Floats
from lasthop.evaluating.transfers import Transfer, lost, recoveries, transfers_of
from lasthop.running.tracing import Trace, trace
from lasthop.scenarios.scenario import Scenario

__all__ = ["MOST_EVENTS", "delays", "inside", "pack", "trace_most", "trace_until"]

MOST_EVENTS = 250_000
"""Events that one look has at most; beyond, it ends before the run does."""

EVENTS_PER_FRAME = 8.0
"""About how many events a trace has for each frame on the air."""

TRIES = 3
"""Maximum number of recordings per request."""

UNITS = {
    "ack_range": ("", "packets"),
    "backoff": ("slots", "slots"),
    "cwnd": ("", "segments"),
    "datagram_received": ("", "s"),
    "frame_lost": ("", "B"),
    "frame_sent": ("", "B"),
    "nav": ("s", "s"),
    "queue": ("", "packets"),
    "ssthresh": ("", "segments"),
}
"""Units of `sequence` and `value` of events, if not a number and bytes."""

Columns = dict[str, "np.ndarray[Any, np.dtype[Any]]"]


def trace_most(
    scenario: Scenario,
    metrics: Mapping[str, float],
    *,
    seed: int,
    replication: int,
    most: int,
    until: float | None = None,
) -> tuple[Trace, float | None]:
    """Records a replication, or its beginning with about `most` events.

    The number of events is estimated from the frames. If background traffic is not simulated per
    packet, there are fewer events, and a longer recording is made.

    Args:
        scenario: Without a sweep.
        metrics: Of the replication, by their full names.
        seed: Master seed.
        replication: Which replication.
        most: Events.
        until: Simulated seconds to record at most.

    Returns:
        The trace, and where it was cut off: None if nowhere.
    """
    frames = _sum(metrics, "link.", ".frames_sent")
    end = max(_values(metrics, "flow.", ".duration_s"), default=0.0)
    events = frames * EVENTS_PER_FRAME
    cut = end * most / events if events > most and end > 0.0 else None
    for _ in range(TRIES):
        chosen = min((one for one in (cut, until) if one is not None), default=None)
        found, ended = trace_until(scenario, seed=seed, replication=replication, until=chosen)
        if cut is None or chosen != cut or found.frame.height > most / 3:
            break
        cut *= min(0.8 * most / max(found.frame.height, 1), 1000.0)
        if cut >= end:
            cut = None
    return found, ended


def _values(metrics: Mapping[str, float], start: str, end: str) -> list[float]:
    return [
        value
        for name, value in metrics.items()
        if name.startswith(start) and name.endswith(end) and math.isfinite(value)
    ]


def _sum(metrics: Mapping[str, float], start: str, end: str) -> float:
    return sum(_values(metrics, start, end))


def trace_until(
    scenario: Scenario, *, seed: int, replication: int, until: float | None
) -> tuple[Trace, float | None]:
    """Records a replication, or its beginning.

    Args:
        scenario: Without a sweep.
        seed: Master seed.
        replication: Which replication.
        until: Simulated seconds; all of it if None.

    Returns:
        The trace, and where it was cut off: None if nowhere.
    """
    if until is None:
        return trace(scenario, seed=seed, replication=replication), None
    rounded = float(f"{until:.3g}")
    shorter = scenario.with_({"run.duration": f'"{max(round(rounded * 1e9), 1)} ns"'})
    return trace(shorter, seed=seed, replication=replication), rounded


def delays(found: Trace) -> dict[str, Floats]:
    """Returns the delays of data to the application in seconds, by flow.

    For TCP: from the first transmission of a segment until it and all earlier ones have arrived;
    for UDP: from transmission to arrival.
    """
    collected: dict[str, list[Floats]] = {}
    for entity, own in transfers_of(found.frame).items():
        flow = entity.removesuffix(".receiver").partition(" ")[0].removesuffix(".connection")
        sequences, where = np.unique(own.sequence, return_index=True)
        first = own.sent[where]
        there, where = np.unique(own.arrived_sequence, return_index=True)
        arrived = own.arrived[where]
        both, mine, theirs = np.intersect1d(sequences, there, return_indices=True)
        if both.size == 0:
            continue
        # Data after a gap cannot be delivered.
        gapless = np.flatnonzero(mine != np.arange(len(mine)))
        until = int(gapless[0]) if gapless.size else len(mine)
        up = np.maximum.accumulate(arrived[theirs])[:until]
        collected.setdefault(flow, []).append(up - first[mine][:until])
    for key, part in found.frame.filter(event="datagram_received").group_by("entity"):
        flow = str(key[0]).removesuffix(".receiver")
        collected.setdefault(flow, []).append(part["value"].to_numpy())
    joined = {flow: np.concatenate(parts) for flow, parts in sorted(collected.items())}
    return {flow: values for flow, values in joined.items() if values.size}


def inside(found: Trace) -> tuple[dict[str, Any], Columns]:
    """Returns the data that the page shows of a trace.

    Returns:
        What there is: `transfers` (ends that send data), `datagrams` (flows), `links` (directions
        of links with their hosts), `events` and `entities` (words of the list of events), `units`
        (of sequence and value of each event), `kinds` (of frames), `end_s`; and the columns, named
        by kind and number such as `sent.0.time`.
    """
    columns: Columns = {}
    frame = found.frame
    last = frame["time_s"].max()
    end = float(last) if isinstance(last, (int, float)) else 0.0
    transfers = []
    for number, (entity, own) in enumerate(transfers_of(found.frame).items()):
        transfers.append(entity)
        columns |= _transfer_columns(number, own, frame.filter(entity=entity), end)
    datagrams = []
    sent_all = frame.filter(event="datagram_sent")
    for number, flow in enumerate(sent_all["entity"].unique().sort()):
        datagrams.append(flow)
        sent = sent_all.filter(entity=flow)
        there = frame.filter(event="datagram_received", entity=f"{flow}.receiver")
        joined = sent.join(
            there.select("sequence", delay="value").unique("sequence"),
            on="sequence",
            how="left",
            maintain_order="left",
        )
        columns[f"datagram.{number}.time"] = sent["time_s"].to_numpy()
        columns[f"datagram.{number}.number"] = sent["sequence"].to_numpy()
        columns[f"datagram.{number}.delay"] = joined["delay"].fill_null(math.nan).to_numpy()
    links = []
    kinds = found.transmissions["kind"].unique(maintain_order=True).to_list()
    for number, (entity, part) in enumerate(_directions(found)):
        links.append({"name": entity, **_hosts(found, entity)})
        columns |= _link_columns(number, part, frame.filter(entity=entity), kinds)
    entities = frame["entity"].unique(maintain_order=True).to_list()
    events = frame["event"].unique(maintain_order=True).to_list()
    columns["event.time"] = frame["time_s"].to_numpy()
    columns["event.entity"] = _codes(frame["entity"], entities, np.uint16)
    columns["event.what"] = _codes(frame["event"], events, np.uint8)
    columns["event.sequence"] = frame["sequence"].fill_null(math.nan).to_numpy()
    columns["event.value"] = frame["value"].fill_null(math.nan).to_numpy()
    about = {
        "name": found.name,
        "end_s": end,
        "transfers": transfers,
        "datagrams": datagrams,
        "links": links,
        "kinds": kinds,
        "entities": entities,
        "events": events,
        "units": [UNITS.get(event, ("", "B")) for event in events],
    }
    return about, columns


def _transfer_columns(number: int, own: Transfer, events: pl.DataFrame, end: float) -> Columns:
    """Returns the segments and ACKs of a sender."""
    repeated = own.repeated()
    acks = events.filter(event="ack_received")
    ack = acks["sequence"].to_numpy()
    again = np.concatenate([[False], ack[1:] == ack[:-1]]) if len(ack) else np.zeros(0, dtype=bool)
    sacks = events.filter(event="sack_block")
    timeouts = events.filter(event="timeout")["time_s"].to_numpy()
    phases = recoveries(own, events, end)
    found: Columns = {
        "sent.time": own.sent,
        "sent.sequence": own.sequence,
        "sent.size": own.size,
        "sent.repeated": repeated.astype(np.uint8),
        "sent.lost": lost(own, end).astype(np.uint8),
        "ack.time": acks["time_s"].to_numpy(),
        "ack.sequence": ack,
        "ack.duplicate": again.astype(np.uint8),
        "sack.time": sacks["time_s"].to_numpy(),
        "sack.first": sacks["sequence"].to_numpy(),
        "sack.size": sacks["value"].to_numpy(),
        "timeout.time": timeouts,
        "phase.start": np.asarray([one[0] for one in phases], dtype=np.float64),
        "phase.end": np.asarray([one[1] for one in phases], dtype=np.float64),
        "phase.kind": np.asarray([one[2] for one in phases], dtype=np.uint8),
    }
    for name in ("cwnd", "ssthresh"):
        series = events.filter(event=name)
        values = series["value"].fill_null(math.nan).to_numpy()
        # A value holds until the next one: repetitions are redundant.
        new = np.concatenate([[True], values[1:] != values[:-1]]) if len(values) else slice(None)
        found[f"{name}.time"] = series["time_s"].to_numpy()[new]
        found[f"{name}.value"] = values[new]
    return {f"{name}.{number}": column for name, column in found.items()}


def _directions(found: Trace) -> list[tuple[str, pl.DataFrame]]:
    parts = {
        str(key[0]): part
        for key, part in found.transmissions.group_by("entity", maintain_order=True)
    }
    names = set(parts) | set(found.frame.filter(event="queue")["entity"].unique())
    none = found.transmissions.clear()
    return [(name, parts.get(name, none)) for name in sorted(names)]


def _hosts(found: Trace, entity: str) -> dict[str, str]:
    """Link, and hosts from and to, of a direction such as `link.wireless.forward`."""
    parts = entity.split(".")
    side = next(
        (place for place in (2, 3) if parts[place : place + 1] in (["forward"], ["reverse"])), 2
    )
    link = ".".join(parts[1:side])
    first, second = found.hosts.get(link, ("", ""))
    if parts[side : side + 1] == ["reverse"]:
        first, second = second, first
    return {"link": link, "from": first, "to": second}


def _link_columns(
    number: int, frames: pl.DataFrame, events: pl.DataFrame, kinds: list[str]
) -> Columns:
    """Frames on the air and packets in the queue of a direction."""
    frames = frames.sort("start_s", maintain_order=True)
    queue = events.filter(event="queue")
    found: Columns = {
        "frame.start": frames["start_s"].to_numpy(),
        "frame.end": frames["end_s"].to_numpy(),
        "frame.arrival": frames["arrival_s"].fill_null(math.nan).to_numpy(),
        "frame.sequence": frames["sequence"].cast(pl.Float64).fill_null(math.nan).to_numpy(),
        "frame.repeated": frames["repeated"].fill_null(value=False).cast(pl.UInt8).to_numpy(),
        "frame.kind": _codes(frames["kind"], kinds, np.uint8),
        "queue.time": queue["time_s"].to_numpy(),
        "queue.value": queue["value"].fill_null(math.nan).to_numpy(),
        "drop.time": events.filter(event="drop")["time_s"].to_numpy(),
    }
    return {f"{name}.{number}": column for name, column in found.items()}


def _codes(words: pl.Series, known: list[str], kind: type[np.integer[Any]]) -> Any:
    """Words as their places in a list."""
    places = {word: place for place, word in enumerate(known)}
    return words.replace_strict(places, return_dtype=pl.UInt32).to_numpy().astype(kind)


def pack(about: Mapping[str, Any], columns: Columns) -> bytes:
    """One body: length of the head in 4 bytes, the head as JSON, the columns.

    Numbers are little-endian; the head and each column begin at a multiple of 8 bytes. `columns`
    of the head names each with its type (`f8`, `u1`, `u2`), place after the head, and length.
    """
    places = []
    parts = []
    at = 0
    for name, column in columns.items():
        array = np.ascontiguousarray(column)
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        places.append([name, f"{array.dtype.kind}{array.dtype.itemsize}", at, len(array)])
        body = array.tobytes()
        padding = -len(body) % 8
        parts += [body, b"\0" * padding]
        at += len(body) + padding
    head = json.dumps({**about, "columns": places}).encode()
    head += b" " * (-(len(head) + 8) % 8)
    return b"".join([len(head).to_bytes(8, "little"), head, *parts])
