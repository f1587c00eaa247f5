"""Events of one replication."""

from __future__ import annotations

import polars as pl

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
            "transport": {"kind": "tcp", "variant": "sack"},
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
            # Each byte of it has arrived before.
            there = received.filter(
                pl.col("time_s") < row["time_s"],
                pl.col("sequence").is_between(first, end, closed="left"),
            ).unique("sequence")
            assert there["value"].sum() == row["value"]
    assert blocks > 10


def test_a_tcp_without_the_option_sends_no_blocks() -> None:
    scenario = lasthop.Scenario(LOSSY).set("flow.file.transport.variant", "newreno")
    assert "sack_block" not in lasthop.trace(scenario).frame["event"]
