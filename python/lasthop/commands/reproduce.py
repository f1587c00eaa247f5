"""The command `lasthop reproduce`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from lasthop.commands.common import (
    AcceptVersion,
    ClusterOption,
    DryRun,
    Folder,
    Jobs,
    campaign_of,
    cluster_of,
    ended,
    key_and_value,
    note,
    note_campaign,
    nothing_lost,
    parquet,
    planning,
    print_line,
    print_plan,
    running,
    writable,
    write,
    write_bytes,
)
from lasthop.commands.declarations import Argument, Option
from lasthop.commands.stores import is_archive, reproduce_archive
from lasthop.commands.values import BadInput, as_path
from lasthop.running.campaign import Campaign
from lasthop.scenarios.arguments import invalid, unknown
from lasthop.showing import markdown, study_tables, terminal
from lasthop.showing.figures.beside import Painters
from lasthop.studies import Report, Study, sensitivity, studies
from lasthop.studies.changes import with_changes
from lasthop.studies.paired import PairedCell, from_baseline
from lasthop.studies.readings import ReadingsReport, run_readings

__all__ = ["reproduce"]


class ReportFormat(StrEnum):
    """Output formats of `reproduce`."""

    text = "text"
    json = "json"
    markdown = "markdown"


def reproduce(
    study: Annotated[
        str | None,
        Argument(
            metavar="STUDY",
            help="Name of the study; see `lasthop list studies`. Or an archive, whose runs are "
            "repeated and compared.",
        ),
    ] = None,
    artefacts: Annotated[
        list[str] | None,
        Argument(metavar="[TABLE|FIGURE]...", help='Such as "Table I"; default: all.'),
    ] = None,
    *,
    replications: Annotated[
        int | None, Option(min=1, help="Replications per cell; default: the paper's.")
    ] = None,
    seed: Annotated[int | None, Option(min=0, help="Master seed; default: the study's.")] = None,
    changes: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set this key in all scenarios of the study that have it; {flow} is the flow of "
            "the cell. Repeatable.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="Also print paired differences from this column of each table and figure.",
        ),
    ] = None,
    judge_at: Annotated[
        list[int] | None,
        Option(
            metavar="N",
            min=2,
            help="Also evaluate the claims on the first N replications. Repeatable.",
        ),
    ] = None,
    jobs: Jobs = 0,
    cluster: ClusterOption = None,
    store: Folder = None,
    dry_run: DryRun = False,
    accept_version: AcceptVersion = False,
    out: Annotated[
        Path | None,
        Option(
            parser=as_path,
            metavar="DIR",
            help="Write figures (PNG and PDF), report.json and replications.parquet to this "
            "folder; default if there are figures: results/STUDY.",
        ),
    ] = None,
    vary: Annotated[
        bool,
        Option(
            "--sensitivity",
            help="Evaluate only the claims, for each alternative of choices that the paper leaves "
            f"open; default: {sensitivity.REPLICATIONS} replications.",
        ),
    ] = False,
    readings: Annotated[
        bool,
        Option(
            "--readings",
            help="Evaluate only the published orderings, for each interpretation of the text.",
        ),
    ] = False,
    every: Annotated[
        bool,
        Option("--all", help="Reproduce all studies, in one report with a table of contents."),
    ] = False,
    output: Annotated[
        ReportFormat, Option("--format", help="Output format of tables and claims.")
    ] = ReportFormat.text,
) -> int:
    """Reproduce a published study: tables, figures and claims, compared with published values."""
    if study is not None and is_archive(study):
        return reproduce_archive(Path(study), jobs)
    known = studies()
    if every:
        if study is not None or vary or readings or changes or baseline or judge_at or dry_run:
            raise BadInput(
                "cannot use `--all` with a study or options of one study; use `--replications`, "
                "`--seed`, `--jobs`, `--store`, `--out` or `--format`"
            )
        campaign = campaign_of(store, accept_version=accept_version)
        return _every(replications, seed, jobs, out, output, campaign)
    if study is None:
        raise BadInput(f"missing `STUDY`: expected {', '.join(known)}, or `--all`")
    if study not in known:
        raise BadInput(unknown("study", study, known))
    chosen = known[study]
    if cluster is not None and store is None:
        raise BadInput("`--cluster` requires `--store DIR`")
    if readings:
        if artefacts or vary or changes or baseline or judge_at or dry_run:
            raise BadInput("cannot use `--readings` with other options: it covers the study")
        campaign = campaign_of(store, accept_version=accept_version)
        return _readings(chosen, replications, seed, jobs, output, campaign)
    if vary:
        if artefacts:
            raise BadInput("cannot use `--sensitivity` with tables or figures: it covers the study")
        conflicts = {
            "--dry-run": dry_run,
            "--judge-at": judge_at,
            "--set": changes,
            "--baseline": baseline,
        }
        for option, value in conflicts.items():
            if value:
                raise BadInput(f"cannot use `{option}` with `--sensitivity`")
        with cluster_of(cluster, jobs) as workers:
            campaign = campaign_of(store, accept_version=accept_version, cluster=workers)
            return _vary(chosen, replications, seed, jobs, out, output, campaign)
    if changes:
        chosen = _changed(chosen, changes)
    wanted = chosen.find(artefacts or [])
    columns = list(dict.fromkeys(name for one in wanted for name in one.columns))
    if baseline is not None and baseline not in columns:
        raise BadInput(unknown("column", baseline, columns, "--baseline"))
    most = (chosen.replications if replications is None else replications) - 1
    for first in judge_at or []:
        if first > most:
            raise BadInput(invalid("--judge-at", first, f"2 to {most}"))
    campaign = campaign_of(store, accept_version=accept_version)
    if dry_run:
        with planning(campaign) as planned:
            plan = chosen.plan(
                planned, artefacts or [], replications=replications, seed=seed, jobs=jobs
            )
        return print_plan(plan, as_json=output is ReportFormat.json)
    figures = [artefact for artefact in wanted if artefact.kind == "figure"]
    if out is None and figures:
        out = Path("results") / study
    folder = None if out is None else writable(out)
    with Painters(len(figures), jobs) as painters:
        with cluster_of(cluster, jobs) as workers, running(study) as progress:
            if workers is not None:
                campaign = campaign_of(store, accept_version=accept_version, cluster=workers)
            report = chosen.reproduce(
                artefacts or [],
                replications=replications,
                seed=seed,
                jobs=jobs,
                progress=progress,
                campaign=campaign,
                judge_at=judge_at or (),
            )
        if folder is not None and report.complete:
            painters.begin(report, folder)
        note_campaign(campaign)
        with nothing_lost() as step:
            paired = [] if baseline is None else from_baseline(report, baseline)
            step(lambda: _print_report(report, paired, output))
            if folder is not None:
                written: list[Path] = []
                step(lambda: _write_report(report, paired, folder, written))
                step(lambda: written.extend(painters.finish()))
                if output is ReportFormat.text:
                    step(lambda: print_line("\n".join(map(str, written))))
    finished = len(report.results.point)
    return ended(complete=report.complete, finished=finished, campaign=campaign)


def _changed(study: Study, changes: list[str]) -> Study:
    """Returns the study with keys changed; reports the number of affected cells."""
    varied, counts = with_changes(study, dict(key_and_value(change) for change in changes))
    total = len(study.cells(study.artefacts))
    for key, count in counts.items():
        note(f"lasthop: --set {key}={varied.changes[key]}: in {count} of {total} cells")
    return varied


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
        raise BadInput(f"study `{study.key}` lists no open choices, as `--sensitivity` requires")
    folder = None if out is None else writable(out)
    with running(study.key) as progress:
        report = sensitivity.sweep(
            study,
            replications=replications,
            seed=seed,
            jobs=jobs,
            progress=progress,
            campaign=campaign,
        )
    note_campaign(campaign)
    with nothing_lost() as step:
        step(lambda: _print_sensitivity(report, output))
        if folder is not None:
            step(lambda: write(folder / "sensitivity.json", _report_json(report) + "\n"))
    return ended(complete=report.complete, finished=report.finished, campaign=campaign)


def _readings(
    study: Study,
    replications: int | None,
    seed: int | None,
    jobs: int,
    output: ReportFormat,
    campaign: Campaign | None,
) -> int:
    if not study.readings:
        raise BadInput(f"study `{study.key}` lists no interpretations, as `--readings` requires")
    with running(study.key) as progress:
        report = run_readings(
            study,
            replications=replications,
            seed=seed,
            jobs=jobs,
            progress=progress,
            campaign=campaign,
        )
    note_campaign(campaign)
    with nothing_lost() as step:
        step(lambda: _print_readings(report, output))
    return ended(complete=report.complete, finished=report.finished, campaign=campaign)


def _print_readings(report: ReadingsReport, output: ReportFormat) -> None:
    match output:
        case ReportFormat.json:
            tables = report.to_dict()
            print_line(json.dumps(tables, allow_nan=False, ensure_ascii=False, indent=2))
        case ReportFormat.markdown:
            print_line(markdown.readings(report))
        case ReportFormat.text:
            terminal.console().print(study_tables.show_readings(report))


def _every(
    replications: int | None,
    seed: int | None,
    jobs: int,
    out: Path | None,
    output: ReportFormat,
    campaign: Campaign | None,
) -> int:
    """Reproduces all studies, and prints one report; with `out` it writes `report.md` too."""
    folder = None if out is None else writable(out)
    reports: list[Report] = []
    for study in studies().values():
        with running(study.key) as progress:
            reports.append(
                study.reproduce(
                    replications=replications,
                    seed=seed,
                    jobs=jobs,
                    progress=progress,
                    campaign=campaign,
                )
            )
        if not reports[-1].complete:
            break
    note_campaign(campaign)
    with nothing_lost() as step:
        match output:
            case ReportFormat.json:
                tables = [report.to_dict() for report in reports]
                step(lambda: print_line(json.dumps(tables, ensure_ascii=False, indent=2)))
            case ReportFormat.markdown:
                step(lambda: print_line(markdown.every_report(reports)))
            case ReportFormat.text:
                for report in reports:
                    print_line(report.study.title)
                    _print_report(report, (), output)
        if folder is not None:
            step(lambda: write(folder / "report.md", markdown.every_report(reports) + "\n"))
    complete = all(report.complete for report in reports)
    finished = sum(len(report.results.point) for report in reports)
    return ended(complete=complete, finished=finished, campaign=campaign)


def _print_sensitivity(report: sensitivity.SensitivityReport, output: ReportFormat) -> None:
    match output:
        case ReportFormat.json:
            print_line(_report_json(report))
        case ReportFormat.markdown:
            print_line(markdown.sensitivity(report))
        case ReportFormat.text:
            console = terminal.console()
            for table in study_tables.show_sensitivity(report):
                console.print(table)
                console.print()


def _report_json(
    report: Report | sensitivity.SensitivityReport, paired: Sequence[PairedCell] = ()
) -> str:
    tables = report.to_dict()
    if paired:
        tables["differences"] = [cell.to_dict() for cell in paired]
    return json.dumps(tables, allow_nan=False, ensure_ascii=False, indent=2)


def _print_report(report: Report, paired: Sequence[PairedCell], output: ReportFormat) -> None:
    match output:
        case ReportFormat.json:
            print_line(_report_json(report, paired))
        case ReportFormat.markdown:
            print_line(markdown.report(report))
            if paired:
                print_line("\n" + markdown.differences(paired))
        case ReportFormat.text:
            console = terminal.console()
            for table in study_tables.show_report(report):
                console.print(table)
                console.print()
            if paired:
                console.print(study_tables.show_paired(paired))
                console.print()


def _write_report(
    report: Report, paired: Sequence[PairedCell], folder: Path, written: list[Path]
) -> None:
    """Writes report.json and replications.parquet; appends their names to `written`."""
    files = [folder / "report.json", folder / "replications.parquet"]
    write(files[0], _report_json(report, paired) + "\n")
    write_bytes(files[1], parquet(report.results.frame))
    written += files
