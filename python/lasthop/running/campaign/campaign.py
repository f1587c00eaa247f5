"""Campaigns: sweeps whose results are stored in a folder and survive crashes.

    campaign = lasthop.Campaign("results/loss")
    results = campaign.run("scenario.toml", replications=100)

Running the same request again reuses stored results; requests for more replications, points or
metrics run only the missing replications. A process may be killed at any time: recorded results
remain valid, and the others are recomputed with identical values, which depend only on point, seed
and replication.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from lasthop import _lasthop
from lasthop.evaluating.results import Point, Results
from lasthop.evaluating.statistics.sequential import FIRST, MOST
from lasthop.running.campaign import ledger, planning
from lasthop.running.campaign.database import CampaignError
from lasthop.running.campaign.ledger import StoredRun
from lasthop.running.campaign.planning import Plan, Request
from lasthop.running.campaign.store import Rows, Store, missing
from lasthop.running.engine import Engine, engine
from lasthop.running.precision import Until, extend_until, from_counts
from lasthop.running.replications import Progress
from lasthop.scenarios.arguments import ArgumentError, check_least
from lasthop.scenarios.scenario import Scenario, as_scenario

if TYPE_CHECKING:
    from distributed import Client

    from lasthop.running.cluster import Batch, Cluster, ClusterStream

__all__ = ["Campaign", "CampaignError", "Plan", "StoredRun"]

# Maximum age (seconds) and size (rows) of a part before it is written. At most 1/PART_SHARE of the
# time is spent on writing, even on a slow disk.
PART_S, PART_ROWS, PART_SHARE = 5.0, 50_000, 50.0


class Campaign:
    """A folder of stored results; see the module's docstring.

    Several processes may read the folder while one writes.

    Attributes:
        notes: Problems in the folder that the last run repaired.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        accept_version: bool = False,
        cluster: Cluster | Client | None = None,
    ) -> None:
        """Sets the folder, which the first run creates.

        Args:
            folder: Folder of the results.
            accept_version: Whether to extend results of another engine version. Each row records
                its version. The choice is stored in the folder.
            cluster: Cluster that runs replications: from `lasthop.cluster.connect`, or a Dask
                client; None runs them in this process.
        """
        self._store = Store(Path(folder))
        self._accept_version = accept_version
        self._cluster: Cluster | None = None
        if cluster is not None:
            from lasthop.running.cluster import connect

            self._cluster = connect(cluster)
        self.notes: list[str] = []

    def __repr__(self) -> str:
        return f"<Campaign {str(self.folder)!r}>"

    @property
    def folder(self) -> Path:
        """Folder of the results."""
        return self._store.folder

    # Running.

    def run(
        self,
        scenario: Scenario | Mapping[str, Any] | str | Path,
        *,
        replications: int | Sequence[int] | None = None,
        seed: int | None = None,
        jobs: int = 0,
        until: Until | None = None,
        max_replications: int | None = None,
        progress: Progress | None = None,
    ) -> Results:
        """Runs the missing replications of a scenario and returns all results.

        Args:
            scenario: As for `lasthop.run`.
            replications: Replications per point, from replication 0; a sequence gives each point
                its own number; None: the scenario's.
            seed: As for `lasthop.run`.
            jobs: As for `lasthop.run`.
            until: As for `lasthop.run`.
            max_replications: As for `lasthop.run`.
            progress: Called with (finished replications, missing replications at the start).

        Returns:
            The results of all requested replications, new and stored; after Ctrl-C, of the
            finished ones, with `complete` False.

        Raises:
            CampaignError: If another process writes to the folder, if it has results of another
                engine version, or if it is not a campaign.
            OSError: If the folder cannot be written, for example because the disk is full.
                Recorded results remain.
            lasthop.ScenarioError: If the scenario is refused.
            lasthop.RunError: If a replication cannot be finished.
            KeyError: If no metric matches `until`.
            ValueError: If a number is out of range.
        """
        if until is not None:
            scenario = as_scenario(scenario)
            return self._run_until(
                scenario, until, replications, max_replications, seed, jobs, progress
            )
        if max_replications is not None:
            raise ArgumentError("`max_replications` requires `until`")
        request = planning.request(scenario, replications, seed)
        return self._run(request, jobs, progress)

    def _run_until(
        self,
        scenario: Scenario,
        until: Until,
        replications: int | Sequence[int] | None,
        most: int | None,
        seed: int | None,
        jobs: int,
        progress: Progress | None,
    ) -> Results:
        if not (replications is None or isinstance(replications, int)):
            raise ArgumentError("invalid list for `replications`: expected one number with `until`")
        points = len(scenario.points())

        def run_counts(counts: Sequence[int]) -> Results:
            return self._run(planning.request(scenario, counts, seed), jobs, progress)

        return extend_until(
            points,
            until,
            from_counts(points, run_counts),
            first=FIRST if replications is None else replications,
            most=MOST if most is None else most,
        )

    def run_points(
        self,
        points: Sequence[_lasthop.Point],
        *,
        replications: int | Sequence[int],
        seed: int,
        scenario: Mapping[str, Any] | None = None,
        parameters: Iterable[Mapping[str, Any]] | None = None,
        jobs: int = 0,
        progress: Progress | None = None,
    ) -> Results:
        """Like `run`, for points that need not belong to one scenario.

        Args:
            points: The points to run.
            replications: As for `run`.
            seed: As for `run`.
            scenario: Scenario to store with the results.
            parameters: Labels of the points, if not those of their sweep.
            jobs: As for `run`.
            progress: As for `run`.
        """
        request = planning.request_points(points, replications, seed, scenario or {}, parameters)
        return self._run(request, jobs, progress)

    def record(
        self,
        scenario: Scenario | Mapping[str, Any] | str | Path,
        *,
        replications: int | Sequence[int] | None = None,
        seed: int | None = None,
        jobs: int = 0,
        progress: Progress | None = None,
    ) -> bool:
        """Like `run`, but does not load the results, which may exceed the memory.

        Args:
            scenario: As for `run`.
            replications: As for `run`.
            seed: As for `run`.
            jobs: As for `run`.
            progress: As for `run`.

        Returns:
            `True` if all replications are finished; `False` after Ctrl-C.
        """
        _, state = self._record(planning.request(scenario, replications, seed), jobs, progress)
        return state == "complete"

    def extend(
        self,
        scenario: Scenario | Mapping[str, Any] | str | Path,
        further: int | Sequence[int],
        *,
        seed: int | None = None,
        jobs: int = 0,
        progress: Progress | None = None,
    ) -> Results:
        """Runs additional replications of a scenario's points, as a step of a custom procedure.

            results = campaign.extend(scenario, [10, 0, 30])
            results.samples("flow.transfer.goodput_bps", 2)

        Args:
            scenario: As for `run`.
            further: Additional replications: one number for all points, or one per point.
            seed: As for `run`.
            jobs: As for `run`.
            progress: As for `run`.

        Returns:
            The results of all replications of these points, stored and new.
        """
        request = planning.request(scenario, 1, seed)
        counts = planning.counts("further", further, len(request.points), least=0)
        done = ledger.done(self._store, request)
        totals = []
        for name, count in zip(request.hashes, counts, strict=True):
            # Count up to the first gap, which an interrupted run may have left.
            gaps = missing(done.get(name, []), 1 << 62)
            totals.append(gaps[0][0] + count)
        return self._run(replace(request, replications=totals), jobs, progress)

    def plan(
        self,
        scenario: Scenario | Mapping[str, Any] | str | Path,
        *,
        replications: int | Sequence[int] | None = None,
        seed: int | None = None,
        jobs: int = 0,
    ) -> Plan:
        """Returns the plan of `run` without writing anything.

        The cost of replications is taken from the ledger; if it has none of the points, from a
        pilot of a few seconds whose results are discarded.

        Raises:
            CampaignError: If the folder has results of another engine version, or is not a
                campaign.
            lasthop.ScenarioError: If the scenario is refused.
            ValueError: If a number is out of range.
        """
        return self._plan(planning.request(scenario, replications, seed), jobs)

    def plan_points(
        self,
        points: Sequence[_lasthop.Point],
        *,
        replications: int | Sequence[int],
        seed: int,
        jobs: int = 0,
    ) -> Plan:
        """Like `plan`, for points that need not belong to one scenario."""
        return self._plan(planning.request_points(points, replications, seed, {}, None), jobs)

    def _plan(self, request: Request, jobs: int) -> Plan:
        if self._store.ledger.is_there:
            with self._store.ledger.read() as entries:
                self._check_engine(entries)
        done, costs = ledger.done(self._store, request), ledger.costs(self._store)
        return planning.plan(request, jobs, done, costs)

    def _run(self, request: Request, jobs: int, progress: Progress | None) -> Results:
        run, _ = self._record(request, jobs, progress)
        one = ledger.stored_run(self._store, run)
        return ledger.results_of(
            self._store, one.points, request.replications, one.seed, one.scenario
        )

    def _record(self, request: Request, jobs: int, progress: Progress | None) -> tuple[int, str]:
        """Runs the missing replications; returns number and state of the run."""
        check_least("jobs", jobs, 0)
        known = self._known(request)
        if known is not None:
            self.notes = []
            if progress:
                progress(0, 0)
            return known, "complete"
        with self._store.locked() as notes:
            self.notes = list(notes)
            with self._store.ledger.write() as entries:
                accepted = self._check_engine(entries)
                number = ledger.engine_number(entries, engine())
                entries.executemany(
                    "INSERT INTO accepted VALUES (?, ?)", [(other, number) for other in accepted]
                )
                places = ledger.enter_points(entries, request)
                run = ledger.enter_run(entries, request, places)
            state = "failed"
            try:
                state = self._run_missing(request, places, number, jobs, progress)
            except KeyboardInterrupt:
                state = "interrupted"
                raise
            finally:
                # If the disk is full, the next run corrects the state.
                with (
                    contextlib.suppress(OSError, CampaignError),
                    self._store.ledger.write() as entries,
                ):
                    ledger.end_run(entries, run, state)
        return run, state

    def _known(self, request: Request) -> int | None:
        """Returns the number of an identical complete run in a read-only folder, if any."""
        folder = self.folder
        if not self._store.ledger.is_there or os.access(folder, os.W_OK):
            return None
        with self._store.ledger.read() as entries:
            self._check_engine(entries)
            found = entries.execute(
                "SELECT id FROM run WHERE digest = ? AND state = 'complete'", (request.digest,)
            ).fetchone()
        done = ledger.done(self._store, request)
        if found is None or any(
            missing(done.get(name, []), count) for name, count in request.wanted.items()
        ):
            return None
        return int(found[0])

    def _run_missing(
        self,
        request: Request,
        places: Mapping[str, int],
        number: int,
        jobs: int,
        progress: Progress | None,
    ) -> str:
        done = ledger.done(self._store, request)
        costs = ledger.costs(self._store)
        points = dict(zip(request.hashes, request.points, strict=True))
        work: list[tuple[int, int, int, float]] = []
        names: list[str] = []
        for name, count in request.wanted.items():
            gaps = missing(done.get(name, []), count)
            if gaps:
                cost = costs.get(name, -1.0)
                work += [(len(names), first, length, cost) for first, length in gaps]
                names.append(name)
        total = sum(length for _, _, length, _ in work)
        if progress:
            progress(0, total)
        if not work:
            return "complete"
        chosen = [points[name] for name in names]
        stream: _lasthop.Stream | ClusterStream
        if self._cluster is None:
            stream = _lasthop.Stream(chosen, work, seed=request.seed, jobs=jobs)
        else:
            stream = self._cluster.stream(chosen, work, seed=request.seed)
        ids = np.array([places[name] for name in names], dtype=np.uint32)
        writer = _Writer(self._store, stream.metrics, ids, seed=request.seed, engine=number)
        with _interrupts() as is_interrupted:
            try:
                while (batch := stream.next(planning.TICK_S)) is not None:
                    writer.add(batch)
                    if progress and batch.rows:
                        progress(writer.rows, total)
                    if is_interrupted():
                        stream.stop()
            finally:
                # Record finished replications also after an error.
                stream.stop()
                writer.flush()
        return "complete" if writer.rows == total else "interrupted"

    def _check_engine(self, entries: sqlite3.Connection) -> list[int]:
        """Returns the numbers of engines whose results are accepted for the first time."""
        running = engine()
        others = entries.execute(
            "SELECT id, version, build FROM engine "
            "WHERE NOT (version = :version AND build = :build) "
            "AND EXISTS (SELECT * FROM span WHERE span.engine = engine.id) "
            "AND id NOT IN (SELECT stored FROM accepted JOIN engine AS own ON own.id = running "
            "WHERE own.version = :version AND own.build = :build)",
            {"version": running.version, "build": running.build},
        ).fetchall()
        if others and not self._accept_version:
            found = ", ".join(str(Engine(version, build)) for _, version, build in others)
            raise CampaignError(
                f"{self.folder}: has results of lasthop {found}, but this is {running}; use the "
                "same engine, another folder, or `--accept-version` (in Python "
                "accept_version=True) to extend them; each row records its version"
            )
        return [number for number, _, _ in others]

    # Reading.

    def runs(self) -> list[StoredRun]:
        """Returns the runs in the order of their last start.

        Raises:
            CampaignError: If there is no campaign in the folder.
        """
        return ledger.stored_runs(self._store)

    def scenarios(self) -> dict[str, dict[str, Any]]:
        """Returns the scenario of each stored point with all its keys, by its hash.

        Raises:
            CampaignError: If there is no campaign in the folder.
        """
        return ledger.scenarios(self._store)

    def results(
        self,
        scenario: Scenario | Mapping[str, Any] | str | Path | None = None,
        *,
        run: int | None = None,
        replications: int | None = None,
        seed: int | None = None,
    ) -> Results:
        """Returns the stored results of a run, complete or not.

        Args:
            scenario: Selects the results of this scenario from all runs.
            run: Number of a run, from `runs`; None: the one started last.
            replications: Maximum number of replications per point; None: all.
            seed: With `scenario`: master seed; None: the scenario's.

        Raises:
            CampaignError: If there is no campaign in the folder, or no such run.
        """
        if scenario is not None:
            request = planning.request(scenario, replications, seed)
            return ledger.results_of(
                self._store,
                [Point(dict(p), h) for p, h in zip(request.labels, request.hashes, strict=True)],
                request.replications if replications is not None else None,
                request.seed,
                request.scenario,
            )
        runs = self.runs()
        chosen = [one for one in runs if run in (None, one.id)]
        if not chosen:
            allowed = ", ".join(str(one.id) for one in runs) or "a campaign with a run"
            raise CampaignError(f"invalid value `{run}` for `run`: expected {allowed}")
        one = chosen[-1]
        counts = None if replications is None else [replications] * len(one.points)
        results = ledger.results_of(self._store, one.points, counts, one.seed, one.scenario)
        return results if one.state == "complete" else replace(results, complete=False)

    def frame(self, metrics: str | Sequence[str] = "*") -> pl.LazyFrame:
        """Returns all results in the folder, one row per replication, as a lazy frame.

        Columns: `run`, the latest run that contains the point, and `point`, its index in that run
        as in `Results`; `scenario_hash`, which identifies it, `seed`, `replication`,
        `engine_version`, `cost_s` (processor seconds), the swept keys of all runs, swept quantities
        as numbers in SI units as in `Results.frame`, then metrics by their full names; null if a
        metric does not apply.

        Args:
            metrics: Names or patterns of metrics, with `*` and `?`.

        Raises:
            CampaignError: If there is no campaign in the folder.
        """
        return ledger.frame(self._store, metrics)

    def query(self, sql: str) -> pl.DataFrame:
        """Runs an SQL query; the table `results` is `frame()`.

            campaign.query('SELECT point, avg("flow.transfer.goodput_bps") FROM results '
                           'GROUP BY point')

        Raises:
            polars.exceptions.PolarsError: If the query is invalid.
        """
        with pl.SQLContext(results=self.frame(), eager=True) as context:
            found: pl.DataFrame = context.execute(sql)
        return found


class _Writer:
    """Collects finished replications into parts."""

    def __init__(
        self,
        store: Store,
        metrics: Sequence[str],
        ids: np.ndarray[Any, np.dtype[np.uint32]],
        *,
        seed: int,
        engine: int,
    ) -> None:
        self.rows = 0
        self._store, self._metrics, self._ids = store, metrics, ids
        self._seed, self._engine = seed, engine
        self._batches: list[Rows] = []
        self._waiting = 0
        self._due = time.monotonic() + PART_S

    def add(self, batch: _lasthop.Batch | Batch) -> None:
        """Adds finished replications; writes a part if it is large or old enough."""
        if batch.rows:
            point = self._ids[np.frombuffer(batch.point, dtype=np.uint32)]
            values = np.frombuffer(batch.values, dtype=np.float64)
            self._batches.append(
                Rows(
                    point,
                    np.frombuffer(batch.replication, dtype=np.uint64),
                    np.frombuffer(batch.cost_s, dtype=np.float64),
                    values.reshape(batch.rows, len(self._metrics)),
                )
            )
            self.rows += batch.rows
            self._waiting += batch.rows
        if self._waiting >= PART_ROWS or time.monotonic() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Writes the collected replications as a part."""
        start = time.monotonic()
        if self._batches:
            rows = Rows.concat(self._batches)
            # Cleared before writing: a failed write would fail again.
            self._batches, self._waiting = [], 0
            self._store.add_part(rows, self._metrics, seed=self._seed, engine=self._engine)
        now = time.monotonic()
        self._due = now + max(PART_S, PART_SHARE * (now - start))


@contextlib.contextmanager
def _interrupts() -> Iterator[Any]:
    """Yields a function that returns `True` after the first Ctrl-C, so that results are recorded.

    The second Ctrl-C interrupts immediately. Threads other than the main one receive no signals.
    """
    seen = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield seen.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        if seen.is_set() and callable(before):
            before(number, frame)
        seen.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield seen.is_set
    finally:
        # A handler that was not installed by Python (None) cannot be restored.
        if before is not None:
            signal.signal(signal.SIGINT, before)
