"""Bounds on the rates of flows and links apart from the network, and path times.

Computed from the engine's resolved scenario: windows, files that end within slow start, and bursts
that are counted in frames.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from lasthop.scenarios.explain.quantities import (
    UNLIMITED_BPS,
    Table,
    count_text,
    rate_text,
    size_text,
)

__all__ = [
    "counted_bursts",
    "frames",
    "host_limit",
    "host_limits",
    "needed_window",
    "path_time",
    "rate_limits",
    "receive_window",
    "round_trips",
    "send_buffer",
    "share_slots",
    "short_file",
    "web_limit",
    "window_rate",
]


REACHED = 0.8
"""Minimum fraction of a bound at which the bound is considered to limit a rate."""

MOST = 0.5
"""Minimum fraction of the time in which a window has to limit a flow."""

WEB = (
    "limited in most of its time by the application, not by the network: browser and server wait "
    "for each other's messages; set more `app.connections` for a higher load"
)
"""Note on a web flow whose data has been sent most of the time."""


def rate_limits(resolved: Table) -> dict[str, tuple[float, str]]:
    """Returns the limits of metrics that are not due to the network.

    These are windows, files that end within slow start, and timeouts in bursts that are counted in
    frames.

    Args:
        resolved: A resolved scenario.

    Returns:
        Threshold and explanation, by metric: `flow.NAME.goodput_bps` and
        `link.NAME.SIDE.utilization` (80 % of the limit), `flow.NAME.timeouts`,
        `flow.NAME.limited_by_receive_window`, `flow.NAME.limited_by_send_buffer` and, for web
        flows, `flow.NAME.limited_by_application` (half of the time). The explanation applies from
        the threshold on.
    """
    links = resolved["links"]
    for name, radio in resolved["radios"].items():
        share_slots(links, name, radio)
    found = {}
    for name, flow in resolved["flows"].items():
        if not flow["tcp"]:
            continue
        window, of_host = host_limit(flow)
        trip = round_trips(flow, links)[1]
        if short := short_file(flow, links, trip):
            found[f"flow.{name}.goodput_bps"] = (REACHED * short[0], short[1])
        elif window < needed_window(flow, links, trip):
            rate = 8 * window / trip
            words = f"limited to {rate_text(rate)} {of_host}"
            found[f"flow.{name}.goodput_bps"] = (REACHED * rate, words)
        for metric, words in host_limits(flow).items():
            found[f"flow.{name}.{metric}"] = (MOST, f"limited in most of its time {words}")
        if flow["app"]["kind"] == "web":
            found[f"flow.{name}.limited_by_application"] = (MOST, WEB)
        if words := counted_bursts(flow, links):
            found[f"flow.{name}.timeouts"] = (REACHED, words)
    for name, link in links.items():
        for side in ("forward", "reverse"):
            direction = link[side]
            if not direction["largest_packet"]:
                continue
            _, frame = frames(link, direction["largest_packet"])
            if rate := window_rate(direction, frame):
                words = (
                    f"limited to {rate_text(rate)} by the link protocol's window of "
                    f"{count_text(direction['window'], 'frame')}, not by the link rate of "
                    f"{rate_text(direction['rate'])}; set a larger `protocol.window`"
                )
                share = rate / direction["rate"]
                found[f"link.{name}.{side}.utilization"] = (REACHED * share, words)
    return found


def share_slots(links: dict[str, Any], name: str, radio: Table) -> None:
    """Adds the radio's shared resources to its links: frame duration, slots per direction."""
    for station in radio["stations"]:
        links[f"{name}.{station}"]["radio"] = {
            "frame": radio["frame"],
            "forward": radio["uplink"],
            "reverse": radio["downlink"],
        }


def header(link: Table) -> int:
    """Returns the frame header in bytes; on a link with several services, the largest one."""
    services = link["protocol"].get("service", {}).values()
    own = max((service["header"] for service in services), default=0)
    return int(link["header"] + own + link["protocol"].get("identifier", 0))


def frames(link: Table, packet: int) -> tuple[int, int]:
    """Returns the number of frames per packet and the size of the largest one."""
    if layers := link["forward"].get("layers"):
        # The first layer that segments packets decides; lower layers do not segment its frames.
        cuts = (layer["payload"] for layer in link["protocol"]["layers"] if "payload" in layer)
        return max(1, -(-packet // next(cuts, packet))), layers[-1]["largest_frame"]
    payload = link["protocol"].get("payload", packet) or packet
    return max(1, -(-packet // payload)), min(packet, payload) + header(link)


def window_rate(side: Table, frame: int) -> float:
    """Returns the rate to which a link is limited by its window; 0 if it is not limited."""
    window, trip = side["window"], side["round_trip"]
    if not window or side["rate"] == UNLIMITED_BPS or window * frame * 8 >= side["rate"] * trip:
        return 0.0
    return float(window * frame * 8 / trip)


def receive_window(flow: Table) -> float:
    """Returns the receive window of a flow in bytes; infinite if autotuned or without TCP."""
    tcp = flow["tcp"]
    if not tcp or tcp["autotuning"]:
        return math.inf
    return float(tcp["receive_window"] * tcp["segment"])


def send_buffer(flow: Table) -> float:
    """Returns the send buffer of a flow in bytes; infinite if it is unlimited or grows."""
    tcp = flow["tcp"]
    if not tcp or tcp["send_buffer"] is None:
        return math.inf
    # Linux gives a socket twice the memory, more than half of which is data.
    return float(tcp["send_buffer"] * (2 if tcp["autotuning"] else 1))


def host_limit(flow: Table) -> tuple[float, str]:
    """Returns the smaller of both buffers in bytes, and the second part of a note on it."""
    window, buffer = receive_window(flow), send_buffer(flow)
    words = host_limits(flow)
    if buffer < window:
        return buffer, words["limited_by_send_buffer"]
    return window, words["limited_by_receive_window"]


def round_trips(flow: Table, links: Table) -> list[float]:
    """Returns minimum and maximum RTT of a full segment and its response, queues empty."""
    there, back = flow["packets"]
    tcp = flow["tcp"]
    answer = tcp["ack"] if tcp and flow["app"]["kind"] not in ("web", "page") else back
    return [
        path_time(flow["route"], there, links, most) + path_time(flow["back"], answer, links, most)
        for most in (False, True)
    ]


def needed_window(flow: Table, links: Table, trip: float) -> float:
    """Returns the payload bytes of the path's bandwidth-delay product; 0 without a rate."""
    rate = min(float(links[name][side]["rate"]) for name, side, *_ in flow["route"])
    if rate == UNLIMITED_BPS or not flow["tcp"]:
        return 0.0
    return float(rate * trip / 8 * flow["tcp"]["segment"] / flow["packets"][0])


def counted_bursts(flow: Table, links: Table) -> str:
    """A warning if an error process on the path steps per frame, so that no timer outlasts a burst.

    Empty if there is none, or if its bad state lasts less than two frames on average.
    """
    for name, side, *_ in flow["route"]:
        errors = links[name][side]["errors"]
        kind = errors["kind"]
        is_burst = kind == "gilbert-elliott" and errors["p_bad_to_good"] < 0.5
        if is_burst or kind == "markov-chain":
            return (
                f"errors of kind {kind} on link {name} step per frame, not in time: a burst does "
                "not end during a retransmission timeout, so backoff is longer than on a real "
                "link; for bursts in time set `errors.kind` to two-state or on-off"
            )
    return ""


def short_file(flow: Table, links: Table, trip: float) -> tuple[float, str] | None:
    """Returns rate and explanation for a file that ends before slow start fills the path.

    The window starts at the initial window and doubles every RTT up to the smaller buffer. The
    handshake takes another RTT.
    """
    app, tcp = flow["app"], flow["tcp"]
    if app["kind"] != "file" or app["size"] >= needed_window(flow, links, trip):
        return None
    most, _ = host_limit(flow)
    window, sent, trips = min(tcp["initial_window"] * tcp["segment"], most), 0.0, 0
    while sent < app["size"]:
        sent += window
        window = min(2 * window, most)
        trips += 1
    trips += tcp["handshake"]
    rate = 8 * app["size"] / (trips * trip)
    if trips < 2:
        return None
    return rate, (
        f"limited to {rate_text(rate)} by the application, not by the network: "
        f"{size_text(app['size'])} take {trips} RTT of handshake and slow start; set a larger "
        "`app.size` to measure the path"
    )


def web_limit(flow: Table, links: Table, trip: float) -> str:
    """Returns a sentence on the rate that a web flow cannot exceed; empty if a link is slower.

    A connection carries one reply, and takes an RTT for its request and one for the handshake.
    """
    app, tcp = flow["app"], flow["tcp"]
    if app["kind"] != "web" or not tcp:
        return ""
    trips = 1 + tcp["handshake"]
    rate = 8 * app["connections"] * app["mean_reply"] / (trips * trip)
    if rate >= min(float(links[name][side]["rate"]) for name, side, *_ in flow["route"]):
        return ""
    return (
        f"limited to {rate_text(rate)} by the application, not by the network: "
        f"{count_text(app['connections'], 'connection')} with replies of "
        f"{size_text(round(app['mean_reply']))} on average take at least {trips} RTT each; set "
        "more `app.connections` for a higher load"
    )


def host_limits(flow: Table) -> dict[str, str]:
    """Returns the second part of notes on a flow that a buffer of a host limits, by metric."""
    tcp = flow["tcp"]
    of_linux = tcp["profile"] == "linux"
    window = "the autotuned receive window"
    window_remedy = "set a larger constant one by `receive_window`"
    if not tcp["autotuning"]:
        segments = tcp["receive_window"]
        window = f"the receive window of {segments:.4g} segment{'' if segments == 1 else 's'}"
        other = "omit it" if of_linux else 'use profile "linux" without it'
        window_remedy = f"set a larger `receive_window` or {other}"
    buffer, buffer_remedy = "the autotuned send buffer", "set a larger one by `send_buffer`"
    if tcp["send_buffer"] is not None:
        buffer = f"the send buffer of {size_text(tcp['send_buffer'])}"
        buffer_remedy = "set a larger `send_buffer` or omit it"
    return {
        "limited_by_receive_window": f"by {window}, not by the network; {window_remedy}",
        "limited_by_send_buffer": f"by {buffer}, not by the network; {buffer_remedy}",
    }


def path_time(route: Iterable[list[str]], packet: int, links: Table, most: bool) -> float:
    """Returns transmission and propagation time over all hops, including link headers.

    Variable delays have their minimum, or their maximum if `most`.
    """
    total = 0.0
    for name, side, *_ in route:
        link = links[name]
        direction = link[side]
        pieces, _ = frames(link, packet)
        if link["wlan"]:
            # The medium is idle: no backoff.
            total += (packet + header(link)) * 8 / direction["rate"] + link["frame_overhead"]
        elif radio := link.get("radio"):
            # Data arrives at the end of the frame of slots.
            total += -(-pieces // radio[side]) * radio["frame"]
        else:
            total += (packet + pieces * header(link)) * 8 / direction["rate"]
        total += direction["delays"][most]
    return total
