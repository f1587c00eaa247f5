"""Figures of replications: windows, queues, sequence numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_hex

import lasthop
from lasthop.showing.figures import style
from pictured import xs, ys


def test_series_follow_the_trace(small: Path) -> None:
    trace = lasthop.trace(small)
    figure = lasthop.plot(trace)
    window, queue = figure.axes
    assert window.get_ylabel().replace("\n", " ") == "Congestion window (segments)"
    assert queue.get_ylabel().replace("\n", " ") == "Queue (packets)"
    assert queue.get_xlabel() == "Time (s)"
    events = trace.series()["cwnd"].filter(event="cwnd", entity="flow.transfer")
    line = window.get_lines()[0]
    assert line.get_label() == "transfer"
    np.testing.assert_allclose(ys(line)[: events.height], events["value"].to_numpy())


def test_legends_of_series_fit(small: Path) -> None:
    document = lasthop.load(small).to_dict()
    link = document["link"].pop("wireless")
    document["link"] = {"the-far-wired-side": {**link, "between": ["server", "ap"]}}
    document["link"]["the-near-wireless-side"] = {**link, "between": ["ap", "client"]}
    file = document["flow"].pop("transfer")
    document["flow"]["down"] = file
    document["flow"]["up"] = {**file, "from": "client", "to": "server"}
    del document["sweep"]
    figure = lasthop.plot(lasthop.trace(document))
    figure.draw_without_rendering()
    names = []
    for axes in figure.axes:
        legend = axes.get_legend()
        assert legend is not None
        assert legend.get_window_extent().x1 <= figure.bbox.x1
        # Legends do not reduce the size of panels.
        assert axes.get_position().width > 0.8
        names.append([text.get_text() for text in legend.get_texts()])
    assert names[0] == ["down", "ssthresh", "up", "timeout"]
    assert len(names[1]) == 4


def test_sequence_tells_retransmissions(small: Path) -> None:
    trace = lasthop.trace(small)
    figure = lasthop.plot(trace, kind="sequence", y="transfer")
    (axes,) = figure.axes
    assert axes.get_ylabel() == "Sequence number (kB)"
    lines = {str(line.get_label()): line for line in axes.get_lines()}
    retransmissions = trace.metrics["flow.transfer.retransmissions"]
    assert len(xs(lines["retransmitted"])) == retransmissions > 0
    acks = ys(lines["acknowledged"])
    assert np.all(np.diff(acks) >= 0.0)
    assert to_hex(lines["sent"].get_color()).upper() == style.BLUE


def test_link_events_are_centred_at_their_direction() -> None:
    figure = lasthop.trace("examples/first.toml").plot()
    axes = next(axes for axes in figure.axes if axes.get_ylabel() == "Link events")
    assert len(axes.lines) == 1
    rows = np.unique(np.asarray(axes.lines[0].get_ydata(), dtype=float))
    assert set(rows.tolist()) <= set(np.asarray(axes.get_yticks()).tolist())


def test_trace_figures_that_cannot_be_drawn(small: Path) -> None:
    trace = lasthop.trace(small)
    for arguments, message in (
        ({"kind": "line"}, "invalid value `line` for `kind`"),
        ({"y": "rtt"}, "invalid value `rtt` for `y`: expected cwnd, ssthresh, phase, queue"),
        ({"kind": "sequence", "y": "web"}, "invalid value `web` for `y`: expected transfer"),
        ({"kind": "ladder"}, "missing `link`: expected wireless"),
        ({"log": "x"}, "invalid value `x` for `log`: expected y"),
        ({"start": 5.0, "end": 1.0}, "invalid value `5 s` for `from`"),
    ):
        with pytest.raises(lasthop.PlotError, match=message):
            lasthop.plot(trace, **arguments)


def test_pictures_of_a_replication_say_their_point_and_obey(small: Path) -> None:
    trace = lasthop.trace(small, point=1)
    assert trace.point == "TCP SACK"
    for kind in ("series", "sequence", "ladder"):
        link = "wireless" if kind == "ladder" else None
        figure = lasthop.plot(trace, kind=kind, link=link)
        assert "TCP SACK" in figure.get_suptitle() + figure.axes[0].get_title()
        said = lasthop.plot(trace, kind=kind, link=link, title="mine", size="full")
        assert said.get_suptitle() + said.axes[0].get_title() == "mine"
        assert said.get_figwidth() == 7.0
    assert lasthop.plot(trace, kind="series", log="y").axes[0].get_yscale() == "log"
    with pytest.raises(lasthop.PlotError, match="`log` requires kind line, cdf or series"):
        lasthop.plot(trace, kind="ladder", link="wireless", log="x")


def test_sequence_plots_show_sacks_duplicate_acks_and_losses(small: Path) -> None:
    trace = lasthop.trace(small, point=1)
    axes = lasthop.plot(trace, kind="sequence").axes[0]
    lines = {str(line.get_label()): line for line in axes.get_lines()}
    own = trace.frame.filter(pl.col("entity") == "flow.transfer")
    # A raw link: every frame lost in this direction contained a segment.
    lost = trace.metrics["link.wireless.forward.frames_lost"]
    assert xs(lines["lost"]).size == lost
    acks = own.filter(event="ack_received")["sequence"].cum_max()
    assert xs(lines["duplicate ACK"]).size == (acks.diff() == 0).sum()
    (blocks,) = [one for one in axes.collections if one.get_label() == "SACK block"]
    assert len(blocks.get_paths()) == own.filter(event="sack_block").height > 0


def test_a_window_stands_beside_its_threshold(small: Path) -> None:
    window = lasthop.plot(lasthop.trace(small), y="cwnd").axes[0]
    assert "ssthresh" in [str(line.get_label()) for line in window.get_lines()]
    # Recoveries are shaded, and each kind is named once.
    shaded = [str(patch.get_label()) for patch in window.patches]
    assert shaded.count("fast recovery") == 1 or shaded.count("after a timeout") == 1, shaded
    assert set(shaded) <= {"fast recovery", "after a timeout", "_"}, shaded
