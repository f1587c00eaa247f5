"""Helpers for tests of campaigns: comparison of results, contents of a folder, the command."""

import subprocess
import sys
from pathlib import Path

from lasthop.evaluating.results import Results
from lasthop.running.campaign import store

COMMAND = [sys.executable, "-m", "lasthop"]
GOODPUT = "flow.transfer.goodput_bps"
VARIANT = "flow.transfer.transport.variant"


def same(one: Results, other: Results) -> bool:
    """Whether two results are bit-identical."""
    return (
        list(one.metrics) == list(other.metrics)
        and [dict(point.parameters) for point in one.points]
        == [dict(point.parameters) for point in other.points]
        and one.point.tobytes() == other.point.tobytes()
        and one.replication.tobytes() == other.replication.tobytes()
        and one.values.tobytes() == other.values.tobytes()
        and (one.seed, one.complete) == (other.seed, other.complete)
    )


def parts(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "parts").iterdir())


def spans(folder: Path) -> list[tuple[int, int, int]]:
    """Point, first replication and count of all spans that the ledger lists as finished."""
    with store.Store(folder).ledger.read() as ledger:
        found: list[tuple[int, int, int]] = ledger.execute(
            "SELECT point, first, count FROM span ORDER BY point, first"
        ).fetchall()
    return found


class Counter:
    """A progress callback that stores the total number of replications."""

    total = -1

    def __call__(self, done: int, total: int) -> None:
        self.total = total


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False
    )
