"""The folder of a campaign: ledger, parts with the results, and lock.

    DIR/ledger.sqlite            requests, finished replications and their parts
    DIR/parts/part-00000001.parquet   one row per replication
    DIR/lock                     held by the writing process

A part is written under a temporary name, synced and renamed. One transaction then enters the part
and its replications into the ledger. Only parts in the ledger are valid: files of a killed process
without an entry are removed by the next writer.
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

from lasthop.running.campaign.database import CampaignError, Ledger
from lasthop.scenarios.files import open_regular

__all__ = ["Part", "Rows", "Span", "Store", "missing", "parts_of"]

LEDGER, PARTS, LOCK = "ledger.sqlite", "parts", "lock"
PART_NAME = re.compile(r"part-[0-9]{8,}\.parquet(\.tmp)?")

# Columns of every part, before the metrics.
KEYS: Mapping[str, Any] = {
    "point": pl.UInt32,
    "seed": pl.UInt64,
    "replication": pl.UInt64,
    "engine": pl.UInt16,
    "cost_s": pl.Float64,
}

# Number of parts of one level that are merged into one part of the next level.
FAN = 16
MERGED_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive finished replications of one point.

    Attributes:
        point: Number of the point in the ledger.
        seed: Master seed.
        engine: Number of the engine in the ledger.
        first: Index of the first replication.
        count: Number of replications.
        cost_s: Total processor seconds.
    """

    point: int
    seed: int
    engine: int
    first: int
    count: int
    cost_s: float


@dataclass(frozen=True, slots=True)
class Rows:
    """Finished replications to be written to a part.

    Attributes:
        point: Shape (rows,): number of the point in the ledger.
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
        """Returns the rows of all batches, ordered by point and replication."""
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
        """Returns the spans of consecutive replications; the rows must be ordered."""
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
    """Returns the replications in the minimum number of spans."""
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
    """Returns the gaps of `done` below `count` as pairs (first, count)."""
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
    """Ledger entry of a file of rows.

    Attributes:
        file: File name.
        size: Size in bytes.
        crc32: Checksum of the file.
    """

    file: str
    size: int
    crc32: int


def _crc32(path: Path) -> int:
    value = 0
    with open_regular(path) as file:
        while block := file.read(1 << 20):
            value = zlib.crc32(block, value)
    return value


def parts_of(ledger: sqlite3.Connection) -> list[Part]:
    """Returns the parts in the ledger, oldest first."""
    return [Part(*row) for row in ledger.execute("SELECT file, bytes, crc32 FROM part ORDER BY id")]


def overlapping(ledger: sqlite3.Connection) -> list[tuple[int, str]]:
    """Returns number and file of parts that repeat replications of an earlier part."""
    taken: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    found = []
    for number, file in ledger.execute("SELECT id, file FROM part ORDER BY id").fetchall():
        own = ledger.execute(
            "SELECT point, seed, engine, first, count FROM span WHERE part = ?", (number,)
        ).fetchall()
        is_free = all(
            first >= start + length or first + count <= start
            for *key, first, count in own
            for start, length in taken.get((key[0], key[1], key[2]), ())
        )
        if not is_free:
            found.append((number, file))
            continue
        for point, seed, engine, first, count in own:
            taken.setdefault((point, seed, engine), []).append((first, count))
    return found


class Store:
    """The folder of one campaign; see the module's docstring."""

    def __init__(self, folder: Path) -> None:
        """Sets the folder, which need not exist.

        Raises:
            CampaignError: If there is a file of that name.
        """
        if folder.is_file():
            raise CampaignError(f"{folder}: is a file: expected the folder of a campaign")
        self.folder = folder
        self.parts = folder / PARTS
        self.ledger = Ledger(folder / LEDGER)
        self._superseded: list[Path] = []
        # Parts whose checksum was verified, with their modification times.
        self._sound: set[tuple[Part, int]] = set()

    @contextlib.contextmanager
    def locked(self) -> Iterator[list[str]]:
        """Locks the folder for writing; yields notes on repaired problems.

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
                f"cannot write `{where}`: {error.strerror or error}: expected a writable folder"
            ) from None
        try:
            try:
                # The kernel releases the lock when the process ends, for any reason.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip()
                raise CampaignError(
                    f"{self.folder}: in use by {holder or 'another process'}; only one process "
                    "may write: wait until it ends, or stop it"
                ) from None
            holder = f"process {os.getpid()} on {socket.gethostname()}\n"
            try:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, holder.encode(), 0)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self.folder / LOCK)) from None
            if self.ledger.is_empty:
                self._refuse_orphans()
            self.ledger.make()
            with self._ledger_locked():
                yield self._put_right()
                self._remove_superseded()
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _ledger_locked(self) -> Iterator[None]:
        """Also locks the ledger file, in case the lock file of a writer was deleted.

        This lock is independent of SQLite's own locks, which use `fcntl`.
        """
        descriptor = os.open(self.folder / LEDGER, os.O_RDWR | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CampaignError(
                    f"{self.folder}: in use by a process whose file {LOCK} was deleted; only one "
                    "process may write: wait until it ends, or stop it"
                ) from None
            yield
        finally:
            os.close(descriptor)

    def _refuse_orphans(self) -> None:
        """Refuses parts without a ledger, which would be removed as files of a killed process."""
        if any(self.parts.glob("part-*.parquet")):
            raise CampaignError(
                f"{self.folder}: parts without {LEDGER}: expected a campaign with its ledger, or "
                "an empty folder"
            )

    def _put_right(self) -> list[str]:
        """Removes files without an entry and entries without a valid file; returns notes.

        The later one of two parts with the same replications is removed. The next run recomputes
        removed replications.
        """
        notes = []
        with self.ledger.write() as ledger:
            known = set()
            for part in parts_of(ledger):
                wrong = self._wrong(part, is_thorough=True)
                if wrong is None:
                    known.add(part.file)
                    continue
                notes.append(f"{self.parts / part.file} {wrong}; its replications are recomputed")
                ledger.execute("DELETE FROM part WHERE file = ?", (part.file,))
            for number, file in overlapping(ledger):
                notes.append(
                    f"{self.parts / file} repeats replications of another part; its other "
                    "replications are recomputed"
                )
                ledger.execute("DELETE FROM part WHERE id = ?", (number,))
                known.discard(file)
            ledger.execute("UPDATE run SET state = 'interrupted' WHERE state = 'running'")
        for path in self.parts.iterdir():
            if path.name not in known and PART_NAME.fullmatch(path.name):
                path.unlink()
        return notes

    def _wrong(self, part: Part, *, is_thorough: bool) -> str | None:
        """Returns the problem of a part; None if it is valid.

        Args:
            part: The part.
            is_thorough: Whether the checksum is verified, once per part.
        """
        path = self.parts / part.file
        try:
            found = path.stat()
        except FileNotFoundError:
            return "is missing"
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
        """Writes ordered rows as one part.

        Raises:
            OSError: If the disk is full; the campaign is then unchanged.
        """
        count = rows.point.size
        columns: dict[str, NDArray[Any]] = {
            "point": rows.point,
            "seed": np.full(count, seed, dtype=np.uint64),
            "replication": rows.replication,
            "engine": np.full(count, engine, dtype=np.uint16),
            "cost_s": rows.cost_s,
        }
        # Metrics without any value need no column.
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
        with self.ledger.write() as ledger:
            self._enter(ledger, part, level, count, names, rows.spans(seed, engine))
        self._compact()

    def _next_file(self) -> str:
        with self.ledger.read() as ledger:
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
        """Merges parts of a level that has many parts."""
        with self.ledger.read() as ledger:
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
                # Merging is optional: without space for it, the campaign remains valid.
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
        with self.ledger.write() as ledger:
            for number, *_ in chosen:
                found = ledger.execute(
                    "SELECT point, seed, engine, first, count, cost_s FROM span WHERE part = ?",
                    (number,),
                )
                spans += (Span(*row) for row in found)
                ledger.execute("DELETE FROM part WHERE id = ?", (number,))
            count = sum(rows for _, rows, _, _ in chosen)
            self._enter(ledger, whole, level, count, names, merged(spans))
        # Removed later: a reader may be about to open them.
        self._superseded = [self.parts / part.file for *_, part in chosen]

    def _remove_superseded(self) -> None:
        for path in self._superseded:
            path.unlink(missing_ok=True)
        self._superseded = []

    def scan(
        self, parts: Sequence[Part], metrics: Sequence[str], *, is_thorough: bool
    ) -> pl.LazyFrame:
        """Returns the rows of parts with the given metrics; null if a part lacks a metric.

        Args:
            parts: The parts.
            metrics: The metrics.
            is_thorough: Whether the checksums are verified, not only the sizes.

        Raises:
            CampaignError: If a part is missing, truncated or damaged.
        """
        schema = pl.Schema({**KEYS, **dict.fromkeys(metrics, pl.Float64)})
        if not parts:
            return pl.LazyFrame(schema=schema)
        for part in parts:
            wrong = self._wrong(part, is_thorough=is_thorough)
            if wrong:
                raise CampaignError(
                    f"{self.parts / part.file}: the part {wrong}; run the same command with "
                    "`--store` to recompute its replications"
                )
        return pl.scan_parquet(
            [(self.parts / part.file).absolute() for part in parts],
            schema=schema,
            # File names have no other meaning, regardless of the folder's name.
            glob=False,
            hive_partitioning=False,
            missing_columns="insert",
            extra_columns="ignore",
        )
