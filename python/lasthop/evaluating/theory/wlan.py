"""Rules for WLANs: Bianchi's model of saturated stations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lasthop.evaluating import analysis
from lasthop.evaluating.theory.network import Hypothesis, Network, Prediction

__all__ = ["saturated_wlan"]


def saturated_wlan(network: Network) -> Iterator[Prediction]:
    """Goodput and collisions where every station of a WLAN always has a datagram to send."""
    wlans: Mapping[str, Mapping[str, Any]] = network.resolved["wlans"]
    for name, wlan in wlans.items():
        channels = [other["channel"] for other in wlans.values()]
        if not wlan["has_standard_times"] or channels.count(wlan["channel"]) > 1:
            continue
        if "mcs" in wlan:
            # The model has one packet per frame.
            continue
        if wlan.get("rate_control", "fixed") != "fixed":
            continue
        if "x" in wlan:
            # Not all need hear each other, and the stronger of two that collide may be read.
            continue
        links = [network.resolved["links"][f"{name}.{station}"] for station in wlan["stations"]]
        sides = [link[side] for link in links for side in ("forward", "reverse")]
        if any(side["errors"]["kind"] != "none" for side in sides):
            continue
        if any(side["rate"] != wlan["rate"] for side in sides):
            continue
        flows = _uplinks(network, name, wlan)
        if flows is None:
            continue
        packet = int(network.flows[flows[0]]["app"]["packet"])
        length = packet + int(wlan["header"])
        rts = length > wlan.get("rts_threshold", length)
        limit = wlan["short_retry_limit"]
        (row,) = analysis.dcf_saturation(
            [len(flows)],
            standard=wlan["standard"],
            short_preamble=wlan["preamble"] == "short",
            rate_bps=wlan["rate"],
            control_rate_bps=wlan["control_rate"],
            packet=packet,
            header=int(wlan["header"]),
            rts=rts,
            cw_min=wlan["cw_min"],
            cw_max=wlan["cw_max"],
            limit=limit,
        ).to_dicts()
        share = row["throughput_bps"] / len(flows)
        offered = min(float(network.flows[flow]["app"]["rate"]) for flow in flows)
        text = "every station always has a frame to send"
        full = Hypothesis(text, "met" if offered > 1.1 * share else "broken", f"{offered:.4g} bps")
        for flow in flows:
            yield Prediction("", f"flow.{flow}.goodput_bps", share, (full,), accuracy=0.015)
        collides = row["collision_probability"]
        if collides > 0.0:
            metric = f"wlan.{name}.collision_probability"
            # The decoupling of stations costs most where there are two.
            yield Prediction("", metric, collides, (full,), accuracy=0.07)


def _uplinks(network: Network, name: str, wlan: Mapping[str, Any]) -> list[str] | None:
    """The flows of a WLAN, or None if they are not what the model needs.

    That is one UDP source at each station that never pauses and sends to the access point, all with
    packets of one size, and nothing else on the air.
    """
    sources: dict[str, str] = {}
    packets = set()
    for flow, about in network.flows.items():
        hops = [*network.route(flow), *network.way_back(flow)]
        if not any(hop.link["wlan"] == name for hop in hops):
            continue
        first = network.route(flow)[0]
        crossings = [hop for hop in network.route(flow) if hop.link["wlan"] == name]
        uplink = len(crossings) == 1 and first.link["wlan"] == name and first.side == "forward"
        if about["tcp"] is not None or network.interval(flow) is None or not uplink:
            return None
        if about["from"] in sources or about["to"] != wlan["access_point"]:
            return None
        sources[about["from"]] = flow
        packets.add(about["app"]["packet"])
    if set(sources) != set(wlan["stations"]) or len(packets) != 1:
        return None
    return list(sources.values())
