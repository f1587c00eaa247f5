"""The command `lasthop fit`: error models of measured losses."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table

from lasthop.commands.codes import DONE
from lasthop.commands.common import note, print_line
from lasthop.commands.declarations import Argument, Option
from lasthop.commands.output import printable
from lasthop.commands.values import (
    BadInput,
    Plot,
    TableOrJson,
    as_path,
    quantity,
    save_picture,
    with_options,
)
from lasthop.showing import terminal

if TYPE_CHECKING:
    from lasthop.evaluating.fit import Estimate, Fit

__all__ = ["fit"]


def fit(
    logs: Annotated[
        list[Path],
        Argument(
            parser=as_path,
            metavar="LOG...",
            help="Losses per frame: text, CSV, JSON lines, frames.csv of a trace, a recording of "
            "live --record, or an 802.11 capture with radiotap headers; with --rates, a mahimahi "
            "trace.",
        ),
    ],
    *,
    column: Annotated[
        str | None,
        Option(metavar="NAME", help="CSV, JSON lines: column of the losses; default: lost."),
    ] = None,
    entity: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="frames.csv, recordings: direction of a link, such as link.wireless.forward.",
        ),
    ] = None,
    transmitter: Annotated[
        str | None,
        Option(
            metavar="MAC", help="Captures: transmitter of the frames; default: the busiest one."
        ),
    ] = None,
    frame: Annotated[
        str | None, Option(metavar="SIZE", help="Size of every frame, such as '250 B'.")
    ] = None,
    rate: Annotated[
        str | None, Option(metavar="RATE", help="Link rate, to compute frame durations.")
    ] = None,
    model: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="Fit only this model. Repeatable."),
    ] = None,
    rates: Annotated[
        bool, Option("--rates", help="Read the log as a mahimahi trace of rates over time.")
    ] = False,
    plot: Plot = None,
    output: Annotated[
        TableOrJson, Option("--format", help="Output format of the result.")
    ] = TableOrJson.table,
) -> int:
    """Fit error models to measured losses; print the best one as a line of a scenario."""
    if plot is not None and len(logs) > 1:
        raise BadInput(f"cannot use `--plot` with {len(logs)} logs: expected one")
    reading = {"column": column, "entity": entity, "transmitter": transmitter}
    if rates and (model or frame or rate or any(reading.values())):
        raise BadInput("cannot use `--rates` with options for losses; use `--plot` or `--format`")
    results = []
    for log in logs:
        if rates:
            results.append(_rates(log, plot, output))
        else:
            results.append(_losses(log, reading, frame, rate, model, plot, output))
    if output is TableOrJson.json:
        shown = results[0] if len(results) == 1 else results
        print_line(json.dumps(shown, indent=2, ensure_ascii=False))
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
        raise BadInput(with_options(str(error), {}, ("model", *reading))) from None
    except OSError as error:
        raise BadInput(f"cannot read `{log}`: {error.strerror or error}") from None
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
    for text in record.notes:
        console.print(text, highlight=False)
    table = Table(
        caption="models in order of BIC, with 95 % confidence intervals; tests and scenario line "
        "are for the first; --model selects another"
    )
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
    tests = Table(caption="p: probability of such a difference if the model is correct")
    tests.caption_justify = "left"
    tests.add_column("goodness-of-fit test")
    tests.add_column("p", justify="right")
    tests.add_column("result", overflow="fold")
    for check in found.checks:
        p = "–" if check.p_value is None else f"{check.p_value:.2g}"
        tests.add_row(check.name, p, check.detail)
    console.print(tests)
    for text in found.warnings:
        note(f"lasthop: {text}")
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
    from lasthop.evaluating.cells import plus_minus, rounded

    try:
        found = fits.read_rates(log)
    except fits.FitError as error:
        raise BadInput(str(error)) from None
    except OSError as error:
        raise BadInput(f"cannot read `{log}`: {error.strerror or error}") from None
    low, middle, high = (value / 1e6 for value in found.deciles_bps)
    if output is TableOrJson.table:
        console = terminal.console()
        console.print(
            f"{printable(str(log))}: {rounded(found.duration_s, 4)} s, mean "
            f"{plus_minus(found.mean_bps / 1e6, found.ci95_bps / 1e6)} Mbps; over 100 ms: 10th "
            f"percentile {rounded(low)}, median {rounded(middle)}, 90th percentile "
            f"{rounded(high)} Mbps",
            highlight=False,
        )
        for text in found.warnings:
            note(f"lasthop: {text}")
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
