"""What a cluster costs, and what survives on it.

    .venv/bin/python benches/cluster.py cost     # processor time of coordinator and scheduler
    .venv/bin/python benches/cluster.py share    # processor time of workers that the engine has
    .venv/bin/python benches/cluster.py kills    # 20 kill -9 of workers, 5 of coordinators

Processor time is read from /proc, so that other work on the machine does not matter.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import distributed

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
transport = { kind = "tcp", variant = "sack" }
app = { kind = "file", size = "20 MB" }
[sweep]
"link.radio.errors.loss" = ["1 %", "2 %", "5 %", "8 %"]
"""
TICKS = os.sysconf("SC_CLK_TCK")


def say(text: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def processor_s(process: int) -> float:
    """Processor seconds of a process, all threads."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def processes(workers: int, folder: Path) -> Iterator[tuple[clusters.Cluster, int]]:
    """A scheduler and workers, processes of their own; the cluster, the scheduler's number."""
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
    """Processor time of the coordinator and of the scheduler for each task."""
    clusters.TASK_S = 1e-9  # a task is one replication, and short
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
    """Processor time in the engine over all processor time of the workers."""
    scenario = lasthop.Scenario.from_toml(SCENARIO).with_({"flow.transfer.app.size": "100 MB"})
    with processes(2, folder) as (cluster, _):
        campaign = lasthop.Campaign(folder / "share", cluster=cluster)
        campaign.record(scenario, replications=20)
        numbers = list(cluster.client.run(os.getpid).values())
        before = sum(processor_s(number) for number in numbers)
        costs = float(campaign.frame("").collect()["cost_s"].sum())
        began = time.monotonic()
        count = 20
        while time.monotonic() - began < 40.0:
            count *= 2
            campaign.record(scenario, replications=count)
        spent = sum(processor_s(number) for number in numbers) - before
        frame = campaign.frame("").collect()
        engine = float(frame["cost_s"].sum()) - costs
        each = float(frame["cost_s"].mean())  # type: ignore[arg-type]
        say(
            f"{len(frame)} replications of {1e3 * each:.1f} ms: {engine:.1f} s in the engine of "
            f"{spent:.1f} s of the workers' processor time, {100 * engine / spent:.1f} %"
        )


def kills(folder: Path) -> None:
    """Kills workers and coordinators, and compares the rows with those computed here."""
    (folder / "bench.toml").write_text(SCENARIO, encoding="utf-8")
    count = 2000
    here = lasthop.run(folder / "bench.toml", replications=count).frame.write_csv()
    rng = random.Random(1)  # noqa: S311 - no secret
    for workers in (1, 2, 4):
        with clusters.connect(f"local:{workers}") as cluster:
            there = lasthop.Campaign(folder / f"same{workers}", cluster=cluster).run(
                folder / "bench.toml", replications=count
            )
            say(f"{workers} workers: same bytes {there.frame.write_csv() == here}")
    store = folder / "killed"
    program = (
        "import sys, lasthop\n"
        "from lasthop import cluster\n"
        "from lasthop.campaign import campaign\n"
        "campaign.PART_S, campaign.PART_SHARE = 0.2, 0.0\n"
        "with cluster.connect(sys.argv[1]) as there:\n"
        "    lasthop.Campaign(sys.argv[2], cluster=there).record(\n"
        "        lasthop.load(sys.argv[3]), replications=int(sys.argv[4]))\n"
    )
    clusters.TASK_S = 0.2
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as local,
        distributed.Client(local) as client,
    ):
        worker_kills = coordinator_kills = 0
        while coordinator_kills < 5:
            arguments = [local.scheduler_address, str(store), str(folder / "bench.toml")]
            command = [sys.executable, "-c", program, *arguments, str(count)]
            process = subprocess.Popen(command)  # noqa: S603 - our own command
            for _ in range(5):
                time.sleep(rng.uniform(0.5, 2.0))
                alive = list(client.run(os.getpid, on_error="ignore").values())
                if alive:
                    os.kill(rng.choice(alive), signal.SIGKILL)
                    worker_kills += 1
            time.sleep(rng.uniform(0.2, 1.0))
            process.kill()
            process.wait()
            coordinator_kills += 1
        kept = len(lasthop.Campaign(store).frame("").collect())
        there = lasthop.Campaign(store, cluster=clusters.connect(client)).run(
            folder / "bench.toml", replications=count
        )
        same = there.frame.write_csv() == here
    say(
        f"{worker_kills} workers and {coordinator_kills} coordinators killed, {kept} of "
        f"{4 * count} replications kept by then: same bytes {same}"
    )


def main() -> None:
    """Runs what is named."""
    known = {"cost": cost, "share": share, "kills": kills}
    if len(sys.argv) != 2 or sys.argv[1] not in known:
        say(__doc__ or "")
        sys.exit(2)
    with tempfile.TemporaryDirectory() as folder:
        known[sys.argv[1]](Path(folder))


if __name__ == "__main__":
    main()
