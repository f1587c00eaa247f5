"""TCP: the chain of its window, over links with limited persistence too, and formulas."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import polars as pl

from lasthop import _lasthop
from lasthop.evaluating.analysis.channels import Channel, law_of, limit_of, whole


def tcp_window(loss: float, max_window: int | None = None) -> pl.DataFrame:
    """Returns the stationary distribution of Reno's window: `window` in packets, `probability`.

    Args:
        loss: Packet loss probability.
        max_window: Where growth ends; None for a window that is never reached.
    """
    largest = None if max_window is None else whole("max_window", max_window)
    law, _, _ = _lasthop.tcp_window_chain(loss, largest, math.inf, 1.0)
    return pl.DataFrame({"window": range(1, len(law) + 1), "probability": law})


def tcp_chain(
    loss: float,
    round_trip_s: float,
    *,
    capacity_per_s: float = math.inf,
    max_window: int | None = None,
) -> float:
    """Packets per second that Reno sends, by the window chain.

    Args:
        loss: Packet loss probability.
        round_trip_s: Round trip without queueing.
        capacity_per_s: Packets per second of the bottleneck.
        max_window: Where growth ends; None for a window that is never reached.
    """
    largest = None if max_window is None else whole("max_window", max_window)
    return _lasthop.tcp_window_chain(loss, largest, capacity_per_s, round_trip_s)[2]


def tcp_over_arq(
    channel: Channel,
    limits: Iterable[int | None],
    *,
    pdus: int,
    frame_s: float,
    capacity_per_s: float,
    wired_loss: float,
    wired_round_trip_s: float,
    spacing: int = 1,
) -> pl.DataFrame:
    """Computes Reno over a selective-repeat link and a lossy wired path, one row per limit.

    Args:
        channel: The channel of the radio link.
        limits: Maximum transmissions per PDU; None: no limit.
        pdus: PDUs per packet.
        frame_s: Duration of a radio frame.
        capacity_per_s: Packets per second that the radio sends, including retransmissions.
        wired_loss: Loss probability of the wired path.
        wired_round_trip_s: RTT of the wired path in seconds.
        spacing: Frames between transmissions of a PDU.

    Returns:
        `limit`, `radio_loss`, `loss`, `transmissions_per_pdu`, `round_trip_s`, `capacity_per_s`
        left for new packets, `throughput_per_s`, `goodput_per_s`.
    """
    law = law_of(channel)
    names = (
        "radio_loss",
        "loss",
        "transmissions_per_pdu",
        "round_trip_s",
        "capacity_per_s",
        "throughput_per_s",
        "goodput_per_s",
    )
    rows: list[dict[str, float | int | None]] = []
    for limit in limits:
        found = _lasthop.tcp_over_arq(
            law,
            whole("pdus", pdus),
            whole("spacing", spacing),
            limit_of(limit),
            frame_s,
            capacity_per_s,
            wired_loss,
            wired_round_trip_s,
        )
        rows.append({"limit": limit, **dict(zip(names, found, strict=True))})
    schema: dict[str, type[pl.DataType]] = {"limit": pl.Int64}
    return pl.DataFrame(rows, schema=schema | dict.fromkeys(names, pl.Float64))


def tcp_formulas(
    losses: Sequence[float],
    round_trip_s: float,
    *,
    timeout_s: float,
    segments_per_ack: int = 1,
    window: float = math.inf,
) -> pl.DataFrame:
    """Throughput by every formula, in segments per second, a row for each loss.

    Args:
        losses: Loss probabilities.
        round_trip_s: Round trip.
        timeout_s: First retransmission timeout.
        segments_per_ack: 1, or 2 with delayed ACKs.
        window: Largest window in segments.

    Returns:
        `loss`, `mathis` (losses at regular distance), `mathis_independent`, `padhye_simplified`,
        `padhye`.
    """
    names = ("mathis", "mathis_independent", "padhye_simplified", "padhye")
    acks = whole("segments_per_ack", segments_per_ack)
    rows = [
        (loss, *_lasthop.tcp_formulas(loss, round_trip_s, timeout_s, acks, window))
        for loss in losses
    ]
    schema: dict[str, type[pl.DataType]] = dict.fromkeys(("loss", *names), pl.Float64)
    return pl.DataFrame(rows, schema=schema, orient="row")


def mathis(
    loss: float,
    round_trip_s: float,
    *,
    segments_per_ack: int = 1,
    window: float = math.inf,
    independent: bool = False,
) -> float:
    """Segments per second by the square-root law of Mathis et al.

    Args:
        loss: Loss probability.
        round_trip_s: Round trip.
        segments_per_ack: 1, or 2 with delayed ACKs.
        window: Maximum window in segments.
        independent: Whether losses are independent; otherwise they occur at regular distances.
    """
    acks = whole("segments_per_ack", segments_per_ack)
    # The formula has no timeouts: the value is not used.
    found = _lasthop.tcp_formulas(loss, round_trip_s, 1.0, acks, window)
    return found[1 if independent else 0]


def padhye(
    loss: float,
    round_trip_s: float,
    *,
    timeout_s: float,
    segments_per_ack: int = 1,
    window: float = math.inf,
    simplified: bool = False,
) -> float:
    """Segments per second by the formula of Padhye et al. (PFTK), in full or simplified."""
    acks = whole("segments_per_ack", segments_per_ack)
    found = _lasthop.tcp_formulas(loss, round_trip_s, timeout_s, acks, window)
    return found[2 if simplified else 3]
