"""Measure the cost of storing results, the utilization of the cores, and the time of queries.

Usage: python benches/campaign.py [--replications 2000] [--rows 1000000] [--sweep]

1. A sweep of two points, about 10 ms per replication, alternately with and without a campaign:
   median time; processor time compared with that of the replications themselves; and the fraction
   of time in which the threads that run replications had work, whether or not they had a core.
2. Maximum resident set size of a process that runs few replications, and ten times as many.
3. Queries on a folder of a million rows.

--sweep measures only the first. The date, the number of cores and their load are printed first:
other work affects the times.
"""

# ruff: noqa: S603, T201

from __future__ import annotations

import argparse
import datetime
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

import lasthop
from lasthop.running.campaign import store

SCENARIO = """
name = "bench"
[link.wireless]
between = ["server", "client"]
rate = "2 Mbps"
delay = "50 ms"
errors = { kind = "uniform", loss = "1 %" }
protocol = { kind = "selective-repeat", window = 64 }
[flow.transfer]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "sack", profile = "rfc", segment = "500 B" }
app = { kind = "file", size = "SIZE" }
[sweep]
"link.wireless.errors.loss" = [0.01, 0.02]
[run]
seed = 1
"""


def scenario(size: str) -> lasthop.Scenario:
    """The scenario with a file of the given size."""
    return lasthop.Scenario.from_toml(SCENARIO.replace("SIZE", size))


def of_cost(milliseconds: float) -> lasthop.Scenario:
    """The scenario with a file size such that a replication takes about this time."""
    with tempfile.TemporaryDirectory() as folder:
        cost = lasthop.Campaign(folder).plan(scenario("1000 kB"), replications=1).cost_s
    one = (cost or 1.0) / 2.0
    return scenario(f"{max(1, round(1000 * milliseconds * 1e-3 / one))} kB")


class Idleness(threading.Thread):
    """Measures how long the threads that run replications ran or waited for a core (Linux)."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: dict[int, tuple[float, float, float, float]] = {}
        self.over = threading.Event()

    def run(self) -> None:
        """Sample the threads five times per second."""
        while not self.over.wait(0.2):
            for task in Path("/proc/self/task").iterdir():
                try:
                    if (task / "comm").read_text(encoding="utf-8").strip() != "replications":
                        continue
                    ran, waited, _ = (task / "schedstat").read_text(encoding="utf-8").split()
                except OSError:
                    continue
                now, used = time.monotonic(), (int(ran) + int(waited)) * 1e-9
                start, first, *_ = self.seen.get(int(task.name), (now, used))
                self.seen[int(task.name)] = (start, first, now, used)

    def share(self) -> float:
        """Fraction of time in which the threads were not idle."""
        self.over.set()
        self.join()
        used = sum(last - first for _, first, _, last in self.seen.values())
        return used / sum(now - start for start, _, now, _ in self.seen.values())


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock time and processor time in seconds."""
    start, used = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - start, time.process_time() - used


def overhead(replications: int, rounds: int) -> None:
    """Compare a sweep with and without a campaign."""
    swept = of_cost(10.0)
    each = replications // 2
    plain, kept, costs, busy = [], [], [], []
    for _ in range(rounds):
        plain.append(timed(lambda: lasthop.run(swept, replications=each)))
        with tempfile.TemporaryDirectory() as folder:
            one = lasthop.Campaign(folder)
            idleness = Idleness()
            idleness.start()
            kept.append(timed(lambda one=one: one.run(swept, replications=each)))
            busy.append(idleness.share())
            costs.append(one.frame("").collect()["cost_s"].sum())

    def seconds(what: list[tuple[float, float]]) -> tuple[float, float]:
        return statistics.median(s for s, _ in what), statistics.median(c for _, c in what)

    (wall, cpu), (kept_wall, kept_cpu) = seconds(plain), seconds(kept)
    cost = float(statistics.median(costs))
    print(f"{replications} replications of {1e3 * cost / replications:.1f} ms:")
    print(f"  without campaign   {wall:.2f} s, {cpu:.2f} s of processor time")
    print(
        f"  with campaign      {kept_wall:.2f} s ({100 * (kept_wall / wall - 1):+.1f} %), "
        f"{kept_cpu:.2f} s of processor time, {100 * (kept_cpu / cost - 1):.1f} % more than "
        f"{cost:.2f} s in replications"
    )
    print(f"  in replications    {100 * cost / kept_cpu:.1f} % of the processor time")
    print(f"  threads not idle   {100 * statistics.median(busy):.1f} % of their time")


def memory(replications: int) -> None:
    """Print the maximum resident set size for some replications, and for ten times as many."""
    sizes = []
    for count in (replications, 10 * replications):
        done = subprocess.run(
            [sys.executable, __file__, "--child", str(count)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        sizes.append(float(done.stdout))
        print(f"largest size with {count} replications: {sizes[-1]:.1f} MB")
    print(f"  {sizes[1] / sizes[0]:.3f} times as much for ten times as many")


def child(replications: int) -> None:
    """Run without reading the results, whose size depends on the number of replications."""
    with tempfile.TemporaryDirectory() as folder:
        lasthop.Campaign(folder).record(scenario("20 kB"), replications=replications // 2)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0)


def question(rows: int) -> None:
    """Time a query on many rows, in parts like those of a long campaign."""
    swept = scenario("1 kB").sweep({"link.wireless.delay": [f"{n} ms" for n in range(1, 11)]})
    with tempfile.TemporaryDirectory() as folder:
        kept = lasthop.Campaign(folder)
        metrics = kept.run(swept, replications=1).metrics
        own = store.Store(Path(folder))
        draw = np.random.default_rng(1)
        part = 1000
        with own.locked():
            start = time.perf_counter()
            for number in range(rows // part):
                point = np.full(part, 1 + number % 20, dtype=np.uint32)
                first = 1 + number // 20 * part
                replication = np.arange(first, first + part, dtype=np.uint64)
                values = draw.random((part, len(metrics)))
                own.add_part(
                    store.Rows(point, replication, draw.random(part), values),
                    metrics,
                    seed=1,
                    engine=1,
                )
            wrote = time.perf_counter() - start
        files = list((Path(folder) / "parts").iterdir())
        size = sum(path.stat().st_size for path in files) / 1e6
        print(
            f"{rows} rows of {len(metrics)} metrics: {len(files)} parts, {size:.0f} MB, "
            f"written and merged in {wrote:.1f} s"
        )
        for name, ask in (
            ("SQL, mean of a metric by point", lambda: kept.query(BY_POINT)),
            ("SQL, mean where a key has a value", lambda: kept.query(WHERE)),
            ("all rows of one point", lambda: one_point(kept)),
        ):
            times = []
            for _ in range(5):
                start = time.perf_counter()
                ask()
                times.append(time.perf_counter() - start)
            print(f"  {name}: {statistics.median(times):.3f} s")


BY_POINT = 'SELECT point, avg("flow.transfer.goodput_bps") FROM results GROUP BY point'
WHERE = (
    'SELECT avg("flow.transfer.duration_s") FROM results WHERE "link.wireless.errors.loss" = 0.02'
)


def one_point(kept: lasthop.Campaign) -> None:
    """Read every metric of a point."""
    kept.frame().filter(pl.col("point") == 3).collect()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--replications", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sweep", action="store_true", help="only the first part")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child)
        return
    today, load = datetime.date.today().isoformat(), os.getloadavg()[0]
    print(f"{today}, {os.cpu_count()} cores, load {load:.1f}\n")
    overhead(arguments.replications, arguments.rounds)
    if arguments.sweep:
        return
    memory(arguments.replications)
    question(arguments.rows)


if __name__ == "__main__":
    main()
