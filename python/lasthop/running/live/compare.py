"""Comparison of the kernel's TCP over live links with simulated transfers, by replication."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from lasthop import _lasthop
from lasthop.running.live.session import LiveError, Program, Session
from lasthop.scenarios.explain.quantities import UNLIMITED_BPS
from lasthop.scenarios.scenario import Scenario

__all__ = ["METRICS", "compare", "table"]

# Metrics that both report, by their names in a simulated flow.
METRICS = ("goodput_bps", "timeouts", "tail_probes", "retransmissions")

# Maximum relative difference of goodputs that agree; means within each other's 95 % confidence
# interval agree, too.
TOLERANCE = 0.05

# Maximum lateness in an undisturbed transfer: the 99th percentile of deliveries per RTT, the
# maximum of deliveries per drain time of the smallest queue, and the maximum of programs per RTT.
LATE_ROUND_TRIPS = 0.05
LATE_QUEUES = 0.25
LATE_PROGRAMS = 0.25

# Congestion control algorithm of the kernel, by variant.
CONGESTION = {"reno": "reno", "newreno": "reno", "sack": "reno"}

Progress = Callable[[int, int], None]


class Cell:
    """One point of a scenario: kernel parameters and transfer."""

    def __init__(self, point: _lasthop.Point, base: str) -> None:
        """Uses the first flow of the point, which must be a file over TCP."""
        self.parameters: dict[str, Any] = json.loads(point.parameters)
        tables = json.loads(point.to_json())
        name, flow = next(iter(tables["flow"].items()))
        transport, app = flow["transport"], flow["app"]
        if transport["kind"] != "tcp" or app["kind"] != "file":
            raise _lasthop.ScenarioError(
                f"invalid first flow `{name}`, {app['kind']} over {transport['kind']}: expected "
                "a file over tcp, for the comparison with the kernel"
            )
        self.flow, self.sender, self.receiver = name, flow["from"], flow["to"]
        # The engine prints sizes with units.
        self.size = _bytes(app["size"])
        self.congestion, self.sysctls = kernel(f"flow.{name}.transport", transport)
        transport["profile"] = "linux"
        if transport.get("receive_window") is None and transport.get("autotuning") is not False:
            # The devices of the live links do not accept GSO segments.
            transport["segmentation_offload"] = False
        tables["flow"] = {name: flow}
        resolved = json.loads(Scenario(tables, base=base).points()[0].resolved())
        # The kernel fills packets up to the MTU, which is set to the simulated packet size.
        packet = resolved["flows"][name]["packets"][0]
        self.drain_s = drain_time(resolved, name)
        self.propagation_s = propagation_time(resolved, name)
        for link, keys in tables.get("link", {}).items():
            keys["mtu"] = f"{min(packet, resolved['links'][link]['mtu'])} B"
        self.scenario = Scenario(tables, base=base)


def drain_time(resolved: Mapping[str, Any], flow: str) -> float:
    """Returns the shortest time in which a full drop-tail queue on the path of a flow is sent.

    Queues in packets are full of the flow's largest packets. Infinite without such queues.
    """
    packet = resolved["flows"][flow]["packets"][0]
    times = [math.inf]
    for link, direction, _ in resolved["flows"][flow]["route"]:
        own = resolved["links"][link][direction]
        size = own["queue"].get("bytes", own["queue"].get("packets", math.inf) * packet)
        if 0 < own["rate"] < UNLIMITED_BPS:
            times.append(8 * size / own["rate"])
    return min(times)


def propagation_time(resolved: Mapping[str, Any], flow: str) -> float:
    """Returns the minimum propagation delay of a flow's path in both directions, in seconds."""
    hops = [*resolved["flows"][flow]["route"], *resolved["flows"][flow]["back"]]
    delays = (resolved["links"][link][direction]["delays"] for link, direction, _ in hops)
    return math.fsum(map(min, delays))


def lateness_limits(round_trip_s: float, drain_s: float) -> dict[str, float]:
    """Returns the maximum lateness in an undisturbed transfer, in seconds.

    For deliveries, the 99th percentile may be 5 % of the minimum RTT, because all deliveries
    extend the RTT. The maximum may be a quarter of the drain time of the smallest queue:
    packets that the driver has delayed arrive at the queue together. It may not exceed the RTT,
    after which tail probes are sent. A program may wait for a processor for a quarter of the RTT:
    the send buffer of Linux has twice the size of the congestion window and accepts data when a
    third is free.
    """
    return {
        "p99_s": LATE_ROUND_TRIPS * round_trip_s,
        "max_s": min(LATE_QUEUES * drain_s, round_trip_s),
        "programs_s": LATE_PROGRAMS * round_trip_s,
    }


def _bytes(text: str) -> int:
    """Parses a size printed by the engine: number and unit."""
    number, unit = text.split()
    return round(float(number) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit])


def kernel(path: str, transport: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Returns the kernel's congestion control algorithm and parameters for a transport.

    Raises:
        lasthop.ScenarioError: If the kernel lacks the algorithm.
    """
    variant = transport["variant"]
    wanted = CONGESTION.get(variant, variant)
    listed = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    known = listed.read_text("ascii").split() if listed.exists() else []
    if wanted not in known:
        raise _lasthop.ScenarioError(
            f"invalid value `{variant}` for `{path}.variant`: expected a congestion control "
            f"algorithm of this kernel: {', '.join(sorted(known))}"
        )
    chosen = {}
    for key, name in (("sack", "tcp_sack"), ("timestamps", "tcp_timestamps"), ("ecn", "tcp_ecn")):
        if transport.get(key) is not None:
            chosen[f"net.ipv4.{name}"] = "1" if transport[key] else "0"
    return wanted, chosen


def transfer(cell: Cell, replication: int, seed: int | None, spin_s: float = 0.0) -> dict[str, Any]:
    """Runs one transfer by the kernel; returns the sender's counters and the links' lateness.

    The transfer is `disturbed` if the driver or a program was later than its `lateness_limits`.

    Raises:
        LiveError: If the transfer did not finish, or the file was corrupted.
    """
    program = (sys.executable, "-P", "-m", "lasthop.running.live.transfer")
    size, number = str(cell.size), str(replication)
    with tempfile.TemporaryFile() as output:
        session = Session(
            cell.scenario,
            [
                Program(cell.receiver, [*program, "receive", size, number]),
                Program(
                    cell.sender, [*program, "send", cell.receiver, size, number, cell.congestion]
                ),
            ],
            seed=seed,
            replication=replication,
            sysctls=cell.sysctls,
            spin_s=spin_s,
            offload=False,
            output=output.fileno(),
        )
        messages = list(session.run())
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    found = next((line for line in text.splitlines() if line.startswith("{")), None)
    if found is None or messages[-1]["code"] != 0:
        raise LiveError(f"replication {replication}: the transfer failed: {text.strip()[-300:]}")
    result: dict[str, Any] = json.loads(found)
    end = messages[-1]
    late = {**end["lateness"], "programs_s": result.pop("programs_late_s")}
    # The minimum RTT of a link, which includes a transmission, or of all links of the path.
    round_trip_s = max(end["round_trip_s"], cell.propagation_s)
    limits = lateness_limits(round_trip_s, cell.drain_s)
    result |= {f"lateness_{name}": late[name] for name in limits}
    result["lateness_limits"] = limits
    result["disturbed"] = any(late[name] > limit for name, limit in limits.items())
    metrics = dict(end["metrics"])
    drops = [value for name, value in metrics.items() if name.endswith(".queue_drops")]
    result["queue_drops"] = sum(drops)
    return result


def repeated(
    cell: Cell, replication: int, seed: int | None, *, spin_s: float, retries: int
) -> dict[str, Any]:
    """Runs a transfer, and repeats it up to `retries` times while it is disturbed.

    Returns the last result, with the results of those before as `earlier`. Goodput does not
    affect the decision.
    """
    earlier: list[dict[str, Any]] = []
    while True:
        result = transfer(cell, replication, seed, spin_s)
        if not result["disturbed"] or len(earlier) == retries:
            return {**result, "earlier": earlier}
        earlier.append(result)


def compare(
    scenario: Scenario,
    *,
    replications: int,
    seed: int | None = None,
    jobs: int = 4,
    spin_s: float = 0.0,
    retries: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Runs every point of a scenario live and simulated.

    Args:
        scenario: Scenario whose first flow is a file over TCP; its profile is set to `linux`.
        replications: Transfers per point; replication k has the same losses in both.
        seed: Master seed; default: the scenario's.
        jobs: Number of concurrent live runs, which need little processor time without `spin_s`.
        spin_s: Time before a delivery in which the driver polls instead of sleeping, in seconds.
        retries: Maximum number of repetitions of each disturbed transfer.
        progress: Called with (finished transfers, total transfers).

    Returns:
        Environment and date, failed transfers with reasons, and the replications and summary of
        each point, as described in `docs/live.md`.

    Raises:
        lasthop.ScenarioError: If the kernel lacks the TCP variant, or a link cannot process real
            packets.
    """
    from lasthop.running.replications import run

    cells = [Cell(point, scenario.base) for point in scenario.points()]
    work = [(cell, number) for cell in cells for number in range(replications)]
    lives: dict[tuple[int, int], dict[str, Any]] = {}
    failures: list[str] = []
    start = time.time()
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = {
            pool.submit(repeated, cell, number, seed, spin_s=spin_s, retries=retries): (
                index // replications,
                number,
            )
            for index, (cell, number) in enumerate(work)
        }
        try:
            for done, future in enumerate(as_completed(futures), 1):
                try:
                    lives[futures[future]] = future.result()
                except LiveError as error:
                    # The others continue; failures are reported and excluded from means.
                    failures.append(str(error))
                if progress is not None:
                    progress(done, len(futures))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    points = []
    for index, cell in enumerate(cells):
        found = run(cell.scenario, replications=replications, seed=seed, jobs=1)
        simulated = {
            name: found.samples(f"flow.{cell.flow}.{name}", 0).tolist() for name in METRICS
        }
        rows: list[dict[str, Any]] = [
            {
                "replication": number,
                "live": lives[index, number],
                "simulated": {name: simulated[name][number] for name in METRICS},
            }
            for number in range(replications)
            if (index, number) in lives
        ]
        points.append(
            {
                "parameters": cell.parameters,
                "replications": rows,
                "disturbed": sum(bool(row["live"]["disturbed"]) for row in rows),
                "repetitions": sum(len(row["live"]["earlier"]) for row in rows),
                "summary": _summary(rows),
            }
        )
    return {
        "scenario": scenario.name,
        "engine": _lasthop.__version__,
        "kernel": platform.release(),
        "date": time.strftime("%Y-%m-%d", time.gmtime(start)),
        "seconds": time.time() - start,
        "jobs": jobs,
        "spin_s": spin_s,
        "retries": retries,
        "load": os.getloadavg()[0],
        "processors": os.cpu_count(),
        "failures": failures,
        "points": points,
    }


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns means with 95 % confidence intervals of both and of their difference, by metric."""
    from lasthop.evaluating.statistics import difference, interval

    summary = {}
    for name in METRICS:
        live = [float(row["live"][name]) for row in rows]
        simulated = [float(row["simulated"][name]) for row in rows]
        own, other, gap = interval(live), interval(simulated), difference(live, simulated)
        apart = abs(own.mean - other.mean)
        near = apart <= TOLERANCE * abs(own.mean)
        summary[name] = {
            "live": {"mean": own.mean, "ci95": own.ci95},
            "simulated": {"mean": other.mean, "ci95": other.ci95},
            "live_minus_simulated": {"mean": gap.mean, "ci95": gap.ci95},
            "agrees": bool(near or (apart <= own.ci95 and apart <= other.ci95)),
        }
    return summary


def table(result: Mapping[str, Any]) -> str:
    """Returns the comparison as a Markdown table: a row per point, * if goodputs disagree."""
    names = list(dict.fromkeys(key for point in result["points"] for key in point["parameters"]))
    heads = [name.rpartition(".")[2] for name in names]
    heads += [
        "live, Mbps",
        "simulated, Mbps",
        "difference",
        "timeouts",
        "tail probes",
        "retransmissions",
        "disturbed",
    ]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for point in result["points"]:
        row = [_word(point["parameters"].get(name)) for name in names]
        goodput = point["summary"]["goodput_bps"]
        live, simulated = goodput["live"], goodput["simulated"]
        row += [_mbps(live), _mbps(simulated)]
        share = simulated["mean"] / live["mean"] - 1
        row.append(f"{100 * share:+.1f} %{'' if goodput['agrees'] else ' *'}")
        for name in METRICS[1:]:
            counts = point["summary"][name]
            row.append(f"{counts['live']['mean']:.1f} / {counts['simulated']['mean']:.1f}")
        repetitions = f", {point['repetitions']} repeated" if point["repetitions"] else ""
        row.append(f"{point['disturbed']} of {len(point['replications'])}{repetitions}")
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def _mbps(estimate: Mapping[str, float]) -> str:
    return f"{estimate['mean'] / 1e6:.3f} ± {estimate['ci95'] / 1e6:.3f}"


def _word(value: object) -> str:
    """Returns a swept value for a cell; a table by its kind."""
    if isinstance(value, Mapping):
        return str(value.get("kind", dict(value)))
    return str(value)
