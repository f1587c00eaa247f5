"""The command `lasthop advise`: selection of the best link protocol for given traffic."""

from __future__ import annotations

import json
import math
import shlex
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table

from lasthop import _lasthop
from lasthop.commands.codes import DONE
from lasthop.commands.common import (
    AcceptVersion,
    Changes,
    ClusterOption,
    File,
    Folder,
    Jobs,
    Seed,
    campaign_of,
    cluster_of,
    load,
    not_input,
    note,
    note_campaign,
    options,
    print_line,
    running,
)
from lasthop.commands.declarations import Option
from lasthop.commands.values import (
    BadInput,
    Plot,
    TableOrJson,
    as_path,
    of_option,
    quantity,
    save_picture,
)
from lasthop.running.writing import IS_FULL, write_file
from lasthop.scenarios.arguments import invalid
from lasthop.showing import terminal

if TYPE_CHECKING:
    from lasthop.evaluating.advise import Advice, Standing

__all__ = ["advise"]


def advise(
    file: File,
    *,
    want: Annotated[
        str,
        Option(
            metavar="TEXT",
            help="Objectives and constraints: 'goodput, delay_p99 < 300 ms, residual_loss < 1e-3'.",
        ),
    ],
    traffic: Annotated[
        str | None,
        Option(
            metavar="TEXT",
            help="Replace the scenario's flows: comma-separated file [SIZE], web, page [HTTP], "
            "voice [RATE], video [RATE].",
        ),
    ] = None,
    link: Annotated[
        str | None,
        Option(metavar="NAME", help="Link to optimise; default: the lossy one."),
    ] = None,
    protocol: Annotated[
        list[str] | None,
        Option(metavar="KIND", help="Compare only this link protocol. Repeatable."),
    ] = None,
    transport: Annotated[
        list[str] | None,
        Option(metavar="VARIANT", help="Also compare this TCP. Repeatable."),
    ] = None,
    trials: Annotated[
        int,
        Option(min=0, help="Trials of the parameter search per protocol; 0: no search."),
    ] = 8,
    most: Annotated[
        int,
        Option("--max-replications", min=12, help="Maximum replications per candidate."),
    ] = 400,
    tolerance: Annotated[
        str, Option(metavar="SHARE", help="Relative difference that is negligible.")
    ] = "1 %",
    budget: Annotated[
        str | None,
        Option(
            metavar="N|TIME",
            help="Stop after N replications in total or after this time ('10 min'); default: 20 % "
            "of --max-replications for all candidates.",
        ),
    ] = None,
    seed: Seed = None,
    jobs: Jobs = 0,
    cluster: ClusterOption = None,
    changes: Changes = None,
    store: Folder = None,
    accept_version: AcceptVersion = False,
    out: Annotated[
        Path | None,
        Option(
            parser=as_path,
            metavar="FILE.json",
            help="Write the chosen scenario, with the flows of --traffic.",
        ),
    ] = None,
    plot: Plot = None,
    report: Annotated[
        Path | None,
        Option(
            parser=as_path,
            metavar="FILE.html",
            help="Write an HTML report: recommendation, reasons, risks, Pareto front.",
        ),
    ] = None,
    output: Annotated[
        TableOrJson, Option("--format", help="Output format of the advice.")
    ] = TableOrJson.table,
) -> int:
    """Select the best link protocol and its parameters, or the best point of a sweep."""
    from lasthop.evaluating import advise as advising
    from lasthop.running.campaign import Campaign

    scenario = load(file, changes)
    if out is not None:
        if out.suffix != ".json":
            raise BadInput(invalid("--out", out, "a name that ends in .json"))
        not_input("--out", out, file)
    if report is not None:
        if report.suffix != ".html":
            raise BadInput(invalid("--report", report, "a name that ends in .html"))
        not_input("--report", report, file)
    replications, budget_s = _budget(budget)
    share = quantity("--tolerance", "probability", tolerance)
    with ExitStack() as stack:
        stack.enter_context(options())
        if traffic is not None:
            scenario = advising.with_traffic(scenario, traffic, link)
        workers = stack.enter_context(cluster_of(cluster, jobs))
        campaign = campaign_of(store, accept_version=accept_version, cluster=workers)
        if campaign is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            campaign = Campaign(Path(folder) / "race", cluster=workers)
        progress = stack.enter_context(running(scenario.name or file.name))
        found = advising.advise(
            scenario,
            want,
            campaign,
            link=link,
            options=advising.Options(
                protocols=tuple(protocol or ()),
                transports=tuple(transport or ()),
                trials=trials,
                most=most,
                tolerance=share,
                budget=replications,
                budget_s=budget_s,
                seed=seed,
                jobs=jobs,
            ),
            progress=progress,
        )
    note_campaign(campaign)
    command = None
    if found.choice is not None and out is not None:
        tables = json.loads(found.choice.candidate.point.to_json())
        command = shlex.join(["lasthop", "run", str(out)])
    elif found.choice is not None:
        settings = list(changes or [])
        settings += [f"{key}={value}" for key, value in found.choice.candidate.changes.items()]
        words = ["lasthop", "run", str(file), *(w for one in settings for w in ("--set", one))]
        command = shlex.join(words)
    if output is TableOrJson.json:
        table = {**found.to_dict(), "command": command, "traffic": traffic}
        print_line(json.dumps(table, indent=2, ensure_ascii=False))
    else:
        _print(found, command, None if out is not None else traffic)
    if found.choice is not None and out is not None:
        text = json.dumps(tables, indent=2, ensure_ascii=False) + "\n"
        _write(out, text)
    if plot is not None:
        from lasthop.showing.figures.advice import draw_advice

        save_picture(draw_advice(found), plot)
    if report is not None:
        from lasthop.showing.advice_report import page

        used = ["lasthop", *sys.argv[1:]]
        _write(report, page(found, scenario, command=shlex.join(used), run=command or ""))
        note(f"written to {report}")
    return DONE


def _write(path: Path, text: str) -> None:
    try:
        write_file(path, text.encode())
    except OSError as error:
        if error.errno in IS_FULL:
            raise
        raise BadInput(f"cannot write `{path}`: {error.strerror or error}") from None


def _budget(text: str | None) -> tuple[int | None, float | None]:
    if text is None:
        return None, None
    if text.strip().isdigit() and int(text) > 0:
        return int(text), None
    try:
        return None, _lasthop.seconds(text)
    except ValueError as error:
        message = of_option(str(error), "--budget")
        raise BadInput(f"{message}, or a number of replications") from None


def _print(found: Advice, command: str | None, traffic: str | None) -> None:
    console = terminal.console()
    table = Table(
        caption="* Pareto-optimal; 95 % confidence intervals, simultaneous for all candidates and "
        "interim analyses"
    )
    table.caption_justify = "left"
    table.add_column("candidate", overflow="fold")
    table.add_column("n", justify="right")
    for name in found.wants.metrics:
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("", overflow="fold")
    for one in found.standings:
        table.add_row(
            f"{one.candidate.name}{' *' if one.is_front else ''}",
            str(one.replications),
            *(_cell(one, name) for name in found.wants.metrics),
            "choice" if one is found.choice else one.ruled_out or _state(one),
        )
    console.print(table)
    for name, why in found.refused:
        console.print(f"{name}: {why}", highlight=False)
    console.print(
        f"{found.replications} replications ({found.exhaustive} without early elimination): "
        f"{found.ended}",
        highlight=False,
    )
    for text in found.reasons:
        console.print(text, highlight=False)
    for text in found.warnings:
        note(f"lasthop: {text}")
    if command is not None:
        if traffic is not None:
            note(
                f"lasthop: the command uses the flows of the scenario file, not {traffic!r}; "
                "--out FILE.json writes a scenario with these flows"
            )
        print_line(command)


def _state(one: Standing) -> str:
    return "" if one.is_sure else "may violate a constraint"


def _cell(one: Standing, name: str) -> str:
    from lasthop.evaluating.cells import plus_minus
    from lasthop.evaluating.metric import metric_unit
    from lasthop.showing.figures.style import scaled

    interval = one.metrics[name]
    if math.isnan(interval.mean):
        return "–"
    unit = scaled(metric_unit(name), [interval.mean])
    width = interval.half_width / unit.per if math.isfinite(interval.low) else None
    return f"{plus_minus(interval.mean / unit.per, width)}{f' {unit.name}' if unit.name else ''}"
