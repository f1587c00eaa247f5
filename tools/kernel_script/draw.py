"""Generates random conversations with the running Linux kernel, and writes them as scripts.

    sudo python tools/kernel_script/draw.py [OPTIONS] FIRST LAST FOLDER

Afterwards, `lasthop tcp-script FOLDER` reports the differences from our TCP. In the conversations
of `converse.py`, the peer is correct and the network is lossy. Here, the peer sends random
segments. Its ACKs cover all data, a part of it or no new data, with correct or incorrect SACK
blocks. Windows close and open. Data arrives out of order, overlaps or exceeds the window. FIN and
RST arrive in every state. Timestamps may be too old, and packets may be marked. The application
writes, reads, shuts down, closes and sets options. With `--back-to-back`, half of the peer's
segments follow the previous one immediately. With `--flight`, the kernel may send that many
segments before the first ACK.

The script contains the segments sent by the kernel, the results of its calls, and its `tcp_info`
after each step. Steps are not taken close to timers, because the kernel's timers are late. A
difference counts only if another run of the seed confirms it. A loaded machine causes more
unconfirmed differences (`chrt -f 50` helps). Needs root and Linux.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from play import play_apart

from drawn import ALGORITHMS, Drawn, Kind

#: A task for the conversation of one seed: returns why it failed, or None.
Task = Callable[[int, Path, Kind], str | None]


def apart(task: Task, seed: int, folder: Path, kind: Kind) -> str | None:
    """Runs `task` in a new process, because the process stays in the namespace."""
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            return process.submit(task, seed, folder, kind).result()
    except BrokenProcessPool:
        return f"seed {seed}: the process of {task.__name__}() was killed"


def record(seed: int, folder: Path, kind: Kind) -> str | None:
    """Records one conversation."""
    try:
        text = Drawn(seed, kind).converse()
    except Exception as problem:
        return f"seed {seed}: {problem!r}\n{traceback.format_exc()}"
    (folder / f"{seed:05}.pkt").write_text(text)
    return None


def confirm(seed: int, folder: Path, kind: Kind) -> str | None:
    """Plays a recording to the kernel again; moves it to another folder if it is not confirmed."""
    path = folder / f"{seed:05}.pkt"
    if not path.exists():
        return None
    _, verdict, said = play_apart(str(path), kind.tolerance / 1e6, verbose=False)
    if verdict == "holds":
        return None
    aside = folder / "not-repeated"
    aside.mkdir(exist_ok=True)
    path.rename(aside / path.name)
    return f"seed {seed}: {verdict} when played again: {said}"


def whole(least: int, most: int) -> Callable[[str], int]:
    """Returns a reader of whole numbers between two limits, for the command line."""

    def read(text: str) -> int:
        if not re.fullmatch(r"\d+", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(
                f"found {text}; expected a whole number from {least} to {most}"
            )
        return int(text)

    return read


def available_algorithms() -> list[str]:
    """The congestion control algorithms of the running kernel."""
    path = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    return path.read_text().split() if path.exists() else ALGORITHMS


def main() -> int:
    """Generates the conversations of all seeds from the first to the last."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("first", metavar="FIRST", type=int, help="seed of the first conversation")
    parser.add_argument("last", metavar="LAST", type=int, help="seed of the last conversation")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="folder of the scripts")
    parser.add_argument(
        "--tolerance-usecs", metavar="N", type=whole(1000, 1_000_000), default=80_000,
        help="tolerance of times in the scripts, in µs (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--windows", action="store_true", help="compare the windows that the kernel advertises"
    )
    parser.add_argument(
        "--back-to-back", action="store_true",
        help="half of the peer's segments follow the previous one immediately",
    )  # fmt: skip
    parser.add_argument(
        "--flight", metavar="N", type=whole(1, 500),
        help="the kernel's initial window in segments; writes are as long (the kernel's default)",
    )  # fmt: skip
    parser.add_argument(
        "--congestion-control", metavar="NAME", choices=available_algorithms(),
        help="algorithm of all conversations, one that the kernel has (each draws CUBIC or Reno)",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", metavar="N", type=whole(1, 64), default=16,
        help="number of simultaneous conversations (%(default)s)",
    )  # fmt: skip
    asked = parser.parse_args()
    if asked.last < asked.first:
        parser.error(f"LAST: found {asked.last}; expected FIRST ({asked.first}) or more")
    kind = Kind(
        tolerance=asked.tolerance_usecs,
        windows=asked.windows,
        back_to_back=0.5 if asked.back_to_back else 0.0,
        flight=asked.flight,
        algorithms=[asked.congestion_control] if asked.congestion_control else ALGORITHMS,
    )
    asked.folder.mkdir(parents=True, exist_ok=True)
    seeds = range(asked.first, asked.last + 1)
    with ThreadPoolExecutor(asked.jobs) as threads:

        def troubles(task: Task) -> Iterator[str]:
            results = threads.map(lambda seed: apart(task, seed, asked.folder, kind), seeds)
            return (trouble for trouble in results if trouble)

        failed = aside = 0
        for trouble in troubles(record):
            failed += 1
            print(trouble, file=sys.stderr)
        for trouble in troubles(confirm):
            aside += 1
            print(trouble)
    print(f"{len(seeds) - failed - aside} of {len(seeds)} recorded, and repeated by the kernel")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
