"""Closed forms and Markov models: what theory says, without a simulation.

    >>> from lasthop import analysis
    >>> channel = analysis.Channel(0.1, 0.1, loss_in_good=0.01, loss_in_bad=0.9)
    >>> analysis.smallest_limit(channel, 0.01, pdus=25)
    33

Equations, sources and the misprints in them: `docs/analysis.md`. Every function raises
`AnalysisError`, a `ValueError`, for arguments that a model cannot work with. Probabilities are
fractions, times seconds, rates packets or segments per second unless a name says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import polars as pl

from lasthop import _lasthop
from lasthop._lasthop import AnalysisError

__all__ = [
    "AnalysisError",
    "BlockLoss",
    "Channel",
    "IdealLink",
    "arq",
    "arq_delay",
    "arq_efficiency",
    "arq_quantile",
    "block_code",
    "dcf_saturation",
    "energy_ratio",
    "exponential_bits_loss",
    "ideal_selective_repeat",
    "independent_bits_loss",
    "losses_among",
    "losses_in_a_row",
    "markov_chain_loss",
    "mathis",
    "mean_attempts",
    "notification_delay",
    "notification_load",
    "padhye",
    "parity_for",
    "residual_loss",
    "rlp_residual_loss",
    "run_lengths",
    "smallest_limit",
    "tcp_chain",
    "tcp_formulas",
    "tcp_over_arq",
    "tcp_window",
    "transmissions_per_pdu",
    "two_state_loss",
]

Method = Literal["exact", "approximate"]
LARGEST = 2**32 - 1


@dataclass(frozen=True)
class Channel:
    """A two-state (Gilbert–Elliott) channel that steps once a frame, in its stationary law.

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
        _law(self)

    @classmethod
    def independent(cls, loss: float) -> Channel:
        """A channel that loses each frame with probability `loss`, whatever became of the rest."""
        return cls(0.5, 0.5, loss, loss)

    def spaced(self, frames: int) -> Channel:
        """The channel as one meets it every `frames` frames: a step is that many of its own."""
        return Channel(*_law(self).spaced(_whole("frames", frames)).parameters())

    @property
    def bad_share(self) -> float:
        """Fraction of the time that the channel is bad."""
        return _law(self).bad_share()

    @property
    def loss_rate(self) -> float:
        """Fraction of the frames that is lost."""
        return _law(self).loss_rate()

    @property
    def mean_burst(self) -> float:
        """Mean number of frames in a run of losses."""
        return _law(self).mean_run(lost=True)

    @property
    def mean_gap(self) -> float:
        """Mean number of frames in a run of arrivals."""
        return _law(self).mean_run(lost=False)

    def loss_correlation(self, distance: int = 1) -> float:
        """Correlation of the losses of two frames `distance` frames apart."""
        return _law(self).loss_correlation(_whole("distance", distance))


class BlockLoss(NamedTuple):
    """What becomes of a block.

    Attributes:
        residual: Fraction of the data frames that stays lost.
        failure: Probability that the block cannot be decoded.
    """

    residual: float
    failure: float


@dataclass(frozen=True)
class IdealLink:
    """Counts of an ideal selective-repeat link.

    Attributes:
        frames: Frames in which something was sent or waited for.
        delivered: SDUs delivered.
        given_up: SDUs given up.
        transmissions: PDUs sent.
        arrivals: PDUs that arrived.
        delays: `frames` and `sdus`: how many SDUs took how many frames.
    """

    frames: int
    delivered: int
    given_up: int
    transmissions: int
    arrivals: int
    delays: pl.DataFrame


def _law(channel: Channel) -> _lasthop.ChannelLaw:
    return _lasthop.ChannelLaw(
        channel.good_to_bad, channel.bad_to_good, channel.loss_in_good, channel.loss_in_bad
    )


def _chain(channel: Channel, pdus: int, spacing: int) -> _lasthop.ArqChain:
    return _lasthop.ArqChain(_law(channel), _whole("pdus", pdus), _whole("spacing", spacing))


def _whole(argument: str, value: int) -> int:
    """A number that fits what the engine counts with; it says whether the value makes sense."""
    if not 0 <= value <= LARGEST:
        raise AnalysisError(
            f"{argument}: found {value}; allowed: a whole number from 0 to {LARGEST}"
        )
    return value


def _limit(limit: int | None) -> int | None:
    return None if limit is None else _whole("limit", limit)


def residual_loss(channel: Channel, limit: int, *, pdus: int = 1, spacing: int = 1) -> float:
    """F(limit): loss of SDUs of `pdus` PDUs that are sent at most `limit` times.

    Args:
        channel: The channel.
        limit: Most transmissions of a PDU.
        pdus: PDUs an SDU.
        spacing: Frames from a transmission of a PDU to the next.
    """
    return _chain(channel, pdus, spacing).residual_loss(_whole("limit", limit))


def mean_attempts(
    channel: Channel, limit: int | None = None, *, pdus: int = 1, spacing: int = 1
) -> float:
    """E[min(η, limit)], or E[η] without a limit: mean transmissions that an SDU takes."""
    return _chain(channel, pdus, spacing).mean_attempts(_limit(limit))


def transmissions_per_pdu(channel: Channel, limit: int | None = None, *, spacing: int = 1) -> float:
    """Mean transmissions of one PDU, N of Vacirca et al."""
    return _chain(channel, 1, spacing).transmissions_per_pdu(_limit(limit))


def smallest_limit(
    channel: Channel, target: float, *, pdus: int = 1, spacing: int = 1, method: Method = "exact"
) -> int:
    """The limit under which at most the fraction `target` of the SDUs is lost.

    Args:
        channel: The channel.
        target: Residual loss, above 0.
        pdus: PDUs an SDU.
        spacing: Frames from a transmission of a PDU to the next.
        method: `exact`, the smallest such limit, or `approximate`, the paper's inversion by the
            dominant eigenvalue, whose true loss may be far above the target.
    """
    if method not in ("exact", "approximate"):
        raise AnalysisError(f"method: found {method!r}; allowed: 'exact', 'approximate'")
    return _chain(channel, pdus, spacing).limit_for(target, method == "exact")


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
        limit: Most transmissions of a PDU.
        pdus: PDUs an SDU.
        spacing: Frames from a transmission of a PDU to the next.
        restart_after: Frames from the last transmission of a lost SDU to its repetition by TCP; 1
            is at once. None: so late that the channel has its stationary law.
    """
    after = None if restart_after is None else _whole("restart_after", restart_after)
    return _chain(channel, pdus, spacing).energy_ratio(_whole("limit", limit), after)


def arq(
    channel: Channel, limits: Iterable[int] = range(1, 31), *, pdus: int = 1, spacing: int = 1
) -> pl.DataFrame:
    """Everything about limits of a selective-repeat link, a row each.

    Returns:
        `limit`; `residual_loss`; `approximate_loss`, by the dominant eigenvalue;
        `transmissions_per_pdu`; `mean_attempts`, of an SDU, those given up included;
        `delay_frames`, mean of the SDUs that arrive; `energy_ratio`, with a restart in the
        stationary channel, and `energy_ratio_at_once`, as soon as the sender knows of the loss,
        `spacing` frames after the last transmission. What does not exist is null.
    """
    chain = _chain(channel, pdus, spacing)
    rows = []
    for limit in limits:
        number = _whole("limit", limit)
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
    """The energy ratio, where there is one: something is lost and something arrives."""
    try:
        return chain.energy_ratio(limit, restart)
    except AnalysisError:
        return None


def arq_delay(
    channel: Channel, *, pdus: int = 1, spacing: int = 1, longest: int = 100
) -> pl.DataFrame:
    """Law of the delay of an isolated SDU without a limit.

    Returns:
        `attempts`, `frames` passed with them, `probability` that they are just enough, `lost`, the
        probability that they are not enough.
    """
    chain = _chain(channel, pdus, spacing)
    law = chain.attempts_law(_whole("longest", longest))
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
    """Frames within which the fraction `quantile` of the delivered SDUs arrives."""
    chain = _chain(channel, pdus, spacing)
    return chain.frames(chain.attempts_quantile(quantile, _limit(limit)))


def tcp_window(loss: float, max_window: int | None = None) -> pl.DataFrame:
    """Stationary law of Reno's window: `window` in packets, `probability`.

    Args:
        loss: Packet loss probability.
        max_window: Where growth ends; None for a window that is never reached.
    """
    largest = None if max_window is None else _whole("max_window", max_window)
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
    largest = None if max_window is None else _whole("max_window", max_window)
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
    """Reno over a selective-repeat link with a lossy wired path behind it, a row a limit.

    Args:
        channel: The channel of the radio link.
        limits: Most transmissions of a PDU; None for no limit.
        pdus: PDUs a packet.
        frame_s: Duration of a radio frame.
        capacity_per_s: Packets per second that the radio sends, retransmissions among them.
        wired_loss: Loss probability of the wired path.
        wired_round_trip_s: Its round trip.
        spacing: Frames from a transmission of a PDU to the next.

    Returns:
        `limit`, `radio_loss`, `loss`, `transmissions_per_pdu`, `round_trip_s`, `capacity_per_s`
        left for new packets, `throughput_per_s`, `goodput_per_s`.
    """
    law = _law(channel)
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
            _whole("pdus", pdus),
            _whole("spacing", spacing),
            _limit(limit),
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
    acks = _whole("segments_per_ack", segments_per_ack)
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
        window: Largest window in segments.
        independent: Losses independent of one another, rather than at regular distance.
    """
    acks = _whole("segments_per_ack", segments_per_ack)
    # The law knows no timeouts: any will do.
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
    acks = _whole("segments_per_ack", segments_per_ack)
    found = _lasthop.tcp_formulas(loss, round_trip_s, timeout_s, acks, window)
    return found[2 if simplified else 3]


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
    size = _whole("window", window)
    rows = [
        (loss, *_lasthop.arq_efficiency(loss, round_trip_frames, recovery_frames, size))
        for loss in losses
    ]
    schema: dict[str, type[pl.DataType]] = dict.fromkeys(("loss", *names), pl.Float64)
    return pl.DataFrame(rows, schema=schema, orient="row")


def rlp_residual_loss(loss: float, control_loss: float, rounds: int) -> float:
    """Loss that a NACK-only radio link protocol leaves after `rounds` retransmissions."""
    return _lasthop.rlp_residual_loss(loss, control_loss, _whole("rounds", rounds))


def independent_bits_loss(ber: float, frame_bytes: int) -> float:
    """Loss of a frame under independent bit errors of rate `ber`."""
    return _lasthop.independent_bits_loss(ber, 8 * _whole("frame_bytes", frame_bytes))


def exponential_bits_loss(mean_bits: float, frame_bytes: int) -> float:
    """Loss of a frame where bit errors come at exponential intervals of `mean_bits` bits."""
    return _lasthop.exponential_bits_loss(mean_bits, 8 * _whole("frame_bytes", frame_bytes))


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
        raise AnalysisError(f"rate_bps: found {rate_bps}; allowed: above 0")
    bits = 8 * _whole("frame_bytes", frame_bytes)
    return _lasthop.two_state_loss((good_s, bad_s), (good_ber, bad_ber), bits, bits / rate_bps)


def markov_chain_loss(transitions: Sequence[Sequence[float]], loss: Sequence[float]) -> float:
    """Loss of a frame on a Markov chain that steps once a frame.

    Args:
        transitions: A row for each state: probabilities of the state of the next frame.
        loss: Probability that a frame is lost in each state.
    """
    return _lasthop.markov_chain_loss(transitions, loss)


def run_lengths(channel: Channel, *, lost: bool = True, longest: int = 50) -> pl.DataFrame:
    """Law of the runs of losses, or of arrivals: `length` in frames, `probability`."""
    law = _law(channel).run_lengths(lost, _whole("longest", longest))
    return pl.DataFrame({"length": range(1, len(law) + 1), "probability": law})


def losses_among(channel: Channel, frames: int) -> pl.DataFrame:
    """Law of the number of losses among `frames` frames in a row: `lost`, `probability`."""
    law = _law(channel).losses_among(_whole("frames", frames))
    return pl.DataFrame({"lost": range(len(law)), "probability": law})


def block_code(channel: Channel, n: int, k: int) -> BlockLoss:
    """An MDS code: `k` data frames, then parity up to `n` frames; n = k + 1 is an XOR parity."""
    return BlockLoss(*_law(channel).mds(_whole("n", n), _whole("k", k)))


def parity_for(channel: Channel, k: int, target: float, *, most: int = 100) -> int:
    """Fewest parity frames with which at most the fraction `target` of the data stays lost."""
    return _law(channel).parity_for(_whole("k", k), target, _whole("most", most))


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
        pdus: PDUs an SDU.
        limit: Most transmissions of a PDU; None for no limit.
        spacing: Frames from a transmission of a PDU to the next.
        capacity: PDUs a frame; None for as many as there are.
        sdus: Send so many SDUs, one after the other, each alone.
        gap: Frames between two of them; by default so many that the channel has forgotten.
        frames: Run for so many frames with SDUs always waiting, instead.
        seed: Of the random streams.
    """
    if (sdus is None) == (frames is None):
        raise AnalysisError("sdus: found it with frames or neither; allowed: one of the two")
    if sdus is not None and gap is None:
        memory = abs(1.0 - channel.good_to_bad - channel.bad_to_good)
        forgets = 1 if memory == 0.0 else math.ceil(math.log(1e-9) / math.log(min(memory, 0.99999)))
        gap = min(max(1, forgets), 1_000_000)
    amount = sdus if sdus is not None else frames or 0
    if amount < 0 or not 0 <= seed < 2**64:
        raise AnalysisError(f"sdus, frames, seed: found {amount}, {seed}; allowed: at least 0")
    numbers, delays = _lasthop.ideal_selective_repeat(
        _law(channel),
        _whole("pdus", pdus),
        _whole("spacing", spacing),
        _limit(limit),
        None if capacity is None else _whole("capacity", capacity),
        amount,
        None if gap is None or sdus is None else _whole("gap", gap),
        seed,
    )
    sdu_delays = pl.DataFrame(
        {"frames": range(len(delays)), "sdus": delays},
        schema={"frames": pl.Int64, "sdus": pl.Int64},
    )
    spent, delivered, given_up, transmissions, arrivals = numbers
    sdu_delays = sdu_delays.filter(pl.col("sdus") > 0)
    return IdealLink(spent, delivered, given_up, transmissions, arrivals, sdu_delays)


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
        packet: Bytes of a packet, which count for throughput.
        header: What a data frame adds to them.
        rts: Whether RTS and CTS come first.
        cw_min: Contention window of a first attempt in slots; by default the standard's.
        cw_max: The largest one.
        limit: Attempts after which a frame is given up; None for no limit.
        counting: Whether back-offs count idle slots only, as the standard says, or every slot, as
            Bianchi's chain of 2000 does.

    Returns:
        `stations`, `throughput_bps` of all together, `collision_probability` of an attempt,
        `transmission_probability` in a slot, `drop_probability` of a frame, `delay_s` from the head
        of the queue to the acknowledgment, shares of time `success`, `collision` and `idle` (spaces
        and timeouts belong to what they follow), `fair_frames` over which the mean of Jain's index
        reaches 0.95.
    """
    rates = [None if rate is None else round(rate) for rate in (rate_bps, control_rate_bps)]
    rows = []
    for count in stations:
        told, (success, collision, idle) = _lasthop.dcf_saturation(
            _whole("stations", count),
            standard,
            short_preamble,
            rates,
            (_whole("packet", packet), _whole("header", header)),
            rts,
            (cw_min, cw_max),
            limit,
            counting == "idle",
        )
        throughput, collides, _, transmits, dropped, delay = told
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


def notification_load(
    losses: Iterable[float], limits: Iterable[int], *, ratio: float = 0.2
) -> pl.DataFrame:
    """Rate of loss notifications as a share of the rate of the link: equations (2) to (4) of Yun.

    Args:
        losses: Probabilities that an attempt fails.
        limits: Attempts after which a frame is given up.
        ratio: Length of a message over that of a frame, 0.2 in figure 3.

    Returns:
        `loss`, `limit`, and the loads `ersn_printed` (as printed), `ersn` (exact) and `eln`.
    """
    limits = list(limits)
    rows = []
    for loss in losses:
        for limit in limits:
            attempts = _whole("limit", limit)
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
    """From a loss on the air to the notification of the TCP sender: table 1 of Yun.

    Args:
        wire_s: One way from the base station to the other end of the connection.
        data_s: One attempt of a data packet over the air.
        ack_s: One attempt of an acknowledgment.
        data_loss: Probability that an attempt of a data packet fails.
        ack_loss: The same of an acknowledgment.

    Returns:
        `scheme`, `downlink_s`, `uplink_s` (the sender is the wireless station).
    """
    told = _lasthop.notification_delays((data_s, ack_s), (data_loss, ack_loss), wire_s)
    return pl.DataFrame(told, schema=["scheme", "downlink_s", "uplink_s"], orient="row")


def losses_in_a_row(loss: float, limit: int = 1, *, level: float = 0.01) -> int:
    """The most packets in a row that noise is held to lose, N of Yun: largest with p^(lN) >= level.

    Args:
        loss: Probability p that an attempt fails.
        limit: Attempts l after which a packet is given up.
        level: Probability below which noise is not the cause.
    """
    return _lasthop.losses_in_a_row(loss, _whole("limit", limit), level)
