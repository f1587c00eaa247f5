"""Overhead of a cluster, and its tolerance of killed processes.

    .venv/bin/python benches/cluster.py cost     # processor time of coordinator and scheduler
    .venv/bin/python benches/cluster.py share    # fraction of the workers' time in the engine
    .venv/bin/python benches/cluster.py hours    # this fraction over four hours, simulated
    .venv/bin/python benches/cluster.py kills    # 20 kill -9 of workers, 5 of coordinators

Processor time is read from /proc, so that other work on the machine does not matter.
"""

from __future__ import annotations

import faulthandler
import heapq
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import lasthop
from lasthop import cluster as clusters

SCENARIO = """
name = "bench"
[link.radio]
between = ["a", "b"]
rate = "2 Mbps"
delay = "20 ms"
errors = { kind = "uniform", loss = "2 %" }
[flow.transfer]
from = "a"
to = "b"
transport = { kind = "tcp", variant = "sack", profile = "rfc" }
app = { kind = "file", size = "20 MB" }
[sweep]
"link.radio.errors.loss" = ["1 %", "2 %", "5 %", "8 %"]
"""
TICKS = os.sysconf("SC_CLK_TCK")
# Replications of each of four points: 80 s of processor time at 10 ms.
SHARE_REPLICATIONS = 2000
# Replications per point for `kills`, at 2.5 ms: a minute of processor time, longer than the
# lifetime of five coordinators. Time limits in seconds: in total, and until a coordinator has
# stored rows.
KILLS_REPLICATIONS, KILLS_S, ROUND_S = 6000, 1500, 60
# Replications without kills.
SAME_REPLICATIONS = 1000


def say(text: str) -> None:
    """Prints a line immediately."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def processor_s(process: int) -> float:
    """Processor time of a process in seconds, including all threads."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def processes(workers: int, folder: Path) -> Iterator[tuple[clusters.Cluster, int]]:
    """Starts a scheduler and workers as processes; yields the cluster and the scheduler's PID."""
    file = folder / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    python = [sys.executable, "-m", "distributed.cli"]
    started = [
        subprocess.Popen(  # noqa: S603 - our own command
            [*python[:2], "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard",
             "--scheduler-file", str(file)],
            **quiet,
        )
    ]  # fmt: skip
    started += [
        subprocess.Popen(  # noqa: S603 - our own command
            [*python[:2], "distributed.cli.dask_worker", "--scheduler-file", str(file),
             "--nthreads", "1", "--no-dashboard"],
            env=os.environ | clusters.worker_environment(),
            **quiet,
        )
        for _ in range(workers)
    ]  # fmt: skip
    try:
        while not file.exists():
            time.sleep(0.05)
        with clusters.connect(f"file:{file}") as cluster:
            cluster.client.wait_for_workers(workers, timeout=60)
            yield cluster, started[0].pid
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def cost(folder: Path) -> None:
    """Processor time of the coordinator and of the scheduler per task."""
    clusters.TASK_S = 1e-9  # a task is a single short replication
    small = lasthop.Scenario.from_toml(SCENARIO).with_({"flow.transfer.app.size": "200 kB"})
    with processes(2, folder) as (cluster, scheduler):
        for count in (250, 1000):
            before = time.process_time(), processor_s(scheduler)
            campaign = lasthop.Campaign(folder / f"cost{count}", cluster=cluster)
            campaign.record(small, replications=count)
            tasks = 4 * count
            own = (time.process_time() - before[0]) / tasks
            other = (processor_s(scheduler) - before[1]) / tasks
            say(f"{tasks} tasks: coordinator {1e3 * own:.2f}, scheduler {1e3 * other:.2f} ms each")


def share(folder: Path) -> None:
    """Fraction of the workers' processor time in the engine, with replications of 10 ms.

    The time of a worker before its first task (it loads Lasthop) is excluded: it occurs only once.
    """
    with processes(2, folder) as (cluster, _):
        campaign = lasthop.Campaign(folder / "share", cluster=cluster)
        size = 20.0
        for _ in range(3):  # finds the file size for which a transfer costs 10 ms
            scenario = lasthop.Scenario.from_toml(SCENARIO).with_(
                {"flow.transfer.app.size": f"{size:.0f} MB"}
            )
            campaign.record(scenario, replications=20)
            rows = campaign.frame("").collect().tail(80)
            size *= 0.010 / float(rows["cost_s"].mean())  # type: ignore[arg-type]
        numbers = list(cluster.client.run(os.getpid).values())
        before = sum(processor_s(number) for number in numbers)
        done = campaign.frame("").collect()
        costs, count = float(done["cost_s"].sum()), len(done)
        campaign.record(scenario, replications=SHARE_REPLICATIONS)
        spent = sum(processor_s(number) for number in numbers) - before
        frame = campaign.frame("").collect()
        engine = float(frame["cost_s"].sum()) - costs
        rows_done = len(frame) - count
        say(
            f"{rows_done} replications of {1e3 * engine / rows_done:.1f} ms: {engine:.1f} s in the "
            f"engine of {spent:.1f} s of the workers' processor time, {100 * engine / spent:.1f} %"
        )


class SimulatedClient:
    """A Dask client whose scheduler and workers exist in simulated time.

    Scheduler and coordinator process messages one by one, with the processor times measured by
    `cost`; workers have the times measured by `share`. Latencies are those of a busy local network.
    """

    COORDINATOR_S, ROW_S, SCHEDULER_S, LATENCY_S = 1.3e-3, 1.2e-6, 1.6e-3, 0.5e-3
    REPLICATION_S, TASK_OVERHEAD_S, ROW_OVERHEAD_S = 0.010, 19e-3, 22e-6

    def __init__(self, workers: int) -> None:
        """Creates workers that are idle at time 0."""
        self.now_s = 0.0
        self.engine_s = 0.0
        self._scheduler_s = 0.0
        self._free_s = [0.0] * workers
        self._load = [0] * workers
        self._events: list[tuple[float, int, str, SimulatedFuture, int]] = []
        self._number = 0
        self._random = np.random.default_rng(1)

    def nthreads(self) -> dict[str, int]:
        """One thread per worker."""
        return {str(worker): 1 for worker in range(len(self._free_s))}

    def submit(self, run: object, task: clusters.Task, *, key: str, **_: object) -> SimulatedFuture:
        """Sends a task to the scheduler."""
        del run
        future = SimulatedFuture(key, task)
        self._push(self.now_s + self.LATENCY_S, "submitted", future, -1)
        return future

    def _push(self, at: float, kind: str, future: SimulatedFuture, worker: int) -> None:
        self._number += 1
        heapq.heappush(self._events, (at, self._number, kind, future, worker))

    def advance(self) -> None:
        """Advances the simulated time until the coordinator has processed the result of a task."""
        while self._events:
            at, _, kind, future, worker = heapq.heappop(self._events)
            if kind == "returned":
                rows = sum(count for _, _, count in future.task.work)
                self.now_s = max(self.now_s, at) + self.COORDINATOR_S + rows * self.ROW_S
                future.finish()
                return
            # A task takes two messages to the scheduler.
            self._scheduler_s = max(self._scheduler_s, at) + 0.5 * self.SCHEDULER_S
            if kind == "submitted":
                worker = min(range(len(self._load)), key=lambda w: (self._load[w], self._free_s[w]))
                self._load[worker] += 1
                self._run(future, worker)
            else:
                self._load[worker] -= 1
                self._push(self._scheduler_s + self.LATENCY_S, "returned", future, worker)

    def _run(self, future: SimulatedFuture, worker: int) -> None:
        rows = sum(count for _, _, count in future.task.work)
        costs = self._random.gamma(10.0, self.REPLICATION_S / 10.0, rows)
        future.costs = costs
        self.engine_s += float(costs.sum())
        start = max(self._free_s[worker], self._scheduler_s + self.LATENCY_S)
        took = float(costs.sum()) + self.TASK_OVERHEAD_S + rows * self.ROW_OVERHEAD_S
        self._free_s[worker] = start + took
        self._push(start + took + self.LATENCY_S, "finished", future, worker)


class SimulatedFuture:
    """A task in progress in simulated time."""

    def __init__(self, key: str, task: clusters.Task) -> None:
        """Creates an unfinished task."""
        self.key, self.task = key, task
        self.costs = np.empty(0)
        self._callbacks: list[Callable[[SimulatedFuture], object]] = []

    def add_done_callback(self, callback: Callable[[SimulatedFuture], object]) -> None:
        """Registers the callback for the result."""
        self._callbacks.append(callback)

    def finish(self) -> None:
        """Marks the result as available."""
        for callback in self._callbacks:
            callback(self)

    def release(self) -> None:
        """Does nothing: no results are stored."""

    def result(self) -> clusters.Done:
        """Rows of zeros."""
        point = np.repeat(
            np.arange(len(self.task.work), dtype=np.uint32), [count for *_, count in self.task.work]
        )
        metrics = METRICS
        return clusters.Done(
            "simulated",
            self.task.engine,
            metrics,
            np.array([place for place, *_ in self.task.work], dtype=np.uint32)[point].tobytes(),
            np.zeros(point.size, dtype=np.uint64).tobytes(),
            self.costs.tobytes(),
            np.zeros((point.size, len(metrics))).tobytes(),
        )


METRICS = tuple(lasthop.Scenario.from_toml(SCENARIO).points()[0].metrics())


def hours(folder: Path) -> None:
    """The real coordinator assigns replications of 10 ms to workers in simulated time."""
    del folder
    points = lasthop.Scenario.from_toml(SCENARIO).points()
    for workers, seconds in ((4, 4 * 3600), (32, 1800), (256, 225)):
        client = SimulatedClient(workers)
        count = int(workers * seconds / client.REPLICATION_S) // len(points)
        work = [(place, 0, count, -1.0) for place in range(len(points))]
        stream = clusters.ClusterStream(clusters.Cluster(client), points, work, seed=1)
        rows = 0
        while (batch := stream.next(0.0)) is not None:
            rows += batch.rows
            client.advance()
        share_of = client.engine_s / (workers * client.now_s)
        say(
            f"{workers} workers, {client.now_s / 3600:.2f} h simulated, {rows} replications of "
            f"10 ms: {100 * share_of:.2f} % of the workers' time in the engine"
        )


def kills(folder: Path) -> None:
    """Kills workers and coordinators, and compares the rows with those computed locally.

    Only kills during a running campaign count. A round that does not end is aborted with a message.
    """
    faulthandler.dump_traceback_later(KILLS_S, exit=True)
    (folder / "bench.toml").write_text(SCENARIO, encoding="utf-8")
    total = 4 * KILLS_REPLICATIONS
    few = lasthop.run(folder / "bench.toml", replications=SAME_REPLICATIONS).frame.write_csv()
    for workers in (1, 2, 4):
        with clusters.connect(f"local:{workers}") as cluster:
            there = lasthop.Campaign(folder / f"same{workers}", cluster=cluster).run(
                folder / "bench.toml", replications=SAME_REPLICATIONS
            )
            say(f"{workers} workers: same bytes {there.frame.write_csv() == few}")
    here = lasthop.run(folder / "bench.toml", replications=KILLS_REPLICATIONS).frame.write_csv()
    say(f"here: {total} replications")
    store = folder / "killed"
    with clusters.connect("local:2") as cluster:
        kept = kill_rounds(cluster, store, folder / "bench.toml", total)
        there = lasthop.Campaign(store, cluster=cluster).run(
            folder / "bench.toml", replications=KILLS_REPLICATIONS
        )
        same = there.frame.write_csv() == here
    faulthandler.cancel_dump_traceback_later()
    say(f"completed from {kept} of {total} replications: same bytes {same}")


def kill_rounds(cluster: clusters.Cluster, store: Path, scenario: Path, total: int) -> int:
    """Kills five coordinators, each after four of its workers; returns the stored replications."""
    program = (
        "import sys, lasthop\n"
        "from lasthop import cluster\n"
        "from lasthop.running.campaign import campaign\n"
        "campaign.PART_S, campaign.PART_SHARE = 0.2, 0.0\n"
        "cluster.TASK_S = 0.2\n"
        "with cluster.connect(sys.argv[1]) as there:\n"
        "    lasthop.Campaign(sys.argv[2], cluster=there).record(\n"
        "        lasthop.load(sys.argv[3]), replications=int(sys.argv[4]))\n"
    )
    rng = random.Random(1)  # noqa: S311 - no secret
    address = cluster.client.scheduler.address
    arguments = [address, str(store), str(scenario), str(KILLS_REPLICATIONS)]
    worker_kills = kept = 0
    for coordinators in range(1, 6):
        process = subprocess.Popen([sys.executable, "-c", program, *arguments])  # noqa: S603 - our own command
        # A kill counts only if the coordinator has begun its work: wait for its first rows.
        before = kept
        waited(lambda before=before: kept_rows(store) > before, "rows of a coordinator")
        for _ in range(4):
            time.sleep(rng.uniform(0.5, 2.0))
            waited(lambda: bool(joined(cluster)), "a worker")
            if process.poll() is not None:
                raise SystemExit(f"kills: coordinator {coordinators} is done: nothing to kill")
            os.kill(rng.choice(joined(cluster)), signal.SIGKILL)
            worker_kills += 1
        time.sleep(rng.uniform(0.2, 1.0))
        process.kill()
        process.wait()
        kept = kept_rows(store)
        say(
            f"{worker_kills} workers and {coordinators} coordinators killed, {kept} of {total} "
            "replications kept"
        )
    return kept


def joined(cluster: clusters.Cluster) -> list[int]:
    """PIDs of the workers that the scheduler knows; querying a dead worker would take long."""
    cluster.threads()  # restarts workers that Dask has discarded
    known = cluster.client.scheduler_info(n_workers=-1)["workers"]
    local, _ = cluster._local
    return [nanny.pid for nanny in local.workers.values() if nanny.worker_address in known]


def waited(holds: Callable[[], bool], what: str) -> None:
    """Waits until a condition holds, up to a limit."""
    end = time.monotonic() + ROUND_S
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"kills: waited {ROUND_S} s for {what}")
        time.sleep(0.2)


def kept_rows(store: Path) -> int:
    """Replications that a campaign has on disk, while another process may be writing."""
    try:
        return len(lasthop.Campaign(store).frame("").collect())
    except (lasthop.CampaignError, OSError):
        return 0  # the folder is being created


def main() -> None:
    """Runs the named measurements."""
    known = {"cost": cost, "share": share, "hours": hours, "kills": kills}
    if len(sys.argv) != 2 or sys.argv[1] not in known:
        say(__doc__ or "")
        sys.exit(2)
    with tempfile.TemporaryDirectory() as folder:
        known[sys.argv[1]](Path(folder))


if __name__ == "__main__":
    main()
