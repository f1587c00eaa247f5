"""The rules for link protocols that cut packets into segments: `ideal-sr`, `rlc-am`.

See `lasthop.theory.rules`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from lasthop.evaluating import analysis
from lasthop.evaluating.theory.network import Hop, Hypothesis, Network, Prediction, Status

__all__ = [
    "SEGMENTING",
    "Residual",
    "Throughput",
    "in_step",
    "mean_transmissions",
    "segments_limit",
    "segments_residual",
    "segments_throughput",
    "spacing",
]

SEGMENTING = ("ideal-sr", "rlc-am")


class Residual(NamedTuple):
    """Residual loss of a hop, and the hypotheses."""

    loss: float
    hypotheses: tuple[Hypothesis, ...] = ()


class Throughput(NamedTuple):
    """Throughput of a saturated hop: packets/s taken from its queue and delivered."""

    taken: float
    delivered: float
    hypotheses: tuple[Hypothesis, ...] = ()
    is_bound: bool = False


def segments_residual(network: Network, hop: Hop, flow: str) -> Residual | None:
    """F(M) of the chain of one SDU, or its closed form where losses are independent."""
    packet, payload = int(network.flows[flow]["packets"][0]), int(hop.protocol["payload"])
    pdus, limit = math.ceil(packet / payload), segments_limit(hop)
    if hop.kind == "rlc-am" and hop.protocol["discard_timer"] != "off":
        return None
    if limit is None:
        return Residual(0.0)
    channel = in_step(hop)
    if channel is None:
        loss = hop.loss(hop.frame(payload))
        if loss is None or hop.protocol.get("at_limit") == "reset":
            return None
        channel = analysis.Channel.independent(loss)
        residual = analysis.residual_loss(channel, limit, pdus=pdus)
        return Residual(residual, (network.independent([hop]), *_reports(hop, "nearly")))
    residual = analysis.residual_loss(channel, limit, pdus=pdus, spacing=spacing(hop))
    return Residual(residual, _one_by_one(network, hop, flow, limit * spacing(hop)))


def segments_limit(hop: Hop) -> int | None:
    """Returns the maximum transmissions per segment."""
    limit = hop.protocol["max_transmissions"]
    return None if limit == "unlimited" else int(limit)


def in_step(hop: Hop) -> analysis.Channel | None:
    """The channel of an ideal link whose rounds and the channel's steps are frames of a radio.

    Reports of `rlc-am` need something that arrives, so that its rounds vary with the channel.
    """
    return hop.slotted() if hop.kind == "ideal-sr" and hop.radio is not None else None


def spacing(hop: Hop) -> int:
    """Frames of a radio from a transmission of a segment to the next over an ideal link."""
    if hop.radio is None:
        return 1
    # An answer that comes at the start of a frame is in time for it.
    return 1 + math.ceil(float(hop.radio["delay"]) / float(hop.radio["frame"]) - 1e-9)


def _reports(hop: Hop, status: Status) -> tuple[Hypothesis, ...]:
    """Returns the hypothesis that no report is lost, for protocols with reports."""
    if hop.kind != "rlc-am":
        return ()
    text = "no report is lost"
    if hop.back.errors["kind"] == "none":
        return (Hypothesis(text, "met"),)
    return (Hypothesis(text, status, f"the way back has {hop.back.errors['kind']}"),)


def _one_by_one(network: Network, hop: Hop, flow: str, rounds: float) -> tuple[Hypothesis, ...]:
    """Hypotheses of the chain of one SDU that takes at most `rounds` frames of a radio."""
    assert hop.radio is not None  # noqa: S101 - the channel is in step
    frame, packet = float(hop.radio["frame"]), int(network.flows[flow]["packets"][0])
    pdus = math.ceil(packet / int(hop.protocol["payload"]))
    step = Hypothesis("the channel steps once a frame", "met")
    if abs(float(hop.errors["slot"]) - frame) > 1e-12:
        step = replace(step, status="broken", detail=f"every {hop.errors['slot']:g} s")
    text = "an SDU is finished before the next one comes"
    needed, interval = rounds * frame, network.interval(flow)
    apart = Hypothesis(text, "met")
    if interval is None or interval < needed:
        detail = f"it may take {needed:.4g} s"
        apart = replace(apart, status="broken", detail=detail)
    fits = Hypothesis("an SDU fits into one frame", "met")
    if pdus > hop.slots:
        fits = replace(fits, status="broken", detail=f"{pdus} segments, {hop.slots} slots")
    return step, apart, fits, network.alone([hop], flow)


def segments_throughput(hop: Hop, packet: int) -> Throughput | None:
    """An ideal link uses every slot, and whatever arrives is new; others can do no better."""
    payload = int(hop.protocol["payload"])
    segments = math.ceil(packet / payload)
    loss = hop.loss(hop.frame(payload))
    if loss is None or loss >= 1.0 or segments_limit(hop) is not None:
        return None
    if hop.protocol.get("discard_timer", "off") != "off":
        return None
    if hop.radio is not None:
        rate = hop.slots / float(hop.radio["frame"])
    elif packet % payload == 0:
        rate = 1.0 / hop.airtime(hop.frame(payload))
    else:
        return None
    rate *= (1.0 - loss) / segments
    return Throughput(rate, rate, is_bound=hop.kind != "ideal-sr")


def mean_transmissions(network: Network) -> Iterator[Prediction]:
    """Yields retransmitted segments: mean transmissions per segment times segments."""
    for hop in network.hops():
        frames = network.measured.get(f"link.{hop.name}.{hop.side}.data_frames", 0.0)
        if hop.kind not in SEGMENTING or frames == 0.0 or hop.errors["kind"] == "none":
            continue
        found = _transmissions(network, hop)
        if found is not None:
            mean, hypotheses = found
            metric = f"link.{hop.name}.{hop.side}.retransmissions"
            yield Prediction("", metric, (mean - 1.0) * frames, hypotheses)


def _together(network: Network, hop: Hop, limit: int | None) -> tuple[Hypothesis, ...]:
    """A segment that fails for the last time takes those of its packet along that could be tried
    again, unless all are tried in one round.
    """  # noqa: D205 - one sentence that needs two lines
    payload = int(hop.protocol["payload"])
    largest = max((network.flows[name]["packets"][0] for name in network.users(hop)), default=0)
    segments = math.ceil(int(largest) / payload)
    if limit is None or segments == 1:
        return ()
    text = "the segments of a packet are sent within a round trip"
    needed, trip = segments * hop.airtime(hop.frame(payload)), hop.delay + hop.back.delay
    if needed <= trip:
        return (Hypothesis(text, "met"),)
    return (Hypothesis(text, "broken", f"they take {needed:.4g} s, it {trip:.4g} s"),)


def _transmissions(network: Network, hop: Hop) -> tuple[float, tuple[Hypothesis, ...]] | None:
    """Mean transmissions of a segment, and what that needs."""
    limit, users = segments_limit(hop), network.users(hop)
    loss = hop.loss(hop.frame(int(hop.protocol["payload"])))
    if loss is None or loss >= 1.0 or hop.service is not None or hop.size_matters:
        return None
    if hop.kind == "rlc-am" and (limit is not None or hop.protocol["discard_timer"] != "off"):
        # With a packet it gives up segments that have transmissions left.
        return None
    reports = _reports(hop, "broken")
    flow = next(iter(users), "")
    interval = network.interval(flow) if len(users) == 1 else None
    if interval is not None and limit is None:
        most = segments_throughput(hop, int(network.flows[flow]["packets"][0]))
        if most is not None and most.taken * interval < 0.98:
            # Every slot is used, whatever the losses have to do with one another.
            return 1.0 / (1.0 - loss), reports
    if hop.is_independent:
        channel = analysis.Channel.independent(loss)
        together = _together(network, hop, limit)
        return analysis.transmissions_per_pdu(channel, limit), (*reports, *together)
    stepping = in_step(hop)
    if stepping is None or interval is None:
        return None
    step = spacing(hop)
    packet = int(network.flows[flow]["packets"][0])
    pdus = math.ceil(packet / int(hop.protocol["payload"]))
    rounds: float = (
        limit * step
        if limit is not None
        else analysis.arq_quantile(stepping, 0.999, pdus=pdus, spacing=step)
    )
    mean = analysis.transmissions_per_pdu(stepping, limit, spacing=step)
    return mean, _one_by_one(network, hop, flow, rounds)
