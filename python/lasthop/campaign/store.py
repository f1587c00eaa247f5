"""The folder of a campaign: a ledger of what was run, parts with the numbers, a lock.

    DIR/ledger.sqlite            what was asked for, what was run, in which part it is
    DIR/parts/part-00000001.parquet   one row a replication
    DIR/lock                     held by the process that writes

A part is written under a temporary name, synced, renamed and then entered into the ledger in one
transaction together with the replications that it holds. Only what the ledger names counts: what a
process left that was killed before the entry is removed by the next one that writes. The ledger
keeps a rollback journal, not a write-ahead log: either survives a kill, but the log needs shared
memory, which network file systems do not have and which a full disk takes away under a running
process.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import itertools
import json
import os
import re
import socket
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["CampaignError", "Part", "Rows", "Span", "Store", "missing", "parts_of"]

LEDGER, PARTS, LOCK = "ledger.sqlite", "parts", "lock"
FORMAT = 3
PART_NAME = re.compile(r"part-[0-9]{8,}\.parquet(\.tmp)?")

# Columns of every part, before the metrics.
KEYS: Mapping[str, Any] = {
    "point": pl.UInt32,
    "seed": pl.UInt64,
    "replication": pl.UInt64,
    "engine": pl.UInt16,
    "cost_s": pl.Float64,
}

# How long one process waits for another to let go of the ledger, in seconds.
WAIT_S = 60.0

# So many parts of one level are merged into one of the next, so that there are never many.
FAN = 16
MERGED_ROWS = 1 << 18

SCHEMA = """
CREATE TABLE engine (
    id INTEGER PRIMARY KEY,
    version TEXT NOT NULL,          -- of the package
    build TEXT NOT NULL,            -- hash of the compiled engine
    UNIQUE (version, build)
);
CREATE TABLE accepted (             -- results of one engine that another may go on with
    stored INTEGER NOT NULL REFERENCES engine,
    running INTEGER NOT NULL REFERENCES engine,
    PRIMARY KEY (stored, running)
) WITHOUT ROWID;
CREATE TABLE point (
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,      -- of all that decides its results but the seed
    scenario TEXT NOT NULL,         -- JSON, resolved: enough to run it again
    metrics TEXT NOT NULL           -- JSON, names in the engine's order
);
CREATE TABLE part (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    file TEXT NOT NULL UNIQUE,      -- in the folder parts
    level INTEGER NOT NULL,         -- how often it was merged
    rows INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,         -- of the file
    metrics TEXT NOT NULL           -- JSON, its columns besides those that all parts have
);
CREATE TABLE span (                 -- replications that are done
    part INTEGER NOT NULL REFERENCES part ON DELETE CASCADE,
    point INTEGER NOT NULL REFERENCES point,
    seed INTEGER NOT NULL,
    engine INTEGER NOT NULL REFERENCES engine,
    first INTEGER NOT NULL,         -- index of the first replication
    count INTEGER NOT NULL,
    cost_s REAL NOT NULL            -- processor seconds of all
);
CREATE INDEX span_of_part ON span (part);
CREATE INDEX span_of_point ON span (point, seed);
CREATE TABLE run (                  -- what was asked for
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,    -- of what makes two requests the same
    name TEXT NOT NULL,
    scenario TEXT NOT NULL,         -- JSON, as its author gave it
    seed INTEGER NOT NULL,
    state TEXT NOT NULL,            -- running, complete, interrupted, failed
    turn INTEGER NOT NULL,          -- the largest was started last
    started TEXT NOT NULL,          -- UTC
    ended TEXT
);
CREATE TABLE seal (                 -- one row
    crc32 INTEGER NOT NULL          -- of all other tables
);
INSERT INTO seal VALUES (0);
CREATE TABLE run_point (            -- the points of a run in their order
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    place INTEGER NOT NULL,
    point INTEGER NOT NULL REFERENCES point,
    parameters TEXT NOT NULL,       -- JSON, what the run calls it by
    replications INTEGER NOT NULL,
    PRIMARY KEY (run, place)
) WITHOUT ROWID;
"""


class CampaignError(ValueError):
    """A campaign's folder is refused: what was found and what is allowed."""


@dataclass(frozen=True, slots=True)
class Span:
    """Replications of one point that are done, one after the other.

    Attributes:
        point: Ledger's number of the point.
        seed: Master seed.
        engine: Ledger's number of the engine.
        first: Index of the first.
        count: How many.
        cost_s: Processor seconds of all.
    """

    point: int
    seed: int
    engine: int
    first: int
    count: int
    cost_s: float


@dataclass(frozen=True, slots=True)
class Rows:
    """Finished replications on their way into a part.

    Attributes:
        point: Shape (rows,): ledger's number of the point.
        replication: Shape (rows,).
        cost_s: Shape (rows,).
        values: Shape (rows, metrics); NaN where a metric does not apply.
    """

    point: NDArray[np.uint32]
    replication: NDArray[np.uint64]
    cost_s: NDArray[np.float64]
    values: NDArray[np.float64]

    @classmethod
    def concat(cls, batches: Sequence[Rows]) -> Rows:
        """All rows, by point, then by replication."""
        point = np.concatenate([batch.point for batch in batches])
        replication = np.concatenate([batch.replication for batch in batches])
        order = np.lexsort((replication, point))
        return cls(
            point[order],
            replication[order],
            np.concatenate([batch.cost_s for batch in batches])[order],
            np.concatenate([batch.values for batch in batches])[order],
        )

    def spans(self, seed: int, engine: int) -> list[Span]:
        """Of rows in order: runs of replications without a gap."""
        breaks = np.flatnonzero((np.diff(self.point) != 0) | (np.diff(self.replication) != 1)) + 1
        bounds = [0, *breaks.tolist(), self.point.size]
        return [
            Span(
                int(self.point[start]),
                seed,
                engine,
                int(self.replication[start]),
                end - start,
                float(self.cost_s[start:end].sum()),
            )
            for start, end in itertools.pairwise(bounds)
        ]


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same replications in as few spans as they can be told in."""
    out: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.point, s.seed, s.engine, s.first)):
        last = out[-1] if out else None
        if last and (last.point, last.seed, last.engine, last.first + last.count) == (
            span.point,
            span.seed,
            span.engine,
            span.first,
        ):
            count, cost_s = last.count + span.count, last.cost_s + span.cost_s
            out[-1] = Span(last.point, last.seed, last.engine, last.first, count, cost_s)
        else:
            out.append(span)
    return out


def missing(done: Iterable[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """The gaps of `done`, (first, count) each, among the replications below `count`."""
    gaps = []
    start = 0
    for first, length in sorted(done):
        if first >= count:
            break
        if first > start:
            gaps.append((start, first - start))
        start = max(start, first + length)
    if start < count:
        gaps.append((start, count - start))
    return gaps


@dataclass(frozen=True, slots=True)
class Part:
    """A file of rows, as the ledger has it.

    Attributes:
        file: Its name.
        size: In bytes.
        crc32: Of its bytes.
    """

    file: str
    size: int
    crc32: int


def _crc32(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            value = zlib.crc32(block, value)
    return value


def _seal(ledger: sqlite3.Connection) -> int:
    """A checksum of what is in a ledger."""
    value = 0
    kind, ledger.text_factory = ledger.text_factory, bytes
    try:
        tables = ledger.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name != 'seal' ORDER BY 1"
        ).fetchall()
        for name, sql in tables:
            value = zlib.crc32(sql, value)
            # As the table has them, not an index.
            query = f'SELECT * FROM "{name.decode()}" NOT INDEXED'  # noqa: S608 - its own name
            for row in ledger.execute(query):
                texts = [cell for cell in row if isinstance(cell, bytes)]
                others = [len(cell) if isinstance(cell, bytes) else cell for cell in row]
                value = zlib.crc32(repr(others).encode(), zlib.crc32(b"".join(texts), value))
    finally:
        ledger.text_factory = kind
    return value


def parts_of(ledger: sqlite3.Connection) -> list[Part]:
    """The parts that the ledger names, the oldest first."""
    return [Part(*row) for row in ledger.execute("SELECT file, bytes, crc32 FROM part ORDER BY id")]


class Store:
    """One campaign's folder; see the head of this file."""

    def __init__(self, folder: Path) -> None:
        """Takes a folder, which need not be there.

        Raises:
            CampaignError: If there is a file of that name.
        """
        if folder.is_file():
            raise CampaignError(f"{folder}: found a file; allowed: the folder of a campaign")
        self.folder = folder
        self.parts = folder / PARTS
        self._ledger = folder / LEDGER
        self._superseded: list[Path] = []
        # The last seal that was found right or made.
        self._sealed: int | None = None
        # Parts whose every byte was looked at, and when they had been written.
        self._sound: set[tuple[Part, int]] = set()

    @property
    def is_there(self) -> bool:
        """Whether anything was ever run here."""
        return self._ledger.exists()

    # Ledger.

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the ledger.

        Raises:
            CampaignError: If there is none.
        """
        if not self.is_there:
            raise CampaignError(
                f"{self.folder}: found no campaign; allowed: a folder that `lasthop run --store` "
                "has written"
            )
        with self._connection() as connection:
            connection.execute("BEGIN")
            self._check_format(connection)
            self._check_seal(connection)
            yield connection
            connection.execute("COMMIT")

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it or nothing."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            seal = self._sealed
            try:
                yield connection
                if connection.total_changes:
                    seal = _seal(connection)
                    connection.execute("UPDATE seal SET crc32 = ?", (seal,))
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            self._sealed = seal

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with contextlib.closing(self._connect()) as connection:
                yield connection
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise self._refusal(error) from error

    def _refusal(self, error: Exception) -> Exception:
        """What a failure of the database means."""
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:
            case sqlite3.SQLITE_FULL:
                return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._ledger))
            case sqlite3.SQLITE_IOERR:
                return OSError(errno.EIO, str(error), str(self._ledger))
            case sqlite3.SQLITE_BUSY:
                # Who writes waits for who reads.
                return CampaignError(
                    f"{self._ledger}: found it in use by another process for {WAIT_S:g} s; "
                    "allowed: one that goes on or ends, such as a `lasthop report` that was stopped"
                )
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                # Reading writes, too, where a process that was killed has left a journal.
                return CampaignError(
                    f"{self._ledger}: {error}; allowed: a ledger that can be written, or one "
                    "without a journal beside it"
                )
        return CampaignError(
            f"{self._ledger}: found a file that is no ledger of a campaign ({error}); "
            "allowed: a folder that `lasthop run --store` has written, or an empty one"
        )

    def _connect(self) -> sqlite3.Connection:
        # Who only reads must be able to write, too: a process that was killed may have left a
        # journal, which the next to open the ledger rolls back.
        # By its whole path, as the parts, too: `file:` at its beginning would make it an address.
        path = self._ledger.absolute()
        connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    # Writing.

    @contextlib.contextmanager
    def locked(self) -> Iterator[list[str]]:
        """Makes this process the only one that writes; yields what it had to put right.

        Raises:
            CampaignError: If another process writes, or the folder is not a campaign's.
            OSError: If the folder cannot be written.
        """
        try:
            self.parts.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
                raise
            where = error.filename or self.folder
            raise CampaignError(
                f"{where}: {error.strerror or error}; allowed: a folder that can be written"
            ) from None
        try:
            try:
                # The kernel gives it back when the process ends, however it ends.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip()
                raise CampaignError(
                    f"{self.folder}: found it in use by {holder or 'another process'}; allowed: "
                    "one process at a time, so wait until that one ends, or stop it"
                ) from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
            self._make_ledger()
            yield self._put_right()
            self._remove_superseded()
        finally:
            os.close(descriptor)

    def _make_ledger(self) -> None:
        if not self.is_there:
            self._refuse_orphans()
        with self.write() as ledger:
            (version,) = ledger.execute("PRAGMA user_version").fetchone()
            if version == 0:
                # A file of no length, too, is a database that is empty.
                self._refuse_orphans()
                if ledger.execute("SELECT 1 FROM sqlite_master").fetchone():
                    raise CampaignError(
                        f"{self._ledger}: found the database of another program; allowed: a folder "
                        "that `lasthop run --store` has written, or an empty one"
                    )
                for statement in SCHEMA.split(";"):
                    ledger.execute(statement)
                ledger.execute(f"PRAGMA user_version = {FORMAT}")
                return
            self._check_format(ledger)
            self._check_seal(ledger)

    def _check_format(self, ledger: sqlite3.Connection) -> None:
        (version,) = ledger.execute("PRAGMA user_version").fetchone()
        if version not in (0, FORMAT):
            raise CampaignError(
                f"{self._ledger}: found format {version}; allowed: {FORMAT}, that of this "
                "version of lasthop"
            )

    def _check_seal(self, ledger: sqlite3.Connection) -> None:
        """Looks at all of the ledger, once for each state: SQLite itself does not notice bits."""
        found = ledger.execute("SELECT crc32 FROM seal").fetchall()
        if found == [(self._sealed,)]:
            return
        is_sound = ledger.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if not (is_sound and found == [(_seal(ledger),)]):
            raise CampaignError(
                f"{self._ledger}: found that it is damaged; allowed: what lasthop has written, "
                "from a copy, or another folder"
            )
        ((self._sealed,),) = found

    def _refuse_orphans(self) -> None:
        """Parts that no ledger names would be taken for what a killed process left."""
        if any(self.parts.glob("part-*.parquet")):
            raise CampaignError(
                f"{self.folder}: found parts without their {LEDGER}; allowed: a campaign with its "
                "ledger, or an empty folder"
            )

    def _put_right(self) -> list[str]:
        """Removes parts without entry, and entries without part, whose replications run again."""
        notes = []
        with self.write() as ledger:
            known = set()
            for part in parts_of(ledger):
                wrong = self._wrong(part, is_thorough=True)
                if wrong is None:
                    known.add(part.file)
                    continue
                notes.append(f"{self.parts / part.file} {wrong}; its replications are run again")
                ledger.execute("DELETE FROM part WHERE file = ?", (part.file,))
            ledger.execute("UPDATE run SET state = 'interrupted' WHERE state = 'running'")
        for path in self.parts.iterdir():
            if path.name not in known and PART_NAME.fullmatch(path.name):
                path.unlink()
        return notes

    def _wrong(self, part: Part, *, is_thorough: bool) -> str | None:
        """What is wrong with a part; None if nothing is.

        Args:
            part: The part.
            is_thorough: Also look at each byte, once: disks and copies go wrong.
        """
        path = self.parts / part.file
        try:
            found = path.stat()
        except FileNotFoundError:
            return "is gone"
        if found.st_size != part.size:
            return f"has {found.st_size} bytes instead of {part.size}"
        version = (part, found.st_mtime_ns)
        if is_thorough and version not in self._sound:
            if _crc32(path) != part.crc32:
                return "is damaged"
            self._sound.add(version)
        return None

    def add_part(
        self, rows: Rows, metrics: Sequence[str], *, seed: int, engine: int, level: int = 0
    ) -> None:
        """Writes rows, which are in order, as one part.

        Raises:
            OSError: If there is no room; the campaign is then as before.
        """
        count = rows.point.size
        columns: dict[str, NDArray[Any]] = {
            "point": rows.point,
            "seed": np.full(count, seed, dtype=np.uint64),
            "replication": rows.replication,
            "engine": np.full(count, engine, dtype=np.uint16),
            "cost_s": rows.cost_s,
        }
        # Metrics that none of these points has need no column.
        used = np.flatnonzero(~np.isnan(rows.values).all(axis=0)).tolist()
        names = [metrics[index] for index in used]
        frame = pl.DataFrame(
            {
                **{name: pl.Series(name, values) for name, values in columns.items()},
                **{
                    metrics[index]: pl.Series(
                        metrics[index],
                        np.ascontiguousarray(rows.values[:, index]),
                        nan_to_null=True,
                    )
                    for index in used
                },
            }
        )
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        data = buffer.getbuffer()
        part = Part(self._next_file(), data.nbytes, zlib.crc32(data))
        self._write_durably(part.file, data)
        with self.write() as ledger:
            self._enter(ledger, part, level, count, names, rows.spans(seed, engine))
        self._compact()

    def _next_file(self) -> str:
        with self.read() as ledger:
            row = ledger.execute("SELECT seq FROM sqlite_sequence WHERE name = 'part'").fetchone()
        return f"part-{(row[0] if row else 0) + 1:08}.parquet"

    def _write_durably(self, file: str, data: memoryview) -> None:
        temporary = self.parts / f"{file}.tmp"
        try:
            with temporary.open("wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise OSError(error.errno, error.strerror, str(temporary)) from error
        self._rename(temporary, self.parts / file)

    def _rename(self, temporary: Path, path: Path) -> None:
        temporary.replace(path)
        folder = os.open(self.parts, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @staticmethod
    def _enter(
        ledger: sqlite3.Connection,
        part: Part,
        level: int,
        rows: int,
        metrics: Sequence[str],
        spans: Iterable[Span],
    ) -> None:
        number = ledger.execute(
            "INSERT INTO part (file, level, rows, bytes, crc32, metrics) VALUES (?, ?, ?, ?, ?, ?)",
            (part.file, level, rows, part.size, part.crc32, json.dumps(metrics)),
        ).lastrowid
        ledger.executemany(
            "INSERT INTO span VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (number, span.point, span.seed, span.engine, span.first, span.count, span.cost_s)
                for span in spans
            ),
        )

    def _compact(self) -> None:
        """Merges parts where there are many of one level."""
        with self.read() as ledger:
            parts = ledger.execute(
                "SELECT level, id, file, rows, metrics, bytes, crc32 FROM part ORDER BY level, id"
            ).fetchall()
        for level in sorted({part[0] for part in parts}):
            own = [
                (number, rows, metrics, Part(file, size, crc32))
                for of, number, file, rows, metrics, size, crc32 in parts
                if of == level
            ]
            if len(own) < FAN:
                continue
            fits = np.cumsum([rows for _, rows, _, _ in own]) <= MERGED_ROWS
            chosen = own[: min(int(fits.sum()), FAN)]
            if len(chosen) > FAN // 4:
                # Merging is a service: without room for it the campaign is as good as before.
                with contextlib.suppress(OSError, CampaignError, pl.exceptions.PolarsError):
                    self._merge(level + 1, chosen)
                return

    def _merge(self, level: int, chosen: Sequence[tuple[int, int, str, Part]]) -> None:
        names = list(dict.fromkeys(name for _, _, own, _ in chosen for name in json.loads(own)))
        file = self._next_file()
        temporary = self.parts / f"{file}.tmp"
        try:
            rows = self.scan([part for *_, part in chosen], names, is_thorough=True)
            rows.sink_parquet(temporary.absolute())
            descriptor = os.open(temporary, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            whole = Part(file, temporary.stat().st_size, _crc32(temporary))
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        self._rename(temporary, self.parts / file)
        self._remove_superseded()
        spans: list[Span] = []
        with self.write() as ledger:
            for number, *_ in chosen:
                found = ledger.execute(
                    "SELECT point, seed, engine, first, count, cost_s FROM span WHERE part = ?",
                    (number,),
                )
                spans += (Span(*row) for row in found)
                ledger.execute("DELETE FROM part WHERE id = ?", (number,))
            count = sum(rows for _, rows, _, _ in chosen)
            self._enter(ledger, whole, level, count, names, merged(spans))
        # Who reads at this moment may be about to open them.
        self._superseded = [self.parts / part.file for *_, part in chosen]

    def _remove_superseded(self) -> None:
        for path in self._superseded:
            path.unlink(missing_ok=True)
        self._superseded = []

    # Reading.

    def scan(
        self, parts: Sequence[Part], metrics: Sequence[str], *, is_thorough: bool
    ) -> pl.LazyFrame:
        """Rows of some parts with these metrics, null where a part has none.

        Args:
            parts: The parts.
            metrics: The metrics.
            is_thorough: Look at each byte of a part beforehand, not at its size only.

        Raises:
            CampaignError: If a part is gone, cut or damaged.
        """
        schema = pl.Schema({**KEYS, **dict.fromkeys(metrics, pl.Float64)})
        if not parts:
            return pl.LazyFrame(schema=schema)
        for part in parts:
            wrong = self._wrong(part, is_thorough=is_thorough)
            if wrong:
                raise CampaignError(
                    f"{self.parts / part.file}: found that it {wrong}; allowed: the part that the "
                    "ledger names. The next run into this folder computes it again"
                )
        return pl.scan_parquet(
            [(self.parts / part.file).absolute() for part in parts],
            schema=schema,
            # Their names mean nothing else, whatever the folder is called.
            glob=False,
            hive_partitioning=False,
            missing_columns="insert",
            extra_columns="ignore",
        )
