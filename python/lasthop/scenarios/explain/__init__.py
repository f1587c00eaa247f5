"""Explanation of a scenario in text and a diagram, with all defaults.

Numbers are taken from the engine's resolved scenario, frame loss rates from the closed forms of
`lasthop.analysis`.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from lasthop.evaluating.cells import value_text
from lasthop.scenarios.arguments import check_point
from lasthop.scenarios.catalogue import key_schema
from lasthop.scenarios.explain.kinds import kind_text
from lasthop.scenarios.explain.limits import (
    counted_bursts,
    frames,
    host_limit,
    needed_window,
    path_time,
    receive_window,
    round_trips,
    share_slots,
    short_file,
    web_limit,
    window_rate,
)
from lasthop.scenarios.explain.picture import picture
from lasthop.scenarios.explain.quantities import (
    UNLIMITED_BPS,
    Table,
    count_text,
    delay_text,
    distribution_text,
    list_text,
    rate_text,
    share_text,
    size_text,
    span_text,
    time_text,
)
from lasthop.scenarios.scenario import Scenario

__all__ = ["explain"]

STANDARD = "  "


def explain(scenario: Scenario, *, point: int = 0) -> str:
    """Returns the text that `lasthop explain` prints.

    Args:
        scenario: The scenario.
        point: Point of the sweep whose numbers are shown.

    Raises:
        lasthop.ScenarioError: If the scenario is refused.
        ValueError: If there is no such point.
    """
    points = scenario.points()
    check_point(point, len(points))
    resolved: Table = json.loads(points[point].resolved())
    said = scenario.to_dict()
    for name, radio in resolved["radios"].items():
        share_slots(resolved["links"], name, radio)
    parts = [[resolved["name"] or "(without a name)"]]
    if about := said.get("description"):
        parts[0].append(str(about))
    parts.append(picture(resolved))
    for name, radio in resolved["radios"].items():
        parts.append(_radio(name, radio))
    for name, wlan in resolved["wlans"].items():
        parts.append([*_wlan(name, wlan), *_places(name, wlan, resolved["wlans"])])
    for name, link in resolved["links"].items():
        parts.append(_link(name, link))
    for name, flow in resolved["flows"].items():
        parts.append(_flow(name, flow, resolved["links"]))
    labels = [json.loads(point.parameters) for point in points]
    if labels[point]:
        parts.append(_sweep(labels, labels[point]))
    if resolved["windows"]:
        parts.append([_time_window(*item) for item in resolved["windows"].items()])
    parts.append(_run(resolved, len(points)))
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts)


# --- Queues


def _queue(queue: Table) -> str:
    if "kind" in queue:
        return kind_text(queue, key_schema("link", "queue"))
    return f"{queue['packets']} packets" if "packets" in queue else size_text(queue["bytes"])


def _own_queue(queue: Any) -> str:
    """Returns the queue of a service: a limit, or a discipline with its keys."""
    return _queue(queue) if isinstance(queue, Mapping) else str(queue)


# --- Links


def _radio(name: str, radio: Table) -> list[str]:
    return [
        f"Radio {name}: {radio['base']} and {', '.join(radio['stations'])}",
        f"  frames of {time_text(radio['frame'])} with slots of {size_text(radio['slot'])}: "
        f"{radio['uplink']} to {radio['base']}, {radio['downlink']} from it, "
        "shared by the stations with queued packets",
    ]


def _wlan(name: str, wlan: Table) -> list[str]:
    """Returns a diagram of the stations and their access point, and the MAC parameters."""
    stations = wlan["stations"]
    shown = [*stations[:8], *(["..."] if len(stations) > 8 else [])]
    point = wlan["access_point"]
    width = max(map(len, shown))
    middle = (len(shown) - 1) // 2
    picture = [
        f"  {station.ljust(width)} --+{f'-- {point}' if number == middle else ''}"
        for number, station in enumerate(shown)
    ]
    threshold = wlan.get("rts_threshold")
    rts = "no RTS" if threshold is None else f"RTS before frames above {size_text(threshold)}"
    difs, eifs = time_text(wlan["difs"]), time_text(wlan["eifs"])
    space = "AIFS" if "mcs" in wlan else "DIFS"
    access = f"{space} {difs}, EIFS {eifs}, {_windows(wlan)}"
    if "categories" in wlan:
        access = f"EIFS {eifs} with the shortest AIFS"
    return [
        f"WLAN {name}: {wlan['standard']} on channel {wlan['channel']}, {point} and "
        f"{count_text(len(stations), 'station')}",
        *picture,
        f"  data at {rate_text(wlan['rate'])}, control frames at {rate_text(wlan['control_rate'])}",
        *_aggregation(wlan),
        *_signal(wlan),
        f"  slots of {time_text(wlan['slot'])}, SIFS {time_text(wlan['sifs'])}, {access}",
        *_categories(wlan),
        f"  at most {count_text(wlan['short_retry_limit'], 'attempt')} per short frame, "
        f"{wlan['long_retry_limit']} per long frame; {rts}",
    ]


def _windows(access: Table) -> str:
    return f"contention windows {access['cw_min']} to {access['cw_max']}"


def _categories(wlan: Table) -> list[str]:
    """Returns the channel access of each access category in use."""
    lines = ["  access categories by the dscp of flows (EDCA)"] if "categories" in wlan else []
    for name, access in wlan.get("categories", {}).items():
        limit = access["txop_limit"]
        txop = f"TXOPs up to {time_text(limit)}" if limit else "one PPDU per TXOP"
        lines.append(f"    {name}: AIFS {time_text(access['aifs'])}, {_windows(access)}, {txop}")
    return lines


def _has_snr(wlan: Table) -> bool:
    """Returns whether an SNR determines the errors of a station."""
    return "snr" in wlan or any("snr" in own for own in wlan.get("station", {}).values())


def _signal(wlan: Table) -> list[str]:
    """Returns the source of errors, if it is an SNR, and the rate control."""
    control = wlan.get("rate_control", "fixed")
    choice = {
        "minstrel-ht": ["  rate control up to this mode, by the losses of MPDUs"],
        "arf": ["  rate control up to this rate, by failures in a row (ARF)"],
    }
    what = "MCS" if "mcs" in wlan else "rate"
    return [
        *([f"  errors by SNR, {control} {what}"] if _has_snr(wlan) else []),
        *([f"  {wlan['fading']['kind']} fading"] if "fading" in wlan else []),
        *choice.get(control, []),
    ]


def _aggregation(wlan: Table) -> list[str]:
    """Returns the mode of the data and the limits of A-MPDUs of 802.11n, ac and ax."""
    if "mcs" not in wlan:
        return []
    streams = count_text(wlan["spatial_streams"], "spatial stream")
    limits = "no A-MPDUs"
    if wlan["max_ampdu"] > 0:
        limits = (
            f"A-MPDUs up to {size_text(wlan['max_ampdu'])} and "
            f"{count_text(wlan['max_ampdu_mpdus'], 'MPDU')}, "
            f"block-ack window {wlan['block_ack_window']}"
        )
    if wlan["max_amsdu"] > 0:
        limits += f", A-MSDUs up to {size_text(wlan['max_amsdu'])}"
    return [
        f"  MCS {wlan['mcs']}, {streams}, {wlan['width']}, guard interval "
        f"{wlan['guard_interval']}, at {wlan['band']}",
        f"  {limits}",
        f"  at most {count_text(wlan['mpdu_retry_limit'], 'transmission')} per MPDU, lifetime "
        f"{time_text(wlan['lifetime'])}",
        *([f"  a queue per station, {wlan['scheduler']}"] if wlan["scheduler"] != "fifo" else []),
        *([f"  packets in the driver: {wlan['driver_queue']}"] if "driver_queue" in wlan else []),
    ]


MAP_WIDTH, MAP_HEIGHT = 60, 12
"""Maximum size of the map of a channel in characters, which are twice as high as wide."""


def _hosts(wlans: Mapping[str, Table], channel: str) -> dict[str, tuple[float, float]]:
    """Returns the positions in metres of the hosts of a channel, access points first."""
    places: dict[str, tuple[float, float]] = {}
    for wlan in wlans.values():
        if wlan["channel"] == channel and "x" in wlan:
            own = wlan.get("station", {})
            for host, table in [(wlan["access_point"], wlan), *own.items()]:
                if "x" in table:
                    places.setdefault(host, (table["x"], table.get("y", 0.0)))
    return places


def _map(places: Mapping[str, tuple[float, float]]) -> list[str]:
    """Returns a map to scale; hosts are numbered as in the list below it."""
    easts, norths = zip(*places.values(), strict=True)
    width, height = max(easts) - min(easts), max(norths) - min(norths)
    scale = max(width / MAP_WIDTH, height / MAP_HEIGHT / 2, 1e-9)
    rows = [[" "] * (MAP_WIDTH + 3) for _ in range(round(height / scale / 2) + 1)]
    for number, (east, north) in enumerate(places.values(), 1):
        row = rows[round((max(norths) - north) / scale / 2)]
        column = round((east - min(easts)) / scale)
        for offset, character in enumerate(str(number)):
            row[column + offset] = character
    lines = ["".join(row).rstrip() for row in rows]
    if width > 0:
        lines.append(f"|{'-' * (round(width / scale) - 1)}| {_distance(width)}")
    return [f"  {line}" for line in lines]


def _distance(metres: float) -> str:
    return f"{metres:.4g} m"


def _places(name: str, wlan: Table, wlans: Mapping[str, Table]) -> list[str]:
    """Returns the positions of the hosts of a WLAN's channel, and pairs of hidden hosts."""
    if "x" not in wlan:
        return []
    sensed = wlan["carrier_sense_range"]
    disturbed = wlan.get("interference_range", sensed)
    lines = [
        f"  transmission range {_distance(wlan['transmission_range'])}, carrier-sense range "
        f"{_distance(sensed)}, interference range {_distance(disturbed)}",
        f"  capture threshold {wlan['capture_threshold']:g} dB; power falls with "
        f"distance^{wlan['path_loss_exponent']:g} beyond {_distance(wlan['crossover'])}",
    ]
    sharing = [other for other in wlans if wlans[other]["channel"] == wlan["channel"]]
    if sharing[0] != name:
        return [*lines, f"  see WLAN {sharing[0]} for the map of the channel"]
    places = _hosts(wlans, wlan["channel"])
    lines += _map(places)
    lines += [
        f"  {number} {host} ({_distance(east)}, {_distance(north)})"
        for number, (host, (east, north)) in enumerate(places.items(), 1)
    ]
    apart = [
        f"{one} and {other} ({_distance(distance)})"
        for (one, here), (other, there) in itertools.combinations(places.items(), 2)
        if (distance := math.dist(here, there)) > sensed
    ]
    if apart:
        lines.append(f"  do not sense each other: {list_text(apart)}")
    return lines


def _without(table: Table, key: str) -> Table:
    """Returns a table without one of its keys."""
    return {name: value for name, value in table.items() if name != key}


def _link(name: str, link: Table) -> list[str]:
    here, there = link["between"]
    lines = [f"Link {name}: {here} to {there}"]
    protocol, union = link["protocol"], key_schema("link", "protocol")
    if services := protocol.get("service"):
        lines.append("  protocol: services, by fair queueing")
        for service, own in services.items():
            queue = f", queue {_own_queue(own['queue'])}" if "queue" in own else ""
            lines.append(
                f"    {service}: weight {own['weight']}, {kind_text(own['protocol'], union)}{queue}"
            )
    elif layers := protocol.get("layers"):
        lines.append("  protocol: stacked layers, the uppermost first")
        for layer in layers:
            shown = {key: value for key, value in layer.items() if key not in ("name", "header")}
            header = size_text(layer["header"])
            name = "" if layer["name"] == layer["kind"] else f"{layer['name']}: "
            lines.append(f"    {name}{kind_text(shown, union)}; frame header {header}")
    else:
        control = f", control frame {size_text(link['control'])}" if link["control"] else ""
        lines.append(
            f"  protocol: {kind_text(_without(protocol, 'control'), union)}; "
            f"frame header {size_text(link['header'])}{control}"
        )
    if link["agents"]:
        lines.append(f"  agent: {', '.join(link['agents'])}")
    if link["forward"] == link["reverse"]:
        lines += _direction("each direction", link, link["forward"])
    else:
        lines += _direction(f"{here} to {there}", link, link["forward"])
        lines += _direction(f"{there} to {here}", link, link["reverse"])
    return lines


def _direction(title: str, link: Table, side: Table) -> list[str]:
    errors = kind_text(side["errors"], key_schema("link", "errors"))
    lines = [
        f"  {title}: {rate_text(side['rate'])}, {delay_text(side)}, "
        f"queue {_queue(side['queue'])}; errors {errors}"
    ]
    packet = side["largest_packet"]
    if not packet:
        return lines
    pieces, frame = frames(link, packet)
    airtime = 0.0 if side["rate"] == UNLIMITED_BPS else frame * 8 / side["rate"]
    airtime += link["frame_overhead"] or 0.0
    text = f"largest frame {size_text(frame)}: transmission time {time_text(airtime)}"
    if pieces > 1:
        text = f"a packet of {size_text(packet)} takes {pieces} frames of {size_text(frame)}"
        text += "" if "radio" in link else f": transmission time {time_text(airtime)}"
    from lasthop.evaluating.theory.network import frame_loss  # late: `run` needs none

    loss = frame_loss(side["errors"], frame, side["rate"])
    if loss:
        text += f", loss probability {share_text(loss)}"
    lines.append(f"    {text}")
    if side["timeout"]:
        lines.append(f"    retransmission timeout {time_text(side['timeout'])}")
    for layer in side.get("layers") or ():
        if layer["timeout"]:
            timeout = time_text(layer["timeout"])
            lines.append(f"    retransmission timeout of {layer['name']} {timeout}")
    return lines + _window(side, frame)


def _window(side: Table, frame: int) -> list[str]:
    """Returns a note if a link's window is smaller than its bandwidth-delay product."""
    limit = window_rate(side, frame)
    if not limit:
        return []
    product = side["rate"] * side["round_trip"] / 8
    frames = math.ceil(product / frame)
    return [
        f"    the window of {count_text(side['window'], 'frame')} is smaller than the "
        f"bandwidth-delay product of the link, {frames} frames ({size_text(product)}): it limits "
        f"the rate to {rate_text(limit)}"
    ]


# --- Flows


def _flow(name: str, flow: Table, links: Table) -> list[str]:
    app = flow["app"]
    start = f", from {time_text(flow['start'])} on" if flow["start"] else ""
    if flow["stop"] is not None:
        start += f", until {time_text(flow['stop'])}"
    lines = [
        f"Flow {name}: {flow['from']} to {flow['to']}{start}",
        f"  {_app(app, bool(flow['quic']))}",
        *([f"  access category {flow['category']}"] if flow["category"] else []),
    ]
    tcp = flow["tcp"]
    if tcp:
        window = receive_window(flow)
        limit = "an autotuned receive window"
        if math.isfinite(window):
            limit = f"window {tcp['receive_window']:.4g} segments ({size_text(window)})"
        if tcp["send_buffer"] is not None:
            limit += f", send buffer {size_text(tcp['send_buffer'])}"
        window, of_host = host_limit(flow)
        lines.append(
            f"  TCP {tcp['variant']}, profile {tcp['profile']}: segments of "
            f"{size_text(tcp['segment'])}, {limit}, initial window "
            f"{tcp['initial_window']:.4g}, delayed ACKs "
            f"{'off' if tcp['delayed_ack'] is None else time_text(tcp['delayed_ack'])}, "
            f"minimum RTO {time_text(tcp['min_rto'])}"
        )
        lines += _unmarked(flow, links)
    elif quic := flow["quic"]:
        law = quic["congestion_control"] or f"{quic['variant']} of the stack"
        lines.append(
            f"  QUIC, congestion control {law}: datagrams of {size_text(quic['datagram'])} and "
            f"{size_text(quic['header'])} of headers, initial window "
            f"{size_text(quic['initial_window'])}, packet threshold {quic['packet_threshold']}, "
            f"time threshold {quic['time_threshold']:g} RTT, initial RTT "
            f"{time_text(quic['initial_rtt'])}"
        )
    else:
        lines.append("  UDP")
    if flow["service"]:
        lines.append(f"  service {flow['service']}")
    hops = ", ".join(hop[0] for hop in flow["route"])
    there, _ = flow["packets"]
    narrowest = min(flow["route"], key=lambda hop: links[hop[0]][hop[1]]["rate"])
    rate = links[narrowest[0]][narrowest[1]]["rate"]
    if not tcp:
        away = [path_time(flow["route"], there, links, most) for most in (False, True)]
        lines.append(
            f"  over {hops}: minimum delay of a packet of {size_text(there)}: {span_text(*away)}"
        )
        return lines
    trips = round_trips(flow, links)
    trip = trips[1]
    lines.append(
        f"  over {hops}: RTT {span_text(*trips)} for a full segment and its acknowledgment, "
        "queues empty"
    )
    if rate == UNLIMITED_BPS:
        limit = f", to {rate_text(8 * window / trip)}" if math.isfinite(window) else ""
        lines.append(f"  only the window limits the rate{limit}")
        return lines
    product = rate * trip / 8
    lines.append(
        f"  bandwidth-delay product {rate_text(rate)} ({narrowest[0]}) x {time_text(trip)} = "
        f"{size_text(product)}, {product / there:.1f} full packets"
    )
    if words := counted_bursts(flow, links):
        lines.append(f"  {words}")
    if short := short_file(flow, links, trip):
        lines.append(f"  {short[1]}")
    elif window < needed_window(flow, links, trip):
        lines.append(f"  limited to {rate_text(8 * window / trip)} {of_host}")
    if words := web_limit(flow, links, round_trips(flow, links)[0]):
        lines.append(f"  {words}")
    return lines


def _unmarked(flow: Table, links: Table) -> list[str]:
    """Returns a note if LT-TCP detects no congestion because queues drop without ECN marks."""
    from lasthop.evaluating.notes import unmarked_links, unmarked_words

    silent = unmarked_links(flow, links)
    return [f"  {unmarked_words(silent)}"] if silent else []


def _app(app: Table, is_quic: bool) -> str:
    match app["kind"]:
        case "file":
            return f"a file of {size_text(app['size'])}"
        case "messages":
            pauses = ""
            if app.get("on"):
                pauses = f", on {distribution_text(app['on'])}, off {distribution_text(app['off'])}"
            if app.get("rate"):
                pace = f"at {rate_text(app['rate'])}"
            elif app.get("interval"):
                pace = f"at intervals of {distribution_text(app['interval'])}"
            else:
                pace = f"with gaps of {distribution_text(app['gap'])}"
            return f"messages of {size_text(app['size'])} {pace}{pauses}"
        case "web":
            return f"web pages over {count_text(app['connections'], 'connection')}"
        case "page":
            version = app.get("http") or ("3" if is_quic else "2")
            over = f" with {count_text(app['connections'], 'connection')}"
            return (
                f"{count_text(app['pages'], 'page')} of {count_text(app['objects'], 'object')} and "
                f"{size_text(app['size'])} on average, {count_text(app['depth'], 'level')}, over "
                f"HTTP/{version}{over if version == '1.1' else ''}; "
                f"{time_text(app['server_time'])} at the server"
            )
        case "on-off":
            mean = _mean_rate(app["rate"], app["on"]["mean"], app["off"]["mean"])
            return (
                f"packets of {size_text(app['packet'])} at {rate_text(app['rate'])}, on "
                f"{distribution_text(app['on'])}, off {distribution_text(app['off'])}: "
                f"{mean} on average"
            )
        case "nada":
            rates = f"{rate_text(app['min_rate'])} to {rate_text(app['max_rate'])}"
            return f"media that adapt by NADA, {rates}, packets of {size_text(app['packet'])}"
        case "media":
            mean = _mean_rate(app["rate"], app["talk"]["mean"], app["silence"]["mean"])
            return (
                f"packets of {size_text(app['packet'])} at {rate_text(app['rate'])}, talk "
                f"{distribution_text(app['talk'])}, silence {distribution_text(app['silence'])}: "
                f"{mean} on average; playout {time_text(app['deadline'])} after transmission"
            )
    return kind_text(app, key_schema("flow", "app"))


def _mean_rate(rate: float, on: float, off: float) -> str:
    return rate_text(rate * on / (on + off))


# --- Sweep and replications


def _sweep(labels: Sequence[Table], here: Table) -> list[str]:
    axes: dict[str, list[object]] = {}
    for label in labels:
        for key, value in label.items():
            values = axes.setdefault(key, [])
            if value not in values:
                values.append(value)
    counts = [len(values) for values in axes.values()]
    # Zipped keys take their values together.
    is_grid = len(counts) > 1 and math.prod(counts) == len(labels)
    grid = f"{' x '.join(map(str, counts))} = " if is_grid else ""
    lines = [f"Sweep: {grid}{len(labels)} points; the point above is marked *"]
    for key, values in axes.items():
        shown = [value_text(value) + ("*" if value == here.get(key) else "") for value in values]
        lines.append(f"  {key}: {list_text(shown)}")
    return lines


def _time_window(name: str, window: Table) -> str:
    end = time_text(window["to"]) if "to" in window else "the end of the run"
    return f"Window {name}: metrics from {time_text(window['from'])} to {end}"


def _run(resolved: Table, points: int) -> list[str]:
    run = resolved["run"]
    replications = run["replications"]
    if "duration" in run:
        end = f"Each ends at {time_text(run['duration'])}."
    else:
        kinds = {flow["app"]["kind"] for flow in resolved["flows"].values()}
        words = {"file": "every file is acknowledged", "page": "every page is loaded"}
        parts = [words[kind] for kind in words if kind in kinds]
        end = (
            f"Each ends when {' and '.join(parts)}, at the latest at {time_text(run['max_time'])}."
        )
    return [
        f"Runs: {count_text(points, 'point')} x {count_text(replications, 'replication')} = "
        f"{points * replications}, seed {run['seed']}. {end}"
    ]
