"""Performance of link protocols on a channel: residual loss, transmissions, delay, efficiency."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from lasthop import _lasthop
from lasthop._lasthop import AnalysisError
from lasthop.evaluating.analysis.channels import Channel, chain_of, law_of, limit_of, whole

Method = Literal["exact", "approximate"]


@dataclass(frozen=True)
class IdealLink:
    """Counts of an ideal selective-repeat link.

    Attributes:
        frames: Frames in which an SDU was sent or in progress.
        delivered: SDUs delivered.
        given_up: SDUs discarded at the limit.
        transmissions: PDUs sent.
        arrivals: PDUs that arrived.
        delays: `frames` and `sdus`: number of SDUs by delay in frames.
    """

    frames: int
    delivered: int
    given_up: int
    transmissions: int
    arrivals: int
    delays: pl.DataFrame


def residual_loss(channel: Channel, limit: int, *, pdus: int = 1, spacing: int = 1) -> float:
    """F(limit): loss of SDUs of `pdus` PDUs that are sent at most `limit` times.

    Args:
        channel: The channel.
        limit: Maximum transmissions per PDU.
        pdus: PDUs per SDU.
        spacing: Frames between transmissions of a PDU.
    """
    return chain_of(channel, pdus, spacing).residual_loss(whole("limit", limit))


def mean_attempts(
    channel: Channel, limit: int | None = None, *, pdus: int = 1, spacing: int = 1
) -> float:
    """E[min(η, limit)], or E[η] without a limit: mean transmissions that an SDU takes."""
    return chain_of(channel, pdus, spacing).mean_attempts(limit_of(limit))


def transmissions_per_pdu(channel: Channel, limit: int | None = None, *, spacing: int = 1) -> float:
    """Mean transmissions of one PDU, N of Vacirca et al."""
    return chain_of(channel, 1, spacing).transmissions_per_pdu(limit_of(limit))


def smallest_limit(
    channel: Channel, target: float, *, pdus: int = 1, spacing: int = 1, method: Method = "exact"
) -> int:
    """The limit under which at most the fraction `target` of the SDUs is lost.

    Args:
        channel: The channel.
        target: Residual loss, above 0.
        pdus: PDUs per SDU.
        spacing: Frames between transmissions of a PDU.
        method: `exact`, the smallest such limit, or `approximate`, the paper's inversion by the
            dominant eigenvalue, whose true loss may be far above the target.
    """
    if method not in ("exact", "approximate"):
        raise AnalysisError(
            f"invalid value `{method}` for `method`: expected 'exact', 'approximate'"
        )
    return chain_of(channel, pdus, spacing).limit_for(target, method == "exact")


def energy_ratio(
    channel: Channel,
    limit: int,
    *,
    pdus: int = 1,
    spacing: int = 1,
    restart_after: int | None = None,
) -> float:
    """Surplus transmissions under a limit, TCP repairing the rest, over those without one.

    Args:
        channel: The channel.
        limit: Maximum transmissions per PDU.
        pdus: PDUs per SDU.
        spacing: Frames between transmissions of a PDU.
        restart_after: Frames from the last transmission of a lost SDU to its retransmission by TCP;
            1: immediately; None: so late that the channel is stationary.
    """
    after = None if restart_after is None else whole("restart_after", restart_after)
    return chain_of(channel, pdus, spacing).energy_ratio(whole("limit", limit), after)


def arq(
    channel: Channel, limits: Iterable[int] = range(1, 31), *, pdus: int = 1, spacing: int = 1
) -> pl.DataFrame:
    """Returns a table of limits of a selective-repeat link.

    Returns:
        `limit`; `residual_loss`; `approximate_loss`, by the dominant eigenvalue;
        `transmissions_per_pdu`; `mean_attempts` per SDU, including discarded ones; `delay_frames`,
        mean of delivered SDUs; `energy_ratio`, with a restart in the stationary channel, and
        `energy_ratio_at_once`, with a restart when the sender detects the loss, `spacing` frames
        after the last transmission. Undefined values are null.
    """
    chain = chain_of(channel, pdus, spacing)
    rows = []
    for limit in limits:
        number = whole("limit", limit)
        loss = chain.residual_loss(number)
        rows.append(
            {
                "limit": number,
                "residual_loss": loss,
                "approximate_loss": chain.approximate_residual_loss(number),
                "transmissions_per_pdu": chain.transmissions_per_pdu(number),
                "mean_attempts": chain.mean_attempts(number),
                "delay_frames": None
                if loss >= 1.0
                else 1.0 + (chain.mean_attempts_of_delivered(number) - 1.0) * spacing,
                "energy_ratio": _or_none(chain, number, None),
                "energy_ratio_at_once": _or_none(chain, number, spacing),
            }
        )
    schema: dict[str, type[pl.DataType]] = {"limit": pl.Int64}
    schema |= dict.fromkeys(
        (
            "residual_loss",
            "approximate_loss",
            "transmissions_per_pdu",
            "mean_attempts",
            "delay_frames",
            "energy_ratio",
            "energy_ratio_at_once",
        ),
        pl.Float64,
    )
    return pl.DataFrame(rows, schema=schema)


def _or_none(chain: _lasthop.ArqChain, limit: int, restart: int | None) -> float | None:
    """Returns the energy ratio; None unless some SDUs are lost and some arrive."""
    try:
        return chain.energy_ratio(limit, restart)
    except AnalysisError:
        return None


def arq_delay(
    channel: Channel, *, pdus: int = 1, spacing: int = 1, longest: int = 100
) -> pl.DataFrame:
    """Returns the delay distribution of an isolated SDU without a limit.

    Returns:
        `attempts`, their duration `frames`, `probability` that exactly these are needed, `lost`,
        the probability that more are needed.
    """
    chain = chain_of(channel, pdus, spacing)
    law = chain.attempts_law(whole("longest", longest))
    lost = chain.residual_losses(longest)[1:]
    attempts = range(1, longest + 1)
    return pl.DataFrame(
        {
            "attempts": attempts,
            "frames": [chain.frames(n) for n in attempts],
            "probability": law,
            "lost": lost,
        }
    )


def arq_quantile(
    channel: Channel, quantile: float, limit: int | None = None, *, pdus: int = 1, spacing: int = 1
) -> int:
    """Returns a quantile of the delay of delivered SDUs in frames."""
    chain = chain_of(channel, pdus, spacing)
    return chain.frames(chain.attempts_quantile(quantile, limit_of(limit)))


def arq_efficiency(
    losses: Sequence[float], *, window: int, round_trip_frames: float, recovery_frames: float
) -> pl.DataFrame:
    """Efficiency of the classic protocols on independent losses, a row for each.

    Args:
        losses: Frame loss probabilities below 1.
        window: Frames outstanding at most.
        round_trip_frames: Frame times from the start of a frame to its acknowledgment.
        recovery_frames: Frame times from the start of a lost frame to its retransmission.

    Returns:
        `loss`, `stop_and_wait`, `go_back_n`, `selective_repeat`; the last is an upper bound where a
        missing frame stalls the window.
    """
    names = ("stop_and_wait", "go_back_n", "selective_repeat")
    size = whole("window", window)
    rows = [
        (loss, *_lasthop.arq_efficiency(loss, round_trip_frames, recovery_frames, size))
        for loss in losses
    ]
    schema: dict[str, type[pl.DataType]] = dict.fromkeys(("loss", *names), pl.Float64)
    return pl.DataFrame(rows, schema=schema, orient="row")


def rlp_residual_loss(loss: float, control_loss: float, rounds: int) -> float:
    """Loss that a NACK-only radio link protocol leaves after `rounds` retransmissions."""
    return _lasthop.rlp_residual_loss(loss, control_loss, whole("rounds", rounds))


def ideal_selective_repeat(
    channel: Channel,
    *,
    pdus: int,
    limit: int | None = None,
    spacing: int = 1,
    capacity: int | None = None,
    sdus: int | None = None,
    gap: int | None = None,
    frames: int | None = None,
    seed: int = 1,
) -> IdealLink:
    """Simulates the ideal selective-repeat link that the chain describes, packet by packet.

    Args:
        channel: The channel.
        pdus: PDUs per SDU.
        limit: Maximum transmissions per PDU; None: no limit.
        spacing: Frames between transmissions of a PDU.
        capacity: PDUs per frame; None: unlimited.
        sdus: Number of isolated SDUs to send.
        gap: Frames between two of them; default: beyond the memory of the channel.
        frames: Instead of `sdus`: number of frames with SDUs always queued.
        seed: Seed of the random streams.
    """
    if (sdus is None) == (frames is None):
        raise AnalysisError("invalid `sdus` and `frames`: expected one of the two")
    if sdus is not None and gap is None:
        memory = abs(1.0 - channel.good_to_bad - channel.bad_to_good)
        forgets = 1 if memory == 0.0 else math.ceil(math.log(1e-9) / math.log(min(memory, 0.99999)))
        gap = min(max(1, forgets), 1_000_000)
    amount = sdus if sdus is not None else frames or 0
    if amount < 0 or not 0 <= seed < 2**64:
        raise AnalysisError(f"invalid amount {amount} or seed {seed}: expected at least 0 for both")
    numbers, delays = _lasthop.ideal_selective_repeat(
        law_of(channel),
        whole("pdus", pdus),
        whole("spacing", spacing),
        limit_of(limit),
        None if capacity is None else whole("capacity", capacity),
        amount,
        None if gap is None or sdus is None else whole("gap", gap),
        seed,
    )
    sdu_delays = pl.DataFrame(
        {"frames": range(len(delays)), "sdus": delays},
        schema={"frames": pl.Int64, "sdus": pl.Int64},
    )
    spent, delivered, given_up, transmissions, arrivals = numbers
    sdu_delays = sdu_delays.filter(pl.col("sdus") > 0)
    return IdealLink(spent, delivered, given_up, transmissions, arrivals, sdu_delays)
