"""Count the instructions of one replication with callgrind, and print them as JSON.

Usage: `python benches/instructions.py [--check | --keep | --frames | --laws | --scale]`

The cases are those of `crates/lasthop/benches/study.rs` (`--once`), `floor`, a hand-written loop
for the first of them, and `802.11n`, a saturated sender with A-MPDUs, of
`crates/lasthop/examples/wifi_speed.rs`. The count includes the start of the process, about 0.3
million. It is reproducible to the last digits, regardless of other work on the machine; other
compilers and C libraries change it slightly.

`--frames` instead counts instructions per frame of a link protocol, over one link and over 64
consecutive links. A case of `crates/lasthop/benches/frames.rs` is divided by the number of frames
that its links send. It fails if a frame of hybrid FEC and ARQ takes more than twice as many
instructions as one of selective repeat.

`--laws` counts the instructions per ACK of each congestion control algorithm of
`crates/lasthop/examples/tcp_speed.rs`: in total, in excess of Reno, and in excess of Reno with the
options that the algorithm enables (pacing, timestamps, explicit congestion notification). It fails
if the last number of an algorithm is more than 560: 15 ns at the rate of the most expensive
algorithm (README.md).

`--scale` counts the instructions of networks of `crates/lasthop/benches/scale.rs` as they grow: for
each additional flow, hop, station or segment of a window, and for each frame that these send, in a
small and a large network. It fails if the ratio of the instructions per frame exceeds the limit of
the case. It also prints the memory of each additional unit of the large network in kilobytes, from
the median of the maximum resident sizes of several processes (Linux), which vary; that includes its
keys and its metrics. It fails if a unit needs more memory than the limit of the case.

`--check` compares with `benches/instructions.json` and fails if a case differs by more than 3 %, in
either direction: a count that stays above its case would hide later growth. `--keep` writes that
file. Needs valgrind. Standard library only.
"""

# ruff: noqa: S603, T201

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = Path(__file__).with_suffix(".json")
CASES = ("raw", "sr", "raw-congestion", "web", "web-sr")
# Case of `wifi_speed.rs`.
WLAN = "802.11n"
# Relative difference from the stored count that fails the check.
TOLERANCE = 0.03
# Protocols and numbers of links of `frames.rs`.
PROTOCOLS = ("raw", "selective-repeat", "harq")
HOPS = (1, 64)
# Maximum ratio of the instructions per frame: hybrid FEC and ARQ to selective repeat.
MOST_HARQ = 2.0
# ACKs per round of `tcp_speed.rs --once`; maximum instructions per ACK of the algorithm alone.
ACKS = 200_000
MOST_OF_A_LAW = 560
# Cases of `scale.rs`: numbers of units of the small and the large network, and the maximum ratio of
# the instructions per frame. A larger window has more holes, which loss detection visits at each
# ACK. Two networks are counted for each, one of which has half as many units, so that the start of
# the process is not included. The last number is the maximum memory per unit in kilobytes. The
# median of a network of 100 units or fewer varies by an eighth.
SCALES = {
    "file flows on one path": (10, 1000, 1.15, 13),
    "UDP flows on one path": (10, 4000, 1.15, 8),
    "selective-repeat hops": (8, 100, 1.15, 12),
    "rlc hops": (8, 40, 1.15, 60),
    "selective-repeat stations": (10, 1000, 1.15, 25),
    "radio stations": (10, 1000, 1.15, 28),
    "segments of a window": (200, 4000, 5.2, 4),
}
# Processes whose median memory counts.
PROCESSES = 7


def build(*benches: str) -> dict[str, str]:
    """Build benches like `cargo bench`; returns their executables by name."""
    command = ["cargo", "bench", "--locked", "--quiet", "-p", "lasthop", "--no-run"]
    command += ["--message-format=json"]
    for bench in benches:
        command += ["--bench", bench]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return executables(output)


def build_example(name: str) -> str:
    """Build an example with the profile of users; returns its executable."""
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "lasthop"]
    command += ["--message-format=json", "--example", name]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return executables(output)[name]


def executables(messages: str) -> dict[str, str]:
    """The executables in cargo's messages, by target."""
    parsed = (json.loads(line) for line in messages.splitlines() if line.startswith("{"))
    return {
        message["target"]["name"]: message["executable"]
        for message in parsed
        if message.get("executable")
    }


def count(command: list[str], *options: str, tool: str = "callgrind") -> int:
    """Number of instructions that a process executes in user space."""
    valgrind = ["valgrind", f"--tool={tool}", f"--{tool}-out-file=/dev/null", *options, *command]
    process = subprocess.run(
        valgrind, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    found = re.search(r"I\s+refs:\s+([\d,]+)", process.stderr)
    if process.returncode != 0 or found is None:
        sys.exit(f"{' '.join(command)}: exit code {process.returncode}\n{process.stderr}")
    return int(found.group(1).replace(",", ""))


def changed(now: dict[str, int], kept: dict[str, int]) -> list[str]:
    """One line per case whose count differs from the stored one by more than the tolerance."""
    return [
        f"{case}: {now[case]:,} instructions, {now[case] / kept[case] - 1:+.1%} from the "
        f"{kept[case]:,} of {KEPT.name}; at most {TOLERANCE:.0%} is allowed (`--keep` stores "
        "smaller counts)"
        for case in now
        if case in kept and abs(now[case] / kept[case] - 1) > TOLERANCE
    ]


def counts() -> dict[str, int]:
    """Instructions of one replication by case, of the hand-written loop, and of a WLAN."""
    benches = build("study", "floor")
    now = {case: count([benches["study"], "--once", case]) for case in CASES}
    now["floor"] = count([benches["floor"]])
    now[WLAN] = count([build_example("wifi_speed"), "--once", WLAN])
    return now


def frames() -> None:
    """Print the instructions per frame by protocol and number of links; fail above the limit."""
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


def scale(bench: str) -> None:
    """Print the instructions per unit and frame in small and large networks; fail above limits."""

    def measure(name: str, units: int) -> tuple[int, float, float]:
        command = [bench, "--once", name, str(units)]
        runs = [
            subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
            for _ in range(PROCESSES)
        ]
        kilobytes = statistics.median(int(most) for _, most in runs)
        instructions = count(command, "--cache-sim=no", tool="cachegrind")
        return instructions, float(runs[0][0]), kilobytes

    failures = []
    for name, (small, large, most, most_memory) in SCALES.items():
        costs = []
        for units in (small, large):
            many, few = measure(name, units), measure(name, units // 2)
            more, frames, kilobytes = (
                after - before for after, before in zip(many, few, strict=True)
            )
            added = units - units // 2
            costs.append((more / added, more / frames, kilobytes / added))
        growth = costs[1][1] / costs[0][1]
        found: dict[str, object] = {
            "units": [small, large],
            "per unit": [round(unit) for unit, _, _ in costs],
            "per frame": [round(frame) for _, frame, _ in costs],
            "growth": round(growth, 3),
            "kB per unit": round(costs[1][2], 1),
        }
        print(json.dumps({name: found}), flush=True)
        if growth > most:
            failures.append(f"{name}: a frame takes {growth:.2f} times as many; at most {most}")
        if (each := costs[1][2]) > most_memory:
            failures.append(f"{name}: each takes {each:.1f} kB; at most {most_memory}")
    if failures:
        sys.exit("\n".join(failures))


def laws() -> None:
    """Print the instructions per ACK by congestion control algorithm; fail above the limit."""
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
        sys.exit(f"{', '.join(costly)}: more than {MOST_OF_A_LAW} instructions per ACK")


def main() -> None:
    """Run the measurements that the options select."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="fail if a case differs by 3 %%")
    choice.add_argument("--keep", action="store_true", help=f"write {KEPT.name}")
    choice.add_argument("--frames", action="store_true", help="count per frame of a link protocol")
    choice.add_argument(
        "--laws", action="store_true", help="count per ACK, by congestion control algorithm"
    )
    choice.add_argument("--scale", action="store_true", help="count as networks grow")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed (Debian: apt-get install valgrind)")
    if arguments.frames:
        frames()
        return
    if arguments.laws:
        laws()
        return
    if arguments.scale:
        scale(build("scale")["scale"])
        return
    now = counts()
    print(json.dumps(now))
    if arguments.keep:
        KEPT.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    if arguments.check and (failures := changed(now, json.loads(KEPT.read_text(encoding="utf-8")))):
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
