"""Rate and delay of explicit loss notification."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from lasthop import _lasthop
from lasthop.evaluating.analysis.channels import whole


def notification_load(
    losses: Iterable[float], limits: Iterable[int], *, ratio: float = 0.2
) -> pl.DataFrame:
    """Rate of loss notifications as a share of the rate of the link: equations (2) to (4) of Yun.

    Args:
        losses: Probabilities that an attempt fails.
        limits: Maximum attempts per frame.
        ratio: Ratio of message length to frame length, 0.2 in figure 3.

    Returns:
        `loss`, `limit`, and the loads `ersn_printed` (as printed), `ersn` (exact) and `eln`.
    """
    limits = list(limits)
    rows = []
    for loss in losses:
        for limit in limits:
            attempts = whole("limit", limit)
            printed, exact, eln = _lasthop.notification_intervals(loss, attempts)
            rows.append(
                {
                    "loss": loss,
                    "limit": limit,
                    "ersn_printed": ratio / printed,
                    "ersn": ratio / exact,
                    "eln": ratio / eln,
                }
            )
    return pl.DataFrame(rows)


def notification_delay(
    wire_s: float,
    *,
    data_s: float = 1.53e-3,
    ack_s: float = 0.80e-3,
    data_loss: float = 0.0,
    ack_loss: float = 0.0,
) -> pl.DataFrame:
    """Returns the delay from a wireless loss to the notification of the TCP sender: table 1 of Yun.

    Args:
        wire_s: One way from the base station to the other end of the connection.
        data_s: One attempt of a data packet over the air.
        ack_s: One attempt of an acknowledgment.
        data_loss: Probability that an attempt of a data packet fails.
        ack_loss: Probability that an attempt of an ACK fails.

    Returns:
        `scheme`, `downlink_s`, `uplink_s` (the sender is the wireless station).
    """
    rows = _lasthop.notification_delays((data_s, ack_s), (data_loss, ack_loss), wire_s)
    return pl.DataFrame(rows, schema=["scheme", "downlink_s", "uplink_s"], orient="row")


def losses_in_a_row(loss: float, limit: int = 1, *, level: float = 0.01) -> int:
    """The most packets in a row that noise is held to lose, N of Yun: largest with p^(lN) >= level.

    Args:
        loss: Probability p that an attempt fails.
        limit: Maximum attempts l per packet.
        level: Probability below which noise is not the cause.
    """
    return _lasthop.losses_in_a_row(loss, whole("limit", limit), level)
