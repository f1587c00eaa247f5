"""Shows the differences of the golden metrics from those of a commit.

Usage: python tools/golden_diff.py [COMMIT] [--cell NAME]

Compares `crates/lasthop/tests/golden/metrics.csv` of the work tree with that of COMMIT (default:
HEAD). Prints, for each cell (a scenario of `golden_cells.rs`), the number of changed values and the
metrics with the largest relative change; `--cell` prints every changed value of one cell. The last
lines count changed values per TCP profile. Regenerate the file with `make golden` first.
"""

import argparse
import csv
import io
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
GOLDEN = "crates/lasthop/tests/golden/metrics.csv"
# Metrics shown for each cell.
SHOWN = 3
Row = tuple[str, str, str]


def rows(text: str) -> dict[Row, tuple[str, float]]:
    """Returns bits and value by cell, replication and metric."""
    return {
        (row["scenario"], row["replication"], row["metric"]): (row["bits"], float(row["value"]))
        for row in csv.DictReader(io.StringIO(text))
    }


def profile(cell: str) -> str:
    """Returns the TCP profile of a cell by its name: `linux`, `rfc`, or else `ns-2`."""
    return next((name for name in ("linux", "rfc") if name in cell), "ns-2 or other")


def relative(old: float, new: float) -> float:
    """Returns the change relative to the old value; infinite from zero."""
    return abs(new - old) / abs(old) if old else float("inf")


def changes(before: dict[Row, tuple[str, float]], now: dict[Row, tuple[str, float]]) -> list[str]:
    """Returns the summary, one line per cell and per profile."""
    cells: dict[str, list[tuple[float, str]]] = {}
    for row in before.keys() & now.keys():
        if before[row][0] != now[row][0]:
            old, new = before[row][1], now[row][1]
            text = f"{row[2]} (replication {row[1]}) {old:.6g} -> {new:.6g}"
            cells.setdefault(row[0], []).append((relative(old, new), text))
    sizes = Counter(row[0] for row in now)
    lines = []
    for cell, found in sorted(cells.items()):
        lines.append(f"{cell}: {len(found)} of {sizes[cell]} values changed")
        largest = sorted(found, reverse=True)[:SHOWN]
        lines += [f"    {text}, {change:.2%}" for change, text in largest]
    for name, side, other in (("removed", before, now), ("added", now, before)):
        counts = Counter(row[0] for row in side.keys() - other.keys())
        lines += [f"{cell}: {count} values {name}" for cell, count in sorted(counts.items())]
    totals = Counter(profile(cell) for cell, found in cells.items() for _ in found)
    for which, count in sorted(totals.items()):
        changed = sum(profile(cell) == which for cell in cells)
        lines.append(f"profile {which}: {count} values in {changed} cells")
    return lines or ["no change"]


def main() -> None:
    """Prints the differences."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("commit", nargs="?", default="HEAD")
    parser.add_argument("--cell", help="print every changed value of this cell")
    options = parser.parse_args()
    show = ["git", "-C", str(ROOT), "show", f"{options.commit}:{GOLDEN}"]
    done = subprocess.run(show, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(f"golden_diff: {options.commit}: {done.stderr.strip()}")
    before, now = rows(done.stdout), rows((ROOT / GOLDEN).read_text(encoding="utf-8"))
    if options.cell:
        both = sorted(row for row in before.keys() & now.keys() if row[0] == options.cell)
        lines = [
            f"{row[1]} {row[2]}: {before[row][1]:.9g} -> {now[row][1]:.9g}"
            for row in both
            if before[row][0] != now[row][0]
        ]
    else:
        lines = changes(before, now)
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
