"""Compare 802.11n, ac and ax with ns-3: durations of PPDUs, throughput of saturated UDP and of TCP.

Usage: python tools/compare_ns3.py [--ns3 DIR] [--durations | --throughput]

DIR is the folder `ns3` of an installed or unpacked wheel of ns-3 3.44; without it, the wheel is
downloaded with pip to `target/ns3`. The script compiles the programs of `tools/ns3` with g++
(C++23) against the headers and libraries of the wheel and runs them. Durations are those of the
example `ppdu_durations` of the crate `lasthop-wlan`, and must be equal. Throughputs of UDP, of each
access category, and of each direction of TCP are printed with their ratio; the tolerance is 1 % for
one sender of UDP, 3 % for several or for several categories, and 5 % for TCP. With losses and
with senders that contend, the ratio has a 95 % confidence interval. Runs are added in both, up to
`--runs`, until the whole interval is within the tolerance or outside; otherwise the ratio is
undecided. A summary counts the verdicts of each group. The exit code is 1 if a duration differs or
a ratio is outside. Throughputs of ns-3 are kept in `target/ns3/throughput.jsonl`: an interrupted
comparison continues from there, and one after a change of Lasthop takes minutes.
"""

# ruff: noqa: S603, T201

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import lasthop
from lasthop.evaluating.statistics import interval

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "tools" / "ns3"
TARGET = ROOT / "target" / "ns3"
REQUIREMENT = "ns3==3.44.*"
LIBRARIES = (
    "wifi", "internet", "applications", "mobility", "propagation", "traffic-control", "network",
    "core",
)  # fmt: skip
OURS = "cargo run --quiet --profile fast -p lasthop-wlan --example ppdu_durations"
SHOWN = 10
CONTENDED = 5
"""Factor of the measured time with losses or several senders: 3 s have about 500 PPDUs of 5 ms, and
a standard error of the throughput of 2 %."""
PAYLOAD, PACKET = 1472, 1500
"""Bytes of a datagram that ns-3 and Lasthop count for throughput."""
BATCH = 5
"""Number of runs of random cases after which the interval of the ratio is examined."""
OUR_TIME = 100.0
"""Simulated time of each of our runs of random cases in seconds."""
STARVED = 0.1
"""Throughput in Mbps below which a category is starved as in ns-3, where it has none."""
DSCP = {"BK": "CS1", "BE": "DF", "VI": "CS5", "VO": "CS6"}
"""A DS code point of each access category."""
CATEGORIES = {"BK": "background", "BE": "best-effort", "VI": "video", "VO": "voice"}


@dataclass(frozen=True)
class Case:
    """Stations with saturated UDP in some access categories, or with TCP, and one receiver."""

    standard: str
    mcs: int
    width: int = 20
    interval: int = 800
    streams: int = 1
    ampdu: int = 65_535
    window: int = 64
    loss: float = 0.0
    senders: int = 1
    rts: int = 4_692_480
    categories: tuple[str, ...] = ("BE",)
    txop: int | None = None
    """TXOP limit in microseconds; `None`: the defaults of both."""
    tcp: str = ""
    """Direction of TCP seen from the stations: `up`, `down` or `both`."""

    def rates(self) -> tuple[str, ...]:
        """Returns the names of the throughputs of this case."""
        directions = {"": self.categories, "both": ("up", "down")}
        return directions.get(self.tcp, (self.tcp,))

    def tolerance(self) -> float:
        """Returns the tolerance of the ratio to ns-3."""
        if self.tcp:
            return 0.05
        return 0.03 if self.contends() else 0.01

    def group(self) -> str:
        """Returns the name of the group of cases with the same tolerance and kind of traffic."""
        if self.tcp:
            return "TCP"
        if len(self.categories) > 1:
            return "several categories"
        senders = "one sender" if self.senders == 1 else "several senders"
        return f"{senders}, {self.tolerance():.0%}"

    def contends(self) -> bool:
        """Returns `True` if several queues contend for the medium."""
        return self.senders > 1 or len(self.categories) > 1 or bool(self.tcp)

    def text(self) -> str:
        """Returns a description."""
        parts = [
            f"{self.standard} MCS {self.mcs} {self.width} MHz {self.interval} ns",
            f"{self.streams} streams, A-MPDU {self.ampdu} B, window {self.window}",
            f"loss {self.loss:.0%}, {self.senders} senders",
        ]
        if self.rts < 65_535:
            parts.append("RTS")
        if self.txop is not None:
            parts.append(f"TXOP {self.txop} us")
        return ", ".join(parts)


CASES = (
    *(Case("802.11n", 7, ampdu=limit) for limit in (0, 4_000, 8_000, 16_000, 32_000, 65_535)),
    Case("802.11n", 0),
    Case("802.11n", 7, 40, 400, 2),
    Case("802.11ac", 8),
    Case("802.11ac", 9, 80, ampdu=1_048_575),
    Case("802.11ac", 9, 80, 400, 2, 1_048_575),
    Case("802.11ax", 11, ampdu=6_500_631, window=256),
    Case("802.11ax", 7, 40, ampdu=200_000, window=256),
    Case("802.11ax", 11, 80, 800, 2, 6_500_631, 256),
    Case("802.11ax", 5, 20, 3_200),
    *(Case("802.11n", 7, loss=loss) for loss in (0.01, 0.1, 0.3)),
    Case("802.11ax", 9, 80, ampdu=6_500_631, window=256, loss=0.1),
    *(Case("802.11n", 7, senders=senders) for senders in (2, 5, 10, 20)),
    *(Case("802.11n", 7, ampdu=0, senders=senders) for senders in (2, 5, 10, 20)),
    Case("802.11n", 7, senders=5, rts=1_000),
    Case("802.11ax", 11, 80, ampdu=6_500_631, window=256, senders=10),
    *(Case("802.11n", 7, categories=(category,)) for category in ("BK", "VI", "VO")),
    *(Case("802.11n", 7, ampdu=0, categories=(category,)) for category in ("VI", "VO")),
    Case("802.11n", 7, categories=("VI", "VO"), txop=0),
    Case("802.11n", 7, categories=("BE", "VI")),
    Case("802.11n", 7, categories=("BE", "VO")),
    Case("802.11n", 7, categories=("VI",), senders=2),
    Case("802.11ax", 11, ampdu=200_000, window=256, categories=("BE", "VI"), senders=2),
    *(Case("802.11n", 7, categories=("BK", "BE"), senders=senders) for senders in (2, 5)),
    *(Case("802.11n", 7, tcp=tcp) for tcp in ("up", "down", "both")),
    *(Case("802.11n", 7, ampdu=0, tcp=tcp) for tcp in ("up", "down")),
    *(Case("802.11n", 7, tcp=tcp, senders=5) for tcp in ("up", "down")),
    Case("802.11n", 7, tcp="up", loss=0.1),
    Case("802.11ac", 9, 80, ampdu=1_048_575, tcp="down"),
    Case("802.11ax", 11, ampdu=6_500_631, window=256, tcp="up"),
    Case("802.11ax", 7, 40, ampdu=200_000, window=256, tcp="down", senders=10),
)


def unpacked_wheel() -> Path:
    """Download and unpack the wheel of ns-3 unless it is there; return its folder `ns3`."""
    folder = TARGET / "ns3"
    if not folder.exists():
        TARGET.mkdir(parents=True, exist_ok=True)
        pip = shutil.which("pip") or sys.exit("missing pip; give the folder of ns-3 with `--ns3`")
        arguments = ["download", "--no-deps", "--only-binary", ":all:", REQUIREMENT]
        subprocess.run([pip, *arguments, "--dest", str(TARGET)], check=True)
        with zipfile.ZipFile(next(TARGET.glob("ns3-*.whl"))) as wheel:
            wheel.extractall(TARGET)
    return folder


def compiled(ns3: Path, name: str) -> Path:
    """Compile a program against ns-3."""
    TARGET.mkdir(parents=True, exist_ok=True)
    program, source = TARGET / name, SOURCES / f"{name}.cc"
    libraries = ns3.resolve() / "lib64"
    flags = [f"-I{ns3 / 'include'}", f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
    flags += ["-Wl,--allow-shlib-undefined", *(f"-lns3.44-{name}" for name in LIBRARIES)]
    command = ["g++", "-std=c++23", "-O0", str(source), *flags, "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def durations(command: list[str]) -> dict[str, int]:
    """Run a program; return its durations in ns by the mode and the length of the PSDU."""
    result = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    rows = (line.rsplit(" ", 1) for line in result.stdout.splitlines())
    return {mode: int(time) for mode, time in rows}


class Ns3:
    """The program `wifi_throughput` with its results, which a file keeps from run to run.

    Each line of the file has the arguments of a run and its throughputs in Mbps. Lines of another
    version of the program do not count, nor does a line that an interruption cut.
    """

    def __init__(self, program: Path, source: Path, kept: Path) -> None:
        """Reads the file `kept`, if it exists."""
        self._program = str(program)
        self._source = hashlib.sha256(source.read_bytes()).hexdigest()
        self._kept = kept
        self._lock = threading.Lock()
        self._results: dict[tuple[str, ...], list[float]] = {}
        for line in kept.read_text().splitlines() if kept.exists() else ():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if row["source"] == self._source:
                self._results[tuple(row["arguments"])] = row["mbps"]

    def throughputs(self, arguments: list[str]) -> list[float]:
        """Returns the kept result of a run; without one, runs the program and keeps its result."""
        key = tuple(arguments)
        if key not in self._results:
            command = [self._program, *arguments]
            result = subprocess.run(command, check=True, capture_output=True, text=True)
            mbps = [float(value) for value in result.stdout.split()]
            row = {"source": self._source, "arguments": arguments, "mbps": mbps}
            with self._lock, self._kept.open("a") as file:
                file.write(f"{json.dumps(row)}\n")
            self._results[key] = mbps
        return self._results[key]


def ns3_throughputs(program: Ns3, case: Case, seconds: float, run: int) -> list[float]:
    """Returns the throughputs of ns-3 in Mbps, in the order of `Case.rates`."""
    index = case.mcs + (8 * (case.streams - 1) if case.standard == "802.11n" else 0)
    prefix = {"802.11n": "Ht", "802.11ac": "Vht", "802.11ax": "He"}[case.standard]
    values = {
        "standard": case.standard,
        "mode": f"{prefix}Mcs{index}",
        "width": case.width,
        "interval": case.interval,
        "streams": case.streams,
        "ampdu": case.ampdu,
        "window": case.window,
        "loss": case.loss,
        "senders": case.senders,
        "rts": case.rts,
        "seconds": seconds,
        "offered": 0 if case.tcp else offered(case),
        "run": run,
        "categories": ",".join(case.categories),
        "txop": -1 if case.txop is None else case.txop,
    }
    if case.tcp:
        values |= {"tcp": case.tcp, "buffer": 1_448 * window_of(case)}
    return program.throughputs([f"--{name}={value}" for name, value in values.items()])


def offered(case: Case) -> float:
    """Returns a load of each sender and category in Mbps that saturates the medium."""
    total = 1.5 * sum(our_throughputs(case, 0.5, 1)[0])
    # ns-3 stops for good if a TXOP ends with an empty queue while a packet arrives.
    has_txop = case.txop != 0 and {"VI", "VO"} & set(case.categories)
    return (total if has_txop else total / case.senders) + 5


def our_network(case: Case) -> dict[str, Any]:
    """Returns the table of the WLAN with the rules of ns-3."""
    wlan: dict[str, Any] = {
        "access_point": "receiver",
        "stations": [f"s{number}" for number in range(case.senders)],
        "standard": case.standard,
        "mcs": case.mcs,
        "width": f"{case.width} MHz",
        "durations": "ns-3",
        "guard_interval": f"{case.interval} ns",
        "spatial_streams": case.streams,
        "max_ampdu": f"{case.ampdu} B",
        "queue": "1000 packets",
        "missed_block_ack": "request",
        "control_errors": False,
        "mpdu_retry_limit": 255,
        "lifetime": "100 s",
        "reorder_timeout": "100 s",
    }
    if case.ampdu:
        wlan["block_ack_window"] = case.window
    if case.loss:
        wlan["errors"] = {"kind": "uniform", "loss": case.loss}
    if case.rts <= 65_535:
        wlan["rts_threshold"] = f"{case.rts} B"
    if case.categories != ("BE",):
        wlan["edca"] = True
        if case.txop is not None:
            limit = {"txop_limit": f"{case.txop} us"}
            wlan["category"] = dict.fromkeys(CATEGORIES.values(), limit)
    return wlan


def window_of(case: Case) -> int:
    """Returns the TCP window in segments. The windows of all connections fit into a queue."""
    return min(400, 900 // (case.senders * len(case.rates())))


def our_flows(case: Case) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns the flows of each throughput of this case, by name."""
    stations = [f"s{number}" for number in range(case.senders)]
    if case.tcp:
        transport: dict[str, Any] = {"kind": "tcp", "variant": "cubic", "profile": "linux"}
        transport["receive_window"] = f"{window_of(case)} segments"
        common: dict[str, Any] = {"transport": transport, "app": {"kind": "file", "size": "100 GB"}}
        ends = {"up": ("from", "to"), "down": ("to", "from")}
        return {
            name: {
                f"{station}-{name}": {ends[name][0]: station, ends[name][1]: "receiver", **common}
                for station in stations
            }
            for name in case.rates()
        }
    app = {"kind": "on-off", "rate": f"{2_000 // case.senders} Mbps", "on": "1000 s", "off": "0 s"}
    app["packet"] = f"{PACKET} B"
    common = {"to": "receiver", "transport": {"kind": "udp"}, "app": app}
    return {
        name: {
            f"{station}-{name}": {
                "from": station,
                **common,
                **({"dscp": DSCP[name]} if case.categories != ("BE",) else {}),
            }
            for station in stations
        }
        for name in case.categories
    }


def our_throughputs(case: Case, seconds: float, runs: int) -> list[list[float]]:
    """Returns the throughputs of each replication in Mbps, of the bytes that ns-3 counts.

    They are in the order of `Case.rates`.
    """
    flows = our_flows(case)
    scenario = lasthop.Scenario(
        {
            "name": "saturated",
            "wlan": {"cell": our_network(case)},
            "flow": {name: flow for group in flows.values() for name, flow in group.items()},
            "run": {"duration": f"{seconds} s"},
        }
    )
    results = lasthop.run(scenario, replications=runs, jobs=1)
    part = 1e-6 if case.tcp else PAYLOAD / PACKET / 1e6

    def rate(names: Iterable[str]) -> list[float]:
        each = [results.samples(f"flow.{name}.goodput_bps", 0) for name in names]
        return [float(sum(of_run)) * part for of_run in zip(*each, strict=True)]

    return [list(one) for one in zip(*(rate(group) for group in flows.values()), strict=True)]


@dataclass(frozen=True)
class Comparison:
    """Throughputs in Mbps of the runs of both simulators, which should have equal means."""

    label: str
    ours: list[float]
    theirs: list[float]
    tolerance: float

    def ratio(self) -> tuple[float, float]:
        """Returns the ratio of the means and the half-width of its 95 % interval; 0 for one run."""
        first, second = interval(self.ours), interval(self.theirs)
        found = first.mean / second.mean
        if len(self.ours) == 1:
            return found, 0.0
        # The relative half-widths of independent samples are added as squares.
        return found, found * math.hypot(first.ci95 / first.mean, second.ci95 / second.mean)

    def verdict(self) -> str:
        """Returns `within` or `outside` if the whole interval is, otherwise `undecided`."""
        if statistics.fmean(self.theirs) == 0:
            return "within" if statistics.fmean(self.ours) < STARVED else "outside"
        found, half = self.ratio()
        if abs(found - 1) + half <= self.tolerance:
            return "within"
        return "outside" if abs(found - 1) - half > self.tolerance else "undecided"

    def text(self) -> str:
        """Returns a line with both means, their ratio, and the verdict unless it is `within`."""
        ours, theirs = statistics.fmean(self.ours), statistics.fmean(self.theirs)
        parts = f"{self.label}: {ours:.2f}, ns-3 {theirs:.2f} Mbps"
        if theirs:
            found, half = self.ratio()
            parts += f", ratio {found:.4f}"
            if len(self.ours) > 1:
                parts += f" ± {half:.4f}, {len(self.ours)} runs"
        verdict = self.verdict()
        return parts if verdict == "within" else f"{parts}  {verdict}: {self.tolerance:.0%}"


def compared(program: Ns3, seconds: float, limit: int, case: Case) -> list[Comparison]:
    """Runs a case in both; repeats it until every throughput is within or outside the tolerance."""
    names = case.rates()
    labels = [f"{case.text()}, {'TCP ' if case.tcp else ''}{name}" for name in names]

    def results(ours: list[list[float]], theirs: list[list[float]]) -> list[Comparison]:
        columns = zip(labels, zip(*ours, strict=True), zip(*theirs, strict=True), strict=True)
        return [
            Comparison(label, list(first), list(second), case.tolerance())
            for label, first, second in columns
        ]

    if not case.contends() and not case.loss:
        return results(our_throughputs(case, 20.0, 1), [ns3_throughputs(program, case, seconds, 1)])
    theirs: list[list[float]] = []
    while True:
        for _ in range(min(BATCH, limit - len(theirs))):
            run = len(theirs) + 1
            theirs.append(ns3_throughputs(program, case, CONTENDED * seconds, run))
        found = results(our_throughputs(case, OUR_TIME, len(theirs)), theirs)
        if len(theirs) >= limit or all(one.verdict() != "undecided" for one in found):
            return found


def compare_throughput(ns3: Path, seconds: float, limit: int) -> bool:
    """Prints the throughputs of the grid; returns whether none is outside its tolerance."""
    name = "wifi_throughput"
    program = Ns3(compiled(ns3, name), SOURCES / f"{name}.cc", TARGET / "throughput.jsonl")
    groups: dict[str, list[Comparison]] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        every = pool.map(partial(compared, program, seconds, limit), CASES)
        for case, found in zip(CASES, every, strict=True):
            groups.setdefault(case.group(), []).extend(found)
            for one in found:
                print(one.text(), flush=True)
    for name, members in groups.items():
        print(summary(name, members))
    return all(one.verdict() != "outside" for members in groups.values() for one in members)


def summary(name: str, members: list[Comparison]) -> str:
    """Returns a line with the range of the ratios of a group and the number of each verdict."""
    ratios = [one.ratio()[0] for one in members if statistics.fmean(one.theirs)]
    counts = Counter(one.verdict() for one in members)
    verdicts = ", ".join(f"{counts[one]} {one}" for one in ("within", "undecided", "outside"))
    span = f"ratios {min(ratios):.4f} to {max(ratios):.4f}; " if ratios else ""
    return f"{name}: {span}{verdicts}"


def compare_durations(ns3: Path) -> bool:
    """Prints the durations that differ; returns whether there are none."""
    theirs = durations([str(compiled(ns3, "ppdu_durations"))])
    ours = durations(OURS.split())
    modes = sorted(ours.keys() | theirs.keys())
    different = [mode for mode in modes if ours.get(mode) != theirs.get(mode)]
    for mode in different[:SHOWN]:
        print(f"{mode} B: {ours.get(mode)} ns; ns-3: {theirs.get(mode)} ns")
    print(f"{len(modes) - len(different)} of {len(modes)} durations are equal to those of ns-3")
    return bool(modes) and not different


def main() -> int:
    """Compare and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ns3", type=Path, help="folder `ns3` of a wheel of ns-3 3.44")
    parser.add_argument(
        "--seconds",
        type=float,
        default=3.0,
        help="measured time of ns-3; five times as long with losses or several senders",
    )
    parser.add_argument(
        "--runs", type=int, default=40, help="maximum number of runs with losses or several senders"
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--durations", action="store_true", help="compare durations only")
    group.add_argument("--throughput", action="store_true", help="compare throughputs only")
    asked = parser.parse_args()
    ns3 = asked.ns3
    if ns3 and not (ns3 / "include").is_dir():
        parser.error(
            f"invalid value `{ns3}` for `--ns3`: expected a folder with `include` and `lib64`"
        )
    if not shutil.which("g++"):
        sys.exit("missing g++, which compiles the programs against ns-3")
    ns3 = ns3 or unpacked_wheel()
    good = asked.throughput or compare_durations(ns3)
    if not asked.durations:
        good &= compare_throughput(ns3, asked.seconds, asked.runs)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
