"""The rules: to what of a scenario a closed form applies, what it says, what it needs.

A rule is a function of a resolved scenario that yields predictions; one that does not apply yields
nothing. `docs/theory.md` has the formulas and their sources.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from lasthop.evaluating import analysis
from lasthop.evaluating.theory.network import Hop, Hypothesis, Network, Prediction
from lasthop.evaluating.theory.segments import (
    SEGMENTING,
    Residual,
    Throughput,
    mean_transmissions,
    segments_residual,
    segments_throughput,
)
from lasthop.evaluating.theory.tcp import tcp_formula, tcp_limit, tcp_over_radio
from lasthop.evaluating.theory.wlan import saturated_wlan

__all__ = ["RULES", "Rule", "predict"]

TRIALS = ("go-back-n", "selective-repeat", "stop-and-wait")
RADIO = ("karn-rlp", "oos-rlp")
# Bytes of count and lengths in a parity frame of XOR FEC.
PARITY_FIELDS = 3


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        name: As results call it.
        about: What it applies to.
        apply: Its predictions for a scenario.
    """

    name: str
    about: str
    apply: Callable[[Network], Iterator[Prediction]]


def predict(network: Network) -> list[Prediction]:
    """Everything that theory says about a scenario."""
    found: list[Prediction] = []
    for rule in RULES:
        # A model may refuse what a simulator can do, such as a channel that loses everything.
        with contextlib.suppress(analysis.AnalysisError):
            found += [replace(one, rule=rule.name) for one in rule.apply(network)]
    return [one for one in found if not _needs_a_constant_rate(network, one)]


def _needs_a_constant_rate(network: Network, prediction: Prediction) -> bool:
    """Whether the path has a rate that changes.

    Formulas assume a constant rate, and a link with the mean rate behaves differently. The
    fraction of lost frames does not depend on the rate, unless errors are a process in time.
    """
    kind, name, *_ = prediction.metric.split(".")
    if kind == "flow":
        return any(hop.changes for hop in [*network.route(name), *network.way_back(name)])
    hops = [hop for hop in network.hops() if hop.name == name and kind == "link"]
    if prediction.metric.endswith(".frame_loss"):
        hops = [hop for hop in hops if hop.in_time and f".{hop.side}." in prediction.metric]
    return any(hop.changes for hop in hops)


def _metric(hop: Hop, quantity: str) -> str:
    return f"link.{hop.name}.{hop.side}.{quantity}"


# Frame loss of an error process.


def _frame_sizes(network: Network, hop: Hop) -> tuple[set[int], Hypothesis]:
    """Sizes of the frames in one direction of a link, and how sure that is."""
    text = "all frames have one size"
    sizes, doubt = set(), ""
    if hop.link["protocol"]["kind"] == "services":
        return set(), Hypothesis(text, "unknown", "several services")
    if hop.kind == "stack":
        return set(), Hypothesis(text, "unknown", "stacked layers")
    if hop.kind == "rlc-am":
        # Segments are padded, and reports too.
        return {hop.frame(int(hop.protocol["payload"]))}, Hypothesis(text, "met")
    for name, role in network.users(hop).items():
        flow = network.flows[name]
        there, back = flow["packets"]
        if flow["app"]["kind"] in ("web", "page", "messages"):
            return set(), Hypothesis(text, "broken", f"{name} sends what it draws")
        if role in ("data", "both"):
            sizes |= _pieces(hop, there)
            doubt = doubt or ("" if flow["tcp"] is None else "short first and last segments")
        if role in ("acks", "both"):
            sizes |= _pieces(hop, flow["tcp"]["ack"])
            if back > flow["tcp"]["ack"]:
                doubt = "acknowledgments with SACK blocks are longer"
    if hop.kind in TRIALS and network.users(hop.back):
        sizes.add(hop.control)
    if hop.kind in RADIO and (network.users(hop.back) or sizes):
        sizes.add(hop.control)
    return sizes, Hypothesis(text, "nearly" if doubt else "met", doubt)


def _pieces(hop: Hop, packet: int) -> set[int]:
    """Bytes of the frames of a packet."""
    if hop.kind != "ideal-sr":
        return {hop.frame(packet)}
    payload = int(hop.protocol["payload"])
    return {hop.frame(piece) for piece in (min(packet, payload), packet % payload) if piece}


def _frame_loss(network: Network) -> Iterator[Prediction]:
    for hop in network.hops():
        # On shared air frames are lost by collisions too.
        if hop.errors["kind"] == "none" or hop.kind == "dcf":
            continue
        hypotheses = []
        size = 1
        if hop.size_matters:
            sizes, same = _frame_sizes(network, hop)
            if len(sizes) != 1:
                continue
            (size,) = sizes
            hypotheses.append(same)
        if hop.in_time:
            text = "times of sending do not depend on losses"
            reacts = [name for name in network.users(hop) if network.flows[name]["tcp"]]
            if hop.kind not in ("raw", "xor-fec"):
                hypotheses.append(Hypothesis(text, "broken", f"{hop.kind} retransmits"))
            elif reacts:
                hypotheses.append(Hypothesis(text, "broken", f"TCP of {', '.join(reacts)} does"))
            else:
                hypotheses.append(Hypothesis(text, "met"))
        loss = hop.loss(size)
        if loss is not None:
            yield Prediction("", _metric(hop, "frame_loss"), loss, tuple(hypotheses))


# Residual loss of UDP flows.


def _block_channel(hop: Hop) -> analysis.Channel | None:
    """The channel as the frames of a block meet it, with those of others between them."""
    channel = hop.channel()
    return None if channel is None else channel.spaced(int(hop.protocol["interleave"]))


def _residual(network: Network, hop: Hop, flow: str) -> Residual | None:
    """Loss of a UDP flow's packets on one hop; None where no formula has it."""
    packet = network.flows[flow]["packets"][0]
    loss, back = hop.loss(hop.frame(packet)), hop.back.loss(hop.control)
    if loss is None:
        return None
    independent = network.independent([hop])
    protocol = hop.protocol
    match hop.kind:
        case "raw":
            return Residual(loss)
        case "xor-fec":
            channel = _block_channel(hop)
            if channel is not None and len(network.users(hop)) == 1 and hop.service is None:
                independent = Hypothesis("losses are independent, or of one chain a frame", "met")
            else:
                channel = analysis.Channel.independent(loss)
            block = int(protocol["block"])
            residual = analysis.block_code(channel, block + 1, block).residual
            full = _full_blocks(network, hop, packet, network.interval(flow))
            return Residual(residual, (independent, full))
        case "stop-and-wait" if protocol["retries"] != "unlimited":
            return Residual(loss ** (int(protocol["retries"]) + 1), (independent,))
        case "go-back-n" | "selective-repeat" | "stop-and-wait":
            return Residual(0.0)
        case "ideal-sr" | "rlc-am":
            return segments_residual(network, hop, flow)
        case "karn-rlp" | "oos-rlp" if back is not None:
            rounds = int(protocol["retransmissions"])
            residual = analysis.rlp_residual_loss(loss, back, rounds)
            both = network.independent([hop, hop.back])
            return Residual(residual, (both, _tail(network, hop, flow), _horizon(hop, packet)))
    return None


def _full_blocks(network: Network, hop: Hop, packet: int, interval: float | None) -> Hypothesis:
    """Whether packets fill blocks before the parity timer expires.

    Packets arrive every `interval` seconds; None: the link is saturated, and a frame starts when
    the one before it ends.
    """
    text = "blocks are full"
    if interval is None:
        return Hypothesis(text, "broken", "the source pauses, and its blocks are cut short")
    airtime = hop.airtime(hop.frame(packet))
    timeout = hop.protocol["parity_timeout"]
    if timeout == "auto":
        apps = [network.flows[name]["app"] for name, role in network.users(hop).items()]
        constant = [app for app in apps if "packet" in app and "rate" in app]
        steady = [8.0 * app["packet"] / app["rate"] for app in constant]
        timeout = 2.0 * max(steady, default=airtime)
    apart = max(interval, airtime)
    if float(timeout) <= apart * (1.0 + 1e-9):
        detail = f"parity_timeout is {float(timeout):.4g} s, a frame starts every {apart:.4g} s"
        return Hypothesis(text, "broken", detail)
    return Hypothesis(text, "met")


def _tail(network: Network, hop: Hop, flow: str) -> Hypothesis:
    text = "every loss is found"
    if network.interval(flow) is not None:
        return Hypothesis(text, "met", "the source never pauses")
    if hop.protocol["keepalive"] == "off":
        return Hypothesis(text, "broken", "no keep-alive shows the losses before a pause")
    return Hypothesis(text, "nearly", "keep-alives may be lost too")


def _horizon(hop: Hop, packet: int) -> Hypothesis:
    text = "the last copy arrives within 128 numbers"
    wait = hop.protocol["nack_timeout"]
    if wait == "auto":
        data = 2.0 * hop.airtime(hop.frame(packet))
        wait = hop.back.airtime(hop.control) + hop.back.delay + data + hop.delay
    numbers = float(wait) * int(hop.protocol["retransmissions"])
    numbers /= hop.airtime(hop.frame(packet))
    status = Hypothesis(text, "met" if numbers < 100 else "broken", f"after {numbers:.0f}")
    return replace(status, detail="") if status.status == "met" else status


def _udp_flows(network: Network) -> Iterator[tuple[str, str, list[Hop]]]:
    """UDP flows: name, metric of their loss, route."""
    for name, flow in network.flows.items():
        quantity = {"on-off": "loss", "media": "residual_loss"}.get(flow["app"]["kind"])
        if quantity is not None and not flow["quic"]:
            yield name, f"flow.{name}.{quantity}", network.route(name)


def _overflows(network: Network, flow: str, route: Sequence[Hop]) -> bool:
    """Whether a source that never pauses is faster than some link, so that a queue must refuse."""
    interval = network.interval(flow)
    packet = network.flows[flow]["packets"][0]
    hops = [_throughput(network, hop, packet) for hop in route]
    return interval is not None and any(
        one is not None and one.taken * interval < 1.0 - 1e-9 for one in hops
    )


def _residual_loss(network: Network) -> Iterator[Prediction]:
    for name, metric, route in _udp_flows(network):
        if _overflows(network, name, route):
            continue
        parts = [_residual(network, hop, name) for hop in route]
        arrives, hypotheses = 1.0, [network.refuse_nothing(route)]
        for part in parts:
            if part is None:
                break
            arrives *= 1.0 - part.loss
            hypotheses += part.hypotheses
        else:
            if all(hop.errors["kind"] == "none" and hop.kind == "raw" for hop in route):
                continue
            if metric.endswith(".loss") and any(hop.kind != "raw" for hop in route):
                detail = "those count as lost"
                hypotheses.append(Hypothesis("no packet is in flight at the end", "nearly", detail))
            yield Prediction("", metric, 1.0 - arrives, tuple(dict.fromkeys(hypotheses)))


def _loss_bursts(network: Network) -> Iterator[Prediction]:
    for name, metric, route in _udp_flows(network):
        lossy = [hop for hop in route if hop.errors["kind"] != "none"]
        if not metric.endswith("residual_loss") or any(hop.kind != "raw" for hop in route):
            continue
        packet = network.flows[name]["packets"][0]
        losses = [hop.loss(hop.frame(packet)) for hop in lossy]
        known = [loss for loss in losses if loss is not None]
        if not lossy or len(known) < len(losses) or _overflows(network, name, route):
            continue
        channel = lossy[0].channel()
        hypotheses = [network.refuse_nothing(route)]
        if len(lossy) == 1 and channel is not None:
            hypotheses.append(network.alone(lossy, name))
            value = channel.mean_burst
        else:
            hypotheses.append(network.independent(lossy))
            survival = math.prod(1.0 - loss for loss in known)
            if survival == 0.0:
                continue
            value = 1.0 / survival
        yield Prediction("", f"flow.{name}.loss_burst_mean", value, tuple(hypotheses))


def _media_delay(network: Network) -> Iterator[Prediction]:
    for name, flow in network.flows.items():
        route = network.route(name)
        if flow["app"]["kind"] != "media" or flow["quic"]:
            continue
        if any(hop.kind != "raw" for hop in route):
            continue
        if any(hop.service is not None or hop.radio is not None for hop in route):
            continue
        packet = int(flow["app"]["packet"])
        times = [hop.airtime(hop.frame(packet)) for hop in route]
        value = sum(times) + sum(hop.delay for hop in route)
        interval = 8.0 * packet / float(flow["app"]["rate"])
        text = "packets do not arrive faster than any link sends"
        pace = Hypothesis(text, "met")
        if max(times) > interval:
            detail = f"every {1e3 * interval:.4g} ms, but one takes {1e3 * max(times):.4g} ms"
            pace = Hypothesis(text, "broken", detail)
        yield Prediction("", f"flow.{name}.delay_mean_s", value, (network.alone(route, name), pace))


# Goodput of saturated links.


def _throughput(network: Network, hop: Hop, packet: int) -> Throughput | None:
    """Throughput of a saturated hop with packets of `packet` bytes, or None without a formula."""
    frame = hop.airtime(hop.frame(packet))
    loss, back = hop.loss(hop.frame(packet)), hop.back.loss(hop.control)
    if loss is None or hop.service is not None:
        return None
    protocol = hop.protocol
    if hop.kind in SEGMENTING:
        return segments_throughput(hop, packet)
    if hop.radio is not None:
        return None
    if hop.kind == "raw":
        return Throughput(1.0 / frame, (1.0 - loss) / frame)
    independent = network.independent([hop])
    if hop.kind == "xor-fec":
        block = int(protocol["block"])
        channel = _block_channel(hop)
        if channel is None:
            channel = analysis.Channel.independent(loss)
        else:
            independent = Hypothesis("losses are independent, or of one chain a frame", "met")
        residual = analysis.block_code(channel, block + 1, block).residual
        parity = hop.airtime(hop.frame(packet) + PARITY_FIELDS)
        taken = block / (block * frame + parity)
        full = _full_blocks(network, hop, packet, 0.0)
        return Throughput(taken, taken * (1.0 - residual), (independent, full))
    if back is None or max(loss, back) >= 1.0:
        return None
    idle = Hypothesis("only control frames are sent in the reverse direction", "met")
    if network.users(hop.back):
        detail = f"{', '.join(sorted(network.users(hop.back)))} too"
        idle = replace(idle, status="broken", detail=detail)
    if hop.kind in RADIO:
        residual = analysis.rlp_residual_loss(loss, back, int(protocol["retransmissions"]))
        delivered = (1.0 - loss) / frame
        both = network.independent([hop, hop.back])
        return Throughput(
            delivered / (1.0 - residual), delivered, (both, idle, _horizon(hop, packet))
        )
    timeout, round_trip = hop.own["timeout"], hop.round_trip(packet)
    if hop.kind == "stop-and-wait":
        return _stop_and_wait(network, hop, loss, back, round_trip, idle)
    clean = Hypothesis("no acknowledgment is lost", "met")
    if back > 0.0:
        clean = replace(clean, status="broken", detail=f"{100.0 * back:.3g} % are")
    match hop.kind:
        case "go-back-n":
            window = int(protocol["window"])
            recovery = max(timeout, round_trip) / frame
            if window >= recovery:
                # The timer expires during a transmission, which is completed.
                recovery = math.ceil(recovery - 1e-9)
            table = analysis.arq_efficiency(
                [loss],
                window=window,
                round_trip_frames=round_trip / frame,
                recovery_frames=recovery,
            )
            rate = table["go_back_n"][0] / frame
            timer = Hypothesis("losses are found by the timer alone", "met")
            if protocol["reject"]:
                timer = replace(timer, status="broken", detail="reject frames are sent")
            return Throughput(rate, rate, (independent, clean, idle, timer))
        case "selective-repeat":
            return _selective_repeat(hop, loss, frame, round_trip, (clean, idle))
    return None


def _stop_and_wait(
    network: Network, hop: Hop, loss: float, back: float, round_trip: float, idle: Hypothesis
) -> Throughput:
    """Time of a packet: its failed tries, then the one that succeeds, or none."""
    fails = 1.0 - (1.0 - loss) * (1.0 - back)
    timeout = float(hop.own["timeout"])
    retries = hop.protocol["retries"]
    given_up, lost = 0.0, 0.0
    if retries != "unlimited":
        given_up, lost = fails ** (int(retries) + 1), loss ** (int(retries) + 1)
    time = (1.0 - given_up) * (round_trip + timeout * fails / (1.0 - fails))
    patient = Hypothesis("the timer is longer than a round trip", "met")
    if timeout < round_trip - 1e-9:
        patient = replace(patient, status="broken", detail=f"{timeout:.4g} s, {round_trip:.4g} s")
    both = network.independent([hop, hop.back])
    return Throughput(1.0 / time, (1.0 - lost) / time, (both, idle, patient))


def _selective_repeat(
    hop: Hop, loss: float, frame: float, round_trip: float, shared: tuple[Hypothesis, ...]
) -> Throughput:
    window = int(hop.protocol["window"])
    trip = round_trip / frame
    rate = (1.0 - loss) * min(1.0, window / trip) / frame
    # A frame lost n times is in after (n + 1) (R + 1) frame times, more or less.
    losses = 0
    while window * loss ** (losses + 1) > 1e-3 and losses < 100:
        losses += 1
    needed = (losses + 1) * (trip + 1.0) + 1.0 if loss > 0.0 else trip
    stall = Hypothesis("no missing frame stalls the window", "met")
    if window < needed:
        detail = f"a window of {window}, {math.ceil(needed)} would be needed"
        stall = replace(stall, status="broken", detail=detail)
    timer = Hypothesis("the timer waits for frames after a gap", "met")
    if hop.protocol["timer"] == "per-frame" and loss > 0.0:
        least = (losses + 1) * round_trip + 2.0 * frame
        if float(hop.own["timeout"]) < least:
            detail = f"{hop.own['timeout']:.4g} s, {least:.4g} s would be needed"
            timer = replace(timer, status="broken", detail=detail)
    loose = [one for one in (stall, timer) if one.status == "broken"]
    if loose:
        # The bound holds for all that, and for lost acknowledgments.
        why = "; ".join(f"not met: {one.text} ({one.detail})" for one in loose)
        return Throughput(rate, rate, (Hypothesis("nothing, as a bound", "met", why),), True)
    return Throughput(rate, rate, (*shared, stall, timer))


def _saturated(network: Network) -> Iterator[Prediction]:
    for name, _, route in _udp_flows(network):
        interval = network.interval(name)
        if interval is None:
            continue
        packet = int(network.flows[name]["app"]["packet"])
        hops = [_throughput(network, hop, packet) for hop in route]
        known = [one for one in hops if one is not None]
        if len(known) < len(hops):
            continue
        # Arrival rate at each hop, up to the first bottleneck.
        arriving, narrow = 1.0 / interval, None
        hypotheses: list[Hypothesis] = []
        is_bound = False
        for hop, one in zip(route, known, strict=True):
            if arriving > one.taken * (1.0 + 1e-9):
                ratio = arriving / one.taken
                text = "the source is faster than the link"
                pace = Hypothesis(text, "met")
                if ratio <= 1.02:
                    pace = Hypothesis(text, "nearly", f"by {100.0 * (ratio - 1.0):.1f} %")
                narrow = hop
                # Arrivals from a previous link are as accurate as the prediction of that link.
                behind = [need for need in hypotheses if need.text != text]
                hypotheses = [pace, network.alone([hop], name), *behind, *one.hypotheses]
                arriving, is_bound = one.delivered, is_bound or one.is_bound
                continue
            residual = _residual(network, hop, name)
            if residual is None:
                break
            arriving *= 1.0 - residual.loss
            if narrow is not None:
                hypotheses += residual.hypotheses
        else:
            if narrow is None:
                continue
            text = "start and end weigh little"
            lag = sum(hop.round_trip(packet) for hop in route) + interval
            share = lag / network.duration if network.duration else 0.0
            weight = Hypothesis(text, "met" if share < 2e-4 else "nearly", f"{100 * share:.2g} %")
            goodput = 8.0 * packet * arriving
            yield Prediction(
                "",
                f"flow.{name}.goodput_bps",
                goodput,
                tuple(dict.fromkeys((*hypotheses, weight))),
                is_bound=is_bound,
                accuracy=0.0 if weight.status == "met" else share,
            )


RULES: tuple[Rule, ...] = (
    Rule("frame loss", "frame loss of an error process, frames of one size", _frame_loss),
    Rule(
        "residual loss",
        "residual loss of a UDP flow over links without protocol, or with xor-fec, stop-and-wait, "
        "karn-rlp, oos-rlp, ideal-sr (also on a framed radio), rlc-am or a persistent protocol",
        _residual_loss,
    ),
    Rule(
        "mean transmissions",
        "segments retransmitted by ideal-sr or rlc-am",
        mean_transmissions,
    ),
    Rule("loss bursts", "losses in a row of a media flow over lossy raw links", _loss_bursts),
    Rule("delay", "mean delay of a media flow over raw links", _media_delay),
    Rule(
        "saturated link",
        "goodput of a UDP source that never pauses and is faster than a link, raw or with a "
        "protocol",
        _saturated,
    ),
    Rule(
        "saturated WLAN",
        "goodput and collisions of UDP sources at the stations of a WLAN that never pause and are "
        "faster than the air: Bianchi",
        saturated_wlan,
    ),
    Rule("TCP limit", "most that a file over TCP can reach: its window, the links", tcp_limit),
    Rule("Mathis", "a file over TCP on lossy raw links: square-root law", tcp_formula("mathis")),
    Rule("PFTK", "a file over TCP on lossy raw links: Padhye et al.", tcp_formula("padhye")),
    Rule("window chain", "a file over TCP on lossy raw links: Markov chain", tcp_formula("chain")),
    Rule(
        "window chain over a radio",
        "a file over TCP on an ideal-sr link of a framed radio and lossy raw links: Markov chain",
        tcp_over_radio,
    ),
)
