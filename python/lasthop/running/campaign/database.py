"""The ledger of a campaign: an SQLite database with a checksum and clear errors.

The database uses a rollback journal instead of a write-ahead log. Both survive a killed process.
The log needs shared memory, which network file systems lack and a full disk can revoke. Each
transaction stores a checksum of all tables, because SQLite does not detect flipped bits.
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

# Maximum time in seconds to wait until another process releases the ledger.
WAIT_S = 60.0

SCHEMA = """
CREATE TABLE engine (
    id INTEGER PRIMARY KEY,
    version TEXT NOT NULL,          -- of the package
    build TEXT NOT NULL,            -- hash of the compiled engine
    UNIQUE (version, build)
);
CREATE TABLE accepted (             -- engines whose results another engine may extend
    stored INTEGER NOT NULL REFERENCES engine,
    running INTEGER NOT NULL REFERENCES engine,
    PRIMARY KEY (stored, running)
) WITHOUT ROWID;
CREATE TABLE point (
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,      -- of all inputs of its results except the seed
    scenario TEXT NOT NULL,         -- JSON, resolved: sufficient to rerun it
    metrics TEXT NOT NULL           -- JSON, names in the engine's order
);
CREATE TABLE part (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    file TEXT NOT NULL UNIQUE,      -- in the folder parts
    level INTEGER NOT NULL,         -- number of merges
    rows INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,         -- of the file
    metrics TEXT NOT NULL           -- JSON, its columns in addition to the common ones
);
CREATE TABLE span (                 -- finished replications
    part INTEGER NOT NULL REFERENCES part ON DELETE CASCADE,
    point INTEGER NOT NULL REFERENCES point,
    seed INTEGER NOT NULL,
    engine INTEGER NOT NULL REFERENCES engine,
    first INTEGER NOT NULL,         -- index of the first replication
    count INTEGER NOT NULL,
    cost_s REAL NOT NULL            -- total processor seconds
);
CREATE INDEX span_of_part ON span (part);
CREATE INDEX span_of_point ON span (point, seed);
CREATE TABLE run (                  -- requests
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,    -- of the request without replications
    name TEXT NOT NULL,
    scenario TEXT NOT NULL,         -- JSON, as given
    seed INTEGER NOT NULL,
    state TEXT NOT NULL,            -- running, complete, interrupted, failed
    turn INTEGER NOT NULL,          -- order of the last start
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
    parameters TEXT NOT NULL,       -- JSON, label in this run
    replications INTEGER NOT NULL,
    PRIMARY KEY (run, place)
) WITHOUT ROWID;
"""


# Not part of the format: added to older ledgers when they are next written.
GUARD = """
CREATE TRIGGER IF NOT EXISTS no_replication_twice BEFORE INSERT ON span
WHEN EXISTS (
    SELECT 1 FROM span WHERE point = NEW.point AND seed = NEW.seed AND engine = NEW.engine
    AND first < NEW.first + NEW.count AND NEW.first < first + count
)
BEGIN SELECT RAISE(ABORT, 'two parts with the same replications'); END
"""

# Not part of the format: exists if a scenario replays recorded losses.
RECORDINGS = """
CREATE TABLE IF NOT EXISTS recording (
    point INTEGER NOT NULL REFERENCES point,
    direction TEXT NOT NULL,        -- link.NAME.forward
    frames INTEGER NOT NULL,        -- length of the recording
    PRIMARY KEY (point, direction)
) WITHOUT ROWID
"""


class CampaignError(Refused):
    """The folder of a campaign, or a request to it, is refused."""


def _seal(ledger: sqlite3.Connection) -> int:
    """Returns a checksum of all tables of a ledger."""
    value = 0
    kind, ledger.text_factory = ledger.text_factory, bytes
    try:
        tables = ledger.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name != 'seal' ORDER BY 1"
        ).fetchall()
        for name, sql in tables:
            value = zlib.crc32(sql, value)
            # Read from the table, not from an index.
            query = f'SELECT * FROM "{name.decode()}" NOT INDEXED'  # noqa: S608 - its own name
            for row in ledger.execute(query):
                texts = [cell for cell in row if isinstance(cell, bytes)]
                others = [len(cell) if isinstance(cell, bytes) else cell for cell in row]
                value = zlib.crc32(repr(others).encode(), zlib.crc32(b"".join(texts), value))
    finally:
        ledger.text_factory = kind
    return value


def _is_empty(ledger: sqlite3.Connection) -> bool:
    """Returns `True` if there is no table; an empty file is a valid database."""
    return ledger.execute("SELECT 1 FROM sqlite_master").fetchone() is None


class Ledger:
    """The database of one campaign; see the module's docstring."""

    def __init__(self, path: Path) -> None:
        """Sets the file, which need not exist."""
        self.path = path
        # The last checksum that was verified or stored.
        self._sealed: int | None = None

    @property
    def is_there(self) -> bool:
        """Whether the database file exists."""
        return self.path.exists()

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Yields a connection with a consistent view of the ledger.

        Raises:
            CampaignError: If there is no ledger, or if it is damaged.
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
        """Yields a connection in a transaction, which is rolled back after an error."""
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
        """Returns the exception for a failure of the database."""
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:
            case sqlite3.SQLITE_FULL:
                return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            case sqlite3.SQLITE_IOERR:
                return OSError(errno.EIO, str(error), str(self.path))
            case sqlite3.SQLITE_BUSY:
                # Writers wait for readers.
                return CampaignError(
                    f"{self.path}: locked by another process for {WAIT_S:g} s; resume or end that "
                    "process, for example a stopped `lasthop report`"
                )
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                # A reader must roll back the journal of a killed process.
                return CampaignError(
                    f"{self.path}: {error}: expected a writable ledger, or one without a journal"
                )
        return CampaignError(
            f"{self.path}: not the ledger of a campaign ({error}): expected a folder written by "
            "`lasthop run --store`, or an empty one"
        )

    def _connect(self) -> sqlite3.Connection:
        # Readers need write access, too: the next process that opens the ledger rolls back the
        # journal of a killed process. An absolute path cannot begin with `file:`, which would
        # make it a URI.
        path = self.path.absolute()
        if path.exists() and not path.is_file():
            # SQLite would block on a pipe.
            raise CampaignError(f"{path}: not a regular file: expected the ledger of a campaign")
        connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    @property
    def is_empty(self) -> bool:
        """Whether the file does not exist or has no tables."""
        if not self.is_there:
            return True
        with self._connection() as connection:
            return _is_empty(connection)

    def make(self) -> None:
        """Creates the ledger, or checks an existing one.

        Raises:
            CampaignError: If the file is not a ledger, or is damaged.
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
            f"{self.path.parent}: not a campaign: expected a folder written by "
            "`lasthop run --store`"
        )

    def _check(self, ledger: sqlite3.Connection) -> None:
        """Verifies the checksum of the ledger, once per state."""
        if _is_empty(ledger):
            raise self._none()
        (version,) = ledger.execute("PRAGMA user_version").fetchone()
        if version == 0:
            raise CampaignError(
                f"{self.path}: database of another program: expected a folder written by "
                "`lasthop run --store`, or an empty one"
            )
        if version != FORMAT:
            raise CampaignError(
                f"{self.path}: unsupported format {version}: expected {FORMAT}, the format of this "
                "version of lasthop"
            )
        found = ledger.execute("SELECT crc32 FROM seal").fetchall()
        if found == [(self._sealed,)]:
            return
        is_sound = ledger.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if not (is_sound and found == [(_seal(ledger),)]):
            raise CampaignError(
                f"{self.path}: the ledger is damaged; restore it from a backup or use another "
                "folder"
            )
        ((self._sealed,),) = found
