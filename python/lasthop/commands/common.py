"""What the commands share: options, reading of scenarios, printing.

Imports that take time are made where they are needed: `lasthop check` needs none of them.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lasthop import _lasthop
from lasthop.commands import interrupts
from lasthop.commands.codes import DONE, INTERRUPTED
from lasthop.commands.output import printable
from lasthop.commands.values import BadInput, as_folder, as_path, nearest
from lasthop.running.writing import IS_FULL, write_file
from lasthop.scenarios.arguments import ArgumentError
from lasthop.scenarios.scenario import Scenario

if TYPE_CHECKING:
    import polars as pl

    from lasthop.running.campaign import Campaign, Plan
    from lasthop.running.cluster import Cluster


class Format(StrEnum):
    """How a table is printed."""

    table = "table"
    csv = "csv"
    json = "json"


File = Annotated[
    Path, typer.Argument(parser=as_path, metavar="FILE", help="Scenario file (TOML or JSON).")
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a dotted key. Repeatable."),
]
Replications = Annotated[
    int | None, typer.Option(min=1, help="Replications per point; by default the scenario's.")
]
Seed = Annotated[int | None, typer.Option(min=0, help="Master seed; by default the scenario's.")]
Jobs = Annotated[int, typer.Option(min=0, help="Threads; 0 for all cores.")]


Folder = Annotated[
    Path | None,
    typer.Option(
        "--store",
        parser=as_folder,
        metavar="DIR",
        help="Keep results in this folder, and run only what is not there yet.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Only say what would be run, how long it takes, what --store has of it."
    ),
]
AcceptVersion = Annotated[
    bool,
    typer.Option(
        "--accept-version",
        help="With --store: go on with results of another version of the engine.",
    ),
]


ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Run on Dask workers: local:N starts N here; tcp://HOST:PORT or file:PATH of a "
        "scheduler.",
    ),
]


@contextlib.contextmanager
def cluster_of(where: str | None, jobs: int) -> Iterator[Cluster | None]:
    """The cluster of `--cluster`, if that is given; says at the end which workers were refused."""
    if where is None:
        yield None
        return
    if jobs:
        raise BadInput("--jobs: found --cluster, whose workers decide; allowed: one of them")
    from lasthop.running.cluster import ClusterError, connect

    try:
        cluster = connect(where)
    except ClusterError as error:
        raise BadInput(f"--{error}") from None
    with cluster:
        try:
            yield cluster
        finally:
            for worker, other in cluster.refused.items():
                note(f"lasthop: refused worker {worker} with lasthop {other}")


def campaign_of(
    store: Path | None, *, accept_version: bool, cluster: Cluster | None = None
) -> Campaign | None:
    """The campaign of `--store`, if that is given."""
    if store is not None:
        from lasthop.running.campaign import Campaign

        return Campaign(store, accept_version=accept_version, cluster=cluster)
    if accept_version:
        raise BadInput("--accept-version: found no --store; allowed: with --store DIR")
    return None


@contextlib.contextmanager
def planning(campaign: Campaign | None) -> Iterator[Campaign]:
    """The campaign to plan for; without one, as if nothing had been run yet."""
    if campaign is not None:
        yield campaign
        return
    from lasthop.running.campaign import Campaign

    with tempfile.TemporaryDirectory() as folder:
        yield Campaign(Path(folder) / "none")


@contextlib.contextmanager
def running(label: str) -> Iterator[Callable[[int, int], None]]:
    """While replications run: progress on a terminal, and Ctrl-C keeps what is finished."""
    from lasthop.showing import terminal

    with terminal.progress(printable(label)) as show, interrupts.keep_finished() as begin:

        def progress(done: int, total: int) -> None:
            begin()
            if show is not None:
                show(done, total)

        yield progress


def note_campaign(campaign: Campaign | None) -> None:
    """Says what the campaign had to put right."""
    for told in campaign.notes if campaign else ():
        note(f"lasthop: {told}")


def print_plan(plan: Plan, *, as_json: bool) -> int:
    """Prints what a run would do."""
    if as_json:
        print_line(json.dumps(plan.to_dict(), indent=2))
    else:
        from lasthop.showing import terminal

        terminal.console().print(terminal.show_plan(plan))
    return DONE


def load(file: Path, changes: list[str] | None) -> Scenario:
    """Reads a scenario file and applies `--set`."""
    try:
        scenario = Scenario.from_file(file)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror or error}") from None
    for change in changes or []:
        key, value = key_and_value(change)
        scenario = scenario.with_({key: value})
    return scenario


def key_and_value(change: str) -> tuple[str, str]:
    """The parts of one `--set`."""
    key, equals, value = change.partition("=")
    if not equals or not key.strip():
        raise BadInput(f"--set: found {change!r}; allowed: KEY=VALUE")
    return key.strip(), value.strip()


def writable(path: Path) -> Path:
    """Makes a folder before anything is run, so that a bad name costs no time."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in IS_FULL:
            raise
        raise BadInput(f"--out: {path}: {error.strerror or error}") from None
    if not os.access(path, os.W_OK):
        raise BadInput(f"--out: {path}: {os.strerror(errno.EACCES)}")
    return path


def not_input(option: str, target: Path, *inputs: Path) -> None:
    """Refuses to write over what is read: a file among `inputs`, or one within a folder of them."""
    there = target.resolve()
    if any(there.is_relative_to(source.resolve()) for source in inputs):
        raise BadInput(f"{option}: found {target}, which is read; allowed: another file")


def plain_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """Swept tables and lists as text, which CSV can hold."""
    import polars as pl

    return frame.with_columns(pl.selectors.nested().map_elements(str, pl.String))


def write(path: Path, text: str) -> None:
    """Writes a text file; an error names it."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Writes a file; an error names it, also one that only comes when the disk is full."""
    write_file(path, data)


def parquet(frame: pl.DataFrame) -> bytes:
    """A table as Parquet: Polars' own errors of writing say neither file nor cause."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


@contextlib.contextmanager
def nothing_lost() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Carries out steps that print or keep results: all of them, also after one that failed.

    Raises:
        OSError: The first error, after the last step.
    """
    failures: list[OSError] = []

    def step(work: Callable[[], object]) -> None:
        try:
            work()
            sys.stdout.flush()
        except OSError as error:
            failures.append(error)

    yield step
    if failures:
        raise failures[0]


def print_line(text: str) -> None:
    """Writes a line of results."""
    sys.stdout.write(printable(text) + "\n")


def note(text: str) -> None:
    """Writes a line beside the results."""
    sys.stderr.write(printable(text) + "\n")


def ended(*, complete: bool, finished: int, campaign: Campaign | None = None) -> int:
    """The exit code of a run, which says so if it was interrupted."""
    if complete:
        return DONE
    rest = "" if campaign is None else f" and are in {campaign.folder}; the same command goes on"
    note(f"lasthop: interrupted; {finished} replications were finished{rest}")
    return INTERRUPTED


def baseline_of(points: Iterable[Mapping[str, Any]], text: str) -> tuple[str, Any]:
    """The swept key of `--baseline` and its value, as the sweep has it."""
    from lasthop.evaluating.cells import value_text

    key, equals, wanted = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise BadInput(f"--baseline: found {text!r}; allowed: KEY=VALUE")
    swept = list(points)
    keys = list(dict.fromkeys(name for point in swept for name in point))
    own = [name for name in keys if name == key] or [k for k in keys if k.endswith(f".{key}")]
    if len(own) != 1:
        allowed = ", ".join(own or keys) or "none: nothing is swept"
        raise BadInput(f"--baseline: found {key!r}{nearest(key, keys)}; allowed: {allowed}")
    values = [point[own[0]] for point in swept if own[0] in point]
    for value in values:
        kind = value.get("kind") if isinstance(value, dict) else None
        if wanted in (str(value), json.dumps(value), kind):
            return own[0], value
    texts = ", ".join(dict.fromkeys(map(value_text, values)))
    raise BadInput(f"--baseline: found {wanted!r} of {own[0]}; allowed: {texts}")


@contextlib.contextmanager
def options(**renamed: str) -> Iterator[None]:
    """Messages name arguments as Python does; on the command line these are options.

    Args:
        renamed: Options of arguments that are called otherwise there.
    """
    try:
        yield
    except (ArgumentError, _lasthop.AnalysisError) as error:
        name, colon, rest = str(error).partition(":")
        raise BadInput(f"--{renamed.get(name, name).replace('_', '-')}{colon}{rest}") from None
