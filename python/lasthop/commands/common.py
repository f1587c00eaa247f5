"""Options, reading of scenarios and printing, shared by the commands.

Slow imports are deferred to the functions that use them: `lasthop check` needs none of them.
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

from lasthop import _lasthop
from lasthop.commands import interrupts
from lasthop.commands.codes import DONE, INTERRUPTED
from lasthop.commands.declarations import Argument, Option
from lasthop.commands.output import printable
from lasthop.commands.values import BadInput, as_folder, as_path, of_option, with_options
from lasthop.running.writing import IS_FULL, write_file
from lasthop.scenarios.arguments import ArgumentError, invalid, suggestion
from lasthop.scenarios.files import LARGEST_TEXT, read_bytes
from lasthop.scenarios.scenario import Scenario

if TYPE_CHECKING:
    import polars as pl

    from lasthop.running.campaign import Campaign, Plan
    from lasthop.running.cluster import Cluster


class Format(StrEnum):
    """Output formats of tables."""

    table = "table"
    csv = "csv"
    json = "json"


File = Annotated[
    Path,
    Argument(parser=as_path, metavar="FILE", help="Scenario file (TOML or JSON), or a profile."),
]
Changes = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Set a dotted key of the scenario. Repeatable."),
]
TimelineFile = Annotated[
    Path | None,
    Option(
        "--timeline",
        parser=as_path,
        metavar="FILE",
        help="Change rates and delays at the times in FILE, or interrupt links.",
    ),
]
Replications = Annotated[
    int | None, Option(min=1, help="Replications per point; default: the scenario's.")
]
Seed = Annotated[int | None, Option(min=0, help="Master seed; default: the scenario's.")]
Jobs = Annotated[int, Option(min=0, help="Number of threads; 0: all cores.")]


Folder = Annotated[
    Path | None,
    Option(
        "--store",
        parser=as_folder,
        metavar="DIR",
        help="Store results in this folder; run only missing replications.",
    ),
]
DryRun = Annotated[
    bool,
    Option(
        "--dry-run",
        help="Print the number of replications to run, the time needed and the results in --store; "
        "run nothing.",
    ),
]
AcceptVersion = Annotated[
    bool,
    Option(
        "--accept-version",
        help="With --store: add to results of another engine version.",
    ),
]


ClusterOption = Annotated[
    str | None,
    Option(
        "--cluster",
        metavar="ADDRESS",
        help="Run on Dask workers: local:N starts N workers on this machine; tcp://HOST:PORT or "
        "file:PATH connects to a scheduler.",
    ),
]


@contextlib.contextmanager
def cluster_of(where: str | None, jobs: int) -> Iterator[Cluster | None]:
    """Connects to the cluster of `--cluster`, if given; reports refused workers at the end."""
    if where is None:
        yield None
        return
    if jobs:
        raise BadInput("cannot use `--jobs` with `--cluster`: the workers set the threads")
    from lasthop.running.cluster import ClusterError, connect

    try:
        cluster = connect(where)
    except ClusterError as error:
        raise BadInput(with_options(str(error), {})) from None
    with cluster:
        try:
            yield cluster
        finally:
            for worker, other in cluster.refused.items():
                note(f"lasthop: refused worker {worker}: it runs lasthop {other}")


def campaign_of(
    store: Path | None, *, accept_version: bool, cluster: Cluster | None = None
) -> Campaign | None:
    """Opens the campaign of `--store`, if given."""
    if store is not None:
        from lasthop.running.campaign import Campaign

        return Campaign(store, accept_version=accept_version, cluster=cluster)
    if accept_version:
        raise BadInput("`--accept-version` requires `--store DIR`")
    return None


@contextlib.contextmanager
def planning(campaign: Campaign | None) -> Iterator[Campaign]:
    """Yields the campaign to plan for; without one, an empty campaign in a temporary folder."""
    if campaign is not None:
        yield campaign
        return
    from lasthop.running.campaign import Campaign

    with tempfile.TemporaryDirectory() as folder:
        yield Campaign(Path(folder) / "none")


@contextlib.contextmanager
def running(label: str) -> Iterator[Callable[[int, int], None]]:
    """Shows progress on a terminal; Ctrl-C keeps finished replications."""
    from lasthop.showing import terminal

    with terminal.progress(printable(label)) as show, interrupts.keep_finished() as begin:

        def progress(done: int, total: int) -> None:
            begin()
            if show is not None:
                show(done, total)

        yield progress


def note_campaign(campaign: Campaign | None) -> None:
    """Reports the problems that the campaign has repaired."""
    for text in campaign.notes if campaign else ():
        note(f"lasthop: {text}")


def print_plan(plan: Plan, *, as_json: bool) -> int:
    """Prints the plan of a run."""
    if as_json:
        print_line(json.dumps(plan.to_dict(), indent=2))
    else:
        from lasthop.showing import terminal

        terminal.console().print(terminal.show_plan(plan))
    return DONE


def load(file: Path, changes: list[str] | None, timeline: Path | None = None) -> Scenario:
    """Reads a scenario file or a profile, and applies `--set` and `--timeline`."""
    try:
        scenario = Scenario.from_file(scenario_file(file))
    except OSError as error:
        raise BadInput(f"cannot read `{file}`: {error.strerror or error}") from None
    return with_timeline(changed(scenario, changes), timeline)


def changed(scenario: Scenario, changes: list[str] | None) -> Scenario:
    """Returns a scenario with the changes of `--set`."""
    for change in changes or []:
        key, value = key_and_value(change)
        scenario = scenario.with_({key: value})
    return scenario


def with_timeline(scenario: Scenario, path: Path | None) -> Scenario:
    """Applies `--timeline`, if given."""
    if path is None:
        return scenario
    from lasthop.scenarios import timeline

    with options():
        try:
            return timeline.apply(scenario, timeline.read(path))
        except OSError as error:
            raise BadInput(f"cannot read `{path}`: {error.strerror or error}") from None


def load_for_live(
    file: Path, changes: list[str] | None, timeline: Path | None = None
) -> tuple[Scenario, bool]:
    """Reads a scenario or a profile that need not have flows; returns whether it has some.

    Without flows, the scenario has a placeholder, which `lasthop live` does not send.
    """
    import tomllib

    file = scenario_file(file)
    tables: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError, RecursionError):
        text = read_bytes(file, LARGEST_TEXT).decode("utf-8")
        tables = json.loads(text) if file.suffix.lower() == ".json" else tomllib.loads(text)
    added = None
    # The engine reports other errors with their line.
    with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
        if not {"flow", "extends"} & tables.keys() and {"link", "wlan"} & tables.keys():
            from lasthop.running.live.session import with_flow

            added = with_flow(tables)
    if added is None:
        scenario = load(file, changes, timeline)
    else:
        scenario = changed(Scenario.from_file(file, defaults=added), changes)
        scenario = with_timeline(scenario, timeline)
    scenario.points()  # validates the scenario before its tables are used
    return scenario, added is None


def scenario_file(file: Path) -> Path:
    """Returns the file of the profile that an argument names, or else the argument.

    A name without folder and suffix that is not a file is the name of a profile.
    """
    name = str(file)
    if file.suffix or os.sep in name or os.path.lexists(file):
        return file
    from lasthop.scenarios import profiles

    with options():
        return profiles.path(name)


def key_and_value(change: str, option: str = "--set", form: str = "KEY=VALUE") -> tuple[str, str]:
    """Splits the value of an option into key and value."""
    key, equals, value = change.partition("=")
    if not equals or not key.strip():
        raise BadInput(invalid(option, change, form))
    return key.strip(), value.strip()


def writable(path: Path) -> Path:
    """Creates the folder of `--out` before the simulation, so that an error costs no time."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in IS_FULL:
            raise
        raise BadInput(f"cannot write to `{path}`: {error.strerror or error}") from None
    if not os.access(path, os.W_OK):
        raise BadInput(f"cannot write to `{path}`: {os.strerror(errno.EACCES)}")
    return path


def not_input(option: str, target: Path, *inputs: Path) -> None:
    """Refuses an output file that is one of the input files or is in one of the input folders."""
    there = target.resolve()
    if any(there.is_relative_to(source.resolve()) for source in inputs):
        raise BadInput(invalid(option, target, "a file that is not an input"))


def plain_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """Converts columns of tables and lists to text for CSV."""
    import polars as pl

    return frame.with_columns(pl.selectors.nested().map_elements(str, pl.String))


def write(path: Path, text: str) -> None:
    """Writes a text file; errors contain its name."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Writes a file; errors contain its name, also errors of a full disk."""
    write_file(path, data)


def parquet(frame: pl.DataFrame) -> bytes:
    """Returns a table as Parquet; Polars' write errors would name neither file nor cause."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


@contextlib.contextmanager
def nothing_lost() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Yields a function that runs a step of the output; errors do not prevent later steps.

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
    """Prints a line on standard output."""
    sys.stdout.write(printable(text) + "\n")


def note(text: str) -> None:
    """Prints a line on standard error."""
    sys.stderr.write(printable(text) + "\n")


def ended(*, complete: bool, finished: int, campaign: Campaign | None = None) -> int:
    """Returns the exit code of a run; reports an interruption."""
    if complete:
        return DONE
    rest = (
        ""
        if campaign is None
        else f" and stored in {campaign.folder}; run the same command to resume"
    )
    note(f"lasthop: interrupted; {finished} replications finished{rest}")
    return INTERRUPTED


def baseline_of(points: Iterable[Mapping[str, Any]], text: str) -> tuple[str, Any]:
    """Returns the swept key of `--baseline` and its value in the sweep."""
    from lasthop.evaluating.cells import value_text

    key, equals, wanted = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise BadInput(invalid("--baseline", text, "KEY=VALUE"))
    swept = list(points)
    keys = list(dict.fromkeys(name for point in swept for name in point))
    own = [name for name in keys if name == key] or [k for k in keys if k.endswith(f".{key}")]
    if len(own) != 1:
        if not keys:
            raise BadInput("`--baseline` requires a sweep: the scenario has a single point")
        near = "" if own else suggestion(key, keys)
        problem = "ambiguous" if own else "unknown"
        where = f"{problem} swept key `{key}` for `--baseline`"
        raise BadInput(where + (near or f": expected {', '.join(own or keys)}"))
    values = [point[own[0]] for point in swept if own[0] in point]
    for value in values:
        kind = value.get("kind") if isinstance(value, dict) else None
        if wanted in (str(value), json.dumps(value), kind):
            return own[0], value
    texts = ", ".join(dict.fromkeys(map(value_text, values)))
    raise BadInput(f"invalid value `{wanted}` of `{own[0]}` for `--baseline`: expected {texts}")


@contextlib.contextmanager
def options(**renamed: str) -> Iterator[None]:
    """Replaces the arguments that messages name with command-line options.

    Args:
        renamed: Options whose names differ from those of the arguments.
    """
    try:
        yield
    except (ArgumentError, _lasthop.AnalysisError) as error:
        raise BadInput(with_options(of_option(str(error)), renamed)) from None
