"""The frames of one link as arrows: style and label of each kind."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from lasthop.scenarios.arguments import ArgumentError, unknown
from lasthop.showing.figures.style import BLUE, GREEN, ORANGE, PURPLE, RED, SKY

if TYPE_CHECKING:
    from lasthop.running.tracing import Trace

__all__ = [
    "ACKS",
    "AGGREGATES",
    "DATA",
    "GREY",
    "INK",
    "LOOKS",
    "SIDES",
    "TEXT",
    "Arrow",
    "ArrowStyle",
    "Segments",
    "endpoints",
    "frames_of",
    "is_of",
    "numbers",
    "sent_over",
    "with_aggregates",
]

GREY = "#8A8A8A"
INK = "#303030"

SIDES = ("forward", "reverse")


@dataclass(frozen=True)
class ArrowStyle:
    """Style of a kind of frame."""

    name: str
    label: str
    colour: str
    dashes: tuple[float, ...]
    priority: int
    """Priority of the label if labels overlap; the lowest number is kept."""


LOOKS = {
    "data": ArrowStyle("data", "{}", BLUE, (), 2),
    "segment": ArrowStyle("segment", "{}", BLUE, (), 2),
    "skip": ArrowStyle("discarded", "discarded before {}", RED, (), 0),
    "copy": ArrowStyle("data, retransmitted", "{}", ORANGE, (), 1),
    "needless": ArrowStyle("spurious retransmission", "{} again", SKY, (4, 1.5), 1),
    "nack": ArrowStyle("NACK", "NACK {}", RED, (4, 1.5), 0),
    "ack": ArrowStyle("ACK", "ACK {}", GREY, (), 4),
    "duplicate": ArrowStyle("duplicate ACK", "dup ACK {}", PURPLE, (), 1),
    "ranges": ArrowStyle("ACK ranges", "ACK", GREY, (), 4),
    "handshake": ArrowStyle("handshake", "handshake", GREEN, (4, 1.5), 3),
    "rts": ArrowStyle("RTS", "RTS", GREEN, (4, 1.5), 3),
    "cts": ArrowStyle("CTS", "CTS", GREEN, (), 3),
    "mac-ack": ArrowStyle("MAC acknowledgment", "ACK", GREY, (), 5),
    "a-mpdu": ArrowStyle("A-MPDU", "A-MPDU {}", BLUE, (), 2),
    "a-mpdu copy": ArrowStyle("A-MPDU with retransmissions", "A-MPDU {}", ORANGE, (), 1),
    "block-ack": ArrowStyle("BlockAck", "BlockAck {}", GREY, (), 3),
    "block-ack-request": ArrowStyle("BlockAck request", "BAR", GREEN, (4, 1.5), 3),
    "cf-end": ArrowStyle("CF-End", "CF-End", GREEN, (), 3),
    "keepalive": ArrowStyle("keep-alive", "keep-alive {}", GREEN, (4, 1.5), 3),
    "parity": ArrowStyle("parity", "parity {}", PURPLE, (), 1),
    "segment copy": ArrowStyle("segment, retransmitted", "{}", ORANGE, (), 1),
    "status": ArrowStyle("status", "status {}", GREY, (), 3),
    "block": ArrowStyle("block", "block {}", BLUE, (), 1),
    "block copy": ArrowStyle("block, retransmitted", "block {}", ORANGE, (), 1),
    "feedback": ArrowStyle("answer", "answer {}", GREY, (), 3),
    "skip-ack": ArrowStyle("skipped", "skipped before {}", GREEN, (4, 1.5), 0),
    "reset": ArrowStyle("reset", "reset {}", RED, (4, 1.5), 0),
    "reset-ack": ArrowStyle("reset acknowledged", "reset {} done", GREEN, (4, 1.5), 0),
}

DATA = ("data", "copy", "needless", "segment", "segment copy", "block", "block copy")
"""Kinds of frames that contain packets or parts of packets."""

AGGREGATES = ("a-mpdu", "a-mpdu copy")
"""Kinds of A-MPDUs."""

MAX_GAP = 5e-6
"""Maximum time in seconds between MPDUs of an A-MPDU: padding. PPDUs are at least SIFS apart."""

MAX_RUNS = 6
"""Maximum number of runs of sequence numbers in a label; more are counted."""

ACKS = ("ack", "duplicate", "ranges")
"""Kinds of pure ACKs."""

COPIES = {"data": "copy", "segment": "segment copy", "block": "block copy"}
"""Kind of the retransmission of a frame, by kind."""


TEXT = {
    "ack": INK,
    "mac-ack": INK,
    "block-ack": INK,
    "status": INK,
    "copy": "#A36C00",
    "a-mpdu copy": "#A36C00",
    "needless": "#2F7EA8",
    "segment copy": "#A36C00",
    "parity": "#A0507C",
    "duplicate": "#A0507C",
}
"""Colours of labels whose arrows are too pale for text."""


@dataclass(frozen=True)
class Arrow:
    """A frame between the two time lines; times in seconds."""

    forward: bool
    service: str
    """Service on a link with several services; otherwise empty."""
    look: str
    frame: int
    """Sequence number in events."""
    sequence: int
    """Number shown in the label."""
    count: int
    start: float
    end: float
    arrival: float
    lost: bool
    sacked: str = ""
    """Segments in the SACK blocks, most recent block first."""
    members: tuple[int, ...] | None = None
    """MPDUs of an A-MPDU, or those that a BlockAck acknowledges of the A-MPDU before it."""
    missing: tuple[int, ...] = ()
    """Lost MPDUs of an A-MPDU that is not lost as a whole."""

    @property
    def text(self) -> str:
        """Returns the text of the label."""
        if self.members is None:
            shown = numbers(range(self.sequence, self._last() + 1))
        else:
            shown = _summary(self.members)
        label = LOOKS[self.look].label.format(shown).rstrip()
        joint = " " if self.look == "ranges" else ", "
        sacked = f"{joint}{self.sacked}" if self.sacked else ""
        missing = f"; lost {_summary(self.missing)}" if self.missing else ""
        return f"{self.service} {label}{sacked}{missing}".lstrip()

    def _last(self) -> int:
        return self.sequence + self.count - 1

    def x(self, share: float) -> float:
        """Returns the horizontal position after a fraction of the path; hosts are at 0 and 1."""
        return share if self.forward else 1.0 - share

    def at(self, share: float) -> float:
        """Returns the time at a fraction of the path."""
        return self.start + share * (self.arrival - self.start)


def numbers(values: Iterable[int]) -> str:
    """Formats numbers as ranges: `5`, `5, 6`, `5–9`, `5, 7–9`."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ", ".join(
        f"{run[0]}–{run[-1]}" if len(run) > 3 else ", ".join(map(str, run)) for run in runs
    )


def _summary(values: Sequence[int]) -> str:
    """Returns numbers as ranges, or first and last with their count if there are many ranges."""
    text = numbers(values)
    if text.count(",") < MAX_RUNS:
        return text
    return f"{len(values)} of {values[0]}–{values[-1]}"


def with_aggregates(trace: Trace, link: str, arrows: Sequence[Arrow]) -> list[Arrow]:
    """Joins the MPDUs of each A-MPDU of a link in a WLAN; leaves those of other links."""
    nav = trace.frame.filter(is_of(link, *SIDES) & (pl.col("event") == "nav"))
    if nav.is_empty():
        return list(arrows)
    groups: list[list[Arrow]] = []
    for arrow in arrows:
        if groups and _continues(groups[-1][-1], arrow):
            groups[-1].append(arrow)
        else:
            groups.append([arrow])
    found: list[Arrow] = []
    for group in groups:
        arrow = group[0] if len(group) == 1 else _aggregate(group)
        if arrow.look == "block-ack":
            sent = found[-1:] if found and found[-1].forward != arrow.forward else []
            received = {one for data in sent for one in data.members or ()}
            lost = {one for data in sent for one in data.missing}
            arrow = replace(arrow, members=tuple(sorted(received - lost)))
        found.append(arrow)
    return found


def _continues(last: Arrow, arrow: Arrow) -> bool:
    """Returns `True` if a frame belongs to the A-MPDU of the frame before it."""
    is_data = last.look in DATA and arrow.look in DATA and last.forward == arrow.forward
    return is_data and arrow.start - last.end < MAX_GAP


def _aggregate(mpdus: Sequence[Arrow]) -> Arrow:
    """Returns the A-MPDU of MPDUs; packets of an A-MSDU share the number of their MPDU."""
    is_lost = all(mpdu.lost for mpdu in mpdus)
    missing = () if is_lost else sorted({mpdu.sequence for mpdu in mpdus if mpdu.lost})
    has_copies = any(mpdu.look == "copy" for mpdu in mpdus)
    return replace(
        mpdus[0],
        look="a-mpdu copy" if has_copies else "a-mpdu",
        end=mpdus[-1].end,
        arrival=mpdus[-1].arrival,
        lost=is_lost,
        members=tuple(sorted({mpdu.sequence for mpdu in mpdus})),
        missing=tuple(missing),
    )


def frames_of(trace: Trace, link: str) -> list[Arrow]:
    """Returns all frames of a link; refuses an unknown or unused link."""
    if link not in trace.hosts:
        raise ArgumentError(unknown("link", link, trace.hosts))
    arrows = list(_arrows(trace, link))
    if not arrows:
        raise ArgumentError(
            f"link `{link}` has no frames in this replication (frames of an on-off source on a "
            'link without protocol require replay = "per-packet")'
        )
    return arrows


def _arrows(trace: Trace, link: str) -> Iterable[Arrow]:
    """Yields all frames of a link by the start of their transmission.

    On a link without protocol, frames are shown as the TCP segments or QUIC packets in them.
    """
    sent = sent_over(trace, link)
    delay = sent.group_by("side").agg((pl.col("arrival_s") - pl.col("end_s")).max())
    delays = dict(delay.iter_rows())
    known = max((value for value in delays.values() if value is not None), default=0.0)
    segments = Segments.of(sent, trace)
    copies = _Copies.of(trace)
    seen: set[tuple[str, int]] = set()
    newest: dict[str, int] = {}
    """Highest acknowledgment sent in each direction."""
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
            # RFC 5681, section 2: no data and no new acknowledgment.
            is_old = newest.get(row["side"]) == row["segment_ack"] and not segments.is_quic
            look = "duplicate" if is_old else "ranges" if segments.is_quic else "ack"
            newest[row["side"]] = max(newest.get(row["side"], 0), row["segment_ack"])
            sacked = segments.blocks(there, row["sack"])
            sacked = f"SACK {sacked}" if sacked and not segments.is_quic else sacked
        elif segments and segments.is_quic:
            look = "handshake"
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
    """Returns the transmissions of a link, with `side` and `service`."""
    side = pl.col("entity").str.strip_prefix(f"link.{link}.").str.splitn(".", 2)
    return (
        trace.transmissions.filter(is_of(link, *SIDES))
        .with_columns(side.struct.rename_fields(["side", "service"]).alias("place"))
        .unnest("place")
        .sort("start_s")
    )


def other_side(side: str) -> str:
    """Returns the opposite direction."""
    return SIDES[side == SIDES[0]]


@dataclass(frozen=True)
class Segments:
    """Numbers of TCP segments, by direction; the SYN is segment 0. Or QUIC's packet numbers."""

    firsts: Mapping[str, Sequence[int]]
    """First bytes of all segments, in order."""
    is_quic: bool = False

    @classmethod
    def of(cls, sent: pl.DataFrame, trace: Trace) -> Segments | None:
        """Returns None unless there is exactly one connection: several would share numbers."""
        known = sent.filter(pl.col("connection").is_not_null())
        if known.height < sent.height or known.n_unique(["connection", "incarnation"]) != 1:
            return None
        firsts = known.drop_nulls("segment").group_by("side").agg(pl.col("segment").unique())
        is_quic = not trace.frame.filter(event="initial_sent").is_empty()
        return cls({side: sorted(values) for side, values in firsts.iter_rows()}, is_quic)

    def number(self, side: str, byte: int) -> int:
        """Returns the number of segments that begin before a byte; a packet number itself."""
        return byte if self.is_quic else bisect_left(self.firsts.get(side, ()), byte)

    def blocks(self, side: str, text: str | None) -> str:
        """Returns the segments in SACK blocks, such as `7–9, 5`."""
        blocks = [block.split("-") for block in (text or "").split()]
        return ", ".join(
            numbers(range(self.number(side, int(first)), self.number(side, int(end))))
            for first, end in blocks
        )


@dataclass(frozen=True)
class _Copies:
    """Transmission times of each segment, by its first byte, and spurious retransmissions."""

    sent: Mapping[int, Sequence[float]]
    needless: frozenset[tuple[int, float]]

    @classmethod
    def of(cls, trace: Trace) -> _Copies:
        events = trace.frame.select("event", "sequence", "time_s").drop_nulls("sequence")
        needless = events.filter(event="spurious_retransmission")
        bytes_of = set(needless["sequence"])
        copies = events.filter(pl.col("sequence").is_in(list(bytes_of)), event="segment_sent")
        times: dict[int, list[float]] = {}
        for byte, time in copies.select("sequence", "time_s").iter_rows():
            times.setdefault(int(byte), []).append(time)
        found = needless.select("sequence", "time_s").iter_rows()
        return cls(times, frozenset((int(byte), time) for byte, time in found))

    def is_needless(self, byte: int, start: float) -> bool:
        """Returns `True` if the copy whose frame starts at `start` is a spurious retransmission.

        This copy is the last one sent by the endpoint until then.
        """
        times = self.sent.get(byte, ())
        place = bisect_right(times, start)
        return place > 0 and (byte, times[place - 1]) in self.needless


def endpoints(trace: Trace, link: str) -> dict[str, str]:
    """Returns the endpoints of the only connection that are attached to this link.

    An endpoint is attached to the link if its first segment is transmitted on it immediately. Those
    of QUIC are attached if the link is the only one.
    """
    sent = sent_over(trace, link)
    segments = Segments.of(sent, trace)
    if segments is None:
        return {}
    if segments.is_quic:
        begun = trace.frame.filter(event="initial_sent").group_by("entity", maintain_order=True)
        names = begun.first()["entity"].to_list()
        return dict(zip(SIDES, names, strict=False)) if len(trace.hosts) == 1 else {}
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
    """Returns an expression: whether an entity is a direction of a link or a service in it."""
    names = [f"link.{link}.{side}" for side in sides]
    return pl.any_horizontal(
        pl.col("entity").is_in(names),
        *(pl.col("entity").str.starts_with(f"{name}.") for name in names),
    )
