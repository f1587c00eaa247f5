"""The commands `lasthop report` and `lasthop diff`: report and comparison of campaigns."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

from rich.table import Table

from lasthop.commands.common import (
    Format,
    baseline_of,
    not_input,
    note,
    options,
    print_line,
)
from lasthop.commands.declarations import Argument, Option
from lasthop.commands.values import BadInput, as_folder, as_path
from lasthop.evaluating.comparison import LEVEL, Comparison, diff
from lasthop.evaluating.results import Results
from lasthop.running.campaign import Campaign, CampaignError
from lasthop.running.campaign.store import LEDGER, LOCK, PARTS
from lasthop.running.writing import write_file
from lasthop.scenarios.arguments import invalid
from lasthop.showing import report as pages
from lasthop.showing import terminal
from lasthop.studies import studies

__all__ = ["compare", "report"]

Folder = Annotated[Path, Argument(parser=as_folder, metavar="DIR", help="Folder of a campaign.")]


def report(
    folder: Folder,
    *,
    run: Annotated[
        int | None,
        Option(metavar="N", help="Run of the campaign; default: the last one."),
    ] = None,
    out: Annotated[
        Path | None,
        Option(parser=as_path, metavar="FILE", help="Output file; default: DIR/report.html."),
    ] = None,
    baseline: Annotated[
        str | None,
        Option(
            metavar="KEY=VALUE",
            help="Also show paired differences from the points at which a swept key has this "
            "value.",
        ),
    ] = None,
) -> int:
    """Write a self-contained HTML report of a campaign: figures, tables, claims, provenance."""
    campaign = Campaign(folder)
    if out is not None:
        not_input("--out", out, *(folder / name for name in (LEDGER, PARTS, LOCK)))
    name, results = _results(campaign, run)
    study = studies().get(name) if dict(results.scenario) == {"name": name} else None
    compared = None
    if baseline is not None:
        compared = baseline_of((point.parameters for point in results.points), baseline)
    made = study.report_on(results) if study else None
    text = pages.page(results, made, baseline=compared)
    target = folder / "report.html" if out is None else out
    try:
        write_file(target, text.encode())
    except OSError as error:
        raise CampaignError(f"cannot write `{target}`: {error.strerror or error}") from None
    print_line(str(target))
    numbers = [one.id for one in campaign.runs()]
    if run is None and len(numbers) > 1:
        note(
            f"lasthop: the report shows run {numbers[-1]} (seed {results.seed}) of {len(numbers)} "
            "runs; --run N selects another"
        )
    return 0


def compare(
    a: Annotated[
        Path,
        Argument(parser=as_folder, metavar="A", help="Folder of the reference campaign."),
    ],
    b: Annotated[
        Path,
        Argument(parser=as_folder, metavar="B", help="Folder of the campaign to compare."),
    ],
    *,
    everything: Annotated[
        bool, Option("--all", help="Also show metrics without a significant change.")
    ] = False,
    level: Annotated[
        float,
        Option(help="Family-wise probability of a false positive."),
    ] = LEVEL,
    output: Annotated[
        Format, Option("--format", help="Output format of the table.")
    ] = Format.table,
) -> int:
    """Report metrics that changed significantly between the last runs of two campaigns."""
    first, second = (_results(Campaign(folder), None)[1] for folder in (a, b))
    try:
        with options():
            found = diff(first, second, level=level)
    except BadInput:
        raise
    except ValueError as error:
        raise CampaignError(f"{a}, {b}: {error}") from None
    shown = found.frame if everything else found.moved
    match output:
        case Format.json:
            rows = [{key: _plain(value) for key, value in row.items()} for row in shown.to_dicts()]
            sys.stdout.write(json.dumps({"summary": found.summary(), "rows": rows}, indent=2))
            sys.stdout.write("\n")
        case Format.csv:
            sys.stdout.write(shown.write_csv())
        case Format.table:
            console = terminal.console()
            if not shown.is_empty():
                console.print(_table(found, everything=everything))
            console.print(found.summary())
    return 0


def _results(campaign: Campaign, run: int | None) -> tuple[str, Results]:
    """Returns the name and the results of a run."""
    runs = {one.id: one for one in campaign.runs()}
    if not runs:
        raise CampaignError(f"{campaign.folder}: the campaign has no runs")
    if run is not None and run not in runs:
        expected = ", ".join(str(number) for number in sorted(runs))
        raise CampaignError(invalid("--run", run, expected))
    chosen = list(runs.values())[-1] if run is None else runs[run]
    results = campaign.results(run=chosen.id)
    if len(results.point) == 0:
        raise CampaignError(f"{campaign.folder}: `{chosen.name}` has no finished replication")
    return chosen.name, results


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _change(share: float) -> str:
    """Formats a relative change: +12 %, but × 11 instead of +1e+03 %."""
    if math.isnan(share):
        return "–"
    percent = 100.0 * share
    if percent >= 1000.0:
        return f"× {1.0 + share:,.0f}".replace(",", " ")
    return f"{percent:+.0f} %" if abs(percent) >= 10.0 else f"{percent:+.2g} %"


def _table(found: Comparison, *, everything: bool) -> Table:
    table = Table(caption="difference: B minus A ± half-width of the 95 % confidence interval")
    table.caption_justify = "left"
    for heading in ("point", "metric"):
        table.add_column(heading, overflow="fold")
    for heading in ("A", "B", "difference", "change", "p (Holm)"):
        table.add_column(heading, justify="right")
    for row in (found.frame if everything else found.moved).iter_rows(named=True):
        change = row["relative"]
        table.add_row(
            row["parameters"],
            row["metric"],
            terminal.number_text(row["a"]),
            terminal.number_text(row["b"]),
            terminal.interval_text(row["difference"], _plain(row["ci95"])),
            _change(change),
            "–" if math.isnan(row["p_holm"]) else f"{row['p_holm']:.2g}",
        )
    return table
