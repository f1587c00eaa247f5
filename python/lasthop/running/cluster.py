"""Replications on a cluster of Dask workers.

    cluster = lasthop.cluster.connect("tcp://10.0.0.1:8786")   # or "local:4", "file:scheduler.json"
    lasthop.run("sweep.toml", cluster=cluster)
    lasthop.Campaign("results/loss", cluster=cluster).run("sweep.toml")

A worker computes rows and returns them. Only the *coordinator*, the process that connected, writes
the ledger of a campaign. Work is divided into tasks of about 1 s by measured cost, the most
expensive first. Few tasks are submitted at a time, so that new cost measurements are used and a
stop loses little. Workers may join, leave and be killed: Dask reassigns their tasks. Workers with
another engine are refused by address.

Rows depend only on point, seed and replication, so results are identical for any number of workers.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from lasthop import _lasthop
from lasthop.running.engine import Engine, engine
from lasthop.scenarios.arguments import Refused

__all__ = ["Cluster", "ClusterError", "ClusterStream", "connect", "worker_environment"]

# Processor seconds per task, and number of submitted tasks per thread of the cluster.
TASK_S, AHEAD = 1.0, 2
# Processor seconds of the scheduler per task (benches/cluster.py), and the maximum fraction of its
# time: above about 300 threads, the task length grows with the number of threads.
SCHEDULING_S, SCHEDULING_SHARE = 1.7e-3, 0.5
# Number of points of unknown cost per task; one replication of each is run.
PROBES = 8
# Number of times that Dask may abort a task, each time after 4 killed workers, before the task is
# considered the cause.
GIVE_UP = 10
COUNT_S = 1.0
START_S = 60.0
# Background activity of a Dask worker (stack samples, event loop ticks, monitoring of machine and
# memory) takes 1.7 % of a core with Dask's default intervals, 0.2 % with these.
WORKER_CONFIG: Mapping[str, bool | str] = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "10s",
}
# Dask starts an HTTP server in every process, even without a dashboard; these have no routes.
NO_PAGES: Mapping[str, list[str]] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


class ClusterError(Refused):
    """A cluster cannot be used."""


@dataclass(frozen=True, slots=True)
class Task:
    """Work for one worker: points as text, and (place, first replication, count) of each."""

    points: tuple[str, ...]
    work: tuple[tuple[int, int, int], ...]
    seed: int
    engine: Engine


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a task: rows as bytes of native arrays, or the engine if it differs."""

    worker: str
    engine: Engine
    metrics: tuple[str, ...] = ()
    point: bytes = b""
    replication: bytes = b""
    cost_s: bytes = b""
    values: bytes = b""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of replications, like `_lasthop.Batch`."""

    rows: int
    point: bytes
    replication: bytes
    cost_s: bytes
    values: bytes


@functools.lru_cache(maxsize=4096)
def _point(text: str) -> _lasthop.Point:
    """Parses a point; cached, because a worker receives the same point repeatedly."""
    return _lasthop.Document.from_json(text, ".").points()[0]


def run_task(task: Task) -> Done:
    """Runs the replications of a task on a worker, unless its engine differs."""
    from distributed import get_worker

    address = str(get_worker().address)
    if engine() != task.engine:
        return Done(address, engine())
    points = [_point(text) for text in task.points]
    work = [(place, first, count, -1.0) for place, first, count in task.work]
    stream = _lasthop.Stream(points, work, seed=task.seed, jobs=1)
    batches = []
    while (batch := stream.next(1.0)) is not None:
        batches.append(batch)
    return Done(
        address,
        engine(),
        tuple(stream.metrics),
        *(
            b"".join(getattr(batch, name) for batch in batches)
            for name in ("point", "replication", "cost_s", "values")
        ),
    )


class Cluster:
    """A connection to a scheduler; a context manager that closes the processes it has started.

    Attributes:
        refused: Engines of refused workers, by address.
    """

    def __init__(
        self, client: Any, *, owned: Sequence[Any] = (), local: tuple[Any, int] | None = None
    ) -> None:
        """Wraps a Dask client.

        Args:
            client: A `distributed.Client`.
            owned: Objects to close with this one, in this order.
            local: A `distributed.LocalCluster` and the number of its workers, if it was started by
                this process.
        """
        self.client = client
        self.refused: dict[str, str] = {}
        self._owned = owned
        self._local = local

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the objects opened by `connect`."""
        for one in self._owned:
            with contextlib.suppress(Exception):
                one.close()
        self._owned = ()

    def threads(self) -> int:
        """Returns the number of threads of all workers; restarts local workers closed by Dask."""
        # Dask closes a local worker permanently if it does not restart within 15 s after it was
        # killed, for example because it is killed again.
        if self._local is not None:
            local, count = self._local
            if len(local.workers) < count:
                local.scale(count)
        return sum(self.client.nthreads().values())

    def refuse(self, worker: str, other: Engine) -> None:
        """Retires a worker with another engine."""
        if worker in self.refused:
            return
        self.refused[worker] = str(other)
        self.client.retire_workers([worker], close_workers=True)

    def check(self) -> None:
        """Checks the engines of all workers.

        Raises:
            ClusterError: If every worker has another engine, or one lacks Lasthop.
        """
        found: Mapping[str, Any] = self.client.run(_engine_of_worker, on_error="return")
        good = 0
        for worker, other in found.items():
            if isinstance(other, BaseException):
                raise ClusterError(
                    f"worker {worker} of the cluster lacks lasthop ({other}): expected lasthop "
                    f"{engine()}"
                )
            if other == engine():
                good += 1
            else:
                self.refuse(worker, other)
        if found and not good:
            names = ", ".join(f"{worker} with {other}" for worker, other in self.refused.items())
            raise ClusterError(
                f"all workers of the cluster have another engine, {names}: expected lasthop "
                f"{engine()}, as in this process"
            )

    def stream(
        self,
        points: Sequence[_lasthop.Point],
        work: Sequence[tuple[int, int, int, float]],
        *,
        seed: int,
    ) -> ClusterStream:
        """Starts replications on the cluster; arguments as for `_lasthop.Stream`."""
        return ClusterStream(self, points, work, seed=seed)

    def collect(
        self,
        points: Sequence[_lasthop.Point],
        *,
        replications: int,
        first_replication: int,
        seed: int,
        progress: Callable[[int, int], object] | None = None,
    ) -> Collected:
        """Runs all replications of all points, in the order of `_lasthop.run`.

        After Ctrl-C, returns the finished ones.
        """
        work = [(place, first_replication, replications, -1.0) for place in range(len(points))]
        stream = self.stream(points, work, seed=seed)
        batches: list[Batch] = []
        rows, total = 0, replications * len(points)
        complete = True
        try:
            while (batch := stream.next(0.1)) is not None:
                batches.append(batch)
                rows += batch.rows
                if progress is not None:
                    progress(rows, total)
        except KeyboardInterrupt:
            complete = False
        finally:
            stream.stop()
        point = np.frombuffer(b"".join(one.point for one in batches), dtype=np.uint32)
        replication = np.frombuffer(b"".join(one.replication for one in batches), dtype=np.uint64)
        values = np.frombuffer(b"".join(one.values for one in batches), dtype=np.float64)
        order = np.lexsort((replication, point))
        return Collected(
            stream.metrics,
            point[order].tobytes(),
            replication[order].tobytes(),
            values.reshape(point.size, -1)[order].tobytes() if point.size else b"",
            complete,
        )


@dataclass(frozen=True, slots=True)
class Collected:
    """Results, like `_lasthop.RawResults`."""

    metrics: list[str]
    point: bytes
    replication: bytes
    values: bytes
    complete: bool


def _engine_of_worker() -> Engine:
    return engine()


def worker_environment() -> dict[str, str]:
    """Returns environment variables for `dask worker` that minimise its background activity."""
    return {
        f"DASK_{key.upper().replace('.', '__').replace('-', '_')}": str(value)
        for key, value in WORKER_CONFIG.items()
    }


def _start_local(workers: int, *, dashboard: bool) -> Any:
    """Starts a `distributed.LocalCluster` whose processes accept connections only from each other.

    All connections require a certificate that exists only in the memory of these processes and this
    one. Every socket is bound to 127.0.0.1.
    """
    import dask
    import distributed

    pages = {} if dashboard else NO_PAGES
    with dask.config.set({**WORKER_CONFIG, **pages}):
        return distributed.LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            security=distributed.Security.temporary(),  # type: ignore[no-untyped-call]
            # Any free port, so that a machine can run several clusters.
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address=None,
            scheduler_kwargs={"dashboard": dashboard},
            silence_logs=50,
        )


def connect(where: str | Any, *, dashboard: bool = False) -> Cluster:
    """Connects to a cluster, or starts one on this machine.

    Args:
        where: `local:N` starts N worker processes on this machine; `tcp://HOST:PORT` (or `tls://`)
            is the address of a scheduler; `file:PATH` a scheduler file, as used by batch systems;
            or a `distributed.Client`, or a `Cluster`.
        dashboard: Whether the scheduler of `local:N` serves Dask's dashboard, on 127.0.0.1 at
            `cluster.client.dashboard_link`. It has no access control.

    Raises:
        ClusterError: If Dask is not installed, if the scheduler does not respond, if the address is
            invalid, or if all workers have another engine.
    """
    if isinstance(where, Cluster):
        return where
    try:
        import cryptography  # noqa: F401
        import distributed
    except ImportError:
        raise ClusterError(
            "needs Dask and cryptography: run `pip install 'lasthop[cluster]'`"
        ) from None
    if isinstance(where, distributed.Client):
        cluster = Cluster(where)
        cluster.check()
        return cluster
    kind, _, rest = str(where).partition(":")
    owned: list[Any] = []
    started: tuple[Any, int] | None = None
    try:
        if kind == "local" and rest.isdigit() and int(rest) > 0:
            local = _start_local(int(rest), dashboard=dashboard)
            client = distributed.Client(local)  # type: ignore[no-untyped-call]
            owned, started = [client, local], (local, int(rest))
        elif kind == "file" and rest:
            client = distributed.Client(scheduler_file=rest, timeout=START_S)  # type: ignore[no-untyped-call]
            owned = [client]
        elif kind in ("tcp", "tls", "ucx"):
            client = distributed.Client(where, timeout=START_S)  # type: ignore[no-untyped-call]
            owned = [client]
        else:
            raise ClusterError(
                f"invalid value `{where}` for `cluster`: expected local:N, tcp://HOST:PORT, "
                "tls://HOST:PORT or file:PATH of a scheduler file"
            )
    except RuntimeError as error:
        raise ClusterError(
            f"cannot start workers in this process ({error}); connect from the command line, or "
            'in a file below `if __name__ == "__main__":`'
        ) from None
    except (OSError, TimeoutError) as error:
        raise ClusterError(f"cannot connect to the scheduler at `{where}`: {error}") from None
    cluster = Cluster(client, owned=owned, local=started)
    try:
        cluster.check()
    except ClusterError:
        cluster.close()
        raise
    return cluster


@dataclass(slots=True)
class _Pending:
    """Replications of a point that are not submitted yet."""

    place: int
    ranges: list[tuple[int, int]]
    cost_s: float | None
    is_probed: bool = False

    def take(self, most: int) -> list[tuple[int, int]]:
        """Removes and returns at most `most` replications as pairs (first, count)."""
        taken = []
        while most > 0 and self.ranges:
            first, count = self.ranges.pop(0)
            own = min(count, most)
            taken.append((first, own))
            most -= own
            if own < count:
                self.ranges.insert(0, (first + own, count - own))
        return taken


@dataclass(slots=True)
class _Out:
    """A submitted task."""

    future: Any
    task: Task
    places: tuple[int, ...]
    deaths: int = 0
    started: float = field(default_factory=time.monotonic)


class ClusterStream:
    """Replications running on a cluster: the counterpart of `_lasthop.Stream`."""

    def __init__(
        self,
        cluster: Cluster,
        points: Sequence[_lasthop.Point],
        work: Sequence[tuple[int, int, int, float]],
        *,
        seed: int,
    ) -> None:
        """Prepares the work; arguments as for `_lasthop.Stream`."""
        self._cluster, self._seed = cluster, seed
        self._texts = [point.to_json() for point in points]
        for point, text in zip(points, self._texts, strict=True):
            if _point(text).hash != point.hash:
                raise ClusterError(
                    "the scenario needs files of this machine: expected absolute names that all "
                    "workers of the cluster can read"
                )
        self.metrics = list(dict.fromkeys(name for point in points for name in point.metrics()))
        self._column = {name: index for index, name in enumerate(self.metrics)}
        pending: dict[int, _Pending] = {}
        for place, first, count, cost in work:
            one = pending.setdefault(place, _Pending(place, [], cost if cost >= 0.0 else None))
            one.ranges.append((first, count))
        self._pending = pending
        self._out: dict[str, _Out] = {}
        self._finished: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._is_stopped = False
        self._threads, self._counted = 0, -COUNT_S
        self._name = uuid.uuid4().hex[:8]
        self._number = 0

    # Submission.

    def _count_threads(self) -> int:
        now = time.monotonic()
        if now - self._counted >= COUNT_S:
            self._threads, self._counted = self._cluster.threads(), now
        return self._threads

    def _hand_out(self) -> None:
        most = max(self._count_threads(), 1) * AHEAD
        while not self._is_stopped and len(self._out) < most:
            chosen = self._next_work()
            if not chosen:
                return
            self._submit(chosen)

    def _next_work(self) -> list[tuple[int, int, int]]:
        """Returns (place, first, count) for about 1 s of work; points of unknown cost first."""
        probes = [one for one in self._pending.values() if one.cost_s is None and not one.is_probed]
        chosen: list[tuple[int, int, int]] = []
        for one in probes[:PROBES]:
            one.is_probed = True
            chosen += [(one.place, first, count) for first, count in one.take(1)]
        if not chosen:
            known = [one for one in self._pending.values() if one.cost_s is not None]
            wanted = max(TASK_S, self._threads * SCHEDULING_S / SCHEDULING_SHARE)
            left = wanted
            for one in sorted(known, key=lambda one: (-(one.cost_s or 0.0), one.place)):
                cost = max(one.cost_s or 0.0, 1e-6)
                taken = one.take(max(int(left / cost + 0.5), 0 if chosen else 1))
                chosen += [(one.place, first, count) for first, count in taken]
                left -= cost * sum(count for _, count in taken)
                if left < 0.5 * cost or left <= 0.05 * wanted:
                    break
        self._pending = {place: one for place, one in self._pending.items() if one.ranges}
        return chosen

    def _submit(self, chosen: Sequence[tuple[int, int, int]]) -> None:
        places = tuple(dict.fromkeys(place for place, _, _ in chosen))
        index = {place: number for number, place in enumerate(places)}
        task = Task(
            tuple(self._texts[place] for place in places),
            tuple((index[place], first, count) for place, first, count in chosen),
            self._seed,
            engine(),
        )
        self._send(task, places, 0)

    def _send(self, task: Task, places: tuple[int, ...], deaths: int) -> None:
        key = f"lasthop-{self._name}-{self._number}"
        # In order of submission, independent of the keys.
        priority = -self._number
        self._number += 1
        future = self._cluster.client.submit(run_task, task, key=key, pure=False, priority=priority)
        self._out[key] = _Out(future, task, places, deaths)
        finished = self._finished
        future.add_done_callback(lambda done: finished.put(done.key))

    # Results.

    def next(self, wait_s: float) -> Batch | None:
        """Returns the rows finished since the last call, after at most `wait_s`; None at the end.

        Raises:
            lasthop.RunError: If a replication cannot be finished.
            ClusterError: If a task kills every worker that runs it.
        """
        self._hand_out()
        if not self._out:
            return None
        batches: list[Batch] = []
        deadline = time.monotonic() + wait_s
        while self._out:
            left = deadline - time.monotonic()
            try:
                key = (
                    self._finished.get(timeout=max(left, 0.0))
                    if not batches
                    else (self._finished.get_nowait())
                )
            except queue.Empty:
                break
            batches += self._take(key)
        self._hand_out()
        if not batches:
            return Batch(0, b"", b"", b"", b"")
        return Batch(
            sum(batch.rows for batch in batches),
            *(
                b"".join(getattr(batch, name) for batch in batches)
                for name in ("point", "replication", "cost_s", "values")
            ),
        )

    def _take(self, key: str) -> Iterator[Batch]:
        """Yields the rows of a finished task; resubmits it if its worker was lost or refused."""
        from distributed import CancelledError, KilledWorker

        one = self._out.pop(key, None)
        if one is None:
            return
        try:
            done: Done = one.future.result()
        except (KilledWorker, CancelledError):
            if self._is_stopped:
                return
            if one.deaths >= GIVE_UP:
                raise ClusterError(
                    f"replications {one.task.work} of point {one.places} kill every worker; use "
                    "workers with more memory, or a smaller scenario"
                ) from None
            self._send(one.task, one.places, one.deaths + 1)
            return
        finally:
            one.future.release()
        if done.engine != engine():
            self._cluster.refuse(done.worker, done.engine)
            self._send(one.task, one.places, one.deaths)
            return
        yield self._batch(one, done)

    def _batch(self, one: _Out, done: Done) -> Batch:
        own = np.frombuffer(done.point, dtype=np.uint32)
        cost = np.frombuffer(done.cost_s, dtype=np.float64)
        place = np.array(one.places, dtype=np.uint32)[own]
        for number, point in enumerate(one.places):
            pending = self._pending.get(point)
            if pending is not None:
                mean = float(cost[own == number].mean())
                # Exponential smoothing: replications differ in cost.
                pending.cost_s = mean if pending.cost_s is None else 0.5 * (pending.cost_s + mean)
        values = np.frombuffer(done.values, dtype=np.float64).reshape(own.size, -1)
        if list(done.metrics) != self.metrics:
            wide = np.full((own.size, len(self.metrics)), np.nan)
            wide[:, [self._column[name] for name in done.metrics]] = values
            values = wide
        return Batch(own.size, place.tobytes(), done.replication, done.cost_s, values.tobytes())

    def stop(self) -> None:
        """Cancels unfinished tasks; finished rows can still be read."""
        if self._is_stopped:
            return
        self._is_stopped = True
        self._pending = {}
        for key, one in list(self._out.items()):
            if not one.future.done():
                with contextlib.suppress(Exception):
                    one.future.cancel()
                del self._out[key]
