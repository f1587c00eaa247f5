"""The frames of one link as arrows: how each kind looks, and what it says."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from lasthop.scenarios.arguments import ArgumentError
from lasthop.showing.figures.style import BLUE, GREEN, ORANGE, PURPLE, RED, SKY

if TYPE_CHECKING:
    from lasthop.running.tracing import Trace

__all__ = [
    "ACKS",
    "DATA",
    "GREY",
    "INK",
    "LOOKS",
    "SIDES",
    "TEXT",
    "Arrow",
    "Look",
    "Segments",
    "endpoints",
    "frames_of",
    "is_of",
    "numbers",
    "sent_over",
]

GREY = "#8A8A8A"
INK = "#303030"

SIDES = ("forward", "reverse")


@dataclass(frozen=True)
class Look:
    """How a kind of frame is drawn."""

    name: str
    label: str
    colour: str
    dashes: tuple[float, ...]
    priority: int
    """Where labels have no room for all, those of the lowest priority stay."""


LOOKS = {
    "data": Look("data", "{}", BLUE, (), 2),
    "segment": Look("segment", "{}", BLUE, (), 2),
    "skip": Look("given up", "given up before {}", RED, (), 0),
    "copy": Look("data, sent again", "{}", ORANGE, (), 1),
    "needless": Look("sent again, not needed", "{} again", SKY, (4, 1.5), 1),
    "nack": Look("NACK", "NACK {}", RED, (4, 1.5), 0),
    "ack": Look("ACK", "ACK {}", GREY, (), 4),
    "duplicate": Look("duplicate ACK", "dup ACK {}", PURPLE, (), 1),
    "rts": Look("RTS", "RTS", GREEN, (4, 1.5), 3),
    "cts": Look("CTS", "CTS", GREEN, (), 3),
    "mac-ack": Look("MAC acknowledgment", "ACK", GREY, (), 5),
    "keepalive": Look("keep-alive", "keep-alive {}", GREEN, (4, 1.5), 3),
    "parity": Look("parity", "parity {}", PURPLE, (), 1),
    "segment copy": Look("segment, sent again", "{}", ORANGE, (), 1),
    "status": Look("status", "status {}", GREY, (), 3),
    "block": Look("block", "block {}", BLUE, (), 1),
    "block copy": Look("block, sent again", "block {}", ORANGE, (), 1),
    "feedback": Look("answer", "answer {}", GREY, (), 3),
    "skip-ack": Look("skipped", "skipped before {}", GREEN, (4, 1.5), 0),
    "reset": Look("reset", "reset {}", RED, (4, 1.5), 0),
    "reset-ack": Look("reset acknowledged", "reset {} done", GREEN, (4, 1.5), 0),
}

DATA = ("data", "copy", "needless", "segment", "segment copy", "block", "block copy")
"""Looks of frames with packets, or pieces of them, in them."""

ACKS = ("ack", "duplicate")
"""Looks of segments that only acknowledge."""

COPIES = {"data": "copy", "segment": "segment copy", "block": "block copy"}
"""How a kind of frame looks when it is sent again."""


TEXT = {
    "ack": INK,
    "mac-ack": INK,
    "status": INK,
    "copy": "#A36C00",
    "needless": "#2F7EA8",
    "segment copy": "#A36C00",
    "parity": "#A0507C",
    "duplicate": "#A0507C",
}
"""Colours of labels that would be too pale on white."""


@dataclass(frozen=True)
class Arrow:
    """A frame from one time line to the other, times in seconds."""

    forward: bool
    service: str
    """Of a link that several share; else empty."""
    look: str
    frame: int
    """Its number, as events tell it."""
    sequence: int
    """The number that it is shown with."""
    count: int
    start: float
    end: float
    arrival: float
    lost: bool
    sacked: str = ""
    """The segments in its SACK blocks, newest block first."""

    @property
    def text(self) -> str:
        """What its label says."""
        label = LOOKS[self.look].label.format(numbers(range(self.sequence, self._last() + 1)))
        sacked = f", SACK {self.sacked}" if self.sacked else ""
        return f"{self.service} {label}{sacked}".lstrip()

    def _last(self) -> int:
        return self.sequence + self.count - 1

    def x(self, share: float) -> float:
        """Where it is after a share of its way; hosts are at 0 and 1."""
        return share if self.forward else 1.0 - share

    def at(self, share: float) -> float:
        """When it is there."""
        return self.start + share * (self.arrival - self.start)


def numbers(values: Iterable[int]) -> str:
    """Numbers in words: `5`, `5, 6`, `5–9`, `5, 7–9`."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ", ".join(
        f"{run[0]}–{run[-1]}" if len(run) > 3 else ", ".join(map(str, run)) for run in runs
    )


def frames_of(trace: Trace, link: str) -> list[Arrow]:
    """All frames of a link; refuses a link that is not there, or carries none."""
    if link not in trace.hosts:
        allowed = ", ".join(trace.hosts)
        raise ArgumentError(f"link: found {link!r}; allowed: one of {allowed}")
    arrows = list(_arrows(trace, link))
    if not arrows:
        raise ArgumentError(
            f"link: found no frame on {link!r} in this replication; allowed: a link in use (an "
            'on-off source on a link without protocol needs replay = "per-packet")'
        )
    return arrows


def _arrows(trace: Trace, link: str) -> Iterable[Arrow]:
    """All frames of a link, by the start of their transmission.

    Frames without link protocol are shown as the TCP segments that they carry.
    """
    sent = sent_over(trace, link)
    delay = sent.group_by("side").agg((pl.col("arrival_s") - pl.col("end_s")).max())
    delays = dict(delay.iter_rows())
    known = max((value for value in delays.values() if value is not None), default=0.0)
    segments = Segments.of(sent)
    copies = _Copies.of(trace)
    seen: set[tuple[str, int]] = set()
    newest: dict[str, int] = {}
    """The highest acknowledgment sent in a direction."""
    for row in sent.iter_rows(named=True):
        arrival = row["arrival_s"]
        own = delays[row["side"]]
        would = row["end_s"] + (known if own is None else own)
        look, number, sacked = row["kind"], row["sequence"], ""
        if row["repeated"]:
            look = COPIES[look]
        if segments and row["segment"] is not None:
            number = segments.number(row["side"], row["segment"])
            look = "data"
            if (row["side"], number) in seen:
                is_needless = copies.is_needless(row["segment"], row["start_s"])
                look = "needless" if is_needless else "copy"
            seen.add((row["side"], number))
        elif segments and row["segment_ack"] is not None:
            there = other_side(row["side"])
            number = segments.number(there, row["segment_ack"])
            # RFC 5681, section 2: no data, and nothing new acknowledged.
            look = "duplicate" if newest.get(row["side"]) == row["segment_ack"] else "ack"
            newest[row["side"]] = max(newest.get(row["side"], 0), row["segment_ack"])
            sacked = segments.blocks(there, row["sack"])
        yield Arrow(
            forward=row["side"] == SIDES[0],
            service=row["service"] or "",
            look=look,
            frame=row["sequence"],
            sequence=number,
            count=row["count"],
            start=row["start_s"],
            end=row["end_s"],
            arrival=would if arrival is None else arrival,
            lost=arrival is None,
            sacked=sacked,
        )


def sent_over(trace: Trace, link: str) -> pl.DataFrame:
    """The transmissions of a link, with `side` and `service`."""
    side = pl.col("entity").str.strip_prefix(f"link.{link}.").str.splitn(".", 2)
    return (
        trace.transmissions.filter(is_of(link, *SIDES))
        .with_columns(side.struct.rename_fields(["side", "service"]).alias("place"))
        .unnest("place")
        .sort("start_s")
    )


def other_side(side: str) -> str:
    """The opposite direction."""
    return SIDES[side == SIDES[0]]


@dataclass(frozen=True)
class Segments:
    """Numbers of TCP segments, by the direction in which they travel: the SYN is 0."""

    firsts: Mapping[str, Sequence[int]]
    """First bytes of all segments, in order."""

    @classmethod
    def of(cls, sent: pl.DataFrame) -> Segments | None:
        """None where there is not exactly one connection: the numbers of several are the same."""
        known = sent.filter(pl.col("connection").is_not_null())
        if known.height < sent.height or known.n_unique(["connection", "incarnation"]) != 1:
            return None
        firsts = known.drop_nulls("segment").group_by("side").agg(pl.col("segment").unique())
        return cls({side: sorted(values) for side, values in firsts.iter_rows()})

    def number(self, side: str, byte: int) -> int:
        """How many segments begin before this byte."""
        return bisect_left(self.firsts.get(side, ()), byte)

    def blocks(self, side: str, text: str | None) -> str:
        """The segments in SACK blocks, such as `7–9, 5`."""
        blocks = [block.split("-") for block in (text or "").split()]
        return ", ".join(
            numbers(range(self.number(side, int(first)), self.number(side, int(end))))
            for first, end in blocks
        )


@dataclass(frozen=True)
class _Copies:
    """When senders sent each segment, by its first byte, and which copies were not needed."""

    sent: Mapping[int, Sequence[float]]
    needless: frozenset[tuple[int, float]]

    @classmethod
    def of(cls, trace: Trace) -> _Copies:
        told = trace.frame.select("event", "sequence", "time_s").drop_nulls("sequence")
        needless = told.filter(event="spurious_retransmission")
        bytes_of = set(needless["sequence"])
        copies = told.filter(pl.col("sequence").is_in(list(bytes_of)), event="segment_sent")
        times: dict[int, list[float]] = {}
        for byte, time in copies.select("sequence", "time_s").iter_rows():
            times.setdefault(int(byte), []).append(time)
        found = needless.select("sequence", "time_s").iter_rows()
        return cls(times, frozenset((int(byte), time) for byte, time in found))

    def is_needless(self, byte: int, start: float) -> bool:
        """Was the copy that is on the air from `start` on sent in vain?

        It is the latest that had left its sender by then.
        """
        times = self.sent.get(byte, ())
        place = bisect_right(times, start)
        return place > 0 and (byte, times[place - 1]) in self.needless


def endpoints(trace: Trace, link: str) -> dict[str, str]:
    """The ends of the one TCP connection on a link that sit at this very link, by direction.

    An end does if its first segment is on the air at once: before other links it would wait.
    """
    sent = sent_over(trace, link)
    if Segments.of(sent) is None:
        return {}
    started = trace.frame.filter(event="segment_sent").group_by("entity").first()
    if started.height > 2:
        return {}
    firsts = sent.drop_nulls("segment").group_by("side").first()
    found = {}
    for side, segment, start in firsts.select("side", "segment", "start_s").iter_rows():
        own = started.filter(sequence=segment, time_s=start)["entity"]
        if own.len() == 1:
            found[side] = own[0]
    return found


def is_of(link: str, *sides: str) -> pl.Expr:
    """Is an entity one of these directions of a link, or a service in one of them?"""
    names = [f"link.{link}.{side}" for side in sides]
    return pl.any_horizontal(
        pl.col("entity").is_in(names),
        *(pl.col("entity").str.starts_with(f"{name}.") for name in names),
    )
