"""Figures of the analytical models."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lasthop.evaluating import analysis
from lasthop.showing.figures.style import BLUE, GREEN, ORANGE, PURPLE, RED, Picture

__all__ = ["draw_arq", "draw_notification_load", "draw_tcp"]

FORMULAS = {
    "mathis_bps": ("Mathis, regular losses", ORANGE, ":"),
    "mathis_independent_bps": ("Mathis, independent losses", ORANGE, "--"),
    "padhye_simplified_bps": ("PFTK, simplified", GREEN, "--"),
    "padhye_bps": ("PFTK", BLUE, "-"),
    "window_chain_bps": ("window chain", RED, "-."),
}


def draw_arq(
    channel: analysis.Channel,
    largest: int,
    *,
    pdus: int = 1,
    spacing: int = 1,
    target: float | None = None,
    frame_s: float | None = None,
) -> Figure:
    """Draws residual loss, delay of delivered SDUs and energy ratio over the limit.

    Args:
        channel: The channel.
        largest: Maximum limit to show, at least 8.
        pdus: PDUs per SDU.
        spacing: Frames between transmissions of a PDU.
        target: Residual loss to mark.
        frame_s: Duration of a frame; delays are in frames without it.
    """
    limits = range(1, max(largest, 8) + 1)
    table = analysis.arq(channel, limits, pdus=pdus, spacing=spacing)
    figure = Picture(figsize=(6.0, 7.5), layout="constrained")
    loss, delay, energy = figure.subplots(3, 1, sharex=True)
    arrives = table.filter(pl.col("residual_loss") > 0)
    loss.semilogy(arrives["limit"], arrives["residual_loss"], color=BLUE, label="exact")
    approximate = table.filter(pl.col("approximate_loss") > 0)
    loss.semilogy(
        approximate["limit"],
        approximate["approximate_loss"],
        color=ORANGE,
        linestyle="--",
        label="by the dominant eigenvalue",
    )
    if target is not None:
        _mark_target(loss, channel, target, pdus, spacing)
    loss.set_ylabel("Residual loss of SDUs")
    per_frame = 1.0 if frame_s is None else 1000.0 * frame_s
    delay.plot(
        table["limit"],
        table["delay_frames"] * per_frame,
        color=BLUE,
        label="mean of delivered SDUs",
    )
    delay.set_ylabel("Delay (frames)" if frame_s is None else "Delay (ms)")
    delay.set_ylim(bottom=0.0)
    energy.axhline(1.0, color="black", linewidth=0.6)
    for column, label, colour, line in (
        ("energy_ratio", "TCP retransmits much later", GREEN, "-"),
        ("energy_ratio_at_once", "TCP retransmits immediately", PURPLE, "--"),
    ):
        energy.plot(table["limit"], table[column], color=colour, linestyle=line, label=label)
    energy.set_ylabel("Retransmissions,\nrelative to no limit")
    energy.set_xlabel("Limit: maximum transmissions per PDU")
    for axes in (loss, delay, energy):
        _dress(axes)
    again = "after 1 frame" if spacing == 1 else f"after {spacing} frames"
    units = "1 PDU" if pdus == 1 else f"{pdus} PDUs"
    loss.set_title(
        f"{units} per SDU, PDU loss rate {channel.loss_rate:.3g}, retransmitted {again}",
        fontsize=9,
    )
    return figure


def _mark_target(
    axes: Axes, channel: analysis.Channel, target: float, pdus: int, spacing: int
) -> None:
    axes.axhline(target, color="black", linewidth=0.6)
    limit = analysis.smallest_limit(channel, target, pdus=pdus, spacing=spacing)
    label = f"limit {limit} for a loss of {target:.3g}"
    axes.axvline(limit, color="black", linewidth=0.6, label=label)


def draw_tcp(curves: pl.DataFrame, points: pl.DataFrame, round_trip_s: float) -> Figure:
    """Draws throughput over loss rate for every formula, on logarithmic axes.

    Args:
        curves: `loss` and a column in bit/s for each formula.
        points: Same columns at the loss rates to mark.
        round_trip_s: RTT in seconds, for the title.
    """
    figure = Picture(figsize=(6.0, 4.4), layout="constrained")
    axes = figure.subplots()
    for column, (label, colour, line) in FORMULAS.items():
        axes.loglog(
            curves["loss"], curves[column] / 1000.0, color=colour, linestyle=line, label=label
        )
    marked = points.filter(pl.col("loss") > 0)
    axes.plot(
        marked["loss"],
        marked["padhye_bps"] / 1000.0,
        linestyle="none",
        marker="o",
        markerfacecolor="white",
        color=BLUE,
    )
    axes.set_xlabel("Packet loss probability")
    axes.set_ylabel("Throughput (kbps)")
    axes.set_title(f"TCP Reno, RTT {1000.0 * round_trip_s:g} ms", fontsize=9)
    _dress(axes)
    return figure


def _dress(axes: Axes) -> None:
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)


def draw_notification_load(limits: Sequence[int], ratio: float) -> Figure:
    """Draws the load of loss notification over the loss per attempt: figure 3 of Yun (2009).

    Args:
        limits: Maximum attempts per frame, one colour each.
        ratio: Ratio of message length to frame length.
    """
    losses = [0.3 * step / 60 for step in range(1, 61)]
    table = analysis.notification_load(losses, limits, ratio=ratio)
    figure = Picture(figsize=(6.0, 4.4), layout="constrained")
    axes = figure.subplots()
    colours = (BLUE, ORANGE, GREEN, RED, PURPLE)
    for place, limit in enumerate(limits):
        own = table.filter(pl.col("limit") == limit)
        colour = colours[place % len(colours)]
        columns = {
            "eln": ("ELN", "-"),
            "ersn": ("ERSN", "--"),
            "ersn_printed": ("ERSN as printed", ":"),
        }
        for column, (label, line) in columns.items():
            # With one attempt, there are no retransmissions.
            if limit > 1 or column == "eln":
                axes.plot(
                    100.0 * own["loss"],
                    100.0 * own[column],
                    color=colour,
                    linestyle=line,
                    label=f"{label}, {limit} attempt{'s' if limit > 1 else ''}",
                )
    axes.set_xlabel("Loss per attempt (%)")
    axes.set_ylabel("Load of messages, relative to the wireless rate (%)")
    axes.set_ylim(bottom=0.0)
    _dress(axes)
    return figure
