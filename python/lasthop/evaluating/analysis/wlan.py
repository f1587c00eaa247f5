"""Stations of 802.11 that always have a frame to send."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import polars as pl

from lasthop import _lasthop
from lasthop.evaluating.analysis.channels import whole


def dcf_saturation(
    stations: Iterable[int],
    *,
    standard: str = "802.11b",
    short_preamble: bool = False,
    rate_bps: float | None = None,
    control_rate_bps: float | None = None,
    packet: int = 1000,
    header: int = 36,
    rts: bool = False,
    cw_min: int | None = None,
    cw_max: int | None = None,
    limit: int | None = 7,
    counting: Literal["idle", "always"] = "idle",
) -> pl.DataFrame:
    """Saturated stations of IEEE 802.11 that all hear each other: Bianchi's model, a row each.

    Args:
        stations: How many always have a frame to send.
        standard: "802.11b", "802.11a" or "802.11g".
        short_preamble: Whether 802.11b takes its short preamble.
        rate_bps: Rate of data frames; by default the standard's highest.
        control_rate_bps: Rate of MAC acknowledgments, RTS and CTS; by default the highest
            basic rate.
        packet: Packet size in bytes, which counts for throughput.
        header: Header of a data frame in bytes.
        rts: Whether RTS and CTS are used.
        cw_min: Minimum contention window in slots; default: the standard's.
        cw_max: Maximum contention window in slots; default: the standard's.
        limit: Maximum attempts per frame; None: no limit.
        counting: `idle`: backoff counts only idle slots, as with the DCF; otherwise every slot,
            as in Bianchi's model of 2000.

    Returns:
        `stations`, total `throughput_bps`, `collision_probability` of an attempt,
        `transmission_probability` in a slot, `drop_probability` of a frame, `delay_s` from the head
        of the queue to the acknowledgment, shares of time `success`, `collision` and `idle` (spaces
        and timeouts belong to what they follow), `fair_frames` over which the mean of Jain's index
        reaches 0.95.
    """
    rates = [None if rate is None else round(rate) for rate in (rate_bps, control_rate_bps)]
    rows = []
    for count in stations:
        means, (success, collision, idle) = _lasthop.dcf_saturation(
            whole("stations", count),
            standard,
            short_preamble,
            rates,
            (whole("packet", packet), whole("header", header)),
            rts,
            (cw_min, cw_max),
            limit,
            counting == "idle",
        )
        throughput, collides, _, transmits, dropped, delay = means
        rows.append(
            {
                "stations": count,
                "throughput_bps": throughput,
                "collision_probability": collides,
                "transmission_probability": transmits,
                "drop_probability": dropped,
                "delay_s": delay,
                "success": success,
                "collision": collision,
                "idle": idle,
                # w / (w + n - 1) = 0.95.
                "fair_frames": 19 * (count - 1),
            }
        )
    return pl.DataFrame(rows)
