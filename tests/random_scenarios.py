"""Random valid scenarios with every kind of the engine's schema, and conditions on their results.

A scenario is a chain of links, radios and WLANs with flows between its hosts. It begins with few
keys, all valid. Further keys are sampled from their schema and set one by one; a key that the
engine rejects is removed again. Each scenario depends only on a seed and its number.

    python tests/random_scenarios.py --count 5000 --jobs 2 [--seed 1] [--first 0]

checks 5000 scenarios and prints the kinds in them. A scenario that fails is printed with its number
as JSON, which `lasthop run` accepts. `check` tests the conditions.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import lasthop
from drawn import (
    DELAYS,
    LOSSES,
    NUMBERS,
    OUTAGES,
    RATES,
    SCHEMA,
    SNRS,
    kinds_in,
    unions,
    within,
)

Node = Mapping[str, Any]
Tables = dict[str, Any]

TEXTS = (
    *("0 s", "4 us", "50 us", "1 ms", "5 ms", "10 ms", "100 ms", "1 s", "100 s"),
    *("exp 5 ms", "exp 100 ms", "pareto 100 ms shape 1.5"),
    *("1 kbps", "64 kbps", "2 Mbps", "11 Mbps", "16 Mbps", "24 Mbps", "unlimited"),
    *("auto", "off", "random", "1 B", "8 B", "60 B", "300 B", "1 kB", "1460 B", "20 kB"),
    *("1 packet", "3 packets", "50 packets", "2 segments", "64 segments", "8 frames", "200 frames"),
    *("0 %", "0.1 %", "10 %", "50 %", "100 %", "0 m", "1 m", "100 m", "200 m", "250 m", "1 km"),
    *("0 dB", "10 dB"),
)

# Values that depend on the rest of a scenario, by the end of a key's path.
GIVEN: Mapping[str, tuple[Any, ...]] = {
    "[trace].file": (str(LOSSES),),
    "rate[trace]": (
        {"kind": "trace", "file": str(RATES), "format": "mahimahi"},
        {"kind": "trace", "file": str(RATES), "format": "mahimahi", "opportunity": "300 B"},
    ),
    "delay[trace]": ({"kind": "trace", "file": str(DELAYS)},),
    "rate[steps]": (
        {"kind": "steps", "at": [["0 s", "2 Mbps"], ["9 ms", "1 Mbps"]], "repeat": "10 ms"},
        {"kind": "steps", "at": [["0 s", "2 Mbps"], ["100 ms", "0 bps"], ["200 ms", "1 Mbps"]]},
    ),
    "delay[steps]": (
        {"kind": "steps", "at": [["0 s", "20 ms"], ["5 ms", "1 ms"]], "repeat": "10 ms"},
        {"kind": "steps", "at": [["0 s", "1 ms"], ["100 ms", "80 ms"], ["200 ms", "5 ms"]]},
    ),
    "[outages]": (
        {"kind": "outages", "file": str(OUTAGES), "repeat": "300 ms", "start": "100 ms"},
        {"kind": "outages", "file": str(RATES), "format": "mahimahi", "gap": "3 ms"},
    ),
    "[gilbert-elliott]": (
        {"kind": "gilbert-elliott", "p_good_to_bad": "1 %", "p_bad_to_good": "30 %"},
        {
            "kind": "gilbert-elliott",
            "mean_loss": "10 %",
            "mean_burst": 3.5,
            "readable_headers": "50 %",
        },
        {"kind": "gilbert-elliott", "p_good_to_bad": 1, "p_bad_to_good": 1, "loss_good": "50 %"},
    ),
    "[adaptive-persistence]": tuple(
        {"kind": "adaptive-persistence", "stay_good": 0.9, "stay_bad": 0.5, "loss_good": 0.0}
        | {"loss_bad": 1.0, "inversion": inversion, **at}
        for inversion in ("eigenvalue", "exact")
        for at in ({}, {"at": "h0"}, {"at": "h1"})
    ),
    "[on-off].rate": ("64 kbps", "1 Mbps", "8 Mbps"),
    "[media].rate": ("64 kbps", "1 Mbps", "8 Mbps"),
    "[on-off].packet": ("20 B", "300 B", "1460 B"),
    "[media].packet": ("20 B", "300 B", "1460 B"),
    ".at": ("h0", "h1", "h2", "h3"),
    "[markov-chain].transitions": (
        [[0.9, 0.1], [0.5, 0.5]],
        [[1, 0], [0, 1]],
        [[0.8, 0.1, 0.1], [0, 0.5, 0.5], [0.3, 0.3, 0.4]],
    ),
    "[markov-chain].loss": ([0, 1], [0.1, 0.9], [0, 0.5, 1]),
    "[listed].lose": ([1], [2, 3, 4, 9], list(range(1, 60, 3))),
    "[listed].readable_headers": ([2], [4]),
    "[services].service": (
        {"one": {"protocol": "raw"}, "two": {"protocol": {"kind": "selective-repeat"}}},
        {
            "one": {"protocol": "rlc-am", "weight": 3},
            "two": {"protocol": "raw", "queue": "5 packets"},
        },
        {"one": {"protocol": "harq"}, "two": {"protocol": "raw", "queue": {"kind": "dualpi2"}}},
    ),
    "flow.service": ("one", "two"),
    "wlan.channel": ("air",),
    "wlan.mcs": (0, 3, 7, 8, 9, 11),
    "wlan.max_ampdu": ("0 B", "100 B", "3000 B", "65535 B", "1 MB"),
    "wlan.max_amsdu": ("0 B", "100 B", "3839 B", "7935 B"),
    "wlan.max_ampdu_mpdus": (1, 2, 64, 256),
    "wlan.block_ack_window": (1, 2, 64, 100, 256),
    "wlan.snr": (
        *("5 dB", "20 dB", "40 dB"),
        {"kind": "distance", "distance": "20 m"},
        {"kind": "steps", "at": [["0 s", "30 dB"], ["1 s", "5 dB"]], "repeat": "2 s"},
        {"kind": "constant", "snr": "15 dB"},
        {"kind": "trace", "file": str(SNRS)},
    ),
    "wlan.lifetime": ("1 ms", "20 ms", "1 s"),
    "wlan.reorder_timeout": ("1 ms", "20 ms", "1 s"),
}
# Standards with A-MPDUs, and their keys.
STREAMS = ("file", "web", "messages")
"""Applications that need a transport with streams."""

HIGH = ("802.11n", "802.11ac", "802.11ax")
AGGREGATION = (
    *("mcs", "width", "guard_interval", "spatial_streams", "band", "coding", "packet_extension"),
    *("durations", "max_ampdu", "max_ampdu_mpdus", "max_amsdu", "block_ack_window"),
    *("missed_block_ack", "mpdu_retry_limit", "lifetime", "reorder_timeout"),
    *("scheduler", "snr", "error_curve", "rate_control", "edca"),
)
# Keys set only by `_network`: the hosts and their positions.
OWN = {"between", "from", "to", "base", "access_point", "stations", "station", "x", "y"}
OWN |= {"count", "spacing", "category"}
SHARES = {
    *("loss", "residual_loss", "deadline_miss", "complete", "frame_loss", "utilization"),
    *("collision_probability", "airtime", "airtime_success", "airtime_collision"),
    *("airtime_error", "airtime_idle", "two_streams"),
    *(f"mcs_{mcs}" for mcs in range(12)),
}
SLACK = 1 + 1e-9


class Draw:
    """Samples the values of keys, according to their schema."""

    def __init__(self, draws: random.Random) -> None:
        self.draws = draws

    def value(self, node: Node, path: str) -> Any:
        """A value of the key at `path`; `None` if no valid value is known."""
        for end, values in GIVEN.items():
            if path.endswith(end):
                return copy.deepcopy(self.draws.choice(values))
        if "const" in node:
            return node["const"]
        if "enum" in node:
            return self.draws.choice(node["enum"])
        if forms := _forms(node):
            form = self.draws.choice(forms)
            kind = form.get("properties", {}).get("kind", {}).get("const")
            return self.value(form, path if kind is None else f"{path}[{kind}]")
        match node.get("type"):
            case "object":
                return self.table(node, path)
            case "boolean":
                return self.draws.random() < 0.5
            case "integer" | "number":
                return self._one([number for number in NUMBERS if within(number, node)])
            case "string":
                pattern = node.get("pattern", "")
                return self._one([text for text in TEXTS if re.search(pattern, text)])
            case "array":
                items = [self.value(node["items"], path) for _ in range(self.draws.choice((1, 2)))]
                return [item for item in items if item is not None]
        raise AssertionError(f"{path}: the schema has {node}; write values into GIVEN")

    def table(self, node: Node, path: str) -> Tables | None:
        """A table with its required keys and some others."""
        keys, needed = node.get("properties", {}), node.get("required", ())
        others = [key for key in keys if key not in needed]
        count = min(self.draws.choice((0, 0, 1, 2, 4)), len(others))
        more = self.draws.sample(others, count)
        more += [key for key in others if _has_kinds(keys[key]) and self.draws.random() < 0.2]
        drawn = {key: self.value(keys[key], f"{path}.{key}") for key in (*needed, *more)}
        return {key: value for key, value in drawn.items() if value is not None}

    def _one(self, values: list[Any]) -> Any:
        return self.draws.choice(values) if values else None


def _forms(node: Node) -> list[Node]:
    """The alternatives of a key, including nested ones: all kinds are equally likely."""
    forms = [*node.get("oneOf", []), *node.get("anyOf", [])]
    if "properties" in node:
        return []
    return [inner for form in forms for inner in (_forms(form) or [form])]


def _has_kinds(node: Node) -> bool:
    return any("kind" in form.get("properties", {}) for form in _forms(node))


def is_valid(tables: Tables) -> bool:
    """Whether the engine accepts the scenario."""
    try:
        lasthop.Scenario(tables)
    except lasthop.ScenarioError:
        return False
    return True


def scenario(seed: int, number: int) -> Tables:
    """The scenario with this number."""
    draws = random.Random(f"{seed} {number}")
    tables = _network(draws)
    if not is_valid(tables):
        raise AssertionError(f"scenario {number}: {json.dumps(tables)} must be valid")
    draw = Draw(draws)
    keys = [
        (table, name, key)
        for table in ("link", "radio", "wlan", "flow")
        for name in tables.get(table, {})
        for key in SCHEMA["properties"][table]["additionalProperties"]["properties"]
        if key not in OWN
    ]
    draws.shuffle(keys)
    # Keys with kinds first: other keys require some of these kinds.
    keys.sort(key=lambda key: key[2] not in ("app", "transport", "protocol", "preset"))
    for table, name, key in keys:
        node = SCHEMA["properties"][table]["additionalProperties"]["properties"][key]
        has_kinds = bool(_forms(node))
        if draws.random() > (0.6 if has_kinds else 0.15):
            continue
        for _ in range(6 if has_kinds else 2):
            value = draw.value(node, f"{table}.{key}")
            if value is None:
                break
            changed = copy.deepcopy(tables)
            changed[table][name][key] = value
            if is_valid(changed):
                tables = changed
                break
    return _with_aggregation(_with_lt_tcp(tables, draws), draw)


def _with_aggregation(tables: Tables, draw: Draw) -> Tables:
    """In half of the scenarios, WLANs are of 802.11n, ac or ax, if valid, with some of their keys.

    They exclude some keys of the other standards, which are removed.
    """
    draws = draw.draws
    if "wlan" not in tables or draws.random() > 0.5:
        return tables
    changed = copy.deepcopy(tables)
    standard = draws.choice(HIGH)
    properties = SCHEMA["properties"]["wlan"]["additionalProperties"]["properties"]
    for own in changed["wlan"].values():
        own["standard"] = standard
        for table in (own, *own.get("station", {}).values()):
            table.pop("rate", None)
        own.pop("control_rate", None)
    if not is_valid(changed):
        return tables
    for own in changed["wlan"].values():
        for key in draws.sample(AGGREGATION, len(AGGREGATION)):
            if draws.random() > 0.3 or key in own:
                continue
            own[key] = draw.value(properties[key], f"wlan.{key}")
            if not is_valid(changed):
                del own[key]
    return changed


def _with_lt_tcp(tables: Tables, draws: random.Random) -> Tables:
    """In one of five scenarios, a TCP flow uses LT-TCP, if valid.

    LT-TCP excludes most other keys of TCP, so that sampled transports do not contain it.
    """
    if draws.random() > 0.2:
        return tables
    changed = copy.deepcopy(tables)
    apps = {name: flow["app"] for name, flow in changed["flow"].items()}
    kinds = {name: app if isinstance(app, str) else app["kind"] for name, app in apps.items()}
    flows = [name for name, kind in kinds.items() if kind in STREAMS]
    if flows:
        lt_tcp = {"kind": "tcp", "profile": "rfc", "segment": draws.choice(("10 B", "1 kB"))}
        of_sack = {"variant": "sack", "congestion_control": "lt-tcp"}
        lt_tcp |= draws.choice(({"variant": "lt-tcp"}, of_sack))
        changed["flow"][draws.choice(flows)]["transport"] = lt_tcp
    return changed if is_valid(changed) else tables


def _network(draws: random.Random) -> Tables:
    """Two to four hosts in a row, and further stations; each flow has few keys."""
    kinds = draws.choices(("link", "radio", "wlan"), (4, 2, 4), k=draws.choice((1, 1, 2, 3)))
    tables: Tables = {"name": "random"}
    hosts = ["h0"]
    for index, kind in enumerate(kinds):
        near, far, others = hosts[-1], f"h{index + 1}", []
        if kind == "link":
            table: Tables = {"between": [near, far], "rate": "2 Mbps", "delay": "5 ms"}
        else:
            middle, station = draws.sample((near, far), 2)
            others = [f"s{index}{place}" for place in range(draws.choice((0, 1, 2)))]
            table = {"stations": [station, *others]}
            if kind == "radio":
                table |= {"base": middle, "slot": draws.choice(("60 B", "1600 B"))}
            else:
                table |= {"access_point": middle}
                if draws.random() < 0.4:
                    places = ("0 m", "1 m", "100 m", "200 m")
                    table |= {
                        "x": "100 m",
                        "station": {
                            host: {"x": draws.choice(places)} for host in [station, *others]
                        },
                    }
                elif draws.random() < 0.3:
                    away = draws.choice(
                        ({"leaves": "20 ms"}, {"leaves": "0 s", "returns": "90 ms"})
                    )
                    table |= {"station": {station: away}}
        tables.setdefault(kind, {})[f"n{index}"] = table
        hosts += [*others, far]
    tables["flow"] = {}
    for index in range(draws.choice((1, 1, 2, 3))):
        begin, end = draws.sample(hosts, 2)
        app = draws.choice(
            (
                {"kind": "file", "size": "20 kB"},
                {"kind": "web"},
                {"kind": "messages", "size": "2 kB", "interval": "exp 20 ms"},
                {
                    "kind": "on-off",
                    "rate": "2 Mbps",
                    "on": "50 ms",
                    "off": "exp 5 ms",
                    "packet": "20 B",
                },
                {"kind": "media", "rate": "64 kbps", "packet": "20 B"},
                {"kind": "nada", "packet": "20 B", "feedback_interval": "5 ms"},
            )
        )
        tcp = {
            "kind": "tcp",
            "variant": "sack",
            "profile": "rfc",
            "segment": "10 B",
            "header": "10 B",
            "ack_size": "10 B",
        }
        datagrams = {"kind": draws.choice(("udp", "udp-lite"))}
        transport = tcp if app["kind"] in STREAMS else datagrams
        tables["flow"][f"f{index}"] = {"from": begin, "to": end, "transport": transport, "app": app}
    tables["run"] = {
        "duration": draws.choice(("20 ms", "100 ms", "400 ms")),
        "seed": draws.randrange(9),
    }
    return tables


def check(tables: Tables) -> None:
    """Runs and traces one replication: no panic, equal metrics, and no impossible metric.

    Raises:
        AssertionError: With a description of the faults.
    """
    found = lasthop.Scenario(tables)
    results = lasthop.run(found, replications=1, jobs=1)
    metrics = {name: float(results.samples(name, 0, censored=True)[0]) for name in results.metrics}
    faults = list(impossible(tables, metrics))
    assert not faults, "; ".join(faults)
    try:
        traced = lasthop.trace(found).metrics
    except lasthop.RunError as error:
        # A trace is kept in memory, and rejected if it is too long.
        if "expected a shorter run" not in str(error):
            raise
        return
    assert metrics.keys() == traced.keys(), metrics.keys() ^ traced.keys()
    for name, value in metrics.items():
        own = traced[name]
        same = value == own or (math.isnan(value) and math.isnan(own))
        assert same, f"{name}: run {value}, trace {own}"


def impossible(tables: Tables, metrics: Mapping[str, float]) -> Iterator[str]:
    """Descriptions of impossible values among the metrics of a run."""
    for name, value in metrics.items():
        quantity = name.rpartition(".")[2]
        if math.isinf(value) or value < 0:
            yield f"{name} is {value}"
        if quantity in SHARES and value > SLACK:
            yield f"{name} is {value}, a share"
    entities = dict.fromkeys(name.rpartition(".")[0] for name in metrics)
    for entity in entities:
        own = {
            name.rpartition(".")[2]: value
            for name, value in metrics.items()
            if name.rpartition(".")[0] == entity
        }
        yield from (f"{entity}: {what} in {own}" for what in _contradictions(own))
    for name, flow in tables["flow"].items():
        yield from _too_fast(tables, f"flow.{name}", flow, metrics)


# For each flow, link or WLAN, the first metric is at most as large as the second.
AT_MOST = (
    *(("packets_delivered", "packets_sent"), ("packets_damaged", "packets_delivered")),
    *(("frames_lost", "frames_sent"), ("headers_readable", "frames_lost")),
    *(("retransmissions", "segments_sent"), ("spurious_retransmissions", "retransmissions")),
    *(("spurious_timeouts", "timeouts"), ("retries", "attempts"), ("acknowledged", "attempts")),
    *(("collisions", "attempts"), ("errors", "attempts"), ("duplicates", "frames_sent")),
    *(("ppdus", "attempts"), ("block_ack_requests", "attempts")),
    *(("queue_early_drops", "queue_drops"), ("queue_tail_drops", "queue_drops")),
    *(("delay_p50_s", "delay_p95_s"), ("delay_p95_s", "delay_p99_s")),
)


# Counters of MPDUs with A-MPDUs, of which an attempt contains several.
PER_MPDU = {("retries", "attempts"), ("acknowledged", "attempts")}


def _contradictions(own: Mapping[str, float]) -> Iterator[str]:
    is_wlan = "collision_probability" in own
    has_ampdus = "mpdus_per_ppdu" in own
    for less, more in AT_MOST:
        if has_ampdus and (less, more) in PER_MPDU:
            more = "frames_sent"
        if is_wlan and less in ("collisions", "errors"):
            continue
        if own.get(less, 0) > own.get(more, math.inf):
            yield f"{less} above {more}"
    if {"queue_drops", "queue_tail_drops"} <= own.keys() and (
        own["queue_tail_drops"] + own["queue_early_drops"] != own["queue_drops"]
    ):
        yield "drops do not add up"
    if has_ampdus and own["mpdus_per_ppdu"] > 256:
        yield "more MPDUs in a PPDU than a window has"
    if {"attempts", "acknowledged", "errors"} <= own.keys() and not has_ampdus:
        over = own["acknowledged"] + own["collisions"] + own["errors"]
        # One attempt may be in progress.
        if not own["attempts"] - 1 <= over <= own["attempts"]:
            yield "attempts do not add up"
    if is_wlan:
        used = sum(own[f"airtime_{use}"] for use in ("success", "collision", "error", "idle"))
        if abs(used - 1) > 1e-9:
            yield "airtime does not add up"


def _too_fast(
    tables: Tables, entity: str, flow: Tables, metrics: Mapping[str, float]
) -> Iterator[str]:
    """Goodput above the offered load, or above the rate of a link on the path."""
    goodput, seconds = metrics[f"{entity}.goodput_bps"], metrics[f"{entity}.duration_s"]
    if not goodput > 0:
        return
    app = flow["app"]
    if "packet" in app:
        offered = metrics[f"{entity}.packets_sent"] * _bytes(app["packet"]) * 8 / seconds
        if goodput > offered * SLACK:
            yield f"{entity}.goodput_bps {goodput} above the {offered} that is offered"
    if flow["from"] == flow["to"]:
        return
    for table, name, rate in _rates(tables, flow["from"], flow["to"]):
        if goodput > rate * SLACK:
            yield f"{entity}.goodput_bps {goodput} above the {rate} of {table}.{name}"


def _rates(tables: Tables, begin: str, end: str) -> Iterator[tuple[str, str, float]]:
    """The links between two hosts whose rate is constant and known."""
    joins: dict[str, list[tuple[str, str, str]]] = {}
    for table, middle, others in (
        ("link", "between", "between"),
        ("radio", "base", "stations"),
        ("wlan", "access_point", "stations"),
    ):
        for name, own in tables.get(table, {}).items():
            pairs = [own["between"]] if table == "link" else [(own[middle], x) for x in own[others]]
            for one, other in pairs:
                joins.setdefault(one, []).append((other, table, name))
                joins.setdefault(other, []).append((one, table, name))
    way: dict[str, list[tuple[str, str]]] = {begin: []}
    queue = [begin]
    for host in queue:
        for other, table, name in joins.get(host, []):
            if other not in way:
                way[other] = [*way[host], (table, name)]
                queue.append(other)
    for table, name in way[end]:
        own = tables[table][name]
        fastest = "1201 Mbps" if own.get("standard") in HIGH else "54 Mbps"
        rate = own.get("rate", fastest if table == "wlan" else None)
        if (
            table != "radio"
            and "reverse" not in own
            and isinstance(rate, str)
            and rate != "unlimited"
        ):
            yield table, name, _bps(rate)


def _bps(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"bps": 1, "kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9}[unit]


def _bytes(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"B": 1, "kB": 1e3}[unit]


def verdict(seed: int, number: int) -> tuple[int, Tables, str, float]:
    """The scenario with this number, its faults, and the time of the check in seconds."""
    begun = time.perf_counter()
    tables = scenario(seed, number)
    try:
        check(tables)
        fault = ""
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # A panic of the engine is not an `Exception`.
        fault = f"{type(error).__name__}: {error}"
    return number, tables, fault, time.perf_counter() - begun


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Checks scenarios; returns 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("count", 5000), ("seed", 1), ("first", 0), ("jobs", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args(arguments)
    numbers = range(asked.first, asked.first + asked.count)
    kinds: Counter[tuple[str, str]] = Counter()
    failed, slowest, begun = 0, (0.0, 0), time.perf_counter()
    with ProcessPoolExecutor(asked.jobs) as pool:
        chunks = pool.map(verdict, [asked.seed] * asked.count, numbers, chunksize=20)
        for number, tables, fault, seconds in chunks:
            kinds.update(set(kinds_in(tables)))
            slowest = max(slowest, (seconds, number))
            if fault:
                failed += 1
                _say(f"scenario {number}: {fault}\n{json.dumps(tables)}\n")
    missing = sorted(set(unions()) - set(kinds))
    _say(f"{asked.count} scenarios, {failed} failed, {time.perf_counter() - begun:.0f} s")
    _say(f"the slowest, {slowest[1]}, took {slowest[0]:.1f} s")
    _say(f"kinds that none of them had: {missing}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
