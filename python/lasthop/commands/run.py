"""The command `lasthop run`."""

from __future__ import annotations

import functools
import importlib
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lasthop.commands import interrupts
from lasthop.commands.common import (
    AcceptVersion,
    Changes,
    ClusterOption,
    DryRun,
    File,
    Folder,
    Jobs,
    Replications,
    Seed,
    TimelineFile,
    baseline_of,
    campaign_of,
    cluster_of,
    ended,
    load,
    note,
    note_campaign,
    nothing_lost,
    options,
    parquet,
    plain_columns,
    planning,
    print_line,
    print_plan,
    running,
    writable,
    write,
    write_bytes,
)
from lasthop.commands.declarations import Option
from lasthop.commands.values import BadInput, as_path
from lasthop.evaluating.statistics.sequential import FIRST, LEAST, MOST
from lasthop.running.replications import run as run_replications
from lasthop.scenarios.arguments import suggestion
from lasthop.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from lasthop.evaluating.results import Results

__all__ = ["run"]


class Format(StrEnum):
    """Output formats of `run`."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"
    summary = "summary"
    latex = "latex"
    siunitx = "siunitx"


def run(
    file: File,
    *,
    replications: Replications = None,
    seed: Seed = None,
    jobs: Jobs = 0,
    cluster: ClusterOption = None,
    changes: Changes = None,
    timeline: TimelineFile = None,
    until: Annotated[
        list[str] | None,
        Option(
            metavar="METRIC=WIDTH",
            help="Run each point until the 95 % confidence interval is within ± WIDTH of the mean: "
            "2%, or a number in the metric's unit. The first interim analysis is at "
            "--replications (default: 20). Repeatable.",
        ),
    ] = None,
    max_replications: Annotated[
        int | None,
        Option(min=1, help="With --until: maximum replications per point; default: 1000."),
    ] = None,
    store: Folder = None,
    dry_run: DryRun = False,
    accept_version: AcceptVersion = False,
    metric: Annotated[
        list[str] | None,
        Option(
            metavar="PATTERN",
            help="Print only these metrics, in any format: full names or last components, with "
            "* and ?. Repeatable.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        Option(
            metavar="KEY=VALUE",
            help="Also print paired differences from the points at which a swept key has this "
            "value.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(
            parser=as_path,
            metavar="DIR",
            help="Also write replications.parquet, summary.csv and results.json.",
        ),
    ] = None,
    output: Annotated[
        Format,
        Option(
            "--format",
            help="table, json, summary (CSV), latex, siunitx: mean and confidence interval of "
            "each metric; csv, parquet: one row per replication and flow or link.",
        ),
    ] = Format.table,
    everything: Annotated[
        bool,
        Option(
            "--all",
            help="Print every flow and link in tables; by default, more than 10 similar ones are "
            "summarised: mean, spread, worst and Jain's fairness index.",
        ),
    ] = False,
    with_theory: Annotated[
        bool,
        Option(
            "--compare-theory",
            help="Compare simulated values with analytical models, where one applies.",
        ),
    ] = False,
) -> int:
    """Run a scenario and print its results."""
    scenario = load(file, changes, timeline)
    if output is Format.parquet and out is None and sys.stdout.isatty():
        raise BadInput("cannot print parquet to a terminal; use `--out DIR` or a pipe")
    metrics = _matching(scenario, metric or [])
    compared = (
        None
        if baseline is None
        else baseline_of((json.loads(p.parameters) for p in scenario.points()), baseline)
    )
    if store is not None or cluster is not None or output is not Format.table:
        # Polars replaces the handler of Ctrl-C: imported before the run.
        with interrupts.importing():
            importlib.import_module("polars")
    campaign = campaign_of(store, accept_version=accept_version)
    if dry_run:
        if with_theory:
            raise BadInput("cannot use `--dry-run` with `--compare-theory`: it requires results")
        with options(), planning(campaign) as planned:
            counts: int | list[int] | None = replications
            if until:
                from lasthop.running.precision import expected_counts

                with running(f"pilot of {scenario.name or file.name}") as progress:
                    pilot = run_replications(
                        scenario, replications=LEAST, seed=seed, jobs=jobs, progress=progress
                    )
                counts = expected_counts(
                    pilot,
                    until,
                    first=FIRST if replications is None else replications,
                    most=MOST if max_replications is None else max_replications,
                )
                note(f"lasthop: replications are estimated from {LEAST} of each point")
            plan = planned.plan(scenario, replications=counts, seed=seed, jobs=jobs)
        return print_plan(plan, as_json=output is Format.json)
    folder = None if out is None else writable(out)
    with (
        options(),
        cluster_of(cluster, jobs) as workers,
        running(scenario.name or file.name) as progress,
    ):
        if workers is not None:
            campaign = campaign_of(store, accept_version=accept_version, cluster=workers)
        run_scenario = (
            functools.partial(run_replications, cluster=workers)
            if campaign is None
            else campaign.run
        )
        results = run_scenario(
            scenario,
            replications=replications,
            seed=seed,
            jobs=jobs,
            until=until,
            max_replications=max_replications,
            progress=progress,
        )
    note_campaign(campaign)
    with nothing_lost() as step:
        if with_theory:
            step(lambda: _print_theory(scenario, results, output, folder))
        else:
            shown = functools.partial(_print_results, compared=compared, everything=everything)
            step(lambda: shown(results, output, folder, metrics))
        if folder is not None:
            table = folder / "replications.parquet"
            step(lambda: write_bytes(table, parquet(results.frame)))
            summary = folder / "summary.csv"
            step(lambda: write(summary, plain_columns(results.summary()).write_csv()))
            step(lambda: write(folder / "results.json", results.to_json() + "\n"))
    if folder is not None and output is not Format.json:
        note(f"written to {folder}")
    for text in results.notes:
        note(f"lasthop: {text}")
    from lasthop.evaluating.notes import point_name

    short = [stop for stop in results.stopped if not stop.reached]
    if short:
        names = {stop.point: point_name(results, stop.point) for stop in short[:5]}
        where = ", ".join(
            stop.metric + (f" at {names[stop.point]}" if names[stop.point] else "")
            for stop in short[:5]
        )
        more = f" and {len(short) - 5} more" if len(short) > 5 else ""
        why = "not at the target half-width, or too skewed to decide"
        note(f"lasthop: at the replication limit {why}: {where}{more}")
    return ended(complete=results.complete, finished=results.rows, campaign=campaign)


def _print_results(
    results: Results,
    output: Format,
    folder: Path | None,
    metrics: list[str],
    compared: tuple[str, Any] | None,
    *,
    everything: bool,
) -> None:
    # An interrupted run may lack metrics.
    known = [name for name in metrics if name in results.metrics]
    results = results.only(known) if known else results
    if compared is not None:
        from lasthop.evaluating.comparison import from_baseline
    match output:
        case Format.json:
            tables = results.to_dict()
            if compared is not None:
                tables["differences"] = from_baseline(results, metrics, *compared).to_dicts()
            print_line(json.dumps(tables, allow_nan=False, ensure_ascii=False, indent=2))
        case Format.summary:
            table = (
                results.summary()
                if compared is None
                else from_baseline(results, metrics, *compared)
            )
            print_line(plain_columns(table).write_csv().rstrip("\n"))
        case Format.latex | Format.siunitx:
            from lasthop.showing import latex

            print_line(latex.summary(results, metrics, siunitx=output is Format.siunitx))
        case Format.csv:
            print_line(plain_columns(results.frame).write_csv().rstrip("\n"))
        case Format.parquet if folder is None:
            sys.stdout.buffer.write(parquet(results.frame))
        case Format.table:
            from lasthop.evaluating.similar import summarised
            from lasthop.showing import terminal

            console = terminal.console()
            shown, groups = (results, []) if everything else summarised(results)
            patterns = tuple(shown.metrics if groups and metrics else metrics)
            console.print(terminal.show_results(shown, patterns, groups))
            for similar in terminal.show_similar(results, groups):
                console.print(similar)
            for show in () if metrics else (terminal.show_fairness, terminal.show_repetitions):
                several = show(shown)
                if several is not None:
                    console.print(several)
            for group in groups:
                note(
                    f"lasthop: {group.name} summarises {len(group.members)} similar flows or "
                    "links; --all prints each"
                )
            if compared is not None:
                found = from_baseline(results, metrics, *compared)
                console.print(terminal.show_differences(found, *compared))
        case _:
            pass


def _matching(scenario: Scenario, patterns: list[str]) -> list[str]:
    """Returns the metrics that match patterns; refuses a pattern without a match."""
    from lasthop.evaluating.metric import matching

    known = list(dict.fromkeys(m for point in scenario.points() for m in point.metrics()))
    found: dict[str, None] = {}
    for pattern in patterns:
        own = matching(pattern, known)
        if not own:
            ends = dict.fromkeys(m.rpartition(".")[2] for m in known)
            expected = f"{', '.join(ends)}, or full names such as {known[0]}, with * and ?"
            raise BadInput(
                f"unknown metric `{pattern}` for `--metric`"
                + (suggestion(pattern, known) or f": expected {expected}")
            )
        found |= dict.fromkeys(own)
    return list(found)


def _print_theory(
    scenario: Scenario, results: Results, output: Format, folder: Path | None
) -> None:
    from lasthop.evaluating import theory
    from lasthop.showing import terminal

    found = theory.compare(results, scenario)
    table = theory.frame(results, found)
    if folder is not None:
        write(folder / "theory.csv", plain_columns(table).write_csv())
    match output:
        case Format.json:
            tables = results.to_dict()
            for index, point in enumerate(tables["points"]):
                point["theory"] = theory.to_dict(found, index)
            print_line(json.dumps(tables, allow_nan=False, ensure_ascii=False, indent=2))
        case Format.csv:
            print_line(plain_columns(table).write_csv().rstrip("\n"))
        case Format.parquet if folder is None:
            sys.stdout.buffer.write(parquet(table))
        case Format.table if found:
            console = terminal.console()
            for part in terminal.show_theory(results, found):
                console.print(part)
        case _:
            pass
    if not found and output in (Format.table, Format.csv):
        (print_line if output is Format.table else note)(theory.nothing_applies())
