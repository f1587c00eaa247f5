"""Campaigns: sweeps whose results are kept in a folder and survive whatever happens.

    campaign = lasthop.Campaign("results/loss")
    results = campaign.run("scenario.toml", replications=100)

Running the same again takes what is there; more replications, points or metrics run only what is
missing. A process may be killed at any instant: what it had recorded counts, the rest is run again
with the same numbers, since point, seed and replication alone decide them.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import polars as pl

from lasthop import _lasthop
from lasthop.precision import Until, extend_until, from_counts
from lasthop.results import Point, Results, _plain
from lasthop.running import Progress
from lasthop.scenario import Scenario, as_scenario
from lasthop.statistics.sequential import FIRST, MOST
from lasthop.store import CampaignError, Engine, Rows, Store, engine, missing

__all__ = ["Campaign", "CampaignError", "Plan", "StoredRun"]

# How long the engine is left alone.
TICK_S = 0.1

# A part is written when it is so old or so large; and not so often that writing takes more than a
# fiftieth of the time, on however slow a disk.
PART_S, PART_ROWS, PART_SHARE = 5.0, 50_000, 50.0

# How long a pilot may take, and how many points it tries.
PILOT_S, PILOT_POINTS = 5.0, 8


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would do.

    Attributes:
        points: Points asked for.
        replications: Replications of all points.
        stored: How many of them are there already.
        cost_s: Processor seconds of the others; None if nobody knows.
        jobs: Threads.
        source: Where `cost_s` comes from.
    """

    points: int
    replications: int
    stored: int
    cost_s: float | None
    jobs: int
    source: str

    @property
    def missing(self) -> int:
        """Replications that would be run."""
        return self.replications - self.stored

    @property
    def duration_s(self) -> float | None:
        """Seconds that it would take with all threads busy."""
        return None if self.cost_s is None else self.cost_s / self.jobs

    def to_dict(self) -> dict[str, Any]:
        """What `lasthop run --dry-run --format json` prints."""
        names = ("points", "replications", "stored", "missing", "cost_s", "duration_s", "jobs")
        return {name: getattr(self, name) for name in (*names, "source")}


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What was asked for once.

    Attributes:
        id: Its number; the newest has the largest.
        name: What its scenario calls itself.
        scenario: The scenario as nested tables, with its sweep.
        seed: Master seed.
        state: `running`, `complete`, `interrupted` or `failed`.
        started: When it was last started, UTC.
        ended: When it ended, UTC.
        points: Its points.
        replications: Replications asked for, of each point.
    """

    id: int
    name: str
    scenario: Mapping[str, Any]
    seed: int
    state: str
    started: str
    ended: str | None
    points: Sequence[Point]
    replications: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Request:
    """What is to be run: points with their labels, and how often each."""

    points: Sequence[_lasthop.Point]
    hashes: Sequence[str]
    labels: Sequence[Mapping[str, Any]]
    scenario: Mapping[str, Any]
    seed: int
    replications: Sequence[int]

    @property
    def wanted(self) -> dict[str, int]:
        """Replications by hash: two points of a sweep may be the same scenario."""
        wanted: dict[str, int] = {}
        for name, count in zip(self.hashes, self.replications, strict=True):
            wanted[name] = max(count, wanted.get(name, 0))
        return wanted

    @property
    def digest(self) -> str:
        """The same for two requests that differ in nothing but the number of replications."""
        scenario = dict(self.scenario)
        if isinstance(scenario.get("run"), dict):
            counts = ("replications", "seed")
            scenario["run"] = {k: v for k, v in scenario["run"].items() if k not in counts}
        what = [scenario, self.seed, list(self.hashes), [dict(label) for label in self.labels]]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()


class Campaign:
    """A folder that keeps what was run; see the head of this module.

    Several processes may read it while one writes.

    Attributes:
        notes: What the last run had to put right in the folder.
    """

    def __init__(self, folder: str | Path, *, accept_version: bool = False) -> None:
        """Takes a folder; the first run makes it.

        Args:
            folder: Where results are kept.
            accept_version: Go on with what another version of the engine has computed. Each row
                says which it was. It need not be said again.
        """
        self._store = Store(Path(folder))
        self._accept_version = accept_version
        self.notes: list[str] = []

    def __repr__(self) -> str:
        return f"<Campaign {str(self.folder)!r}>"

    @property
    def folder(self) -> Path:
        """Where results are kept."""
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
        """Runs what is missing of a scenario, and returns all of it.

        Args:
            scenario: As for `lasthop.run`.
            replications: Replications a point, from replication 0; a sequence gives each point its
                own number; what the scenario says if None.
            seed: As for `lasthop.run`.
            jobs: As for `lasthop.run`.
            until: As for `lasthop.run`.
            max_replications: As for `lasthop.run`.
            progress: Called with (replications done, replications that were missing).

        Returns:
            The results of all replications asked for, also of those that were there; after Ctrl-C
            of those that are finished, with `complete` False.

        Raises:
            CampaignError: If another process writes into the folder, or another version of the
                engine has; or if the folder is no campaign.
            OSError: If the disk is full, for instance. What was recorded stays.
            lasthop.ScenarioError: If the scenario is refused.
            lasthop.RunError: If a replication cannot be finished.
            KeyError: If no metric has the name that `until` says.
            ValueError: If a number is out of range.
        """
        if until is not None:
            scenario = as_scenario(scenario)
            return self._run_until(
                scenario, until, replications, max_replications, seed, jobs, progress
            )
        if max_replications is not None:
            raise ValueError("max_replications: found no until; allowed: with until")
        request = _request(scenario, replications, seed)
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
            raise ValueError("replications: found a list; allowed: one number with until")
        points = len(scenario.points())

        def run_counts(counts: Sequence[int]) -> Results:
            return self._run(_request(scenario, counts, seed), jobs, progress)

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
        """As `run`, of points that need not come from one scenario.

        Args:
            points: What to run.
            replications: As for `run`.
            seed: As for `run`.
            scenario: What the results say they are results of.
            parameters: What to call the points by, if not by their sweep.
            jobs: As for `run`.
            progress: As for `run`.
        """
        request = _request_points(points, replications, seed, scenario or {}, parameters)
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
        """As `run`, but leaves the results in the folder: for more than fit into memory.

        Args:
            scenario: As for `run`.
            replications: As for `run`.
            seed: As for `run`.
            jobs: As for `run`.
            progress: As for `run`.

        Returns:
            Whether all is there now; False after Ctrl-C.
        """
        _, state = self._record(_request(scenario, replications, seed), jobs, progress)
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
        """Runs further replications of a scenario's points: the step of one's own procedure.

            results = campaign.extend(scenario, [10, 0, 30])
            results.samples("flow.transfer.goodput_bps", 2)

        Args:
            scenario: As for `run`.
            further: How many more for each point than it has, for all points or one by one.
            seed: As for `run`.
            jobs: As for `run`.
            progress: As for `run`.

        Returns:
            The results of all replications of these points, old and new.
        """
        request = _request(scenario, 1, seed)
        counts = _counts("further", further, len(request.points), least=0)
        done = self._done(request)
        totals = []
        for name, count in zip(request.hashes, counts, strict=True):
            # Up to the first gap, which an interrupted run may have left.
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
        """Says what `run` would do, without writing anything.

        What replications cost comes from the ledger; if it knows none of the points, from a pilot
        of a few seconds whose results are thrown away.
        """
        return self._plan(_request(scenario, replications, seed), jobs)

    def plan_points(
        self, points: Sequence[_lasthop.Point], *, replications: int, seed: int, jobs: int = 0
    ) -> Plan:
        """As `plan`, of points that need not come from one scenario."""
        return self._plan(_request_points(points, replications, seed, {}, None), jobs)

    def _plan(self, request: _Request, jobs: int) -> Plan:
        jobs = jobs or os.cpu_count() or 1
        wanted, done = request.wanted, self._done(request)
        left = {
            name: sum(length for _, length in missing(done.get(name, []), count))
            for name, count in wanted.items()
        }
        known = self._costs()
        source = "what was measured in this campaign"
        unknown = [name for name, count in left.items() if count and name not in known]
        if unknown and not any(name in known for name in wanted):
            known = _pilot(request, unknown, jobs)
            source = f"a pilot of {len(known)} of {len(wanted)} points"
        elif unknown:
            own = sum(name in known for name in wanted)
            source += f" at {own} of {len(wanted)} points; the others taken as their mean"
        own_costs = [known[name] for name in wanted if name in known]
        cost = None
        if own_costs or not any(left.values()):
            mean = sum(own_costs) / max(len(own_costs), 1)
            cost = sum(count * known.get(name, mean) for name, count in left.items())
        else:
            source = f"no replication was finished within {PILOT_S:g} s"
        total = sum(wanted.values())
        return Plan(len(request.points), total, total - sum(left.values()), cost, jobs, source)

    def _run(self, request: _Request, jobs: int, progress: Progress | None) -> Results:
        run, _ = self._record(request, jobs, progress)
        return self._results(run, request.replications)

    def _record(self, request: _Request, jobs: int, progress: Progress | None) -> tuple[int, str]:
        """Runs what is missing; the number of the run, and its state."""
        if not 0 <= jobs < 2**63:
            raise ValueError(f"jobs: found {jobs}; allowed: from 0 to 2^63 - 1")
        with self._store.locked() as notes:
            self.notes = list(notes)
            with self._store.write() as ledger:
                number = _engine_number(ledger, engine())
                self._check_engine(ledger, number)
                places = _enter_points(ledger, request)
                run = _enter_run(ledger, request, places)
            state = "failed"
            try:
                state = self._run_missing(request, places, number, jobs, progress)
            except KeyboardInterrupt:
                state = "interrupted"
                raise
            finally:
                # A run that cannot say how it ended, on a full disk, is put right by the next.
                with contextlib.suppress(OSError, CampaignError), self._store.write() as ledger:
                    ledger.execute(
                        "UPDATE run SET state = ?, ended = ? WHERE id = ?", (state, _now(), run)
                    )
        return run, state

    def _run_missing(
        self,
        request: _Request,
        places: Mapping[str, int],
        number: int,
        jobs: int,
        progress: Progress | None,
    ) -> str:
        done, costs = self._done(request), self._costs()
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
        stream = _lasthop.Stream(
            [points[name] for name in names], work, seed=request.seed, jobs=jobs
        )
        ids = np.array([places[name] for name in names], dtype=np.uint32)
        writer = _Writer(self._store, stream.metrics, ids, seed=request.seed, engine=number)
        with _interrupts() as is_interrupted:
            try:
                while (batch := stream.next(TICK_S)) is not None:
                    writer.add(batch)
                    if progress and batch.rows:
                        progress(writer.rows, total)
                    if is_interrupted():
                        stream.stop()
            finally:
                # Also what was finished before something failed is recorded.
                stream.stop()
                writer.flush()
        return "complete" if writer.rows == total else "interrupted"

    def _check_engine(self, ledger: sqlite3.Connection, running: int) -> None:
        others = ledger.execute(
            "SELECT id, version, build FROM engine WHERE id != :running "
            "AND EXISTS (SELECT * FROM span WHERE span.engine = engine.id) "
            "AND id NOT IN (SELECT stored FROM accepted WHERE running = :running)",
            {"running": running},
        ).fetchall()
        if others and not self._accept_version:
            found = ", ".join(str(Engine(version, build)) for _, version, build in others)
            raise CampaignError(
                f"{self.folder}: found results of lasthop {found}, and this is {engine()}; "
                "allowed: the same engine, another folder, or --accept-version (in Python "
                "accept_version=True) to go on with both; each row says which computed it"
            )
        ledger.executemany(
            "INSERT INTO accepted VALUES (?, ?)", [(other[0], running) for other in others]
        )

    # Reading.

    def _done(self, request: _Request) -> dict[str, list[tuple[int, int]]]:
        """What is there of each point: first and count of replications, by hash."""
        if not self._store.is_there:
            return {}
        wanted = set(request.hashes)
        done: dict[str, list[tuple[int, int]]] = {}
        with self._store.read() as ledger:
            for name, first, count in ledger.execute(
                "SELECT hash, first, count FROM span JOIN point ON point.id = span.point "
                "WHERE seed = ?",
                (request.seed,),
            ):
                if name in wanted:
                    done.setdefault(name, []).append((first, count))
        return done

    def _costs(self) -> dict[str, float]:
        """Mean processor seconds of a replication, by hash."""
        if not self._store.is_there:
            return {}
        with self._store.read() as ledger:
            return dict(
                ledger.execute(
                    "SELECT hash, sum(cost_s) / sum(count) FROM span "
                    "JOIN point ON point.id = span.point GROUP BY hash"
                )
            )

    def runs(self) -> list[StoredRun]:
        """What was asked for, in the order of the last start.

        Raises:
            CampaignError: If there is no campaign in the folder.
        """
        with self._store.read() as ledger:
            return [_stored_run(ledger, row) for row in ledger.execute(_RUNS).fetchall()]

    def results(
        self,
        scenario: Scenario | Mapping[str, Any] | str | Path | None = None,
        *,
        run: int | None = None,
        replications: int | None = None,
        seed: int | None = None,
    ) -> Results:
        """What is there of a run, complete or not.

        Args:
            scenario: Results of this scenario, whatever run they come from.
            run: Number of a run, from `runs`; the one last started if None.
            replications: Only so many of each point; all there are if None.
            seed: With `scenario`: master seed; what the scenario says if None.

        Raises:
            CampaignError: If there is no campaign in the folder, or no such run.
        """
        if scenario is not None:
            request = _request(scenario, replications, seed)
            return self._results_of(
                [Point(dict(p), h) for p, h in zip(request.labels, request.hashes, strict=True)],
                request.replications if replications is not None else None,
                request.seed,
                request.scenario,
            )
        runs = self.runs()
        chosen = [one for one in runs if run in (None, one.id)]
        if not chosen:
            allowed = ", ".join(str(one.id) for one in runs) or "none, there is no run yet"
            raise CampaignError(f"run: found {run}; allowed: {allowed}")
        one = chosen[-1]
        counts = None if replications is None else [replications] * len(one.points)
        results = self._results_of(one.points, counts, one.seed, one.scenario)
        return results if one.state == "complete" else replace(results, complete=False)

    def _results(self, run: int, replications: Sequence[int]) -> Results:
        with self._store.read() as ledger:
            row = ledger.execute(f"{_RUNS_HEAD} WHERE id = ?", (run,)).fetchone()
            stored = _stored_run(ledger, row)
        return self._results_of(stored.points, replications, stored.seed, stored.scenario)

    def _results_of(
        self,
        points: Sequence[Point],
        replications: Sequence[int] | None,
        seed: int,
        scenario: Mapping[str, Any],
    ) -> Results:
        with self._store.read() as ledger:
            known = {
                name: (number, json.loads(metrics))
                for number, name, metrics in ledger.execute("SELECT id, hash, metrics FROM point")
            }
            engines = dict(ledger.execute("SELECT id, version FROM engine"))
            own = [known[point.scenario_hash] for point in points if point.scenario_hash in known]
            metrics = list(dict.fromkeys(name for _, names in own for name in names))
            wanted = pl.DataFrame(
                {"point": sorted({number for number, _ in own})}, schema={"point": pl.UInt32}
            )
            frame = (
                self._scan(ledger, metrics)
                .filter(pl.col("seed") == seed)
                .join(wanted.lazy(), on="point", how="semi")
                .sort("point", "replication")
                .collect()
            )
        stored = frame["point"].to_numpy()
        numbers = frame["replication"].to_numpy()
        rows: list[np.ndarray[Any, np.dtype[np.intp]]] = []
        places: list[np.ndarray[Any, np.dtype[np.uint32]]] = []
        complete = True
        for place, point in enumerate(points):
            number = known.get(point.scenario_hash, (0, ()))[0]
            start, end = np.searchsorted(stored, [number, number + 1])
            most = None if replications is None else replications[place]
            if most is not None:
                end = start + np.searchsorted(numbers[start:end], most)
                complete = complete and end - start == most
            rows.append(np.arange(start, end))
            places.append(np.full(end - start, place, dtype=np.uint32))
        index = np.concatenate(rows) if rows else np.zeros(0, dtype=np.intp)
        values = np.empty((index.size, len(metrics)))
        for column, name in enumerate(metrics):
            values[:, column] = frame[name].fill_null(np.nan).to_numpy()[index]
        versions = [engines[number] for number in frame["engine"].unique().sort()]
        return Results(
            scenario=dict(scenario),
            points=list(points),
            metrics=metrics,
            point=np.concatenate(places) if places else np.zeros(0, dtype=np.uint32),
            replication=numbers[index],
            values=values,
            seed=seed,
            complete=complete,
            engine_version=", ".join(dict.fromkeys(versions)) or _lasthop.__version__,
        )

    def frame(self, metrics: str | Sequence[str] = "*") -> pl.LazyFrame:
        """Everything in the folder, one row a replication; nothing is read before `collect`.

        Columns: `point` (its number in the ledger), `scenario_hash`, `seed`, `replication`,
        `engine_version`, `cost_s` (processor seconds), the swept keys of all runs, then metrics
        by their full names, null where one does not apply.

        Args:
            metrics: Which metrics, by names or patterns with `*` and `?`.

        Raises:
            CampaignError: If there is no campaign in the folder.
        """
        patterns = [metrics] if isinstance(metrics, str) else list(metrics)
        with self._store.read() as ledger:
            stored = ledger.execute("SELECT id, hash, metrics FROM point ORDER BY id").fetchall()
            names = dict.fromkeys(name for _, _, own in stored for name in json.loads(own))
            chosen = [n for n in names if any(fnmatchcase(n, pattern) for pattern in patterns)]
            labels: dict[int, dict[str, Any]] = {}
            for number, text in ledger.execute(
                "SELECT point, parameters FROM run_point JOIN run ON run.id = run_point.run "
                "ORDER BY run.started, run.id"
            ):
                labels.setdefault(number, {}).update(json.loads(text))
            versions = ledger.execute("SELECT id, version FROM engine").fetchall()
            rows = self._scan(ledger, chosen)
        points = pl.DataFrame(
            {
                "point": pl.Series([number for number, _, _ in stored], dtype=pl.UInt32),
                "scenario_hash": pl.Series([name for _, name, _ in stored], dtype=pl.String),
                **_columns([labels.get(number, {}) for number, _, _ in stored]),
            }
        )
        engines = pl.DataFrame(
            versions, schema={"engine": pl.UInt16, "engine_version": pl.String}, orient="row"
        )
        parameters = points.columns[2:]
        return (
            rows.join(points.lazy(), on="point", how="left", maintain_order="left")
            .join(engines.lazy(), on="engine", how="left", maintain_order="left")
            .select(
                "point",
                "scenario_hash",
                "seed",
                "replication",
                "engine_version",
                "cost_s",
                *parameters,
                *chosen,
            )
        )

    def query(self, sql: str) -> pl.DataFrame:
        """Asks in SQL; the table `results` is `frame()`.

            campaign.query('SELECT point, avg("flow.transfer.goodput_bps") FROM results '
                           'GROUP BY point')

        Raises:
            polars.exceptions.PolarsError: If the question is wrong.
        """
        with pl.SQLContext(results=self.frame(), eager=True) as context:
            found: pl.DataFrame = context.execute(sql)
        return found

    def _scan(self, ledger: sqlite3.Connection, metrics: Sequence[str]) -> pl.LazyFrame:
        files = [row[0] for row in ledger.execute("SELECT file FROM part ORDER BY id")]
        return self._store.scan(files, metrics)


class _Writer:
    """Gathers finished replications into parts."""

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

    def add(self, batch: _lasthop.Batch) -> None:
        """Takes what was finished, and writes a part if it is time."""
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
        """Writes what there is."""
        start = time.monotonic()
        if self._batches:
            rows = Rows.concat(self._batches)
            # Before it is written: what fails once would fail again.
            self._batches, self._waiting = [], 0
            self._store.add_part(rows, self._metrics, seed=self._seed, engine=self._engine)
        now = time.monotonic()
        self._due = now + max(PART_S, PART_SHARE * (now - start))


@contextlib.contextmanager
def _interrupts() -> Iterator[Any]:
    """Turns the first Ctrl-C into an answer, so that what is finished can be recorded.

    The second one interrupts at once. In other threads than the main one, nothing can.
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
        # None if the handler is not Python's, which then cannot be put back.
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _request(
    scenario: Scenario | Mapping[str, Any] | str | Path,
    replications: int | Sequence[int] | None,
    seed: int | None,
) -> _Request:
    scenario = as_scenario(scenario)
    points = scenario.points()
    return _request_points(
        points,
        points[0].replications if replications is None else replications,
        points[0].seed if seed is None else seed,
        scenario.to_dict(),
        None,
    )


def _request_points(
    points: Sequence[_lasthop.Point],
    replications: int | Sequence[int],
    seed: int,
    scenario: Mapping[str, Any],
    parameters: Iterable[Mapping[str, Any]] | None,
) -> _Request:
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed: found {seed}; allowed: from 0 to 2^63 - 1")
    counts = _counts("replications", replications, len(points), least=1)
    labels = (
        [json.loads(point.parameters) for point in points]
        if parameters is None
        else [dict(label) for label in parameters]
    )
    hashes = [f"{point.hash:016x}" for point in points]
    return _Request(points, hashes, labels, dict(scenario), seed, counts)


def _counts(what: str, given: int | Sequence[int], points: int, *, least: int) -> list[int]:
    counts = [given] * points if isinstance(given, int) else list(given)
    if len(counts) != points:
        raise ValueError(f"{what}: found {len(counts)} numbers; allowed: {points}, one a point")
    for count in counts:
        if not least <= count < 2**63:
            raise ValueError(f"{what}: found {count}; allowed: from {least} to 2^63 - 1")
    return counts


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")


def _engine_number(ledger: sqlite3.Connection, one: Engine) -> int:
    ledger.execute(
        "INSERT OR IGNORE INTO engine (version, build) VALUES (?, ?)", (one.version, one.build)
    )
    (number,) = ledger.execute(
        "SELECT id FROM engine WHERE version = ? AND build = ?", (one.version, one.build)
    ).fetchone()
    return int(number)


def _enter_points(ledger: sqlite3.Connection, request: _Request) -> dict[str, int]:
    """The ledger's numbers of the points, by hash."""
    known = {
        name: (number, json.loads(metrics))
        for number, name, metrics in ledger.execute("SELECT id, hash, metrics FROM point")
    }
    places = {}
    for name, point in dict(zip(request.hashes, request.points, strict=True)).items():
        metrics = point.metrics()
        if name not in known:
            cursor = ledger.execute(
                "INSERT INTO point (hash, scenario, metrics) VALUES (?, ?, ?)",
                (name, point.to_json(), json.dumps(metrics)),
            )
            places[name] = int(cursor.lastrowid or 0)
            continue
        places[name], before = known[name]
        if before != metrics:
            # Another version of the engine: old rows may have metrics that are no more.
            union = list(dict.fromkeys([*metrics, *before]))
            ledger.execute(
                "UPDATE point SET metrics = ? WHERE id = ?", (json.dumps(union), places[name])
            )
    return places


def _enter_run(ledger: sqlite3.Connection, request: _Request, places: Mapping[str, int]) -> int:
    digest = request.digest
    found = ledger.execute("SELECT id FROM run WHERE digest = ?", (digest,)).fetchone()
    if found:
        run = int(found[0])
        ledger.execute(
            "UPDATE run SET state = 'running', started = ?, ended = NULL WHERE id = ?",
            (_now(), run),
        )
    else:
        cursor = ledger.execute(
            "INSERT INTO run (digest, name, scenario, seed, state, started) "
            "VALUES (?, ?, ?, ?, 'running', ?)",
            (
                digest,
                str(request.scenario.get("name", "")),
                json.dumps(request.scenario),
                request.seed,
                _now(),
            ),
        )
        run = int(cursor.lastrowid or 0)
    ledger.executemany(
        "INSERT INTO run_point VALUES (?, ?, ?, ?, ?) ON CONFLICT (run, place) "
        "DO UPDATE SET replications = excluded.replications",
        (
            (run, place, places[name], json.dumps(dict(label)), count)
            for place, (name, label, count) in enumerate(
                zip(request.hashes, request.labels, request.replications, strict=True)
            )
        ),
    )
    return run


_RUNS_HEAD = "SELECT id, name, scenario, seed, state, started, ended FROM run"
_RUNS = f"{_RUNS_HEAD} ORDER BY started, id"


def _stored_run(ledger: sqlite3.Connection, row: Sequence[Any]) -> StoredRun:
    number, name, scenario, seed, state, started, ended = row
    points, replications = [], []
    for text, hash_, count in ledger.execute(
        "SELECT parameters, hash, replications FROM run_point "
        "JOIN point ON point.id = run_point.point WHERE run = ? ORDER BY place",
        (number,),
    ):
        points.append(Point(json.loads(text), hash_))
        replications.append(count)
    return StoredRun(
        number, name, json.loads(scenario), seed, state, started, ended, points, replications
    )


def _columns(labels: Sequence[Mapping[str, Any]]) -> dict[str, pl.Series]:
    """Parameters as columns of a table with one row for each label."""
    columns = {}
    for name in dict.fromkeys(name for label in labels for name in label):
        cells = [_plain(label.get(name)) for label in labels]
        if len({type(cell) for cell in cells if cell is not None}) > 1:
            cells = [None if cell is None else str(cell) for cell in cells]
        columns[name] = pl.Series(name, cells)
    return columns


def _pilot(request: _Request, names: Sequence[str], jobs: int) -> dict[str, float]:
    """Processor seconds of one replication of some points, by hash, spread over the sweep."""
    points = dict(zip(request.hashes, request.points, strict=True))
    count = min(PILOT_POINTS, len(names))
    places = np.linspace(0, len(names) - 1, count).round().astype(int)
    chosen = [names[place] for place in dict.fromkeys(places.tolist())]
    work = [(index, 0, 1, -1.0) for index in range(len(chosen))]
    stream = _lasthop.Stream([points[name] for name in chosen], work, seed=request.seed, jobs=jobs)
    found: dict[str, float] = {}
    deadline = time.monotonic() + PILOT_S
    while (batch := stream.next(TICK_S)) is not None:
        costs = np.frombuffer(batch.cost_s, dtype=np.float64)
        for index, cost in zip(np.frombuffer(batch.point, dtype=np.uint32), costs, strict=True):
            found[chosen[int(index)]] = float(cost)
        if time.monotonic() > deadline:
            stream.stop()
    return found
