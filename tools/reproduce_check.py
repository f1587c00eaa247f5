"""Recompute the stored results of all studies and compare them.

    python tools/reproduce_check.py                 every number of every study, 3 replications
    python tools/reproduce_check.py --full          results.md of every study, byte for byte
    python tools/reproduce_check.py --write         store new digests of 3 replications

With 3 replications, the numbers of each table and figure are compared in ten digits by their digest
in `papers/<study>/check.json`: results are identical on every machine. `--full` runs the command at
the head of each results.md, and writes its output to `results/check/<study>/results.md`. The exit
code is 1 if anything differs.
"""

# ruff: noqa: S603, T201

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import lasthop
from lasthop.studies import Study, studies

PAPERS = Path(__file__).parent.parent / "python" / "lasthop" / "papers"

REPLICATIONS = 3

LINES = 12
"""Differing lines that are shown of a study."""


def digits(number: float | None) -> str:
    """A number as its digest has it: ten digits, so that the order of a sum does not matter."""
    return repr(number if number is None else float(f"{number:.10g}"))


def digests(study: Study, jobs: int, store: Path | None) -> dict[str, str]:
    """A digest of the numbers of each table and figure, with 3 replications."""
    campaign = None if store is None else lasthop.Campaign(store / study.key)
    report = study.reproduce(replications=REPLICATIONS, jobs=jobs, campaign=campaign)
    found = {}
    for artefact in report.artefacts:
        cells = [
            (cell.row, cell.column, cell.unit, digits(cell.value), digits(cell.ci95))
            for cell in report.cells
            if cell.artefact == artefact.name
        ]
        text = json.dumps(cells, ensure_ascii=False)
        found[artefact.name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def quick(study: Study, jobs: int, store: Path | None, *, write: bool) -> list[str]:
    """Differences from the stored digests, as text; writes the digests instead if requested."""
    found = digests(study, jobs, store)
    path = PAPERS / study.key / "check.json"
    if write:
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return []
    stored = json.loads(path.read_text(encoding="utf-8"))
    names = dict.fromkeys([*stored, *found])
    return [f"{name}: other numbers" for name in names if stored.get(name) != found.get(name)]


def full(study: Study, jobs: int) -> list[str]:
    """Differences from results.md, as lines of a diff."""
    path = PAPERS / study.key / "results.md"
    stored = path.read_text(encoding="utf-8")
    head = re.match(r"<!-- Written by `lasthop (.*)`\. -->", stored)
    if head is None:
        return [f"{path}: no command at its head"]
    command = [sys.executable, "-m", "lasthop", *shlex.split(head[1]), "--jobs", str(jobs)]
    folder = Path("results") / "check" / study.key
    command += ["--out", str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        return [f"exit code {ran.returncode}", *ran.stderr.splitlines()[-LINES:]]
    (folder / "results.md").write_text(ran.stdout, encoding="utf-8")
    if ran.stdout == stored:
        return []
    lines = difflib.unified_diff(stored.splitlines(), ran.stdout.splitlines(), lineterm="", n=0)
    return [line[:160] for line in lines if not line.startswith(("---", "+++", "@@"))]


def main() -> int:
    """Checks the named studies, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", nargs="*", choices=[*studies(), []], help="by default all")
    parser.add_argument("--full", action="store_true", help="results.md, byte for byte")
    parser.add_argument("--write", action="store_true", help="store the digests again")
    parser.add_argument("--jobs", type=int, default=0, help="threads; by default all cores")
    parser.add_argument("--store", type=Path, help="folder with a campaign for each study")
    asked = parser.parse_args()
    failed = False
    for key in asked.study or studies():
        began = time.monotonic()
        study = studies()[key]
        if asked.full:
            differences = full(study, asked.jobs)
        else:
            differences = quick(study, asked.jobs, asked.store, write=asked.write)
        seconds = time.monotonic() - began
        failed |= bool(differences)
        print(f"{key}: {'differs' if differences else 'as stored'} ({seconds:.0f} s)", flush=True)
        for line in differences[:LINES]:
            print(f"  {line}")
        if len(differences) > LINES:
            print(f"  and {len(differences) - LINES} more")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
