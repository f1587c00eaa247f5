"""Losses of channels: single frames, runs of them, blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from lasthop import _lasthop
from lasthop._lasthop import AnalysisError

LARGEST = 2**32 - 1


@dataclass(frozen=True)
class Channel:
    """A stationary two-state (Gilbert–Elliott) channel that steps once per frame.

    Attributes:
        good_to_bad: Probability per frame of going from good to bad; 1 - g of Vacirca et al.
        bad_to_good: Probability per frame of going from bad to good; 1 - b.
        loss_in_good: Loss probability of a frame (or PDU) in the good state.
        loss_in_bad: Loss probability in the bad state.
    """

    good_to_bad: float
    bad_to_good: float
    loss_in_good: float = 0.0
    loss_in_bad: float = 1.0

    def __post_init__(self) -> None:
        law_of(self)

    @classmethod
    def independent(cls, loss: float) -> Channel:
        """Returns a channel that loses each frame independently with probability `loss`."""
        return cls(0.5, 0.5, loss, loss)

    def spaced(self, frames: int) -> Channel:
        """Returns the channel sampled every `frames` frames."""
        return Channel(*law_of(self).spaced(whole("frames", frames)).parameters())

    @property
    def bad_share(self) -> float:
        """Fraction of the time that the channel is bad."""
        return law_of(self).bad_share()

    @property
    def loss_rate(self) -> float:
        """Fraction of the frames that is lost."""
        return law_of(self).loss_rate()

    @property
    def mean_burst(self) -> float:
        """Mean number of frames in a run of losses."""
        return law_of(self).mean_run(lost=True)

    @property
    def mean_gap(self) -> float:
        """Mean number of frames in a run of arrivals."""
        return law_of(self).mean_run(lost=False)

    def loss_correlation(self, distance: int = 1) -> float:
        """Correlation of the losses of two frames `distance` frames apart."""
        return law_of(self).loss_correlation(whole("distance", distance))


class BlockLoss(NamedTuple):
    """Outcome of a block.

    Attributes:
        residual: Fraction of the data frames that remains lost.
        failure: Probability that the block cannot be decoded.
    """

    residual: float
    failure: float


def law_of(channel: Channel) -> _lasthop.ChannelLaw:
    """Returns a channel for the engine."""
    return _lasthop.ChannelLaw(
        channel.good_to_bad, channel.bad_to_good, channel.loss_in_good, channel.loss_in_bad
    )


def chain_of(channel: Channel, pdus: int, spacing: int) -> _lasthop.ArqChain:
    """Returns the chain of an SDU of `pdus` PDUs, retransmitted after `spacing` frames."""
    return _lasthop.ArqChain(law_of(channel), whole("pdus", pdus), whole("spacing", spacing))


def whole(argument: str, value: int) -> int:
    """Checks that a number fits the engine's integers; the engine checks its value."""
    if not 0 <= value <= LARGEST:
        raise AnalysisError(
            f"invalid value `{value}` for `{argument}`: expected an integer from 0 to {LARGEST}"
        )
    return value


def limit_of(limit: int | None) -> int | None:
    """Returns a limit of transmissions for the engine; None: no limit."""
    return None if limit is None else whole("limit", limit)


def independent_bits_loss(ber: float, frame_bytes: int) -> float:
    """Loss of a frame under independent bit errors of rate `ber`."""
    return _lasthop.independent_bits_loss(ber, 8 * whole("frame_bytes", frame_bytes))


def exponential_bits_loss(mean_bits: float, frame_bytes: int) -> float:
    """Loss of a frame where bit errors come at exponential intervals of `mean_bits` bits."""
    return _lasthop.exponential_bits_loss(mean_bits, 8 * whole("frame_bytes", frame_bytes))


def two_state_loss(
    frame_bytes: int,
    rate_bps: float,
    *,
    good_s: float,
    bad_s: float,
    good_ber: float,
    bad_ber: float,
) -> float:
    """Loss of a frame on a channel that alternates between two bit error rates.

    Args:
        frame_bytes: Size of the frame on the air.
        rate_bps: Bit rate of the link.
        good_s: Mean duration of the good state.
        bad_s: Mean duration of the bad state.
        good_ber: Bit error rate in the good state.
        bad_ber: Bit error rate in the bad state.
    """
    if not rate_bps > 0.0:
        raise AnalysisError(f"invalid value `{rate_bps}` for `rate_bps`: expected above 0")
    bits = 8 * whole("frame_bytes", frame_bytes)
    return _lasthop.two_state_loss((good_s, bad_s), (good_ber, bad_ber), bits, bits / rate_bps)


def markov_chain_loss(transitions: Sequence[Sequence[float]], loss: Sequence[float]) -> float:
    """Returns the frame loss rate of a Markov chain that steps once per frame.

    Args:
        transitions: A row for each state: probabilities of the state of the next frame.
        loss: Probability that a frame is lost in each state.
    """
    return _lasthop.markov_chain_loss(transitions, loss)


def run_lengths(channel: Channel, *, lost: bool = True, longest: int = 50) -> pl.DataFrame:
    """Returns the distribution of runs of losses or arrivals: `length`, `probability`."""
    law = law_of(channel).run_lengths(lost, whole("longest", longest))
    return pl.DataFrame({"length": range(1, len(law) + 1), "probability": law})


def losses_among(channel: Channel, frames: int) -> pl.DataFrame:
    """Returns the distribution of losses among `frames` frames: `lost`, `probability`."""
    law = law_of(channel).losses_among(whole("frames", frames))
    return pl.DataFrame({"lost": range(len(law)), "probability": law})


def block_code(channel: Channel, n: int, k: int) -> BlockLoss:
    """An MDS code: `k` data frames, then parity up to `n` frames; n = k + 1 is an XOR parity."""
    return BlockLoss(*law_of(channel).mds(whole("n", n), whole("k", k)))


def parity_for(channel: Channel, k: int, target: float, *, most: int = 100) -> int:
    """Returns the minimum number of parity frames for a residual loss of at most `target`."""
    return law_of(channel).parity_for(whole("k", k), target, whole("most", most))
