"""Count the instructions of one replication with callgrind, and print them as JSON.

Usage: python benches/instructions.py [--check | --keep]

The cases are those of `crates/lasthop/benches/study.rs` (`--once`), and `floor`, a loop written by
hand for the first of them. The count includes the start of the process, some 0.3 million. It
repeats to the last digits, whatever else the machine does; other compilers and C libraries shift
it a little.

--check compares with `benches/instructions.json` and fails if a case has grown by more than 3 %;
--keep writes that file. Needs valgrind. Standard library only.
"""

# ruff: noqa: S603, T201

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = Path(__file__).with_suffix(".json")
CASES = ("raw", "sr", "raw-congestion", "web")
# Growth over the kept figure that fails the check.
TOLERANCE = 0.03


def build() -> dict[str, str]:
    """Build the two benches as `cargo bench` does; the executables by name."""
    command = ["cargo", "bench", "--locked", "--quiet", "-p", "lasthop", "--no-run"]
    command += ["--bench", "study", "--bench", "floor", "--message-format=json"]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    messages = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
    return {
        message["target"]["name"]: message["executable"]
        for message in messages
        if message.get("executable")
    }


def count(command: list[str]) -> int:
    """Instructions that a process executes in user space."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
    process = subprocess.run(valgrind, stderr=subprocess.PIPE, text=True, check=False)
    found = re.search(r"I\s+refs:\s+([\d,]+)", process.stderr)
    if process.returncode != 0 or found is None:
        sys.exit(f"{' '.join(command)}: exit code {process.returncode}\n{process.stderr}")
    return int(found.group(1).replace(",", ""))


def grown(now: dict[str, int], kept: dict[str, int]) -> list[str]:
    """One line for each case that has grown beyond the tolerance."""
    return [
        f"{case}: {now[case]:,} instructions, {now[case] / kept[case] - 1:+.1%} over the "
        f"{kept[case]:,} of {KEPT.name}; at most {TOLERANCE:.0%} is allowed"
        for case in now
        if case in kept and now[case] > kept[case] * (1 + TOLERANCE)
    ]


def main() -> None:
    """Count, print, and do what the options say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="fail if a case has grown by 3 %%")
    choice.add_argument("--keep", action="store_true", help=f"write {KEPT.name}")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed (Debian: apt-get install valgrind)")
    executables = build()
    now = {case: count([executables["study"], "--once", case]) for case in CASES}
    now["floor"] = count([executables["floor"]])
    print(json.dumps(now))
    if arguments.keep:
        KEPT.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    if arguments.check and (failures := grown(now, json.loads(KEPT.read_text(encoding="utf-8")))):
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
