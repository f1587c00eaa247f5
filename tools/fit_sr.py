"""Deviation of the selective-repeat link of the multilayer study from the published tables.

Usage: python tools/fit_sr.py [--replications 30] [--seed 1] [--tables "Table I" ...] [KEYS ...]

Each argument is a candidate: keys that change the study's own protocol, such as `"window=18
timeout=0.8s renack=every-gap"`. Without arguments, the study's own keys are run. Only the published
tables can be compared.

Prints, for each candidate, the error in per cent of Reno/SR and SACK/SR in each table at each loss
rate, and the score: the root mean square of error / target (3 % for file transfer, 8 % for the
web).
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import math
from typing import Any

from lasthop.running.replications import run_points
from lasthop.studies import Change, studies

STUDY = studies()["multilayer"]
COLUMNS = ("Reno/SR", "SACK/SR")
TARGET = {"file": 3.0, "web": 8.0}
KEY = "link.wireless.protocol"


def candidate(text: str) -> dict[str, Any]:
    """The keys of one candidate."""
    keys: dict[str, Any] = {}
    for pair in text.split():
        name, _, value = pair.partition("=")
        keys[name] = int(value) if value.isdigit() else value
    return keys


def errors(
    keys: dict[str, Any], tables: list[str], columns: list[str], replications: int, seed: int
) -> dict[tuple[str, str], list[float]]:
    """Error in per cent of each (table, column), one value per loss rate."""
    artefacts = [a for a in STUDY.find(tables) if a.name in STUDY.published]
    cells = [a.cell(row, c) for a in artefacts for c in columns for row in a.rows]
    changes = [Change({}, {f"{KEY}.{name}": value}) for name, value in keys.items()]
    results = run_points(
        [STUDY.scenario(cell, changes).points()[0] for cell in cells],
        replications=replications,
        seed=seed,
        jobs=1,
    )
    samples = STUDY.samples({cell: index for index, cell in enumerate(cells)}, results)
    means = iter(samples(cell, "goodput").value for cell in cells)
    return {
        (a.name, column): [
            100.0 * (next(means) / STUDY.published[a.name][f"{row:g}", column, "kbps"] - 1.0)
            for row in a.rows
        ]
        for a in artefacts
        for column in columns
    }


def score(found: dict[tuple[str, str], list[float]]) -> float:
    """Root mean square of error / target."""
    application = {a.name: a.base["application"] for a in STUDY.artefacts}
    parts = [(e / TARGET[application[t]]) ** 2 for (t, _), es in found.items() for e in es]
    return math.sqrt(sum(parts) / len(parts))


def main() -> None:
    """Runs each candidate and prints a line for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("keys", nargs="*", default=[""])
    parser.add_argument("--replications", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--columns", nargs="+", default=list(COLUMNS))
    parser.add_argument(
        "--tables", nargs="+", default=["Table I", "Table II", "Table V", "Table III"]
    )
    given = parser.parse_args()
    for text in given.keys or [""]:
        found = errors(candidate(text), given.tables, given.columns, given.replications, given.seed)
        cells = " | ".join(" ".join(f"{e:+5.1f}" for e in es) for es in found.values())
        print(f"{text:60} {score(found):6.3f} | {cells}", flush=True)


if __name__ == "__main__":
    main()
