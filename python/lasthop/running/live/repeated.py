"""Statistics of several live runs: means with intervals, paired differences from earlier runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lasthop.running.live.expect import shown
from lasthop.running.live.outcome import values
from lasthop.scenarios.arguments import ArgumentError

__all__ = ["differences", "read_summaries", "statistics", "table"]

# Values of the table, of each direction with packets.
SHOWN = ("goodput", "loss", "drops", "discarded", "delay_p50", "delay_p95", "queueing_p95")


def _columns(summaries: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Returns the values that all complete runs have, by name."""
    rows = [values(summary) for summary in summaries if summary["complete"]]
    names = [name for name in (rows[0] if rows else {}) if all(name in row for row in rows)]
    return {name: [row[name] for row in rows] for name in names}


def statistics(summaries: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Returns the mean and the half-width of its 95 % confidence interval (Student's t) by name."""
    from lasthop.evaluating.statistics.means import interval

    found = {}
    for name, column in _columns(summaries).items():
        own = interval(column)
        ci95 = own.ci95 if len(column) > 1 else None
        found[name] = {"n": len(column), "mean": own.mean, "ci95": ci95}
    return found  # type: ignore[return-value]


def _is_shown(name: str, mean: float) -> bool:
    value = name.rpartition(".")[2]
    return value in ("duration", "rtt_p50", "rtt_p95") or (value in SHOWN and mean != 0)


def table(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the headings and rows of a table of the main values."""
    rows = []
    for name, one in statistics(summaries).items():
        if _is_shown(name, one["mean"]):
            width = "–" if one["ci95"] is None else shown(name, one["ci95"])
            rows.append((name, shown(name, one["mean"]), width))
    return {"headings": ("value", "mean", "±"), "rows": rows}


def read_summaries(path: Path) -> list[dict[str, Any]]:
    """Reads the summaries of a file of `--json`.

    Raises:
        lasthop.scenarios.arguments.ArgumentError: If it contains none.
        OSError: If it cannot be read.
    """
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            value = json.loads(line)
        except ValueError:
            raise ArgumentError(
                f"invalid line {number} of `{path}`: expected a file of `lasthop live --json`"
            ) from None
        if isinstance(value, dict) and value.get("kind") == "summary" and value.get("complete"):
            found.append(value)
    if not found:
        raise ArgumentError(f"`{path}` contains no complete run: expected a file of `--json`")
    return found


def differences(
    summaries: Sequence[Mapping[str, Any]], baseline: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Returns the paired differences from earlier runs with the same seed and replication.

    Returns:
        For each main value `name`, the number of pairs `n`, `mean` and `ci95` (Student's t) of the
        differences, and `baseline`, the mean of the earlier runs.

    Raises:
        lasthop.scenarios.arguments.ArgumentError: If no two runs have the same seed and
            replication.
    """
    from lasthop.evaluating.statistics.means import interval

    def key(summary: Mapping[str, Any]) -> tuple[Any, Any]:
        return summary.get("seed"), summary.get("replication")

    known = {key(one): one for one in baseline}
    pairs = [(one, known[key(one)]) for one in summaries if one["complete"] and key(one) in known]
    if not pairs:
        raise ArgumentError(
            "no run of `--baseline` has the seed and replication of a run: use the same `--seed`, "
            "`--replication` and `--repeat`"
        )
    new, old = (_columns([pair[side] for pair in pairs]) for side in (0, 1))
    found = []
    for name in new:
        if name in old:
            gaps = [a - b for a, b in zip(new[name], old[name], strict=True)]
            own, before = interval(gaps), interval(old[name])
            if _is_shown(name, max(abs(before.mean), abs(own.mean))):
                ci95 = own.ci95 if len(gaps) > 1 else None
                found.append(
                    {
                        "name": name,
                        "n": len(gaps),
                        "baseline": before.mean,
                        "mean": own.mean,
                        "ci95": ci95,
                    }
                )
    return found
