"""The commands `archive`, `merge` and `query`, and `reproduce` and `explain` of stores."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lasthop.commands.codes import BAD_INPUT, DONE, FAILURE
from lasthop.commands.common import AcceptVersion, Format, Jobs, not_input, options, print_line
from lasthop.commands.declarations import Argument, Option
from lasthop.commands.values import BadInput, as_folder, as_path

if TYPE_CHECKING:
    import polars as pl

    from lasthop.running.campaign import Campaign, StoredRun

__all__ = ["archive", "describe", "is_archive", "merge", "query", "reproduce_archive"]

Store = Annotated[Path, Argument(parser=as_folder, metavar="STORE", help="Folder of `--store`.")]


def archive(
    store: Store,
    out: Annotated[Path, Argument(parser=as_path, metavar="OUT.zip", help="Archive to write.")],
    *,
    base: Annotated[
        Path | None,
        Option(
            parser=as_folder,
            metavar="DIR",
            help="Folder to which names of recordings in scenarios are relative; default: the "
            "current one.",
        ),
    ] = None,
    force: Annotated[bool, Option("--force", help="Overwrite an existing file.")] = False,
) -> int:
    """Write an archive for a publication: scenarios, seeds, results, figures and their check."""
    from lasthop.running.archive import archive as write_archive

    not_input("OUT.zip", out, store)
    if out.exists() and not force:
        raise BadInput(f"cannot write `{out}`: file exists; use `--force` to overwrite it")
    with options():
        files = write_archive(store, out, base=base or Path())
    print_line(f"{out}: {len(files)} files; check with `lasthop reproduce {out}`")
    return DONE


def merge(
    stores: Annotated[
        list[Path],
        Argument(parser=as_folder, metavar="STORE...", help="Folders of `--store` to merge."),
    ],
    *,
    into: Annotated[
        Path | None,
        Option(parser=as_folder, metavar="DIR", help="Folder to which their results are added."),
    ] = None,
    accept_version: AcceptVersion = False,
) -> int:
    """Merge results of several folders into one, such as those of several machines."""
    if into is None:
        raise BadInput("missing `--into`: expected the folder to which results are added")
    from lasthop.running.campaign.merging import merge as merge_stores

    with options():
        found = merge_stores(stores, into, accept_version=accept_version)
    print_line(
        f"{into}: {found.points} points; added {found.added} replications, "
        f"{found.known} were there already"
    )
    return DONE


def query(
    store: Store,
    sql: Annotated[
        str, Argument(metavar="SQL", help="Query of the table `results`, one row per replication.")
    ],
    *,
    output: Annotated[Format, Option("--format", help="Output format.")] = Format.table,
) -> int:
    """Query stored results with SQL; the table is `results`."""
    import polars as pl

    from lasthop.running.campaign import Campaign

    campaign = Campaign(store)
    try:
        found = campaign.query(sql)
    except pl.exceptions.PolarsError as error:
        # The rest of the message is the plan of the query.
        problem = str(error).strip().partition("\n")[0].partition("; valid columns")[0]
        remedy = "to show the columns, use `SELECT * FROM results LIMIT 1`"
        raise BadInput(f"invalid SQL: {problem.rstrip(':')}; {remedy}") from None
    match output:
        case Format.json:
            sys.stdout.write(found.write_json() + "\n")
        case Format.csv:
            sys.stdout.write(found.write_csv())
        case Format.table:
            _print_rows(found)
    return DONE


def _print_rows(found: pl.DataFrame) -> None:
    """Prints a table; if it is wider than the terminal, one table per row."""
    from rich.table import Table

    from lasthop.evaluating.cells import rounded, value_text
    from lasthop.showing import terminal

    console = terminal.console()
    rows = [
        [rounded(one, 6) if isinstance(one, float) else value_text(one) for one in row]
        for row in found.iter_rows()
    ]
    table = Table()
    for name, kind in found.schema.items():
        table.add_column(name, justify="right" if kind.is_numeric() else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    if (
        console.measure(table, options=console.options.update(max_width=10**6)).maximum
        <= console.width
    ):
        console.print(table)
        return
    for number, row in enumerate(rows, start=1):
        record = Table("column", "value", title=f"row {number}", title_justify="left")
        for name, value in zip(found.columns, row, strict=True):
            record.add_row(name, value)
        console.print(record)


def is_archive(text: str) -> bool:
    """Whether the argument of `reproduce` is an archive and not a study."""
    path = Path(text)
    return path.suffix.lower() == ".zip" or (path / "manifest.json").is_file()


def reproduce_archive(source: Path, jobs: Jobs) -> int:
    """Verifies an archive and repeats its runs; returns 1 if a value differs."""
    from lasthop.running.archive import reproduce

    with options():
        verdicts = reproduce(source, jobs=jobs, tell=lambda one: print_line(str(one)))
    if not verdicts:
        return BAD_INPUT
    return DONE if all(one.is_equal for one in verdicts) else FAILURE


def describe(store: Path) -> int:
    """Describes the runs of a campaign."""
    from lasthop.running.campaign import Campaign

    campaign = Campaign(store)
    runs = campaign.runs()
    print_line(f"{store}: {len(runs)} run{'s' if len(runs) != 1 else ''}")
    for run in runs:
        for line in _run_lines(campaign, run):
            print_line(line)
    return DONE


def _run_lines(campaign: Campaign, run: StoredRun) -> list[str]:
    from lasthop.showing.labels import point_label

    results = campaign.results(run=run.id)
    counts = [int((results.point == index).sum()) for index in range(len(run.points))]
    low, high = min(counts, default=0), max(counts, default=0)
    each = f"{low}" if low == high else f"{low} to {high}"
    ended = f", ended {run.ended[:19].replace('T', ' ')} UTC" if run.ended else ""
    lines = [
        "",
        f"Run {run.id}, {run.name or 'unnamed'}: {run.state}, seed {run.seed}{ended}",
        f"  {len(run.points)} point{'s' if len(run.points) != 1 else ''} with {each} "
        f"replications each, by engine {', '.join(map(str, results.engines))}",
    ]
    for index, (point, count) in enumerate(zip(run.points, counts, strict=True)):
        label = point_label(point.parameters) or "no swept key"
        lines.append(f"  point {index}: {label}; {count} replications, {point.scenario_hash}")
    metrics = results.metrics
    lines.append(f"  {len(metrics)} metrics, such as {', '.join(metrics[:3])}")
    return lines
