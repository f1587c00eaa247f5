"""Draws the pictures on the page about TCP: each window beside Reno's, over the same path."""

from functools import cache
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

import lasthop
from lasthop.words import value_name

HERE = Path(__file__).parent
GREY, BLUE = "#999999", "#0072B2"
# Segments; what a sender may have under way at most, however large its window.
RECEIVE_WINDOW = 260.0


# Those that go by the share of marks meet a queue that marks, and no losses; those that go by news
# of damaged segments can read the headers of what is lost.
BY_MARKS = ("dctcp", "prague")
BY_DAMAGE = ("hack", "hack-fixed", "ewln", "tcp-eln", "lhp")


@cache
def traced(variant: str, scene: str) -> lasthop.Trace:
    """The run of this scenario with this TCP."""
    scenario = lasthop.load(HERE / "tcp" / f"{scene}.toml")
    return lasthop.trace(scenario.set("flow.transfer.transport.variant", variant))


def picture(variant: str) -> Figure:
    """The windows of this TCP and of Reno with SACK, up to the receiver's, and lost frames."""
    figure = Figure(figsize=(7.0, 2.4), layout="constrained")
    axes = figure.subplots()
    scene, other = "losses", "Reno with SACK"
    if variant in BY_MARKS:
        scene, other = "marks", "Reno with SACK and ECN"
    elif variant in BY_DAMAGE:
        scene = "damage"
    reaches_limit = False
    for name, label, colour in (
        ("sack", other, GREY),
        (variant, value_name(variant), BLUE),
    ):
        own = traced(name, scene)
        windows = own.frame.filter(event="cwnd", entity="flow.transfer")
        used = windows["value"].clip(upper_bound=RECEIVE_WINDOW)
        axes.step(windows["time_s"], used, where="post", color=colour, lw=1.0, label=label)
        reaches_limit |= bool((windows["value"] > RECEIVE_WINDOW).any())
        lost = own.transmissions.filter(
            pl.col("arrival_s").is_null(), entity="link.path.forward", kind="data"
        )
        for at in lost["start_s"]:
            axes.plot([at], [0.0], marker="|", markersize=9.0, color=colour, clip_on=False)
    if reaches_limit:
        axes.axhline(RECEIVE_WINDOW, color=GREY, lw=0.8, ls=":")
        axes.text(0.1, RECEIVE_WINDOW + 6.0, "receive window", color=GREY, size="small")
    axes.set(xlabel="Time (s)", ylabel="Window (segments)", xlim=(0.0, 20.0))
    axes.set_ylim(0.0, 310.0)
    axes.legend(loc="upper right", frameon=False, ncols=2)
    return figure
