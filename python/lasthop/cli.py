"""The command `lasthop`.

Exit codes: 0 done, 1 failure, 2 bad input, 130 interrupted (what is finished is still printed and
written). Results go to standard output; progress and errors to standard error.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import polars as pl
import typer
from typer._click.exceptions import ClickException  # typer 0.29 bundles it; no public name

import lasthop
from lasthop import (
    _lasthop,
    analyse_cli,
    catalogue,
    explain,
    markdown,
    plot_cli,
    report_cli,
    sensitivity,
    starter,
    terminal,
    theory,
)
from lasthop.campaign import Campaign, CampaignError, Plan
from lasthop.plotting import PlotError
from lasthop.scenario import Scenario
from lasthop.studies import Report, Study, StudyError, studies

__all__ = ["main"]

DONE, FAILURE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    help="Simulates error recovery over lossy links: link ARQ, TCP and applications.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# Headings of `lasthop --help`.
SIMULATION, SCENARIOS, RESULTS, THEORY = "Simulation", "Scenarios", "Results", "Theory"


class Format(StrEnum):
    """How `run` prints results."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


class ReportFormat(StrEnum):
    """How `reproduce` prints results."""

    text = "text"
    json = "json"
    markdown = "markdown"


class BadInput(ValueError):
    """Something the user gave is not right; the message says what."""


File = Annotated[Path, typer.Argument(metavar="FILE", help="Scenario file (TOML or JSON).")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a dotted key. Repeatable."),
]
Replications = Annotated[
    int | None, typer.Option(min=1, help="Replications a point; by default the scenario's.")
]
Seed = Annotated[int | None, typer.Option(min=0, help="Master seed; by default the scenario's.")]
Jobs = Annotated[int, typer.Option(min=0, help="Threads; 0 for all cores.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="DIR",
        help="Keep results in this folder, and run only what is not there yet.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="With --store: only say what there is, what would be run, how long."
    ),
]
AcceptVersion = Annotated[
    bool,
    typer.Option(
        "--accept-version",
        help="With --store: go on with results of another version of the engine.",
    ),
]


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> int:
    if version:
        _print(f"lasthop {lasthop.__version__}")
        raise typer.Exit
    return DONE if context.invoked_subcommand else BAD_INPUT


@app.command(rich_help_panel=SIMULATION)
def run(
    file: File,
    *,
    replications: Replications = None,
    seed: Seed = None,
    jobs: Jobs = 0,
    changes: Changes = None,
    until: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC=WIDTH",
            help="Run each point until the 95 % interval is within ± WIDTH of the mean: 2%, or a "
            "number in the metric's unit. First look at --replications, by default 20. Repeatable.",
        ),
    ] = None,
    max_replications: Annotated[
        int | None,
        typer.Option(min=1, help="With --until: most replications a point, by default 1000."),
    ] = None,
    store: Folder = None,
    dry_run: DryRun = False,
    accept_version: AcceptVersion = False,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Metrics in the table, with * and ?. Repeatable."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Also write replications.parquet, summary.csv and results.json."
        ),
    ] = None,
    output: Annotated[
        Format,
        typer.Option(
            "--format",
            help="table and json: mean and interval of each metric; csv and parquet: one row a "
            "replication and flow or link.",
        ),
    ] = Format.table,
    with_theory: Annotated[
        bool,
        typer.Option(
            "--compare-theory",
            help="Print the simulated values beside those of closed forms, where one applies.",
        ),
    ] = False,
) -> int:
    """Run a scenario and print what it delivers."""
    scenario = _load(file, changes)
    if output is Format.parquet and out is None and sys.stdout.isatty():
        raise BadInput("--format: found parquet on a terminal; allowed: with --out, or in a pipe")
    campaign = _campaign(store, accept_version=accept_version, dry_run=dry_run)
    if dry_run and campaign:
        if until:
            raise BadInput("--dry-run: found --until, whose end nobody knows; allowed: one of them")
        plan = campaign.plan(scenario, replications=replications, seed=seed, jobs=jobs)
        return _print_plan(plan, as_json=output is Format.json)
    folder = None if out is None else _folder(out)
    with terminal.progress(scenario.name or file.name) as progress:
        try:
            if campaign is None:
                results = lasthop.run(
                    scenario,
                    replications=replications,
                    seed=seed,
                    jobs=jobs,
                    until=until,
                    max_replications=max_replications,
                    progress=progress,
                )
            else:
                results = campaign.run(
                    scenario,
                    replications=replications,
                    seed=seed,
                    jobs=jobs,
                    until=until,
                    max_replications=max_replications,
                    progress=progress,
                )
        except (lasthop.ScenarioError, CampaignError):
            raise
        except (KeyError, ValueError) as error:  # what `until` says
            raise BadInput(f"--{str(error.args[0]).replace('max_r', 'max-r')}") from None
    _note_campaign(campaign)
    if folder is not None:
        results.frame.write_parquet(folder / "replications.parquet")
        _plain_columns(results.summary()).write_csv(folder / "summary.csv")
        _write(folder / "results.json", results.to_json() + "\n")
    if with_theory:
        _print_theory(scenario, results, output, folder)
    else:
        _print_results(results, output, folder, metric)
    if folder is not None and output is not Format.json:
        _note(f"written to {folder}")
    short = [stop for stop in results.stopped if not stop.reached]
    if short:
        where = ", ".join(f"{stop.metric} at point {stop.point}" for stop in short[:5])
        more = f" and {len(short) - 5} more" if len(short) > 5 else ""
        why = "not as precise as asked, or too skewed to tell"
        _note(f"lasthop: after the most replications {why}: {where}{more}")
    return _ended(complete=results.complete, finished=len(results.point), campaign=campaign)


def _print_results(
    results: lasthop.Results, output: Format, folder: Path | None, metrics: list[str] | None
) -> None:
    match output:
        case Format.json:
            _print(results.to_json())
        case Format.csv:
            _print(_plain_columns(results.frame).write_csv().rstrip("\n"))
        case Format.parquet if folder is None:
            results.frame.write_parquet(sys.stdout.buffer)
        case Format.table:
            terminal.console().print(terminal.show_results(results, tuple(metrics or ())))
        case _:
            pass


def _print_theory(
    scenario: Scenario, results: lasthop.Results, output: Format, folder: Path | None
) -> None:
    found = theory.compare(results, scenario)
    table = theory.frame(results, found)
    if folder is not None:
        _plain_columns(table).write_csv(folder / "theory.csv")
    match output:
        case Format.json:
            tables = results.to_dict()
            for index, point in enumerate(tables["points"]):
                point["theory"] = theory.to_dict(found, index)
            _print(json.dumps(tables, allow_nan=False, ensure_ascii=False, indent=2))
        case Format.csv:
            _print(_plain_columns(table).write_csv().rstrip("\n"))
        case Format.parquet if folder is None:
            table.write_parquet(sys.stdout.buffer)
        case Format.table if found:
            console = terminal.console()
            for part in terminal.show_theory(results, found):
                console.print(part)
        case _:
            pass
    if not found and output in (Format.table, Format.csv):
        (_print if output is Format.table else _note)(theory.nothing_applies())


@app.command(rich_help_panel=SCENARIOS)
def check(file: File, *, changes: Changes = None) -> int:
    """Say whether a scenario is right; if not, which key is wrong and what is allowed."""
    points = _load(file, changes).points()
    _print(f"{file}: right, {len(points)} point{'s' if len(points) != 1 else ''}")
    return DONE


@app.command(rich_help_panel=SCENARIOS)
def schema() -> int:
    """Print the JSON Schema of scenarios, for editors."""
    _print(_schema_text())
    return DONE


def _schema_text() -> str:
    return json.dumps(lasthop.schema(), indent=2, ensure_ascii=False)


@app.command(rich_help_panel=SCENARIOS)
def new(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="What it is called; by default as its template."),
    ] = None,
    *,
    template: Annotated[str, typer.Option(help="|".join(starter.TEMPLATES))] = "file",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write; by default NAME.toml.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
) -> int:
    """Write a starter scenario whose comments say what each key means, and the schema beside it."""
    name = (template if name is None else name).strip()
    if not name or "\n" in name:
        raise BadInput(f"NAME: found {name!r}; allowed: text that is not empty, on one line")
    try:
        text = starter.starter(template, name)
    except ValueError as error:
        raise BadInput(f"--{error}") from None
    slug = re.sub(r"[^\w-]+", "-", name).strip("-")
    path = out or Path(f"{slug or template}.toml")
    if path.exists() and not force:
        raise BadInput(f"--out: found {path}, which exists; allowed: a new file, or --force")
    schema_file = path.parent / starter.SCHEMA_FILE
    files = {path: text}
    if not schema_file.exists():
        files[schema_file] = _schema_text() + "\n"
    for target, content in files.items():
        try:
            _write(target, content)
        except OSError as error:
            raise BadInput(f"--out: {target}: {error.strerror or error}") from None
        _print(str(target))
    return DONE


@app.command("explain", rich_help_panel=SCENARIOS)
def explain_(
    file: File,
    *,
    point: Annotated[int, typer.Option(min=0, help="Which point of the sweep.")] = 0,
    changes: Changes = None,
) -> int:
    """Say in words and a small picture what a scenario is, defaults filled in."""
    try:
        _print(explain.explain(_load(file, changes), point=point))
    except lasthop.ScenarioError:
        raise
    except ValueError as error:
        raise BadInput(f"--{error}") from None
    return DONE


@app.command("list", rich_help_panel=SCENARIOS)
def list_(
    category: Annotated[
        str | None,
        typer.Argument(metavar="[CATEGORY]", help="|".join(catalogue.CATEGORIES)),
    ] = None,
) -> int:
    """List what a scenario can be made of, and the studies."""
    try:
        tables = [
            terminal.show_list(name, catalogue.catalogue(name))
            for name in ([category] if category else catalogue.CATEGORIES)
        ]
    except ValueError as error:
        raise BadInput(str(error)) from None
    out = terminal.console()
    for table in tables:
        out.print(table)
    return DONE


@app.command(rich_help_panel=SIMULATION)
def trace(
    file: File,
    *,
    seed: Seed = None,
    replication: Annotated[int, typer.Option(min=0, help="Which replication.")] = 0,
    point: Annotated[int, typer.Option(min=0, help="Which point of the sweep.")] = 0,
    changes: Changes = None,
    link: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Draw this link's time sequence: its frames as arrows, around the first loss. "
            "With --pcap: only this link.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help='Draw the link from here, such as "1.5 s".'),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Draw the link up to here.")
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR|PICTURE",
            help="Where to write; with --link also a picture to write alone (.png, .svg or .pdf).",
        ),
    ] = Path("trace"),
    pcap: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Instead write the packets to this pcapng file, for Wireshark; each direction of "
            "a link is an interface, comments say what was lost.",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="HOST",
            help="With --pcap: as this host sees its packets; by default as they are on the air.",
        ),
    ] = None,
    snap: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="With --pcap: bytes kept of a packet; else all."),
    ] = None,
) -> int:
    """Record one replication: windows, queues and frames as CSV and pictures, or its packets."""
    from lasthop import plots

    scenario = _load(file, changes)
    if pcap is not None:
        if start or end:
            raise BadInput("--from, --to: found --pcap; allowed: for a picture")
        try:
            packets = lasthop.capture(
                scenario,
                pcap,
                link=link,
                host=host,
                snap=snap,
                seed=seed,
                replication=replication,
                point=point,
            )
        except lasthop.ScenarioError:
            raise
        except ValueError as error:
            raise BadInput("--" + str(error).replace("host:", "at:", 1)) from None
        except OSError as error:
            raise BadInput(f"--pcap: {pcap}: {error.strerror or error}") from None
        _print(f"{pcap}: {packets} packets")
        return DONE
    if host or snap:
        raise BadInput("--at, --snap: found no capture; allowed: with --pcap")
    is_picture = out.suffix.lower().removeprefix(".") in plots.FORMATS and not out.is_dir()
    if is_picture and link is None:
        raise BadInput(f"--out: found {str(out)!r}; allowed: a folder, or a picture with --link")
    if link is None and (start or end):
        raise BadInput("--from, --to: found no link; allowed: with --link")
    times = [_seconds(option, text) for option, text in (("--from", start), ("--to", end))]
    folder = _folder(out.parent if is_picture else out)
    try:
        recorded = lasthop.trace(scenario, seed=seed, replication=replication, point=point)
        ladder = link and recorded.plot_link(link, start=times[0], end=times[1])
    except lasthop.ScenarioError:
        raise
    except ValueError as error:
        raise BadInput(f"--{error}") from None
    written = []
    if not is_picture:
        for name, frame in {**recorded.series(), "frames": recorded.transmissions}.items():
            path = folder / f"{name}.csv"
            with path.open("wb") as file_:
                frame.write_csv(file_)
            written.append(path)
        written += plots.save(recorded.plot(), folder / "trace", "png")
    if ladder:
        target = out.with_suffix("") if is_picture else folder / "sequence"
        written += plots.save(ladder, target, out.suffix.lower()[1:] if is_picture else "png")
    for path in written:
        _print(str(path))
    return DONE


def _seconds(option: str, text: str | None) -> float | None:
    try:
        return None if text is None else _lasthop.seconds(text)
    except ValueError as error:
        raise BadInput(f"{option}: {error}") from None


@app.command(rich_help_panel=SIMULATION)
def reproduce(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="See `lasthop list studies`.")],
    artefacts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TABLE|FIGURE]...", help='Such as "Table I"; all if none.'),
    ] = None,
    *,
    replications: Annotated[
        int | None, typer.Option(min=1, help="Replications a cell; by default the paper's.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Master seed; by default the study's.")
    ] = None,
    jobs: Jobs = 0,
    store: Folder = None,
    dry_run: DryRun = False,
    accept_version: AcceptVersion = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write figures (PNG and PDF), report.json and replications.parquet here; "
            "if figures are asked for, by default results/STUDY.",
        ),
    ] = None,
    vary: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="Instead judge the claims under each other choice that the paper leaves open; "
            f"by default on {sensitivity.REPLICATIONS} replications.",
        ),
    ] = False,
    output: Annotated[
        ReportFormat, typer.Option("--format", help="How tables and claims are printed.")
    ] = ReportFormat.text,
) -> int:
    """Reproduce a published study: its tables beside the printed ones, its figures, its claims."""
    known = studies()
    if study not in known:
        raise BadInput(f"STUDY: found {study!r}; allowed: {', '.join(known)}")
    chosen = known[study]
    if vary:
        if artefacts:
            raise BadInput("--sensitivity: found tables or figures; allowed: the study alone")
        if dry_run:
            raise BadInput("--dry-run: found --sensitivity; allowed: without it")
        campaign = _campaign(store, accept_version=accept_version, dry_run=False)
        return _vary(chosen, replications, seed, jobs, out, output, campaign)
    wanted = chosen.find(artefacts or [])
    campaign = _campaign(store, accept_version=accept_version, dry_run=dry_run)
    if dry_run and campaign:
        plan = chosen.plan(
            campaign, artefacts or [], replications=replications, seed=seed, jobs=jobs
        )
        return _print_plan(plan, as_json=output is ReportFormat.json)
    figures = [artefact for artefact in wanted if artefact.kind == "figure"]
    if out is None and figures:
        out = Path("results") / study
    folder = None if out is None else _folder(out)
    with terminal.progress(study) as progress:
        report = chosen.reproduce(
            artefacts or [],
            replications=replications,
            seed=seed,
            jobs=jobs,
            progress=progress,
            campaign=campaign,
        )
    _note_campaign(campaign)
    written = [] if folder is None else _write_report(report, folder)
    match output:
        case ReportFormat.json:
            _print(_report_json(report))
        case ReportFormat.markdown:
            _print(markdown.report(report))
        case ReportFormat.text:
            console = terminal.console()
            for table in terminal.show_report(report):
                console.print(table)
                console.print()
            for path in written:
                _print(str(path))
    finished = len(report.results.point)
    return _ended(complete=report.complete, finished=finished, campaign=campaign)


def _vary(
    study: Study,
    replications: int | None,
    seed: int | None,
    jobs: int,
    out: Path | None,
    output: ReportFormat,
    campaign: Campaign | None,
) -> int:
    if not study.sensitivities:
        raise BadInput(f"--sensitivity: found study {study.key}; allowed: one that names choices")
    folder = None if out is None else _folder(out)
    with terminal.progress(study.key) as progress:
        report = sensitivity.sweep(
            study,
            replications=replications,
            seed=seed,
            jobs=jobs,
            progress=progress,
            campaign=campaign,
        )
    _note_campaign(campaign)
    if folder is not None:
        _write(folder / "sensitivity.json", _report_json(report) + "\n")
    match output:
        case ReportFormat.json:
            _print(_report_json(report))
        case ReportFormat.markdown:
            _print(markdown.sensitivity(report))
        case ReportFormat.text:
            console = terminal.console()
            for table in terminal.show_sensitivity(report):
                console.print(table)
                console.print()
    return _ended(complete=report.complete, finished=report.finished, campaign=campaign)


def _campaign(store: Path | None, *, accept_version: bool, dry_run: bool) -> Campaign | None:
    if store is not None:
        return Campaign(store, accept_version=accept_version)
    for option, is_given in (("--accept-version", accept_version), ("--dry-run", dry_run)):
        if is_given:
            raise BadInput(f"{option}: found no --store; allowed: with --store DIR")
    return None


def _note_campaign(campaign: Campaign | None) -> None:
    for note in campaign.notes if campaign else ():
        _note(f"lasthop: {note}")


def _print_plan(plan: Plan, *, as_json: bool) -> int:
    if as_json:
        _print(json.dumps(plan.to_dict(), indent=2))
    else:
        terminal.console().print(terminal.show_plan(plan))
    return DONE


def _report_json(report: Report | sensitivity.SensitivityReport) -> str:
    return json.dumps(report.to_dict(), allow_nan=False, ensure_ascii=False, indent=2)


def _write_report(report: Report, folder: Path) -> list[Path]:
    from lasthop import plots

    written = [folder / "report.json", folder / "replications.parquet"]
    _write(written[0], _report_json(report) + "\n")
    report.results.frame.write_parquet(written[1])
    for artefact in report.artefacts:
        if artefact.kind == "figure":
            figure = plots.draw_figure(artefact, report.cells)
            written += plots.save(figure, folder / artefact.file_name, "png", "pdf")
    return written


def _load(file: Path, changes: list[str] | None) -> Scenario:
    try:
        scenario = Scenario.from_file(file)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror or error}") from None
    for change in changes or []:
        key, equals, value = change.partition("=")
        if not equals or not key.strip():
            raise BadInput(f"--set: found {change!r}; allowed: KEY=VALUE")
        scenario = scenario.with_({key.strip(): value.strip()})
    return scenario


def _folder(path: Path) -> Path:
    """Makes a folder before anything is run, so that a bad name costs no time."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--out: {path}: {error.strerror or error}") from None
    if not os.access(path, os.W_OK):
        raise BadInput(f"--out: {path}: {os.strerror(errno.EACCES)}")
    return path


def _plain_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """Swept tables and lists as text, which CSV can hold."""
    return frame.with_columns(pl.selectors.nested().map_elements(str, pl.String))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


def _note(text: str) -> None:
    sys.stderr.write(text + "\n")


def _ended(*, complete: bool, finished: int, campaign: Campaign | None = None) -> int:
    if complete:
        return DONE
    rest = "" if campaign is None else f" and are in {campaign.folder}; the same command goes on"
    _note(f"lasthop: interrupted; {finished} replications were finished{rest}")
    return INTERRUPTED


app.command("plot", rich_help_panel=RESULTS)(plot_cli.plot)
app.command("report", rich_help_panel=RESULTS)(report_cli.report)
app.command("diff", rich_help_panel=RESULTS)(report_cli.compare)
app.add_typer(analyse_cli.app, name="analyse", rich_help_panel=THEORY)


def _main(arguments: list[str] | None = None) -> int:
    """Runs the command line; every expected failure is one line on standard error."""
    try:
        # What a command returns is its exit code; typer itself returns that of `typer.Exit`.
        code: int = app(arguments, prog_name="lasthop", standalone_mode=False) or DONE
        sys.stdout.flush()
    except (lasthop.ScenarioError, StudyError, CampaignError, PlotError, BadInput) as error:
        return _fail(str(error), BAD_INPUT)
    except ClickException as error:
        return _fail(error.format_message(), BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has had enough.
        _abandon_output()
        return FAILURE
    except OSError as error:
        # A full disk, most likely; what is still buffered for it cannot be written either.
        _abandon_output()
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", FAILURE)
    except pl.exceptions.PolarsError as error:
        return _fail(str(error), FAILURE)
    except lasthop.RunError as error:
        return _fail(str(error), FAILURE)
    return code


def _fail(message: str, code: int) -> int:
    with contextlib.suppress(OSError):
        _note(f"lasthop: {' '.join(message.split())}")
    return code


def _abandon_output() -> None:
    """Lets the interpreter's own flush at exit go nowhere, instead of failing again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> NoReturn:
    """Runs the command line and leaves the process."""
    sys.exit(_main())
