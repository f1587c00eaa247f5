"""The command `lasthop fit`: error processes from measured losses."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lasthop.commands.codes import DONE
from lasthop.commands.common import note, print_line
from lasthop.commands.output import printable
from lasthop.commands.values import BadInput, Plot, TableOrJson, as_path, quantity, save_picture
from lasthop.showing import terminal

if TYPE_CHECKING:
    from lasthop.evaluating.fit import Estimate, Fit

__all__ = ["fit"]


def fit(
    logs: Annotated[
        list[Path],
        typer.Argument(
            parser=as_path,
            metavar="LOG...",
            help="Losses frame by frame: text, CSV, JSON lines, frames.csv of a trace, what live "
            "--record wrote, or a capture of 802.11 with radiotap headers; with --rates a mahimahi "
            "trace.",
        ),
    ],
    *,
    column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="CSV, JSON lines: what says of a loss; by default lost."),
    ] = None,
    entity: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="frames.csv, recordings: a direction of a link: link.wireless.forward.",
        ),
    ] = None,
    transmitter: Annotated[
        str | None,
        typer.Option(metavar="MAC", help="Captures: whose frames; by default the busiest one's."),
    ] = None,
    frame: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Size of all frames, such as '250 B'.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="RATE", help="Rate of the link: gives air times.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Fit this model only. Repeatable."),
    ] = None,
    rates: Annotated[
        bool, typer.Option("--rates", help="The log is a mahimahi trace of rates over time.")
    ] = False,
    plot: Plot = None,
    output: Annotated[
        TableOrJson, typer.Option("--format", help="How the result is printed.")
    ] = TableOrJson.table,
) -> int:
    """Fit error processes to measured losses, and write the line of a scenario."""
    if plot is not None and len(logs) > 1:
        raise BadInput(f"--plot: found {len(logs)} logs; allowed: with one")
    reading = {"column": column, "entity": entity, "transmitter": transmitter}
    if rates and (model or frame or rate or any(reading.values())):
        raise BadInput("--rates: found an option for losses; allowed: --plot and --format")
    told = []
    for log in logs:
        if rates:
            told.append(_rates(log, plot, output))
        else:
            told.append(_losses(log, reading, frame, rate, model, plot, output))
    if output is TableOrJson.json:
        print_line(json.dumps(told[0] if len(told) == 1 else told, indent=2, ensure_ascii=False))
    return DONE


def _losses(
    log: Path,
    reading: dict[str, str | None],
    frame: str | None,
    rate: str | None,
    models: list[str] | None,
    plot: Path | None,
    output: TableOrJson,
) -> dict[str, object]:
    from lasthop.evaluating import fit as fits

    size = quantity("--frame", "size", frame)
    try:
        found = fits.fit(
            log,
            models=models,
            frame_bits=None if size is None else 8.0 * size,
            rate_bps=quantity("--rate", "rate", rate),
            **reading,
        )
    except fits.FitError as error:
        option = str(error).partition(":")[0]
        is_option = option in ("model", *reading)
        raise BadInput(f"--{error}" if is_option else str(error)) from None
    except OSError as error:
        raise BadInput(f"{log}: {error.strerror or error}") from None
    if output is TableOrJson.table:
        _print(found)
    if plot is not None:
        from lasthop.showing.figures.fit import draw_fit

        save_picture(draw_fit(found), plot)
    return found.to_dict()


def _print(found: Fit) -> None:
    console = terminal.console()
    record = found.record
    console.print(
        f"{printable(record.source)}: {record.lost.size} frames, {int(record.lost.sum())} lost "
        f"({100 * record.loss:.3g} %) in {record.bursts.size} bursts of {record.mean_burst:.3g}",
        highlight=False,
    )
    for told in record.notes:
        console.print(told, highlight=False)
    table = Table(caption="best by BIC first, with 95 % intervals; fit another alone for its own")
    table.caption_justify = "left"
    table.add_column("model", overflow="fold")
    table.add_column("estimate", overflow="fold")
    for heading in ("log likelihood", "AIC", "BIC"):
        table.add_column(heading, justify="right")
    for one in found.fitted:
        lines = [_estimate(each) for each in one.estimates]
        scores = (one.log_likelihood, one.aic, one.bic)
        table.add_row(one.model.name, "\n".join(lines), *(f"{score:.1f}" for score in scores))
    console.print(table)
    for name, reason in found.skipped:
        console.print(f"{name}: {reason}", highlight=False)
    tests = Table(caption="p: chance of such a difference, were the model right")
    tests.caption_justify = "left"
    tests.add_column("test of fit")
    tests.add_column("p", justify="right")
    tests.add_column("found", overflow="fold")
    for check in found.checks:
        p = "–" if check.p_value is None else f"{check.p_value:.2g}"
        tests.add_row(check.name, p, check.detail)
    console.print(tests)
    for told in found.warnings:
        note(f"lasthop: {told}")
    print_line(found.errors)


def _estimate(one: Estimate) -> str:
    text = f"{one.name} {_number(one.value, one.unit)} "
    if math.isnan(one.low):
        return text.rstrip()
    if (one.low, one.high) in ((0.0, 1.0), (0.0, math.inf)):
        return text + "not determined"
    return text + f"[{_number(one.low, one.unit)}, {_number(one.high, one.unit)}]"


def _number(value: float, unit: str) -> str:
    if not math.isfinite(value):
        return "∞"
    text = f"{value:.4g}"
    return text if unit == "probability" else f"{text} {unit}"


def _rates(log: Path, plot: Path | None, output: TableOrJson) -> dict[str, object]:
    from lasthop.evaluating import fit as fits

    try:
        found = fits.read_rates(log)
    except fits.FitError as error:
        raise BadInput(str(error)) from None
    except OSError as error:
        raise BadInput(f"{log}: {error.strerror or error}") from None
    low, middle, high = (value / 1e6 for value in found.deciles_bps)
    if output is TableOrJson.table:
        console = terminal.console()
        console.print(
            f"{printable(str(log))}: {found.duration_s:.4g} s, mean {found.mean_bps / 1e6:.4g} ± "
            f"{found.ci95_bps / 1e6:.2g} Mbps; in tenths of a second 10 % below {low:.4g}, median "
            f"{middle:.4g}, 10 % above {high:.4g} Mbps",
            highlight=False,
        )
        for told in found.warnings:
            note(f"lasthop: {told}")
        print_line(found.rate)
    if plot is not None:
        from lasthop.showing.figures.fit import draw_rates

        save_picture(draw_rates(found), plot)
    return {
        "source": str(log),
        "duration_s": found.duration_s,
        "mean_bps": found.mean_bps,
        "ci95_bps": found.ci95_bps,
        "deciles_bps": list(found.deciles_bps),
        "outages_s": found.outages_s.tolist(),
        "warnings": list(found.warnings),
        "rate": found.rate,
    }
