"""Draws the pictures on the page about TCP: each beside Reno with SACK, over the same path."""

from functools import cache
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import lasthop
from lasthop.words import value_name

HERE = Path(__file__).parent
GREY, BLUE = "#999999", "#0072B2"
# Segments; what a sender may have under way at most, however large its window.
RECEIVE_WINDOW = 260.0


# Those that go by the share of marks meet a queue that marks, and no losses; those that go by news
# of damaged segments can read the headers of what is lost. What some of these gain, they gain in
# windows in which no third duplicate comes: their pictures show what is acknowledged.
BY_MARKS = ("dctcp", "prague")
BY_DAMAGE = ("hack-fixed", "lhp")
IN_SMALL_WINDOWS = ("hack", "ewln", "tcp-eln")
SEGMENT = 1460.0


Runs = tuple[tuple[lasthop.Trace, str, str], ...]  # a run, its name, its colour


@cache
def traced(variant: str, scene: str) -> lasthop.Trace:
    """The run of this scenario with this TCP."""
    scenario = lasthop.load(HERE / "tcp" / "scenarios" / f"{scene}.toml")
    return lasthop.trace(scenario.set("flow.transfer.transport.variant", variant))


def picture(variant: str) -> Figure:
    """What this TCP does beside Reno with SACK, and the lost frames of each as ticks."""
    figure = Figure(figsize=(7.0, 2.4), layout="constrained")
    axes = figure.subplots()
    scene, other = "losses", "Reno with SACK"
    if variant in BY_MARKS:
        scene, other = "marks", "Reno with SACK and ECN"
    elif variant in BY_DAMAGE:
        scene = "damage"
    elif variant in IN_SMALL_WINDOWS:
        scene = "small-window"
    runs = (
        (traced("sack", scene), other, GREY),
        (traced(variant, scene), value_name(variant), BLUE),
    )
    (_acknowledged if variant in IN_SMALL_WINDOWS else _windows)(axes, runs)
    for own, _, colour in runs:
        lost = own.transmissions.filter(
            pl.col("arrival_s").is_null(), entity="link.path.forward", kind="data"
        )
        for at in lost["start_s"]:
            axes.plot([at], [0.0], marker="|", markersize=9.0, color=colour, clip_on=False)
    axes.set(xlabel="Time (s)", xlim=(0.0, 20.0))
    axes.set_ylim(bottom=0.0)
    axes.legend(
        loc="upper left" if scene == "small-window" else "upper right", frameon=False, ncols=2
    )
    return figure


def _acknowledged(axes: Axes, runs: Runs) -> None:
    """Segments acknowledged so far."""
    for own, label, colour in runs:
        acks = own.frame.filter(event="ack_received", entity="flow.transfer")
        axes.step(
            acks["time_s"],
            acks["sequence"] / SEGMENT,
            where="post",
            color=colour,
            lw=1.0,
            label=label,
        )
    axes.set_ylabel("Acknowledged (segments)")


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
