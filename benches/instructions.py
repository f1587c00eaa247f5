"""Count the instructions of one replication with callgrind, and print them as JSON.

Usage: python benches/instructions.py [--check | --keep | --frames | --laws]

The cases are those of `crates/lasthop/benches/study.rs` (`--once`), and `floor`, a loop written by
hand for the first of them. The count includes the start of the process, some 0.3 million. It
repeats to the last digits, whatever else the machine does; other compilers and C libraries shift
it a little.

--frames counts instead what a frame of a link protocol takes, over one link and over 64 in a row:
instructions of a case of `crates/lasthop/benches/frames.rs`, divided by the frames that its links
send. It fails if a frame of hybrid FEC and ARQ takes more than twice as many as one of selective
repeat.

--laws counts what an ACK takes with each congestion law of
`crates/lasthop/examples/tcp_speed.rs`: in all, beyond Reno, and beyond Reno with the options that
the law turns on (pacing, time stamps, explicit congestion notification), which is the law's own. It
fails if one takes more than 560 by itself: 15 ns, as the costliest law's take (README.md).

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
# Protocols and numbers of links of `frames.rs`.
PROTOCOLS = ("raw", "selective-repeat", "harq")
HOPS = (1, 64)
# Instructions of a frame of hybrid FEC and ARQ for each of selective repeat, at most.
MOST_HARQ = 2.0
# ACKs of a round of `tcp_speed.rs --once`; instructions of an ACK that a law may take by itself.
ACKS = 200_000
MOST_OF_A_LAW = 560


def build(*benches: str) -> dict[str, str]:
    """Build some benches as `cargo bench` does; the executables by name."""
    command = ["cargo", "bench", "--locked", "--quiet", "-p", "lasthop", "--no-run"]
    command += ["--message-format=json"]
    for bench in benches:
        command += ["--bench", bench]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return executables(output)


def build_example(name: str) -> str:
    """Build an example as users build the engine; its executable."""
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "lasthop"]
    command += ["--message-format=json", "--example", name]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return executables(output)[name]


def executables(messages: str) -> dict[str, str]:
    """The executables that cargo's messages name, by target."""
    parsed = (json.loads(line) for line in messages.splitlines() if line.startswith("{"))
    return {
        message["target"]["name"]: message["executable"]
        for message in parsed
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


def frames() -> None:
    """Print the instructions of a frame, by protocol and number of links; fail if HARQ has more."""
    bench = build("frames")["frames"]

    def each(protocol: str, hops: int) -> float:
        command = [bench, "--once", protocol, str(hops)]
        process = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return round(count(command) / int(process.stdout))

    found = {protocol: {hops: each(protocol, hops) for hops in HOPS} for protocol in PROTOCOLS}
    print(json.dumps(found))
    for hops in HOPS:
        ratio = found["harq"][hops] / found["selective-repeat"][hops]
        if ratio > MOST_HARQ:
            sys.exit(f"harq: {ratio:.2f} x selective-repeat over {hops} links; at most {MOST_HARQ}")


def laws() -> None:
    """Print the instructions of an ACK by congestion law; fail if a law takes too many."""
    example = build_example("tcp_speed")
    listed = subprocess.run([example, "--laws"], check=True, stdout=subprocess.PIPE, text=True)

    def each(*words: str) -> int:
        return round(count([example, "--once", *words]) / ACKS)

    plain = each("sack")
    found = {}
    for law in listed.stdout.split():
        total = each(law)
        found[law] = {"ack": total, "beyond": total - plain, "own": total - each(law, "reno")}
        print(json.dumps({law: found[law]}), flush=True)
    if costly := [law for law, counts in found.items() if counts["own"] > MOST_OF_A_LAW]:
        sys.exit(f"{', '.join(costly)}: more than {MOST_OF_A_LAW} instructions an ACK")


def main() -> None:
    """Count, print, and do what the options say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="fail if a case has grown by 3 %%")
    choice.add_argument("--keep", action="store_true", help=f"write {KEPT.name}")
    choice.add_argument("--frames", action="store_true", help="of a frame of a link protocol")
    choice.add_argument("--laws", action="store_true", help="of an ACK, by congestion law")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed (Debian: apt-get install valgrind)")
    if arguments.frames:
        frames()
        return
    if arguments.laws:
        laws()
        return
    benches = build("study", "floor")
    now = {case: count([benches["study"], "--once", case]) for case in CASES}
    now["floor"] = count([benches["floor"]])
    print(json.dumps(now))
    if arguments.keep:
        KEPT.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    if arguments.check and (failures := grown(now, json.loads(KEPT.read_text(encoding="utf-8")))):
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
