"""Draws the figures on the pages about TCP: each variant and Reno with SACK, over one path."""

from functools import cache
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import lasthop
from lasthop.showing.labels import value_name

HERE = Path(__file__).parent
GREY, BLUE = "#999999", "#0072B2"
# Maximum number of segments in flight, for any congestion window.
RECEIVE_WINDOW = 260.0


# Scenarios of variants whose mechanism `losses.toml` does not show.
SCENES = {
    "reno": "several-lost",
    "newreno": "several-lost",
    "dctcp": "marks",
    "prague": "marks",
    "lt-tcp": "marks-and-losses",
    "casablanca": "biased",
    "ifrane": "biased",
    "esack": "notified",
    "balakrishnan-eln": "notified",
    "hack-fixed": "damage",
    "lhp": "damage",
    "hack": "small-window",
    "ewln": "small-window",
    "tcp-eln": "small-window",
}
# Some variants are effective only in windows without a third duplicate, or shorten recovery: their
# figures show the data acknowledged between these times.
ACKNOWLEDGED = {
    "newreno": (4.4, 5.2),
    "hack": (0.0, 20.0),
    "ewln": (0.0, 20.0),
    "tcp-eln": (0.0, 20.0),
}
SEGMENT = 1460.0


Runs = tuple[tuple[lasthop.Trace, str, str], ...]  # a run, its name, its colour


@cache
def traced(variant: str, scene: str) -> lasthop.Trace:
    """The run of this scenario with this TCP."""
    scenario = lasthop.load(HERE / "tcp" / "scenarios" / f"{scene}.toml")
    return lasthop.trace(scenario.set("flow.transfer.transport.variant", variant))


def picture(variant: str) -> Figure:
    """Draws the windows of this TCP and of Reno with SACK; ticks mark their lost frames."""
    figure = Figure(figsize=(7.0, 2.4), layout="constrained")
    axes = figure.subplots()
    scene = SCENES.get(variant, "losses")
    other = "Reno with SACK and ECN" if scene.startswith("marks") else "Reno with SACK"
    runs = (
        (traced("sack", scene), other, GREY),
        (traced(variant, scene), value_name(variant), BLUE),
    )
    start, end = ACKNOWLEDGED.get(variant, (0.0, 20.0))
    if variant in ACKNOWLEDGED:
        _acknowledged(axes, runs, start, end)
    else:
        _windows(axes, runs)
    handles, _ = axes.get_legend_handles_labels()
    loses = False
    for own, _, colour in runs:
        lost = own.transmissions.filter(
            pl.col("arrival_s").is_null(),
            pl.col("start_s").is_between(start, end),
            pl.col("kind").is_in(["data", "segment"]),
            entity="link.path.forward",
        )
        loses |= lost.height > 0
        axes.plot(
            lost["start_s"],
            [0.0] * lost.height,
            transform=axes.get_xaxis_transform(),
            marker="|",
            markersize=9.0,
            ls="none",
            color=colour,
            clip_on=False,
        )
    axes.set(xlabel="Time (s)", xlim=(start, end))
    if loses:
        look = {"marker": "|", "markersize": 9.0, "ls": "none", "color": "black"}
        handles.append(Line2D([], [], label="Frame lost", **look))
    axes.legend(
        handles=handles,
        loc="upper left" if variant in ACKNOWLEDGED else "upper right",
        frameon=False,
        ncols=3,
    )
    return figure


def _acknowledged(axes: Axes, runs: Runs, start: float, end: float) -> None:
    """Segments acknowledged so far, between two times in seconds."""
    for own, label, colour in runs:
        acks = own.frame.filter(
            pl.col("time_s").is_between(start, end), event="ack_received", entity="flow.transfer"
        )
        axes.step(
            acks["time_s"],
            acks["sequence"] / SEGMENT,
            where="post",
            color=colour,
            lw=1.0,
            label=label,
        )
    axes.set_ylabel("Acknowledged (segments)")
    if start == 0.0:
        axes.set_ylim(bottom=0.0)


def _windows(axes: Axes, runs: Runs) -> None:
    """Windows, up to the receiver's."""
    reaches_limit = False
    for own, label, colour in runs:
        windows = own.frame.filter(event="cwnd", entity="flow.transfer")
        used = windows["value"].clip(upper_bound=RECEIVE_WINDOW)
        axes.step(windows["time_s"], used, where="post", color=colour, lw=1.0, label=label)
        reaches_limit |= bool((windows["value"] > RECEIVE_WINDOW).any())
    if reaches_limit:
        axes.axhline(RECEIVE_WINDOW, color=GREY, lw=0.8, ls=":")
        axes.text(0.1, RECEIVE_WINDOW + 6.0, "receive window", color=GREY, size="small")
    axes.set_ylabel("Window (segments)")
    axes.set_ylim(0.0, 310.0)
