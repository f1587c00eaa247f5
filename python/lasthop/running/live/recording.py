"""Results of a recording of a live run, which is replayed in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lasthop import _lasthop
from lasthop.running.live.outcome import Outcome

__all__ = ["MAGIC", "is_recording", "outcome_of"]

MAGIC = b"lasthop recording 1\n"
"""First line of a recording."""


def is_recording(path: Path) -> bool:
    """Returns whether a file begins like a recording."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def outcome_of(path: Path) -> tuple[dict[str, Any], Outcome, dict[str, Any]]:
    """Replays a recording.

    Returns:
        The result of the replay, the results of the run, and the tables of its scenario.

    Raises:
        lasthop.ScenarioError: If the file is not a recording.
        OSError: If it cannot be read.
    """
    result = json.loads(_lasthop.live_replay(str(path), messages=True))
    outcome = Outcome()
    outcome.add({"kind": "start", "hosts": result["hosts"]})
    for message in result["messages"]:
        outcome.add(message)
    outcome.add(
        {
            "kind": "end",
            "time": result["time"],
            "code": 0,
            "programs": [],
            "summary": result["summary"],
            "lateness": None,
            "notes": [],
        }
    )
    return result, outcome, result["scenario"]
