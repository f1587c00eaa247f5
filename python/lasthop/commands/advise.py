"""The command `lasthop advise`: which protocol serves a link and its traffic best."""

from __future__ import annotations

import json
import math
import shlex
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
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
from lasthop.commands.values import BadInput, Plot, TableOrJson, as_path, quantity, save_picture
from lasthop.running.writing import IS_FULL, write_file
from lasthop.showing import terminal

if TYPE_CHECKING:
    from lasthop.evaluating.advise import Advice, Standing

__all__ = ["advise"]


def advise(
    file: File,
    *,
    want: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="What is to be best, and bounds: 'goodput, delay_p99 < 300 ms, residual_loss < "
            "1e-3'.",
        ),
    ],
    traffic: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Flows in place of the file's: file [SIZE], web, voice [RATE], video [RATE], with "
            "commas.",
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The link to treat; by default the lossy one."),
    ] = None,
    protocol: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Only this link protocol. Repeatable."),
    ] = None,
    transport: Annotated[
        list[str] | None,
        typer.Option(metavar="VARIANT", help="Also compare this TCP. Repeatable."),
    ] = None,
    trials: Annotated[
        int,
        typer.Option(min=0, help="Trials of the search for parameters, a protocol; 0 for none."),
    ] = 8,
    most: Annotated[
        int, typer.Option("--max-replications", min=12, help="Most replications a candidate.")
    ] = 400,
    tolerance: Annotated[
        str, typer.Option(metavar="SHARE", help="Differences that do not matter.")
    ] = "1 %",
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="N|TIME",
            help="Stop after so many replications, or so long: '10 min'; by default a fifth of the "
            "most of all candidates.",
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
        typer.Option(
            parser=as_path,
            metavar="FILE.json",
            help="Write the scenario to run, with the flows of --traffic.",
        ),
    ] = None,
    plot: Plot = None,
    output: Annotated[
        TableOrJson, typer.Option("--format", help="How the advice is printed.")
    ] = TableOrJson.table,
) -> int:
    """Say which link protocol, with which parameters, serves a link and its traffic best."""
    from lasthop.evaluating import advise as advising
    from lasthop.running.campaign import Campaign

    scenario = load(file, changes)
    if out is not None:
        if out.suffix != ".json":
            raise BadInput(f"--out: found {str(out)!r}; allowed: a name that ends in .json")
        not_input("--out", out, file)
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
        told = {**found.to_dict(), "command": command, "traffic": traffic}
        print_line(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        _print(found, command, None if out is not None else traffic)
    if found.choice is not None and out is not None:
        text = json.dumps(tables, indent=2, ensure_ascii=False) + "\n"
        try:
            write_file(out, text.encode())
        except OSError as error:
            if error.errno in IS_FULL:
                raise
            raise BadInput(f"--out: {out}: {error.strerror or error}") from None
    if plot is not None:
        from lasthop.showing.figures.advice import draw_advice

        save_picture(draw_advice(found), plot)
    return DONE


def _budget(text: str | None) -> tuple[int | None, float | None]:
    if text is None:
        return None, None
    if text.strip().isdigit() and int(text) > 0:
        return int(text), None
    try:
        return None, _lasthop.seconds(text)
    except ValueError as error:
        raise BadInput(f"--budget: {error}; or a number of replications") from None


def _print(found: Advice, command: str | None, traffic: str | None) -> None:
    console = terminal.console()
    table = Table(
        caption="* no other candidate is better in all that is wanted; intervals of 95 % that hold "
        "at all looks and for all candidates together"
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
        f"{found.replications} replications ({found.exhaustive} to run all to the end): "
        f"{found.ended}",
        highlight=False,
    )
    for told in found.reasons:
        console.print(told, highlight=False)
    for told in found.warnings:
        note(f"lasthop: {told}")
    if command is not None:
        if traffic is not None:
            note(
                f"lasthop: the command has the file's own flows, not {traffic!r}; --out FILE.json "
                "writes the scenario with these"
            )
        print_line(command)


def _state(one: Standing) -> str:
    return "" if one.is_sure else "not certain to keep the constraints"


def _cell(one: Standing, name: str) -> str:
    from lasthop.evaluating.metric import metric_unit
    from lasthop.showing.figures.style import scaled

    interval = one.metrics[name]
    if math.isnan(interval.mean):
        return "–"
    unit = scaled(metric_unit(name), [interval.mean])
    width = f" ± {interval.half_width / unit.per:.2g}" if math.isfinite(interval.low) else ""
    return f"{interval.mean / unit.per:.4g}{width}{f' {unit.name}' if unit.name else ''}"
