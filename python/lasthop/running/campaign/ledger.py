"""Contents of the ledger and parts of a campaign: writing, lookup, reading."""

from __future__ import annotations

import datetime
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from lasthop import _lasthop
from lasthop.evaluating.cells import plain
from lasthop.evaluating.frames import quantities
from lasthop.evaluating.metric import matching
from lasthop.evaluating.notes import rate_limits_of, recorded_frames, unmarked_queues
from lasthop.evaluating.results import Point, Results
from lasthop.running.campaign.database import RECORDINGS
from lasthop.running.campaign.planning import Request
from lasthop.running.campaign.store import Store, parts_of
from lasthop.running.engine import Engine, distinct, engine
from lasthop.scenarios.scenario import Scenario

__all__ = [
    "StoredRun",
    "costs",
    "done",
    "end_run",
    "engine_number",
    "enter_points",
    "enter_run",
    "frame",
    "results_of",
    "scenarios",
    "stored_run",
    "stored_runs",
]

_RUNS = "SELECT id, name, scenario, seed, state, started, ended FROM run"


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A request that was run.

    Attributes:
        id: Number of the run, ascending.
        name: Name of the scenario.
        scenario: The scenario as nested tables, with its sweep.
        seed: Master seed.
        state: `running`, `complete`, `interrupted` or `failed`.
        started: Time of the last start, UTC.
        ended: Time of the end, UTC.
        points: The points.
        replications: Requested replications per point.
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


# Writing.


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")


def engine_number(ledger: sqlite3.Connection, one: Engine) -> int:
    """Returns the number of an engine, adding it to the ledger if necessary."""
    ledger.execute(
        "INSERT OR IGNORE INTO engine (version, build) VALUES (?, ?)", (one.version, one.build)
    )
    (number,) = ledger.execute(
        "SELECT id FROM engine WHERE version = ? AND build = ?", (one.version, one.build)
    ).fetchone()
    return int(number)


def enter_points(ledger: sqlite3.Connection, request: Request) -> dict[str, int]:
    """Returns the numbers of the points by hash, adding them to the ledger if necessary."""
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
            # Another engine version: old rows may have metrics that no longer exist.
            union = list(dict.fromkeys([*metrics, *before]))
            ledger.execute(
                "UPDATE point SET metrics = ? WHERE id = ?", (json.dumps(union), places[name])
            )
    _enter_recordings(ledger, request, places)
    return places


def _enter_recordings(
    ledger: sqlite3.Connection, request: Request, places: Mapping[str, int]
) -> None:
    """Stores the lengths of loss recordings, whose files may change before results are read."""
    recorded = recorded_frames(request.scenario, request.points)
    if any(recorded):
        ledger.execute(RECORDINGS)
        ledger.executemany(
            "INSERT OR IGNORE INTO recording (point, direction, frames) VALUES (?, ?, ?)",
            [
                (places[name], direction, frames)
                for name, own in zip(request.hashes, recorded, strict=True)
                for direction, frames in own.items()
            ],
        )


def _recordings(ledger: sqlite3.Connection) -> dict[int, dict[str, int]]:
    """Returns the number of recorded frames per direction, by number of the point."""
    table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'recording'"
    if ledger.execute(table).fetchone() is None:
        return {}
    found: dict[int, dict[str, int]] = {}
    for number, direction, frames in ledger.execute(
        "SELECT point, direction, frames FROM recording"
    ):
        found.setdefault(number, {})[direction] = frames
    return found


def enter_run(ledger: sqlite3.Connection, request: Request, places: Mapping[str, int]) -> int:
    """Enters a run in state `running`; returns its number."""
    digest = request.digest
    # The order does not depend on the clock, which may be set back.
    (turn,) = ledger.execute("SELECT coalesce(max(turn), 0) + 1 FROM run").fetchone()
    found = ledger.execute("SELECT id FROM run WHERE digest = ?", (digest,)).fetchone()
    if found:
        run = int(found[0])
        ledger.execute(
            "UPDATE run SET state = 'running', turn = ?, started = ?, ended = NULL WHERE id = ?",
            (turn, _now(), run),
        )
    else:
        cursor = ledger.execute(
            "INSERT INTO run (digest, name, scenario, seed, state, turn, started) "
            "VALUES (?, ?, ?, ?, 'running', ?, ?)",
            (
                digest,
                str(request.scenario.get("name", "")),
                json.dumps(request.scenario),
                request.seed,
                turn,
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


def end_run(ledger: sqlite3.Connection, run: int, state: str) -> None:
    """Stores the final state of a run."""
    ledger.execute("UPDATE run SET state = ?, ended = ? WHERE id = ?", (state, _now(), run))


# Reading.


def stored_runs(store: Store) -> list[StoredRun]:
    """Returns all runs in the order of their last start."""
    with store.ledger.read() as ledger:
        rows = ledger.execute(f"{_RUNS} ORDER BY turn").fetchall()
        return [_stored_run(ledger, row) for row in rows]


def scenarios(store: Store) -> dict[str, dict[str, Any]]:
    """Returns the tables of the points by hash."""
    with store.ledger.read() as ledger:
        rows = ledger.execute("SELECT hash, scenario FROM point").fetchall()
    return {name: json.loads(text) for name, text in rows}


def stored_run(store: Store, run: int) -> StoredRun:
    """Returns the run with the given number."""
    with store.ledger.read() as ledger:
        return _stored_run(ledger, ledger.execute(f"{_RUNS} WHERE id = ?", (run,)).fetchone())


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


def done(store: Store, request: Request) -> dict[str, list[tuple[int, int]]]:
    """Returns first index and count of stored replications, by hash of the point."""
    if not store.ledger.is_there:
        return {}
    wanted = set(request.hashes)
    done: dict[str, list[tuple[int, int]]] = {}
    with store.ledger.read() as ledger:
        for name, first, count in ledger.execute(
            "SELECT hash, first, count FROM span JOIN point ON point.id = span.point "
            "WHERE seed = ?",
            (request.seed,),
        ):
            if name in wanted:
                done.setdefault(name, []).append((first, count))
    return done


def costs(store: Store) -> dict[str, float]:
    """Returns the mean processor seconds per replication, by hash of the point."""
    if not store.ledger.is_there:
        return {}
    with store.ledger.read() as ledger:
        return dict(
            ledger.execute(
                "SELECT hash, sum(cost_s) / sum(count) FROM span "
                "JOIN point ON point.id = span.point GROUP BY hash"
            )
        )


def results_of(
    store: Store,
    points: Sequence[Point],
    replications: Sequence[int] | None,
    seed: int,
    scenario: Mapping[str, Any],
) -> Results:
    """Returns the results of points, in their order.

    Args:
        store: Folder of the campaign.
        points: The points; a point that is not stored has no rows.
        replications: Maximum number per point, from replication 0; None: all.
        seed: Master seed.
        scenario: Scenario to store with the results.
    """
    with store.ledger.read() as ledger:
        known = {
            name: (number, json.loads(metrics))
            for number, name, metrics in ledger.execute("SELECT id, hash, metrics FROM point")
        }
        engines = _engines(ledger)
        recordings = _recordings(ledger)
        own = [known[point.scenario_hash] for point in points if point.scenario_hash in known]
        metrics = list(dict.fromkeys(name for _, names in own for name in names))
        wanted = pl.DataFrame(
            {"point": sorted({number for number, _ in own})}, schema={"point": pl.UInt32}
        )
        frame = (
            store.scan(parts_of(ledger), metrics, is_thorough=True)
            .filter(pl.col("seed") == seed)
            .join(wanted.lazy(), on="point", how="semi")
            .sort("point", "replication")
            .collect()
        )
    numbered = [known.get(point.scenario_hash, (0, ()))[0] for point in points]
    stored = frame["point"].to_numpy()
    numbers = frame["replication"].to_numpy()
    rows: list[np.ndarray[Any, np.dtype[np.intp]]] = []
    places: list[np.ndarray[Any, np.dtype[np.uint32]]] = []
    complete = True
    for place, number in enumerate(numbered):
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
    used = np.unique(frame["engine"].to_numpy()[index]).tolist()
    engine_points = _engine_points(scenario, points)
    return Results(
        scenario=dict(scenario),
        points=list(points),
        metrics=metrics,
        point=np.concatenate(places) if places else np.zeros(0, dtype=np.uint32),
        replication=numbers[index],
        values=values,
        seed=seed,
        complete=complete,
        engines=tuple(engines[number] for number in used) or (engine(),),
        recorded=[recordings.get(number, {}) for number in numbered] if recordings else (),
        unmarked=unmarked_queues(scenario, engine_points),
        limits=rate_limits_of(engine_points),
    )


def _engine_points(
    scenario: Mapping[str, Any], points: Sequence[Point]
) -> Sequence[_lasthop.Point]:
    """Returns the engine's points of a stored scenario; none if it is refused (missing file)."""
    try:
        built = {f"{point.hash:016x}": point for point in Scenario(scenario).points()}
        return [built[point.scenario_hash] for point in points]
    except (_lasthop.ScenarioError, KeyError, OSError):
        return []


def frame(store: Store, metrics: str | Sequence[str] = "*") -> pl.LazyFrame:
    """Returns all results in a folder, one row per replication; see `Campaign.frame`."""
    patterns = [metrics] if isinstance(metrics, str) else list(metrics)
    with store.ledger.read() as ledger:
        stored = ledger.execute("SELECT id, hash, metrics FROM point ORDER BY id").fetchall()
        names = dict.fromkeys(name for _, _, own in stored for name in json.loads(own))
        found = {name for pattern in patterns for name in matching(pattern, list(names))}
        chosen = [name for name in names if name in found]
        labels: dict[int, dict[str, Any]] = {}
        # The latest run of each point, and the index of the point in it.
        runs: dict[int, tuple[int, int]] = {}
        for number, run, place, text in ledger.execute(
            "SELECT point, run, place, parameters FROM run_point "
            "JOIN run ON run.id = run_point.run ORDER BY run.turn, place DESC"
        ):
            labels.setdefault(number, {}).update(json.loads(text))
            runs[number] = run, place
        computed_by = _engines(ledger)
        rows = store.scan(parts_of(ledger), chosen, is_thorough=False)
    numbers = [number for number, _, _ in stored]
    own = [labels.get(number, {}) for number in numbers]
    places = [runs.get(number, (None, None)) for number in numbers]
    points = pl.DataFrame(
        {
            "point": pl.Series(numbers, dtype=pl.UInt32),
            "run": pl.Series([run for run, _ in places], dtype=pl.UInt32),
            "place": pl.Series([place for _, place in places], dtype=pl.UInt32),
            "scenario_hash": pl.Series([name for _, name, _ in stored], dtype=pl.String),
            **_columns(own),
            **quantities(own),
        }
    )
    engines = pl.DataFrame(
        {
            "engine": pl.Series(list(computed_by), dtype=pl.UInt16),
            "engine_version": pl.Series(distinct(list(computed_by.values())), dtype=pl.String),
        }
    )
    parameters = points.columns[4:]
    return (
        rows.join(points.lazy(), on="point", how="left", maintain_order="left")
        .join(engines.lazy(), on="engine", how="left", maintain_order="left")
        .select(
            "run",
            pl.col("place").alias("point"),
            "scenario_hash",
            "seed",
            "replication",
            "engine_version",
            "cost_s",
            *parameters,
            *chosen,
        )
    )


def _engines(ledger: sqlite3.Connection) -> dict[int, Engine]:
    """Returns the engines in the ledger, by number."""
    known = ledger.execute("SELECT id, version, build FROM engine ORDER BY id")
    return {number: Engine(version, build) for number, version, build in known}


def _columns(labels: Sequence[Mapping[str, Any]]) -> dict[str, pl.Series]:
    """Returns parameters as columns of a table with one row per label."""
    columns = {}
    for name in dict.fromkeys(name for label in labels for name in label):
        cells = [plain(label.get(name)) for label in labels]
        if len({type(cell) for cell in cells if cell is not None}) > 1:
            cells = [None if cell is None else str(cell) for cell in cells]
        columns[name] = pl.Series(name, cells)
    return columns
