"""A resolved scenario for formulas: hops, frames, losses, times and measured values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from lasthop.evaluating import analysis

__all__ = ["Hop", "Hypothesis", "Network", "Prediction", "Status", "frame_loss"]

Status = Literal["met", "nearly", "broken", "unknown"]
INDEPENDENT = ("none", "uniform", "bit", "exponential-bits")
SIZE_MATTERS = ("bit", "exponential-bits", "two-state")


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A hypothesis of a formula.

    Attributes:
        text: The hypothesis.
        status: Whether the scenario satisfies it: `met`, `nearly`, `broken`, `unknown`.
        detail: Properties of the scenario.
    """

    text: str
    status: Status
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Prediction of one metric by one formula.

    Attributes:
        rule: Name of the rule.
        metric: Full name of the metric.
        value: Predicted value in the metric's unit.
        hypotheses: Hypotheses of the formula.
        is_bound: Whether the value is an upper bound.
        accuracy: Known relative error of the formula; 0 if it is exact.
    """

    rule: str
    metric: str
    value: float
    hypotheses: tuple[Hypothesis, ...]
    is_bound: bool = False
    accuracy: float = 0.0


def frame_loss(errors: Mapping[str, Any], frame_bytes: int, rate_bps: float) -> float | None:
    """Long-run loss of frames of one size in a resolved error process; None if no formula has it.

    Raises:
        lasthop.analysis.AnalysisError: If the process has no stationary loss.
    """
    match errors["kind"]:
        case "none":
            return 0.0
        case "uniform":
            return float(errors["loss"])
        case "bit":
            return analysis.independent_bits_loss(errors["ber"], frame_bytes)
        case "exponential-bits":
            return analysis.exponential_bits_loss(errors["mean"], frame_bytes)
        case "two-state":
            return analysis.two_state_loss(
                frame_bytes,
                rate_bps,
                good_s=errors["good"],
                bad_s=errors["bad"],
                good_ber=errors["good_ber"],
                bad_ber=errors["bad_ber"],
            )
        case "gilbert-elliott" | "slotted-gilbert-elliott":
            return _channel(errors).loss_rate
        case "markov-chain":
            return analysis.markov_chain_loss(errors["transitions"], errors["loss"])
    return None


def _channel(errors: Mapping[str, Any]) -> analysis.Channel:
    """Returns the chain of a resolved error process, per frame or in time."""
    if errors["kind"] == "slotted-gilbert-elliott":
        change = (1.0 - errors["stay_good"], 1.0 - errors["stay_bad"])
    else:
        change = (errors["p_good_to_bad"], errors["p_bad_to_good"])
    return analysis.Channel(*change, errors["loss_good"], errors["loss_bad"])


@dataclass(frozen=True)
class Hop:
    """One direction of a link, as one flow (or every flow, without services) crosses it.

    Attributes:
        name: Name of the link.
        side: `forward` or `reverse`.
        link: The resolved link.
        service: Name of the service that the flow gets.
    """

    name: str
    side: str
    link: Mapping[str, Any]
    service: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Link and direction."""
        return self.name, self.side

    @property
    def own(self) -> Mapping[str, Any]:
        """The direction itself."""
        side: Mapping[str, Any] = self.link[self.side]
        return side

    @property
    def back(self) -> Hop:
        """The other direction."""
        side = "reverse" if self.side == "forward" else "forward"
        return Hop(self.name, side, self.link, self.service)

    @cached_property
    def protocol(self) -> Mapping[str, Any]:
        """The link protocol, or that of the service."""
        protocol: Mapping[str, Any] = self.link["protocol"]
        if self.service is not None:
            protocol = protocol["service"][self.service]["protocol"]
        return protocol

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.protocol["kind"])

    @property
    def identifier(self) -> int:
        """Bytes that name the service."""
        return 0 if self.service is None else int(self.link["protocol"]["identifier"])

    @property
    def header(self) -> int:
        """Bytes added to each packet."""
        if self.service is None:
            return int(self.link["header"])
        return int(self.link["protocol"]["service"][self.service]["header"]) + self.identifier

    @property
    def control(self) -> int:
        """Bytes of a control frame; 0 if the protocol has none."""
        return int(self.protocol.get("control", 0)) + self.identifier

    @property
    def errors(self) -> Mapping[str, Any]:
        """The error process."""
        errors: Mapping[str, Any] = self.own["errors"]
        return errors

    @property
    def is_independent(self) -> bool:
        """Whether losses of frames are independent of one another."""
        return self.errors["kind"] in INDEPENDENT

    @property
    def size_matters(self) -> bool:
        """Whether long frames are lost more often."""
        return self.errors["kind"] in SIZE_MATTERS

    @property
    def radio(self) -> Mapping[str, Any] | None:
        """The framed radio that it is a part of, if it is."""
        radio: Mapping[str, Any] | None = self.link["radio"]
        return radio

    @property
    def in_time(self) -> bool:
        """Whether losses depend on when a frame is sent."""
        return self.errors["kind"] in ("two-state", "slotted-gilbert-elliott")

    @property
    def slots(self) -> int:
        """Slots of a radio frame in this direction; 0 on a line."""
        if self.radio is None:
            return 0
        return int(self.radio["uplink" if self.side == "forward" else "downlink"])

    def slotted(self) -> analysis.Channel | None:
        """The channel as a slotted Gilbert–Elliott chain; None for other processes."""
        return _channel(self.errors) if self.errors["kind"] == "slotted-gilbert-elliott" else None

    @property
    def changes(self) -> bool:
        """Whether its rate or its delay changes with time."""
        return any(self.own.get(key) is not None for key in ("rate_changes", "delay_changes"))

    @property
    def delay(self) -> float:
        """Propagation delay in s."""
        return float(self.own["delay"])

    def airtime(self, frame: int) -> float:
        """Transmission time in s of a frame of `frame` bytes."""
        return 8.0 * frame / float(self.own["rate"])

    def frame(self, packet: int) -> int:
        """Size in bytes of the frame of a packet of `packet` bytes."""
        return packet + self.header

    def round_trip(self, packet: int) -> float:
        """Seconds from the start of a data frame to the end of its acknowledgment."""
        there = self.airtime(self.frame(packet)) + self.delay
        return there + self.back.airtime(self.control) + self.back.delay

    def channel(self) -> analysis.Channel | None:
        """The channel as a Gilbert–Elliott chain per frame; None for other processes."""
        return _channel(self.errors) if self.errors["kind"] == "gilbert-elliott" else None

    def loss(self, frame: int) -> float | None:
        """Long-run loss of frames of `frame` bytes, or None without a formula."""
        return frame_loss(self.errors, frame, self.own["rate"])


@dataclass(frozen=True)
class Network:
    """A resolved point.

    Attributes:
        resolved: The resolved scenario of the engine (`run::resolved`).
        measured: Mean of each metric of a run; empty before it.
    """

    resolved: Mapping[str, Any]
    measured: Mapping[str, float]

    @property
    def flows(self) -> Mapping[str, Mapping[str, Any]]:
        """Flows by name."""
        flows: Mapping[str, Mapping[str, Any]] = self.resolved["flows"]
        return flows

    @property
    def duration(self) -> float | None:
        """Simulated time in s, if it is set."""
        duration: float | None = self.resolved["run"].get("duration")
        return duration

    def hops(self) -> list[Hop]:
        """Both directions of every link."""
        links: Mapping[str, Mapping[str, Any]] = self.resolved["links"]
        return [
            Hop(name, side, link) for name, link in links.items() for side in ("forward", "reverse")
        ]

    def path(self, entries: Sequence[Sequence[Any]]) -> list[Hop]:
        """The hops of a `route` or `back`."""
        links = self.resolved["links"]
        return [Hop(name, side, links[name], service) for name, side, service in entries]

    def route(self, flow: str) -> list[Hop]:
        """The hops from `from` to `to`."""
        return self.path(self.flows[flow]["route"])

    def way_back(self, flow: str) -> list[Hop]:
        """The hops from `to` to `from`."""
        return self.path(self.flows[flow]["back"])

    def users(self, hop: Hop) -> dict[str, str]:
        """Flows with packets in this direction: their name, and `data`, `acks` or `both`."""
        users = {}
        for name, flow in self.flows.items():
            there = any(one.key == hop.key for one in self.path(flow["route"]))
            back = any(one.key == hop.key for one in self.path(flow["back"]))
            back = back and flow["tcp"] is not None
            both = flow["app"]["kind"] in ("web", "page") and (there or back)
            if both or (there and back):
                users[name] = "both"
            elif there or back:
                users[name] = "data" if there else "acks"
        return users

    def interval(self, flow: str) -> float | None:
        """Seconds between the packets of a UDP source that never pauses."""
        app = self.flows[flow]["app"]
        pause = {"on-off": "off", "media": "silence"}.get(app["kind"])
        stops = self.flows[flow]["stop"] is not None
        if pause is None or app[pause]["mean"] > 0.0 or stops:
            return None
        return 8.0 * float(app["packet"]) / float(app["rate"])

    # Hypotheses that several rules share.

    def refuse_nothing(self, hops: Sequence[Hop]) -> Hypothesis:
        """Returns the hypothesis that no queue on the path is full."""
        text = "queues refuse nothing"
        drops = [self.measured.get(f"link.{hop.name}.{hop.side}.queue_drops") for hop in hops]
        if any(one is None for one in drops):
            return Hypothesis(text, "unknown")
        total = sum(one or 0.0 for one in drops)
        if total == 0.0:
            return Hypothesis(text, "met")
        return Hypothesis(text, "broken", f"{total:.4g} packets per run were refused")

    def alone(self, hops: Sequence[Hop], flow: str) -> Hypothesis:
        """No other flow sends in these directions."""
        text = "no other traffic on the path"
        others = sorted({name for hop in hops for name in self.users(hop)} - {flow})
        if others:
            return Hypothesis(text, "broken", f"{', '.join(others)} too")
        return Hypothesis(text, "met")

    @staticmethod
    def independent(hops: Sequence[Hop]) -> Hypothesis:
        """Losses of frames are independent."""
        text = "losses are independent"
        bursty = [hop for hop in hops if not hop.is_independent]
        if bursty:
            detail = ", ".join(f"{hop.name} {hop.side} has {hop.errors['kind']}" for hop in bursty)
            return Hypothesis(text, "broken", detail)
        return Hypothesis(text, "met")
