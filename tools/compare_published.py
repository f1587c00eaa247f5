"""Compares congestion control with published measurements.

Usage: python tools/compare_published.py [TABLE ...]

Prints each published value, ours and the error as Markdown tables. `published/tables.toml` has the
values, their sources and the settings.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import lasthop

FOLDER = Path(__file__).parent / "published"


def tables() -> dict[str, dict[str, Any]]:
    """Returns the tables by key."""
    text = (FOLDER / "tables.toml").read_text(encoding="utf-8")
    return {table["key"]: table for table in tomllib.loads(text)["table"]}


def rows(table: Mapping[str, Any], wanted: int | None = None) -> Iterator[str]:
    """Yields the lines of a table; `wanted` selects one by its index."""
    scenario = lasthop.load(FOLDER / table["scenario"]).with_(table.get("changes", {}))
    points = zip(table["points"], table["values"], table["published"], strict=True)
    for place, (point, value, published) in enumerate(points):
        if wanted not in (None, place):
            continue
        results = lasthop.run(
            scenario.with_({table["key_of_points"]: value}), replications=table["replications"]
        )
        samples = results.samples(table["metric"], 0, censored=True)
        ours = float(samples.mean()) / table["unit"]
        error = 100.0 * (ours / published - 1.0)
        yield f"| {point} | {published:g} | {ours:.3g} | {error:+.0f} % |"


def main(wanted: list[str]) -> int:
    """Prints the wanted tables, or all."""
    known = tables()
    for key in wanted:
        if key not in known:
            sys.stderr.write(f"unknown table `{key}`: expected {', '.join(known)}\n")
            return 2
    for table in (known[key] for key in wanted or known):
        sys.stdout.write(f"{table['title']} ({table['source']}):\n\n")
        unit = table["unit_name"]
        sys.stdout.write(f"| {table['heading']} | published ({unit}) | ours | error |\n")
        sys.stdout.write("|---|---|---|---|\n")
        for row in rows(table):
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()
        sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
