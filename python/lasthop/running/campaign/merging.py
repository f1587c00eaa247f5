"""Merging of campaigns, such as parts of a sweep that were run on several machines."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from lasthop.running.campaign import ledger as ledgers
from lasthop.running.campaign.database import RECORDINGS, CampaignError
from lasthop.running.campaign.store import MERGED_ROWS, Rows, Store, parts_of
from lasthop.running.engine import Engine

__all__ = ["Merged", "merge"]


@dataclass(frozen=True, slots=True)
class Merged:
    """Result of a merge.

    Attributes:
        points: Number of points in the target.
        added: Number of replications added to the target.
        known: Number of replications that the target contained already.
    """

    points: int
    added: int
    known: int


def merge(sources: Sequence[Path], into: Path, *, accept_version: bool = False) -> Merged:
    """Adds the runs and replications of campaigns to the campaign `into`, which may be new.

    Replications that `into` contains are kept. The sources remain unchanged.

    Args:
        sources: Folders of campaigns.
        into: Folder of the campaign to write.
        accept_version: Whether results of several engines may be combined.

    Raises:
        CampaignError: If a folder is not a campaign or is damaged, or if the engines differ.
        OSError: If `into` cannot be written.
    """
    target = Store(into)
    added = known = 0
    for folder in sources:
        if folder.resolve() == into.resolve():
            raise CampaignError(f"{folder}: cannot merge a campaign into itself")
        if not Store(folder).ledger.is_there:
            raise CampaignError(f"{folder}: not a campaign: expected a folder written by `--store`")
    with target.locked():
        for folder in sources:
            new, old = _add(Store(folder), target, accept_version=accept_version)
            added, known = added + new, known + old
        with target.ledger.read() as ledger:
            (points,) = ledger.execute("SELECT count(*) FROM point").fetchone()
    return Merged(points, added, known)


def _add(source: Store, target: Store, *, accept_version: bool) -> tuple[int, int]:
    """Adds one campaign; returns the numbers of added and of known replications."""
    with source.ledger.read() as theirs:
        engines = {
            number: Engine(version, build)
            for number, version, build in theirs.execute("SELECT id, version, build FROM engine")
        }
        points = theirs.execute("SELECT id, hash, scenario, metrics FROM point").fetchall()
        with target.ledger.write() as ours:
            engine_of = _enter_engines(ours, engines, source, accept_version=accept_version)
            point_of = {row[0]: _enter_point(ours, *row[1:]) for row in points}
            _enter_runs(ours, theirs, point_of)
            _enter_recordings(ours, theirs, point_of)
            taken = _taken(ours)
        names = list(dict.fromkeys(name for row in points for name in json.loads(row[3])))
        frame = source.scan(parts_of(theirs), names, is_thorough=True).collect()
    added = known = 0
    for seed, number in frame.select("seed", "engine").unique(maintain_order=True).rows():
        own = frame.filter(seed=seed, engine=number)
        place = own["point"].replace_strict(point_of, return_dtype=pl.UInt32).to_numpy()
        replication = own["replication"].to_numpy()
        keys = [(p, seed, r) for p, r in zip(place.tolist(), replication.tolist(), strict=True)]
        is_new = np.array([key not in taken for key in keys], dtype=bool)
        taken.update(keys)
        known += int((~is_new).sum())
        added += int(is_new.sum())
        values = own.select(names).fill_null(np.nan).to_numpy()
        rows = Rows(
            place[is_new], replication[is_new], own["cost_s"].to_numpy()[is_new], values[is_new]
        )
        rows = Rows.concat([rows])
        for start in range(0, rows.point.size, MERGED_ROWS):
            part = slice(start, start + MERGED_ROWS)
            chunk = Rows(
                rows.point[part], rows.replication[part], rows.cost_s[part], rows.values[part]
            )
            target.add_part(chunk, names, seed=seed, engine=engine_of[number])
    return added, known


def _enter_engines(
    ours: sqlite3.Connection,
    engines: Mapping[int, Engine],
    source: Store,
    *,
    accept_version: bool,
) -> dict[int, int]:
    """Adds engines; returns their numbers in the target."""
    known = [Engine(*row) for row in ours.execute("SELECT version, build FROM engine")]
    different = [one for one in engines.values() if known and one not in known]
    if different and not accept_version:
        raise CampaignError(
            f"{source.folder}: results of engine {different[0]}: expected {known[0]}, the engine "
            "of the other results, or `--accept-version`"
        )
    numbers = {number: ledgers.engine_number(ours, one) for number, one in engines.items()}
    if different:
        every = [row[0] for row in ours.execute("SELECT id FROM engine")]
        ours.executemany(
            "INSERT OR IGNORE INTO accepted VALUES (?, ?)",
            [(one, other) for one in every for other in every if one != other],
        )
    return numbers


def _enter_point(ours: sqlite3.Connection, name: str, scenario: str, metrics: str) -> int:
    """Adds a point; returns its number in the target."""
    found = ours.execute("SELECT id, metrics FROM point WHERE hash = ?", (name,)).fetchone()
    if found is None:
        cursor = ours.execute(
            "INSERT INTO point (hash, scenario, metrics) VALUES (?, ?, ?)",
            (name, scenario, metrics),
        )
        return int(cursor.lastrowid or 0)
    number, before = found
    union = list(dict.fromkeys([*json.loads(before), *json.loads(metrics)]))
    ours.execute("UPDATE point SET metrics = ? WHERE id = ?", (json.dumps(union), number))
    return int(number)


def _enter_runs(
    ours: sqlite3.Connection, theirs: sqlite3.Connection, point_of: Mapping[int, int]
) -> None:
    """Adds runs in their order; the same run of both keeps the larger numbers of replications."""
    columns = "digest, name, scenario, seed, state, started, ended"
    runs = theirs.execute(f"SELECT id, {columns} FROM run ORDER BY turn").fetchall()  # noqa: S608
    for number, digest, *row in runs:
        own = theirs.execute(
            "SELECT place, point, parameters, replications FROM run_point WHERE run = ?", (number,)
        ).fetchall()
        (turn,) = ours.execute("SELECT coalesce(max(turn), 0) + 1 FROM run").fetchone()
        found = ours.execute("SELECT id, state FROM run WHERE digest = ?", (digest,)).fetchone()
        if found is None:
            cursor = ours.execute(
                f"INSERT INTO run ({columns}, turn) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
                (digest, *row, turn),
            )
            run = int(cursor.lastrowid or 0)
        else:
            run, state = found
            most = "SELECT max(replications) FROM run_point WHERE run = ?"
            (before,) = ours.execute(most, (run,)).fetchone()
            if max((one[3] for one in own), default=0) > before:
                state = row[3]
            ours.execute("UPDATE run SET state = ?, turn = ? WHERE id = ?", (state, turn, run))
        ours.executemany(
            "INSERT INTO run_point VALUES (?, ?, ?, ?, ?) ON CONFLICT (run, place) "
            "DO UPDATE SET replications = max(replications, excluded.replications)",
            [(run, place, point_of[point], label, count) for place, point, label, count in own],
        )


def _enter_recordings(
    ours: sqlite3.Connection, theirs: sqlite3.Connection, point_of: Mapping[int, int]
) -> None:
    """Adds the lengths of recordings."""
    table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'recording'"
    if theirs.execute(table).fetchone() is None:
        return
    ours.execute(RECORDINGS)
    rows = theirs.execute("SELECT point, direction, frames FROM recording").fetchall()
    ours.executemany(
        "INSERT OR IGNORE INTO recording VALUES (?, ?, ?)",
        [(point_of[point], direction, frames) for point, direction, frames in rows],
    )


def _taken(ours: sqlite3.Connection) -> set[tuple[int, int, int]]:
    """Returns the replications in the target as (point, seed, index)."""
    spans = ours.execute("SELECT point, seed, first, count FROM span")
    return {
        (point, seed, index)
        for point, seed, first, count in spans
        for index in range(first, first + count)
    }
