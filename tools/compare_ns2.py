"""Compare lasthop with ns-2, cell by cell.

`crates/lasthop/tests/suite/ns2_traces.rs` compares them event by event.

Usage: python tools/compare_ns2.py [--stored] [--cells PATTERN] [--seeds 30] [--rule both|welch]

Without --stored, the selected cells are measured with the installed ns-2; with it, their means are
read from tools/ns2/reference/. PATTERN is a shell pattern on names such as
`ft/LAN/0/reno/uniform:0.025` (application, topology, congestion, TCP, errors).

With `both`, a throughput passes if each mean is inside the other's 95 % interval. With `welch`, it
passes if a Welch test at 5 % over all cells together (Bonferroni) finds no difference. For two
identical simulators, about one cell in six fails `both` by chance. A count passes within 3 %, or if
the two intervals overlap. The exit code is 1 if a cell fails or a required component is missing.
"""

# ruff: noqa: S603, T201

from __future__ import annotations

import argparse
import csv
import fnmatch
import json
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy import stats

ROOT = Path(__file__).resolve().parent.parent
NS2 = ROOT / "tools" / "ns2"
sys.path.insert(0, str(NS2))

from measure import METRICS, Cell, interval, run_once  # noqa: E402

LASTHOP = ROOT / ".venv" / "bin" / "lasthop"
PACKET = 252
PAYLOAD = 250
FILE_PACKETS = 40_000
COUNT_TOLERANCE = 0.03
# Runs without randomness have intervals of zero width; they must agree except for rounding.
EXACT_TOLERANCE = 5e-4

# ns-2 metric -> (lasthop metric, factor from lasthop's number to ns-2's, whether it is a count)
MAPPING: dict[str, dict[str, tuple[str, float, bool]]] = {
    "ft": {
        "kbps": ("flow.transfer.goodput_bps", PAYLOAD / PACKET / 1000, False),
        "sent": ("flow.transfer.segments_sent", 1, True),
        "rexmt": ("flow.transfer.retransmissions", 1, True),
        "rto": ("flow.transfer.timeouts", 1, True),
        "cuts": ("flow.transfer.window_reductions", 1, True),
    },
    "web": {
        "kbps": ("flow.web.goodput_bps", 1 / 1000, False),
    },
}


class MissingError(Exception):
    """A component required for the comparison is missing."""


@dataclass(frozen=True)
class Estimate:
    """A mean over n replications and the half-width of its 95 % interval."""

    mean: float
    ci95: float
    n: int

    @property
    def standard_error(self) -> float:
        """The standard error from which the interval was computed."""
        if self.n < 2:
            return math.nan
        return self.ci95 / float(stats.t.ppf(0.975, self.n - 1))


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    cell: Cell
    metric: str
    ns2: Estimate
    lasthop: Estimate
    passed: bool

    @property
    def difference(self) -> float:
        """Difference of lasthop's mean from ns-2's, relative to ns-2's."""
        if self.ns2.mean == self.lasthop.mean:
            return 0.0
        return self.lasthop.mean / self.ns2.mean - 1 if self.ns2.mean else math.inf


def label(cell: Cell) -> str:
    """The name by which a cell is selected and printed."""
    return f"{cell.app}/{cell.topology}/{cell.congestion}/{cell.tcp}/{cell.error}"


# --- ns-2 -----------------------------------------------------------------------------------------


def stored() -> dict[Cell, dict[str, Estimate]]:
    """Every cell of the stored reference."""
    cells: dict[Cell, dict[str, Estimate]] = {}
    for path in sorted((NS2 / "reference").glob("*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                cell = Cell(
                    row["app"], row["tcp"], row["error"], int(row["congestion"]), row["topology"]
                )
                estimate = Estimate(float(row["mean"]), float(row["ci95"]), int(row["n"]))
                cells.setdefault(cell, {})[row["metric"]] = estimate
    return cells


def measured(cell: Cell, seeds: int) -> dict[str, Estimate]:
    """The cell measured with the installed ns-2."""
    runs = [run_once(cell, seed) for seed in range(1, seeds + 1)]
    result = {}
    for metric in METRICS[cell.app]:
        mean, ci95 = interval([run[metric] for run in runs])
        result[metric] = Estimate(mean, ci95, seeds)
    return result


# --- lasthop --------------------------------------------------------------------------------------


def errors(name: str) -> str:
    """The scenario value for a cell's error process."""
    kind, _, value = name.partition(":")
    if kind == "none":
        return '{ kind = "none" }'
    if kind == "uniform":
        return f'{{ kind = "uniform", loss = {value} }}'
    bad = round(float(value) * 1000)
    return (
        f'{{ kind = "two-state", good = "10 s", bad = "{bad} ms", '
        "good_ber = 1e-6, bad_ber = 1e-2 }"
    )


def scenario(cell: Cell, wireless: str, reverse: str = "", packets: int = FILE_PACKETS) -> str:
    """The scenario file of a cell, given the wireless link's error process."""
    lan = cell.topology == "LAN"
    rate, delay = ("10 Mbps", "1 ms") if lan else ("2 Mbps", "50 ms")
    lines = [
        f'name = "ns-2 comparison: {label(cell)}"',
        "[link.wired]",
        'between = ["server", "ap"]',
        f'rate = "{rate}"',
        f'delay = "{delay}"',
        "[link.wireless]",
        'between = ["ap", "client"]',
        'rate = "64 kbps"',
        'delay = "50 ms"',
        f"errors = {wireless}",
    ]
    if reverse:
        lines += ["[link.wireless.reverse]", f"errors = {reverse}"]
    transport = f'kind = "tcp", variant = "{cell.tcp}", profile = "ns-2", ack_size = "40 B"'
    if cell.app == "ft":
        size = packets * PACKET
        lines += [
            "[flow.transfer]",
            'from = "server"',
            'to = "client"',
            f'transport = {{ {transport}, segment = "{PACKET} B", header = "0 B" }}',
            f'app = {{ kind = "file", size = "{size} B" }}',
        ]
    else:
        header = PACKET - PAYLOAD
        lines += [
            "[flow.web]",
            'from = "server"',
            'to = "client"',
            f'transport = {{ {transport}, segment = "{PAYLOAD} B", header = "{header} B", '
            "pad_segments = true }",
            'app = { kind = "web" }',
        ]
    if cell.congestion:
        udp = "9.99 Mbps" if lan else "1.99 Mbps"
        lines += [
            "[flow.congestion]",
            'from = "server"',
            'to = "ap"',
            'transport = { kind = "udp" }',
            f'app = {{ kind = "on-off", rate = "{udp}", on = "exp 1 s", off = "exp 1.35 s", '
            'packet = "250 B" }',
        ]
    if cell.app == "web":
        lines += ["[run]", 'duration = "2000 s"']
    return "\n".join(lines) + "\n"


def lasthop(*arguments: str) -> str:
    """Output of lasthop."""
    if not LASTHOP.exists():
        message = f"lasthop is not built: {LASTHOP} does not exist"
        raise MissingError(message)
    done = subprocess.run([str(LASTHOP), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message = f"lasthop {' '.join(arguments)} failed:\n{done.stderr}"
        raise MissingError(message)
    return done.stdout


def simulated(cell: Cell, seeds: int, seed: int) -> dict[str, Estimate]:
    """The cell simulated with lasthop, in ns-2's metrics."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.toml"
        path.write_text(scenario(cell, errors(cell.error)))
        text = lasthop(
            *("run", str(path), "--format", "json"),
            *("--replications", str(seeds), "--set", f"run.seed={seed}"),
        )
    found: dict[str, Any] = json.loads(text)["points"][0]["metrics"]
    result = {}
    for metric, (name, factor, _) in MAPPING[cell.app].items():
        if name not in found:
            message = f"lasthop reports no {name} for {label(cell)}"
            raise MissingError(message)
        value = found[name]
        ci95 = math.nan if value["ci95"] is None else float(value["ci95"])
        result[metric] = Estimate(float(value["mean"]) * factor, ci95 * factor, int(value["n"]))
    return result


# --- verdicts -------------------------------------------------------------------------------------


def mean_agrees(a: Estimate, b: Estimate, rule: str, level: float) -> bool:
    """Whether two means may belong to the same quantity."""
    apart = abs(a.mean - b.mean)
    if apart <= EXACT_TOLERANCE * abs(a.mean) and min(a.ci95, b.ci95) == 0:
        return True
    if rule == "both":
        return apart <= min(a.ci95, b.ci95)
    error = math.hypot(a.standard_error, b.standard_error)
    if error == 0 or math.isnan(error):
        return False
    freedom = error**4 / (a.standard_error**4 / (a.n - 1) + b.standard_error**4 / (b.n - 1))
    return bool(2 * stats.t.sf(apart / error, freedom) >= level)


def count_agrees(a: Estimate, b: Estimate) -> bool:
    """Whether two event counts agree within 3 % or within their intervals."""
    apart = abs(a.mean - b.mean)
    return apart <= COUNT_TOLERANCE * abs(a.mean) or apart <= a.ci95 + b.ci95


def compare(options: argparse.Namespace) -> list[Row]:
    """Runs the selected cells with both simulators and compares them."""
    reference = stored()
    cells = [cell for cell in reference if fnmatch.fnmatch(label(cell), options.cells)]
    if not cells:
        message = f"no stored cell matches {options.cells}"
        raise MissingError(message)
    if not options.stored and shutil.which("ns") is None:
        message = "ns-2 is not installed (Debian package ns2); --stored compares without it"
        raise MissingError(message)
    rows = []
    for cell in cells:
        theirs = reference[cell] if options.stored else measured(cell, options.seeds)
        ours = simulated(cell, options.seeds, options.seed)
        for metric, (_, _, is_count) in MAPPING[cell.app].items():
            a, b = theirs[metric], ours[metric]
            passed = (
                count_agrees(a, b)
                if is_count
                else mean_agrees(a, b, options.rule, 0.05 / len(cells))
            )
            rows.append(Row(cell, metric, a, b, passed))
    return rows


def print_table(rows: Sequence[Row]) -> None:
    """Prints the comparison, one line per metric."""
    print(f"{'cell':<34} {'metric':<6} {'ns-2':>20} {'lasthop':>20} {'diff':>8}  verdict")
    for row in rows:
        ns2 = f"{row.ns2.mean:.2f} ± {row.ns2.ci95:.2f}"
        ours = f"{row.lasthop.mean:.2f} ± {row.lasthop.ci95:.2f}"
        verdict = "ok" if row.passed else "FAILS"
        print(
            f"{label(row.cell):<34} {row.metric:<6} {ns2:>20} {ours:>20} "
            f"{row.difference:>+8.2%}  {verdict}"
        )
    failed = sum(not row.passed for row in rows)
    print(f"{len(rows) - failed} of {len(rows)} agree")


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stored", action="store_true", help="use the stored ns-2 means")
    parser.add_argument("--cells", default="*", metavar="PATTERN", help="which cells or traces")
    parser.add_argument("--seeds", type=int, default=30, help="replications on each side")
    parser.add_argument("--seed", type=int, default=1, help="lasthop's master seed")
    parser.add_argument("--rule", choices=("both", "welch"), default="both")
    options = parser.parse_args()
    try:
        rows = compare(options)
    except MissingError as error:
        print(error, file=sys.stderr)
        return 1
    print_table(rows)
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
