"""A kernel's TCP behind live links against the same transfers simulated, paired by replication."""

from __future__ import annotations

import json
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
from lasthop.scenarios.scenario import Scenario

__all__ = ["METRICS", "compare", "table"]

# What both tell, by the name of the metric of a simulated flow.
METRICS = ("goodput_bps", "timeouts", "tail_probes", "retransmissions")

# Goodputs that differ by no more agree; so do means that lie within each other's 95 % interval.
TOLERANCE = 0.05

# Congestion control of the kernel, by variant.
CONGESTION = {"reno": "reno", "newreno": "reno", "sack": "reno"}

Progress = Callable[[int, int], None]


class Cell:
    """One point of a scenario: its kernel's parameters and its transfer."""

    def __init__(self, point: _lasthop.Point, base: str) -> None:
        """Takes the first flow of the point, which must be a file over TCP."""
        self.parameters: dict[str, Any] = json.loads(point.parameters)
        tables = json.loads(point.to_json())
        name, flow = next(iter(tables["flow"].items()))
        transport, app = flow["transport"], flow["app"]
        if transport["kind"] != "tcp" or app["kind"] != "file":
            raise _lasthop.ScenarioError(
                f"flow.{name}: found {app['kind']!r} over {transport['kind']}; allowed: a file "
                "over tcp as the first flow, which a kernel sends too"
            )
        self.flow, self.sender, self.receiver = name, flow["from"], flow["to"]
        # The engine alone knows units; its resolved numbers have the file in bytes.
        self.size = _bytes(app["size"])
        self.congestion, self.sysctls = kernel(f"flow.{name}.transport", transport)
        transport["profile"] = "linux"
        if transport.get("receive_window") is None and transport.get("autotuning") is not False:
            # The devices of live links take one segment at a time.
            transport["segmentation_offload"] = False
        tables["flow"] = {name: flow}
        resolved = json.loads(Scenario(tables, base=base).points()[0].resolved())
        # The kernel fills packets up to the MTU: those of the simulation are as large.
        packet = resolved["flows"][name]["packets"][0]
        for link, keys in tables.get("link", {}).items():
            keys["mtu"] = f"{min(packet, resolved['links'][link]['mtu'])} B"
        self.scenario = Scenario(tables, base=base)


def _bytes(text: str) -> int:
    """A size as the engine prints it: a number and its unit."""
    number, unit = text.split()
    return round(float(number) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit])


def kernel(path: str, transport: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """The congestion control and the parameters of a kernel whose TCP is this one.

    Raises:
        lasthop.ScenarioError: If it has none such.
    """
    variant = transport["variant"]
    wanted = CONGESTION.get(variant, variant)
    listed = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    known = listed.read_text("ascii").split() if listed.exists() else []
    if wanted not in known:
        raise _lasthop.ScenarioError(
            f"{path}.variant: found {variant!r}, which this kernel does not have; allowed: "
            f"{', '.join(sorted(known))}"
        )
    chosen = {}
    for key, name in (("sack", "tcp_sack"), ("timestamps", "tcp_timestamps"), ("ecn", "tcp_ecn")):
        if transport.get(key) is not None:
            chosen[f"net.ipv4.{name}"] = "1" if transport[key] else "0"
    return wanted, chosen


def transfer(cell: Cell, replication: int, seed: int | None) -> dict[str, Any]:
    """One transfer by the kernel: what the sender counted, and how late the links were.

    Raises:
        LiveError: If it did not finish, or the file was not the same.
    """
    program = (sys.executable, "-P", "-m", "lasthop.running.live.transfer")
    size, number = str(cell.size), str(replication)
    with tempfile.TemporaryFile() as told:
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
            output=told.fileno(),
        )
        messages = list(session.run())
        told.seek(0)
        text = told.read().decode("utf-8", "replace")
    found = next((line for line in text.splitlines() if line.startswith("{")), None)
    if found is None or messages[-1]["code"] != 0:
        raise LiveError(f"replication {replication}: the transfer failed: {text.strip()[-300:]}")
    result: dict[str, Any] = json.loads(found)
    end = messages[-1]
    result["lateness_p99_s"] = end["lateness"]["p99_s"]
    metrics = dict(end["metrics"])
    drops = [value for name, value in metrics.items() if name.endswith(".queue_drops")]
    result["queue_drops"] = sum(drops)
    return result


def compare(
    scenario: Scenario,
    *,
    replications: int,
    seed: int | None = None,
    jobs: int = 4,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Runs every point of a scenario both ways.

    Args:
        scenario: Its first flow is a file over TCP; the profile is taken to be `linux`.
        replications: Transfers a point; replication k of both meets the same losses.
        seed: Master seed; by default the scenario's.
        jobs: Live runs at a time: they take as long as they take, but little of a processor.
        progress: Told how many transfers are finished, and how many there are.

    Returns:
        Who measured and when, which transfers failed and why, and for each point its
        replications and their summary, as `docs/live.md` describes it.

    Raises:
        lasthop.ScenarioError: If a kernel has no such TCP, or a link has no form on real packets.
    """
    from lasthop.running.replications import run

    cells = [Cell(point, scenario.base) for point in scenario.points()]
    work = [(cell, number) for cell in cells for number in range(replications)]
    lives: dict[tuple[int, int], dict[str, Any]] = {}
    failures: list[str] = []
    start = time.time()
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = {
            pool.submit(transfer, cell, number, seed): (index // replications, number)
            for index, (cell, number) in enumerate(work)
        }
        try:
            for done, future in enumerate(as_completed(futures), 1):
                try:
                    lives[futures[future]] = future.result()
                except LiveError as error:
                    # The others go on; what failed is told, and no part of any mean.
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
        rows = [
            {
                "replication": number,
                "live": lives[index, number],
                "simulated": {name: simulated[name][number] for name in METRICS},
            }
            for number in range(replications)
            if (index, number) in lives
        ]
        points.append(
            {"parameters": cell.parameters, "replications": rows, "summary": _summary(rows)}
        )
    return {
        "scenario": scenario.name,
        "engine": _lasthop.__version__,
        "kernel": platform.release(),
        "date": time.strftime("%Y-%m-%d", time.gmtime(start)),
        "seconds": time.time() - start,
        "jobs": jobs,
        "load": os.getloadavg()[0],
        "processors": os.cpu_count(),
        "failures": failures,
        "points": points,
    }


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means with intervals of both, and of their difference, by metric."""
    from lasthop.evaluating.statistics.means import difference, interval

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
    """The comparison as a Markdown table: a row a point, * where goodputs do not agree."""
    names = list(dict.fromkeys(key for point in result["points"] for key in point["parameters"]))
    heads = [name.rpartition(".")[2] for name in names]
    heads += [
        "live, Mbps",
        "simulated, Mbps",
        "difference",
        "timeouts",
        "tail probes",
        "sent again",
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
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def _mbps(estimate: Mapping[str, float]) -> str:
    return f"{estimate['mean'] / 1e6:.3f} ± {estimate['ci95'] / 1e6:.3f}"


def _word(value: object) -> str:
    """A swept value in a cell of the table: of a table its kind."""
    if isinstance(value, Mapping):
        return str(value.get("kind", dict(value)))
    return str(value)
