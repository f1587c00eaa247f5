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
    key = table["key_of_points"]
    points = zip(table["points"], table["values"], table["published"], strict=True)
    for place, (point, value, published) in enumerate(points):
        if wanted not in (None, place):
            continue
        changed = scenario.with_(value if key == "" else {key: value})
        results = lasthop.run(changed, replications=table["replications"])
        samples = _values(results, table) - table.get("offset", 0.0)
        ours = float(samples.mean())
        ours /= table["units"][place] if "units" in table else table["unit"]
        shown = f"{ours:.3g}" if ours < 1e3 else f"{ours:.0f}"
        if isinstance(published, str):
            yield f"| {point} | {published} | {shown} | – |"
        else:
            error = 100.0 * (ours / published - 1.0)
            yield f"| {point} | {published:g} | {shown} | {error:+.0f} % |"


def _values(results: lasthop.Results, table: Mapping[str, Any]) -> Any:
    """Returns the metric of a table in each replication, over the sum of the metrics `per`."""
    values = results.samples(table["metric"], 0, censored=True)
    if "per" in table:
        values = values / sum(results.samples(name, 0, censored=True) for name in table["per"])
    return values


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
