"""Events of one replication."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import lasthop

LOSSY = {
    "name": "lossy",
    "link": {
        "air": {
            "between": ["server", "client"],
            "rate": "1 Mbps",
            "delay": "20 ms",
            "errors": {"kind": "uniform", "loss": "5 %"},
        }
    },
    "flow": {
        "file": {
            "from": "server",
            "to": "client",
            "transport": {"kind": "tcp", "variant": "sack", "profile": "rfc"},
            "app": {"kind": "file", "size": "300 kB"},
        }
    },
}


def test_sack_blocks_are_what_the_receiver_holds_beyond_the_acknowledgment() -> None:
    events = lasthop.trace(LOSSY).frame
    received = events.filter(event="segment_received", entity="flow.file.receiver")
    acknowledged = 0.0
    blocks = 0
    for row in events.filter(entity="flow.file").iter_rows(named=True):
        if row["event"] == "ack_received":
            acknowledged = row["sequence"]
        elif row["event"] == "sack_block":
            blocks += 1
            first, end = row["sequence"], row["sequence"] + row["value"]
            assert acknowledged < first < end
            # Every byte of the block has arrived before.
            there = received.filter(
                pl.col("time_s") < row["time_s"],
                pl.col("sequence").is_between(first, end, closed="left"),
            ).unique("sequence")
            assert there["value"].sum() == row["value"]
    assert blocks > 10


def test_a_tcp_without_the_option_sends_no_blocks() -> None:
    scenario = lasthop.Scenario(LOSSY).set("flow.file.transport.variant", "newreno")
    assert "sack_block" not in lasthop.trace(scenario).frame["event"]


def test_packets_of_every_access_category_are_delivered_to_the_direction() -> None:
    app = {"kind": "on-off", "rate": "64 kbps", "packet": "200 B", "on": "1 s", "off": "0 s"}
    flow = {"from": "ap", "to": "a", "transport": {"kind": "udp"}, "app": app}
    scenario = {
        "name": "edca",
        "wlan": {
            "w": {"access_point": "ap", "stations": ["a"], "standard": "802.11n", "edca": True}
        },
        "flow": {name: {**flow, "dscp": name} for name in ("CS1", "DF", "AF41", "EF")},
        "run": {"duration": "1 s"},
    }
    delivered = lasthop.trace(scenario).frame.filter(event="delivered")
    assert delivered["entity"].unique().to_list() == ["link.w.a.reverse"]
    assert len(delivered) > 100


def test_exactly_the_listed_frames_are_lost() -> None:
    errors = {"kind": "listed", "lose": [27, 25]}
    scenario = lasthop.Scenario(LOSSY).set("link.air.errors", errors)
    scenario = scenario.set("link.air.reverse", {"errors": "none"})
    for replication in (0, 1):
        air = lasthop.trace(scenario, replication=replication).transmissions.sort("start_s")
        assert air.filter(entity="link.air.reverse")["arrival_s"].null_count() == 0
        forward = air.filter(entity="link.air.forward").with_row_index("place", offset=1)
        assert forward.filter(pl.col("arrival_s").is_null())["place"].to_list() == [25, 27]


def without(column: str, folder: Path) -> Path:
    """A trace on disk whose frames lack this column."""
    lasthop.trace(LOSSY).write(folder)
    frames = folder / "frames.csv"
    frames.write_text(pl.read_csv(frames).drop(column).write_csv())
    return folder


def test_a_trace_from_before_there_was_a_column_is_read(tmp_path: Path) -> None:
    old = lasthop.Trace.read(without("sack", tmp_path)).transmissions
    new = lasthop.trace(LOSSY).transmissions
    assert old.schema == new.schema
    assert old["sack"].null_count() == old.height
    assert new["sack"].null_count() < new.height
    assert old.drop("sack").equals(new.drop("sack"))
    lasthop.plot(str(tmp_path), kind="ladder", link="air")


def test_a_trace_without_a_column_that_was_always_there_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"damaged files .*expected a folder written by `lasthop trace`"
    ):
        lasthop.Trace.read(without("arrival_s", tmp_path))


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    for name in ("frames.csv", "trace.json"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).symlink_to("/dev/full")
        with pytest.raises(OSError, match="No space left on device") as caught:
            lasthop.trace(LOSSY).write(folder)
        assert caught.value.filename == str(folder / name)


def test_the_figure_shows_thresholds_and_recoveries() -> None:
    """As the trace view of the page: ssthresh, and shaded recoveries in three panels."""
    lossy = {"link.wireless.errors.loss": "5 %", "flow.transfer.app.size": "200 kB"}
    scenario = lasthop.load("examples/first.toml").with_(lossy)
    counted = lasthop.run(scenario, replications=1).wide.row(0, named=True)
    figure = lasthop.trace(scenario).plot()
    windows, sequence, queue, _ = figure.axes
    names = windows.get_legend_handles_labels()[1]
    assert {"transfer", "ssthresh", "fast recovery"} <= set(names)
    spans = [
        [patch.get_extents().x0 for patch in axes.patches] for axes in (windows, sequence, queue)
    ]
    events = ("fast_retransmits", "timeouts")
    assert 1 <= len(spans[0]) <= sum(counted[f"flow.transfer.{name}"] for name in events)
    assert spans[0] == spans[1] == spans[2]
    # A transfer without losses has no recovery; a small one does not fill the queue either.
    small = scenario.with_({"link.wireless.errors": "none", "flow.transfer.app.size": "50 kB"})
    assert not lasthop.trace(small).plot().axes[0].patches
