"""The ledger of a campaign: an SQLite database that says what is wrong with it.

It keeps a rollback journal, not a write-ahead log: either survives a kill, but the log needs shared
memory, which network file systems do not have and which a full disk takes away under a running
process. Each transaction seals all tables with a checksum, as SQLite itself does not notice bits.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

from lasthop.scenarios.arguments import Refused

__all__ = ["CampaignError", "Ledger"]

FORMAT = 3

# How long one process waits for another to let go of the ledger, in seconds.
WAIT_S = 60.0

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


# Not a part of the format: ledgers without it get it when they are next written.
GUARD = """
CREATE TRIGGER IF NOT EXISTS no_replication_twice BEFORE INSERT ON span
WHEN EXISTS (
    SELECT 1 FROM span WHERE point = NEW.point AND seed = NEW.seed AND engine = NEW.engine
    AND first < NEW.first + NEW.count AND NEW.first < first + count
)
BEGIN SELECT RAISE(ABORT, 'two parts with the same replications'); END
"""

# Not a part of the format: there where a scenario plays recorded losses.
RECORDINGS = """
CREATE TABLE IF NOT EXISTS recording (
    point INTEGER NOT NULL REFERENCES point,
    direction TEXT NOT NULL,        -- link.NAME.forward
    frames INTEGER NOT NULL,        -- that the recording of its losses has
    PRIMARY KEY (point, direction)
) WITHOUT ROWID
"""


class CampaignError(Refused):
    """A campaign's folder is refused: what was found and what is allowed."""


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


def _is_empty(ledger: sqlite3.Connection) -> bool:
    """Whether there is no table: a file of no length, too, is a database."""
    return ledger.execute("SELECT 1 FROM sqlite_master").fetchone() is None


class Ledger:
    """The database of one campaign; see the head of this file."""

    def __init__(self, path: Path) -> None:
        """Takes a file, which need not be there."""
        self.path = path
        # The last seal that was found right or made.
        self._sealed: int | None = None

    @property
    def is_there(self) -> bool:
        """Whether anything was ever run here."""
        return self.path.exists()

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the ledger.

        Raises:
            CampaignError: If there is none.
        """
        if not self.is_there:
            raise self._none()
        with self._connection() as connection:
            connection.execute("BEGIN")
            self._check(connection)
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
                return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            case sqlite3.SQLITE_IOERR:
                return OSError(errno.EIO, str(error), str(self.path))
            case sqlite3.SQLITE_BUSY:
                # A writer waits for readers.
                return CampaignError(
                    f"{self.path}: found it in use by another process for {WAIT_S:g} s; "
                    "allowed: one that goes on or ends, such as a `lasthop report` that was stopped"
                )
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                # Reading writes, too, where a process that was killed has left a journal.
                return CampaignError(
                    f"{self.path}: {error}; allowed: a ledger that can be written, or one "
                    "without a journal beside it"
                )
        return CampaignError(
            f"{self.path}: found a file that is no ledger of a campaign ({error}); "
            "allowed: a folder that `lasthop run --store` has written, or an empty one"
        )

    def _connect(self) -> sqlite3.Connection:
        # A reader must be able to write, too: a process that was killed may have left a
        # journal, which the next to open the ledger rolls back.
        # By its whole path, as the parts, too: `file:` at its beginning would make it an address.
        path = self.path.absolute()
        if path.exists() and not path.is_file():
            # SQLite would wait for a pipe.
            raise CampaignError(f"{path}: found no regular file; allowed: a campaign's ledger")
        connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    @property
    def is_empty(self) -> bool:
        """Whether it is not there, or a database without tables."""
        if not self.is_there:
            return True
        with self._connection() as connection:
            return _is_empty(connection)

    def make(self) -> None:
        """Makes it, or checks it if it is there.

        Raises:
            CampaignError: If it is no ledger, or a damaged one.
        """
        with self.write() as ledger:
            if not _is_empty(ledger):
                self._check(ledger)
                ledger.execute(GUARD)
                return
            for statement in SCHEMA.split(";"):
                ledger.execute(statement)
            ledger.execute(GUARD)
            ledger.execute(f"PRAGMA user_version = {FORMAT}")

    def _none(self) -> CampaignError:
        return CampaignError(
            f"{self.path.parent}: found no campaign; allowed: a folder that `lasthop run --store` "
            "has written"
        )

    def _check(self, ledger: sqlite3.Connection) -> None:
        """Looks at all of the ledger, once for each state: SQLite itself does not notice bits."""
        if _is_empty(ledger):
            raise self._none()
        (version,) = ledger.execute("PRAGMA user_version").fetchone()
        if version == 0:
            raise CampaignError(
                f"{self.path}: found the database of another program; allowed: a folder "
                "that `lasthop run --store` has written, or an empty one"
            )
        if version != FORMAT:
            raise CampaignError(
                f"{self.path}: found format {version}; allowed: {FORMAT}, that of this "
                "version of lasthop"
            )
        found = ledger.execute("SELECT crc32 FROM seal").fetchall()
        if found == [(self._sealed,)]:
            return
        is_sound = ledger.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if not (is_sound and found == [(_seal(ledger),)]):
            raise CampaignError(
                f"{self.path}: found that it is damaged; allowed: what lasthop has written, "
                "from a copy, or another folder"
            )
        ((self._sealed,),) = found
