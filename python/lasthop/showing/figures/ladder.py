"""Time-sequence diagram of one link: frames as arrows between two time lines, downwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Rectangle

from lasthop.scenarios.arguments import ArgumentError
from lasthop.showing.figures.arrows import (
    ACKS,
    AGGREGATES,
    DATA,
    GREY,
    INK,
    LOOKS,
    SIDES,
    TEXT,
    Arrow,
    Segments,
    endpoints,
    frames_of,
    is_of,
    numbers,
    sent_over,
    with_aggregates,
)
from lasthop.showing.figures.style import RED, SIZES, Picture

if TYPE_CHECKING:
    from lasthop.running.tracing import Trace

__all__ = ["MOST_FRAMES", "draw_link"]

MOST_FRAMES = 120
"""Maximum number of frames in a diagram."""

WIDTH = 6.2
WIDE = 5.4
"""Width in inches of each of several adjacent diagrams."""
FONT = 7.5
"""Font size of the labels in points."""

FADE = 0.62
"""Fraction of the path at which the arrow of a lost frame ends."""


def draw_link(
    traces: Sequence[Trace],
    link: str,
    start: float | None = None,
    end: float | None = None,
    *,
    title: str | None = None,
    size: str | None = None,
) -> Figure:
    """Draws the frames of `link` from `start` to `end`; see `Trace.plot_link`.

    Several traces are adjacent on one time axis, by default that of the first trace.
    """
    frames = [frames_of(trace, link) for trace in traces]
    known = [with_aggregates(trace, link, own) for trace, own in zip(traces, frames, strict=True)]
    first, last = window(traces[0], link, frames[0], known[0])
    if start is None:
        start = first if end is None else max(end - (last - first), 0.0)
    end = start + (last - first) if end is None else end
    if not 0.0 <= start < end:
        raise ArgumentError(
            f"invalid value `{start:g} s` for `from`: expected 0 s to before {end:g} s"
        )
    shown = [[one for one in own if one.start <= end and one.arrival >= start] for own in known]
    if not any(shown):
        used = f"{known[0][0].start:g} s to {known[0][-1].arrival:g} s"
        raise ArgumentError(
            f"no frame between {start:g} s and {end:g} s: link `{link}` sends from {used}"
        )
    most = max(map(len, shown))
    if most > MOST_FRAMES:
        raise ArgumentError(
            f"{most} frames from {start:g} s to {end:g} s: expected at most {MOST_FRAMES}; choose "
            "a shorter time with --from and --to"
        )
    height = min(max(1.6 + 0.2 * most, 3.4), 9.0)
    width = WIDTH if size is None else SIZES[size][0]
    # Adjacent diagrams need more than the width of a page.
    width = width if len(traces) == 1 else WIDE * len(traces)
    figure = Picture(figsize=(width, height), layout="constrained")
    panels = figure.subplots(1, len(traces), squeeze=False)[0]
    # Height of a line of text in seconds.
    line = 1.15 * FONT / 72.0 * (end - start) / (height - 1.0)
    ladders = [
        _Ladder(axes, trace, link, own, arrows, start, end, line, width / len(traces))
        for axes, trace, own, arrows in zip(panels, traces, known, shown, strict=True)
    ]
    has_nav = any(ladder.has_nav for ladder in ladders)
    _legend(figure, [arrow for arrows in shown for arrow in arrows], has_nav)
    name = traces[0].name
    points = [trace.point for trace in traces]
    if len(traces) > 1:
        for axes, point in zip(panels, points, strict=True):
            axes.set_title(point, fontsize=8.5, color=INK)
        for axes in panels[1:]:
            axes.set_ylabel("")
    if title is None:
        title = f"{name}: {link}" if name != link else link
        # Show the point of a sweep.
        title += f"\n{points[0]}" if len(traces) == 1 and points[0] else ""
    figure.suptitle(title, fontsize=9, color=INK)
    return figure


def window(
    trace: Trace, link: str, arrows: Sequence[Arrow], shown: Sequence[Arrow]
) -> tuple[float, float]:
    """Returns the time from shortly before the first loss, preferably of a data frame, to its end.

    The end is the delivery or discarding of the frame; without either, the third packet after it.
    `arrows` are all frames of the link, `shown` the same with those of an A-MPDU joined.
    """
    lost = [arrow for arrow in arrows if arrow.lost]
    data = [arrow for arrow in lost if arrow.look in DATA]
    if not lost:
        # Without a loss, as much as fits.
        return max(shown[0].start, 0.0), shown[min(len(shown), 13) - 1].arrival
    loss = (data or lost)[0]
    sides = SIDES if loss.forward else SIDES[::-1]
    service = f".{loss.service}" if loss.service else ""
    here, there = (f"link.{link}.{side}{service}" for side in sides)
    later = trace.frame.filter(pl.col("time_s") >= loss.start)
    ups = later.filter((pl.col("entity") == here) & (pl.col("event") == "delivered"))
    over = later.filter(
        (pl.col("entity") == there)
        & (pl.col("event") == "abandoned")
        & (pl.col("sequence") == loss.frame)
    )
    same = [a for a in arrows if a.look in DATA and a.forward == loss.forward]
    copies = [float(arrow.frame) for arrow in same if arrow.sequence == loss.sequence]
    own = ups.filter(pl.col("sequence").is_in(copies))
    if not data:
        own = own.clear()
    behind = ups.filter(pl.col("time_s") > loss.arrival).head(3).tail(1)
    ends = [*own["time_s"].head(1), *over["time_s"].head(1)]
    end = min(ends) if ends else max([loss.arrival, *behind["time_s"]])
    span = end - loss.start
    # The start of the frame, or of the A-MPDU that contains it.
    first = max(a.start for a in shown if a.forward == loss.forward and a.start <= loss.start)
    before = [arrow for arrow in shown if arrow.forward == loss.forward][:-1]
    before = [arrow for arrow in before if arrow.start < first][-2:]
    start = max(before[0].start, first - 0.5 * span) if before else first
    # Include the result of the recovery: the next frame in the opposite direction.
    answers = [a.arrival for a in shown if a.forward != loss.forward and a.start >= end]
    end = max(end + 0.06 * span, min(answers[0], end + 0.3 * span) if answers else end)
    margin = 0.03 * (end - start)
    return max(start - margin, 0.0), end + margin


class _Ladder:
    """State of a diagram while it is drawn."""

    def __init__(
        self,
        axes: Axes,
        trace: Trace,
        link: str,
        known: Sequence[Arrow],
        arrows: Sequence[Arrow],
        start: float,
        end: float,
        line: float,
        width: float,
    ) -> None:
        self.start, self.end = start, end
        self.segments = Segments.of(sent_over(trace, link), trace)
        self.endpoints = endpoints(trace, link)
        # Contents of a frame, by its number.
        self.content = {(arrow.forward, arrow.frame): arrow for arrow in known}
        self.scale, self.unit = (1e3, "ms") if end < 100.0 and end - start < 10.0 else (1.0, "s")
        self.axes = axes
        self.line = line
        self._frame_axes(trace.hosts[link])
        for arrow in arrows:
            self._draw(arrow)
        self.aggregates = [arrow for arrow in arrows if arrow.members and arrow.look in AGGREGATES]
        self.has_nav = self._draw_reserved(trace, link)
        services = sorted({arrow.service for arrow in arrows})
        spoken = [self._mark_events(trace, link, host, services) for host in (0, 1)]
        # The distance between hosts is 1; the time axis takes half an inch of the panel.
        letter = 0.58 * FONT / 72.0 / (width - 0.5)
        whole = 1.14 / (1.0 - min(letter * sum(spoken), 0.7))
        self.letter = letter * whole
        left, right = (0.07 + self.letter * letters for letters in spoken)
        self.axes.set_xlim(-left, 1.0 + right)
        self._label(arrows)

    def y(self, time: float) -> float:
        """Returns a time in the unit of the axis."""
        return time * self.scale

    def has_room(self, time: float) -> bool:
        """Returns `True` if there is space for text."""
        return self.start + self.line / 2 <= time <= self.end - self.line / 2

    def _frame_axes(self, hosts: tuple[str, str]) -> None:
        axes = self.axes
        axes.set_ylim(self.y(self.end), self.y(self.start))
        axes.set_xticks([0, 1], hosts, fontsize=9, fontweight="bold", color=INK)
        axes.xaxis.tick_top()
        axes.tick_params(axis="x", length=0, pad=3)
        axes.tick_params(axis="y", labelsize=7.5, colors=INK, length=2)
        axes.set_ylabel(f"Time ({self.unit})", fontsize=8, color=INK)
        axes.grid(axis="y", alpha=0.25, linewidth=0.5)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "bottom", "left"]].set_visible(False)
        for x in (0, 1):
            axes.axvline(x, color=INK, linewidth=1.2, zorder=3)

    def _draw(self, arrow: Arrow) -> None:
        look = LOOKS[arrow.look]
        # The transmission time, on the sender's side of its line.
        width = 0.014
        left = -width if arrow.forward else 1.0
        bar = Rectangle(
            (left, self.y(arrow.start)),
            width,
            self.y(arrow.end - arrow.start),
            color=look.colour,
            linewidth=0,
            zorder=2.5,
        )
        self.axes.add_patch(bar)
        share = FADE if arrow.lost else 1.0
        line = FancyArrowPatch(
            (arrow.x(0.0), self.y(arrow.start)),
            (arrow.x(share), self.y(arrow.at(share))),
            arrowstyle="-" if arrow.lost else "-|>",
            mutation_scale=7,
            shrinkA=0,
            shrinkB=0,
            color=look.colour,
            linewidth=0.9 if arrow.look == "ack" else 1.2,
            linestyle=(0, look.dashes) if look.dashes else "-",
            zorder=2,
        )
        self.axes.add_patch(line)
        if arrow.lost:
            self.axes.plot(
                arrow.x(share),
                self.y(arrow.at(share)),
                marker="x",
                markersize=6.5,
                markeredgewidth=1.8,
                color=look.colour,
                zorder=4,
            )

    def _is_inside(self, time: float) -> bool:
        """Returns `True` within an A-MPDU. Its NAV and its collision are those of each MPDU."""
        return any(one.start + 1e-9 < time < one.end - 1e-9 for one in self.aggregates)

    def _draw_reserved(self, trace: Trace, link: str) -> bool:
        """Shades the time reserved by 802.11 frames (NAV); returns `True` if any exists."""
        reserved = trace.frame.filter(is_of(link, *SIDES) & (pl.col("event") == "nav"))
        ends = reserved.select("sequence", "value").rows()
        spans = [(end, end + length) for end, length in ends if not self._is_inside(end)]
        inside = [span for span in spans if span[0] < self.end and span[1] > self.start]
        for first, last in inside:
            self.axes.axhspan(self.y(first), self.y(last), color=GREY, alpha=0.18, lw=0, zorder=0.5)
        return bool(inside)

    def _label(self, arrows: Sequence[Arrow]) -> None:
        """Writes the label of each arrow near its start if there is space."""

        def place(arrow: Arrow) -> float:
            """Returns the middle of a label; a long one begins at the line of its host."""
            return max(0.14, 0.03 + 0.5 * self.letter * len(arrow.text))

        for forward in (True, False):
            own = [arrow for arrow in arrows if arrow.forward == forward]
            own = [arrow for arrow in own if self.has_room(arrow.at(place(arrow)))]
            own.sort(key=lambda arrow: (LOOKS[arrow.look].priority - 9 * arrow.lost, arrow.start))
            for arrow in self._with_room(own, lambda arrow: arrow.at(place(arrow))):
                rise = self.y(arrow.arrival - arrow.start)
                angle = math.degrees(math.atan2(rise if forward else -rise, 1.0))
                self.axes.text(
                    arrow.x(place(arrow)),
                    self.y(arrow.at(place(arrow))),
                    arrow.text,
                    rotation=angle,
                    rotation_mode="anchor",
                    transform_rotates_text=True,
                    ha="center",
                    va="center",
                    fontsize=FONT,
                    color=TEXT.get(arrow.look, LOOKS[arrow.look].colour),
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
                    zorder=5,
                    clip_on=True,
                )

    def _with_room(self, wanted: Iterable[Arrow], when: Callable[[Arrow], float]) -> list[Arrow]:
        taken: list[float] = []
        chosen = []
        for arrow in wanted:
            if all(abs(when(arrow) - other) >= self.line for other in taken):
                taken.append(when(arrow))
                chosen.append(arrow)
        return chosen

    def _mark_events(self, trace: Trace, link: str, host: int, services: Sequence[str]) -> int:
        """Writes deliveries and endpoint events next to a host's line; returns the longest text.

        The endpoint that sends in the forward direction is at the first host.
        """
        own, other = SIDES[::-1] if host else SIDES
        inside = trace.frame.filter(pl.col("time_s").is_between(self.start, self.end))
        texts: list[tuple[float, str, str]] = []
        for service in services:
            here, there = (f"link.{link}.{side}.{service}".rstrip(".") for side in (own, other))
            said = inside.filter(pl.col("entity") == here)
            came = inside.filter((pl.col("entity") == there) & (pl.col("event") == "delivered"))
            # 802.11: the backoff before a frame, and collisions.
            draws = said.filter(pl.col("event") == "backoff").select("time_s", "sequence", "value")
            texts += [(at, f"backoff {n:.0f} of {most:.0f}", GREY) for at, n, most in draws.rows()]
            clashes = said.filter(pl.col("event") == "collided")["time_s"]
            texts += [(at, "collision", RED) for at in clashes if not self._is_inside(at)]
            # The cause first, then the frames that it releases.
            for event, word in (("timed_out", "timeout"), ("abandoned", "gave up")):
                for time, which in _by_time(said.filter(pl.col("event") == event)).items():
                    texts.append((time, f"{service} {word} {numbers(which)}".lstrip(), RED))
            recovered = _by_time(said.filter(pl.col("event") == "recovered"))
            for time, ups in _by_time(came).items():
                self._mark(host, time)
                if self.segments:
                    # A damaged trace may lack the frame of a delivery.
                    keys = ((host == 1, up) for up in ups)
                    carried = [self.content[key] for key in keys if key in self.content]
                    # Acknowledgments are labelled on their arrows.
                    silent = (*ACKS, "handshake")
                    ups = [arrow.sequence for arrow in carried if arrow.look not in silent]
                    if not ups:
                        continue
                is_recovered = bool(ups) and set(ups) <= set(recovered.get(time, []))
                word = "recovered" if is_recovered else "delivered"
                texts.append((time, f"{service} {word} {numbers(ups)}".strip(), INK))
        if own in self.endpoints:
            said = inside.filter(pl.col("entity") == self.endpoints[own])
            mistakes = set(said.filter(event="spurious_timeout")["time_s"])
            is_quic = bool(self.segments and self.segments.is_quic)
            for time in said.filter(event="timeout")["time_s"]:
                word = "spurious TCP timeout" if time in mistakes else "TCP timeout"
                texts.append((time, "PTO" if is_quic else word, RED))
            spurious = _by_time(said.filter(event="spurious_loss"))
            for time, which in _by_time(said.filter(event="packet_lost")).items():
                texts.append((time, f"lost {numbers(which)}", RED))
            for time, which in spurious.items():
                texts.append((time, f"spurious loss {numbers(which)}", RED))
        if trace.agents.get(link) == trace.hosts[link][host]:
            texts += self._agent_texts(inside.filter(pl.col("entity") == f"agent.{link}"), own)
        self._write_beside(host, texts)
        return max((len(text) for _, text, _ in texts), default=0)

    def _agent_texts(self, said: pl.DataFrame, own: str) -> list[tuple[float, str, str]]:
        """Returns the events of an agent that sends in direction `own`, in order."""
        words = {
            "suppressed_ack": "suppressed ACK {}",
            "local_timeout": "timeout of {}",
            "local_retransmission": "retransmits {}",
            "eln": "ELN {}",
            "ersn": "ERSN {}",
            "marked_ack": "marks ACK {}",
        }
        texts = []
        for time, event, byte in said.select("time_s", "event", "sequence").iter_rows():
            number = f"byte {byte:.0f}"
            if self.segments:
                number = str(self.segments.number(own, int(byte)))
            texts.append((time, words[event].format(number), RED))
        return texts

    def _mark(self, host: int, time: float) -> None:
        self.axes.plot(
            host + (0.022 if host else -0.022),
            self.y(time),
            marker=">" if host else "<",
            markersize=4,
            color=INK,
            markeredgewidth=0,
            zorder=4,
        )

    def _write_beside(self, host: int, texts: list[tuple[float, str, str]]) -> None:
        last = -math.inf
        for time, text, colour in sorted(texts, key=lambda known: known[0]):
            # Slightly lower if the place is taken; omitted if that would be misleading.
            place = max(time, last + self.line)
            if place - time > 1.5 * self.line or not self.has_room(place):
                continue
            last = place
            self.axes.text(
                host + (0.04 if host else -0.04),
                self.y(place),
                text,
                ha="left" if host else "right",
                va="center",
                fontsize=FONT,
                color=colour,
                zorder=5,
            )


def _legend(figure: Figure, arrows: Sequence[Arrow], has_nav: bool) -> None:
    used = {arrow.look for arrow in arrows}
    handles = [
        Line2D([], [], color=look.colour, dashes=look.dashes or (1, 0), lw=1.5, label=look.name)
        for name, look in LOOKS.items()
        if name in used
    ]
    if any(arrow.lost for arrow in arrows):
        handles.append(Line2D([], [], color=INK, marker="x", linestyle="none", label="lost"))
    if has_nav:
        label = "medium reserved (NAV)"
        handles.append(Line2D([], [], color=GREY, alpha=0.3, lw=6, label=label))
    # Several lines if one is not wide enough; a handle takes the place of five letters.
    letters = sum(len(str(handle.get_label())) + 5 for handle in handles)
    lines = math.ceil(letters * 0.62 * FONT / 72.0 / figure.get_figwidth())
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=math.ceil(len(handles) / lines),
        frameon=False,
        fontsize=7.5,
        handlelength=1.8,
        columnspacing=1.4,
    )


def _by_time(events: pl.DataFrame) -> dict[float, list[int]]:
    """Returns the numbers of events in order of time."""
    found: dict[float, list[int]] = {}
    for time, number in events.select("time_s", "sequence").iter_rows():
        own = found.setdefault(time, [])
        if number is not None:
            own.append(int(number))
    return found
