"""The rules for files over TCP; see `lasthop.theory.rules`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from lasthop.evaluating import analysis
from lasthop.evaluating.theory.network import Hop, Hypothesis, Network, Prediction
from lasthop.evaluating.theory.segments import SEGMENTING, in_step, segments_limit, spacing

__all__ = ["tcp_formula", "tcp_limit", "tcp_over_radio"]

# Relative errors in the range that the hypotheses describe; see docs/theory.md.
MATHIS_ACCURACY = 0.15
PADHYE_ACCURACY = 0.15
CHAIN_ACCURACY = 0.15


class Greedy(NamedTuple):
    """A file over TCP: its way, times and losses."""

    name: str
    route: list[Hop]
    way_back: list[Hop]
    segment: int
    round_trip: float
    segments_per_s: float
    loss: float | None
    ack_loss: float | None


def _greedy(network: Network) -> Iterator[Greedy]:
    """Files over TCP whose links all have known losses."""
    for name, flow in network.flows.items():
        tcp = flow["tcp"]
        if flow["app"]["kind"] != "file" or flow["stop"] is not None or tcp is None:
            continue
        route, back = network.route(name), network.way_back(name)
        if any(hop.radio is not None or hop.kind in SEGMENTING for hop in (*route, *back)):
            continue
        data, ack = flow["packets"][0], int(tcp["ack"])
        times = [hop.airtime(hop.frame(data)) for hop in route]
        trip = sum(times) + sum(hop.delay for hop in (*route, *back))
        trip += sum(hop.airtime(hop.frame(ack)) for hop in back)
        yield Greedy(
            name,
            route,
            back,
            int(tcp["segment"]),
            trip,
            1.0 / max(times),
            _lost_on(route, data),
            _lost_on(back, ack),
        )


def _lost_on(hops: Sequence[Hop], packet: int) -> float | None:
    arrives = 1.0
    for hop in hops:
        loss = hop.loss(hop.frame(packet))
        if loss is None:
            return None
        arrives *= 1.0 - loss
    return 1.0 - arrives


def tcp_limit(network: Network) -> Iterator[Prediction]:
    """Upper bound of a file's goodput: window and links."""
    for one in _greedy(network):
        flow = network.flows[one.name]
        data = flow["packets"][0]
        window = float(flow["tcp"]["receive_window"]) / one.round_trip
        rates, hypotheses = [window], []
        for hop in one.route:
            loss = hop.loss(hop.frame(data))
            # Where TCP itself has to repair, losses rule and not the links.
            if loss is None or hop.service is not None or (hop.kind == "raw" and loss > 0.0):
                break
            rates.append((1.0 - loss) / hop.airtime(hop.frame(data)))
        else:
            hypotheses.append(network.independent(one.route))
            text = "an upper bound: without handshake and slow start"
            segments = math.ceil(float(flow["app"]["size"]) / one.segment)
            # The window doubles from its first size to what fills the path.
            goal = max(min(rates) * one.round_trip, 1.0)
            rounds = 1.0 + max(0.0, math.log2(goal / float(flow["tcp"]["initial_window"])))
            share = rounds * one.round_trip * min(rates) / segments
            status = Hypothesis(text, "met" if share < 0.01 else "nearly")
            hypotheses.append(replace(status, detail=f"they take about {100 * share:.2g} %"))
            yield Prediction(
                "",
                f"flow.{one.name}.goodput_bps",
                8.0 * one.segment * min(rates),
                tuple(hypotheses),
                is_bound=True,
            )


class Formula(NamedTuple):
    """One TCP formula: segments/s, relative accuracy, further hypotheses."""

    segments_per_s: float
    accuracy: float
    hypotheses: tuple[Hypothesis, ...]


def tcp_formula(name: str) -> Callable[[Network], Iterator[Prediction]]:
    """The rule of one formula: `mathis`, `padhye` or `chain`."""

    def apply(network: Network) -> Iterator[Prediction]:
        for one in _greedy(network):
            if one.loss is None or not 0.0 < one.loss < 1.0:
                continue
            if any(hop.kind != "raw" or hop.service for hop in (*one.route, *one.way_back)):
                continue
            if any(hop.link["agents"] for hop in one.route):
                continue
            tcp = network.flows[one.name]["tcp"]
            formula = _evaluate(name, one, tcp)
            segments = math.ceil(float(network.flows[one.name]["app"]["size"]) / one.segment)
            acks = Hypothesis("no acknowledgment is lost", "met")
            if one.ack_loss is None or one.ack_loss > 0.0:
                lost = "unknown" if one.ack_loss is None else f"{100 * one.ack_loss:.3g} % are"
                acks = replace(acks, status="nearly", detail=f"{lost}; later ones make up for it")
            rate = min(formula.segments_per_s, one.segments_per_s) * (1.0 - one.loss)
            yield Prediction(
                "",
                f"flow.{one.name}.goodput_bps",
                8.0 * one.segment * rate,
                (
                    network.independent(one.route),
                    network.alone([*one.route, *one.way_back], one.name),
                    *formula.hypotheses,
                    _short_queue(formula.segments_per_s, one),
                    acks,
                    _long(segments * one.loss),
                ),
                accuracy=formula.accuracy,
            )

    return apply


def _long(losses: float) -> Hypothesis:
    text = "many losses: start-up weighs little"
    if losses < 10:
        return Hypothesis(text, "broken", f"about {losses:.0f}")
    return Hypothesis(text, "met" if losses >= 100 else "nearly", f"about {losses:.0f}")


def tcp_over_radio(network: Network) -> Iterator[Prediction]:
    """The window chain of a file over one ideal link of a framed radio and lossy wires."""
    for name, flow in network.flows.items():
        tcp = flow["tcp"]
        if flow["app"]["kind"] != "file" or flow["stop"] is not None or tcp is None:
            continue
        route, back = network.route(name), network.way_back(name)
        radios = [hop for hop in route if hop.kind == "ideal-sr" and hop.radio is not None]
        wires = [hop for hop in route if hop not in radios]
        wires_back = [hop for hop in back if hop.radio is None]
        if len(radios) != 1 or any(
            hop.kind != "raw" or hop.service is not None or hop.link["agents"]
            for hop in (*wires, *wires_back)
        ):
            continue
        (radio,) = radios
        channel, limit = in_step(radio), segments_limit(radio)
        data, ack = int(flow["packets"][0]), int(tcp["ack"])
        loss, ack_loss = _lost_on(wires, data), _lost_on(wires_back, ack)
        if channel is None or loss is None or radio.link["agents"]:
            continue
        assert radio.radio is not None  # noqa: S101 - radios are chosen so
        frame_s = float(radio.radio["frame"])
        pdus = math.ceil(data / int(radio.protocol["payload"]))
        capacity = radio.slots / frame_s / pdus
        trip = sum(hop.airtime(hop.frame(data)) + hop.delay for hop in wires)
        trip += sum(hop.airtime(hop.frame(ack)) + hop.delay for hop in wires_back)
        # An acknowledgment takes a frame of the radio; that of the data is in the chain.
        trip += frame_s + 2.0 * float(radio.radio["delay"])
        if any(hop.airtime(hop.frame(data)) * capacity > 1.0 for hop in wires):
            continue
        found = analysis.tcp_over_arq(
            channel,
            [limit],
            pdus=pdus,
            frame_s=frame_s,
            capacity_per_s=capacity,
            wired_loss=loss,
            wired_round_trip_s=trip,
            spacing=spacing(radio),
        ).row(0, named=True)
        segment, round_trip = int(tcp["segment"]), float(found["round_trip_s"])
        left, lost = float(found["capacity_per_s"]), float(found["loss"])
        if not 0.0 < lost < 1.0:
            continue
        one = Greedy(name, route, back, segment, round_trip, left, lost, ack_loss)
        formula = _evaluate("chain", one, tcp)
        segments = float(flow["app"]["size"]) / segment
        if network.duration is not None:
            segments = min(segments, network.duration * float(found["goodput_per_s"]))
        acks = Hypothesis("no acknowledgment is lost or late", "met")
        lossy = [hop.name for hop in back if hop.errors["kind"] != "none"]
        if lossy:
            detail = f"the way back has errors on {', '.join(lossy)}"
            acks = replace(acks, status="broken", detail=detail)
        yield Prediction(
            "",
            f"flow.{name}.goodput_bps",
            8.0 * segment * float(found["goodput_per_s"]),
            (
                network.independent(wires),
                network.alone([*route, *back], name),
                *formula.hypotheses,
                _short_queue(float(found["throughput_per_s"]), one),
                acks,
                _long(segments * lost),
            ),
            accuracy=CHAIN_ACCURACY,
        )


def _evaluate(name: str, one: Greedy, tcp: dict[str, object]) -> Formula:
    loss = one.loss or 0.0
    every = 1 if tcp["delayed_ack"] is None else 2
    window = float(str(tcp["receive_window"]))
    variant = str(tcp["variant"])
    # RFC 6298 with a round trip that hardly varies.
    granularity = float(str(tcp["clock_granularity"]))
    timeout = max(float(str(tcp["min_rto"])), one.round_trip + granularity)
    rare = _rare_timeouts(loss, one.round_trip, timeout, every)
    reno = Hypothesis("TCP Reno", "met" if variant == "reno" else "nearly", variant)
    linux = tcp["profile"] == "linux"
    if linux:
        reno = replace(reno, status="nearly", detail=f"{variant} over RACK-TLP, profile linux")
    if variant == "cubic":
        reno = replace(reno, status="broken", detail="CUBIC's window follows another function")
    if name == "mathis":
        rate = analysis.mathis(
            loss, one.round_trip, segments_per_ack=every, window=window, independent=True
        )
        return Formula(rate, MATHIS_ACCURACY, (reno, rare) if variant == "cubic" else (rare,))
    if name == "padhye":
        if linux and variant != "cubic":
            reno = replace(reno, status="broken", detail="RACK-TLP has fewer timeouts")
        elif variant in ("newreno", "sack"):
            reno = replace(reno, status="broken", detail=f"{variant} has fewer timeouts")
        rate = analysis.padhye(
            loss, one.round_trip, timeout_s=timeout, segments_per_ack=every, window=window
        )
        text = "a loss takes the rest of its round with it"
        together = Hypothesis(text, "nearly", "independent: the formula is a little low")
        return Formula(rate, PADHYE_ACCURACY, (reno, together))
    chain = analysis.tcp_chain(
        loss,
        one.round_trip,
        capacity_per_s=one.segments_per_s,
        max_window=max(1, math.floor(window)),
    )
    at_once = Hypothesis("every segment is acknowledged immediately", "met")
    if every == 2:
        at_once = replace(at_once, status="broken", detail="delayed acknowledgments")
    return Formula(chain, CHAIN_ACCURACY, (reno, rare, at_once))


def _rare_timeouts(loss: float, round_trip: float, timeout: float, every: int) -> Hypothesis:
    """By the two terms of the simplified formula of Padhye et al."""
    waits = timeout * min(1.0, 3.0 * math.sqrt(3.0 * every * loss / 8.0)) * loss
    waits *= 1.0 + 32.0 * loss * loss
    share = waits / (waits + round_trip * math.sqrt(2.0 * every * loss / 3.0))
    text = "timeouts take little of the time"
    if share <= 0.05:
        return Hypothesis(text, "met")
    detail = f"about {100 * share:.0f} % by PFTK"
    return Hypothesis(text, "nearly" if share <= 0.1 else "broken", detail)


def _short_queue(rate: float, one: Greedy) -> Hypothesis:
    text = "the path is not filled: the queue adds nothing to the round trip"
    load = rate / one.segments_per_s
    if load <= 0.5:
        return Hypothesis(text, "met")
    detail = f"the formula alone gives {100 * load:.0f} % of the link"
    return Hypothesis(text, "nearly" if load <= 0.8 else "broken", detail)
