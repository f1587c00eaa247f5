"""The command `lasthop fit`: error models of measured losses."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
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
    from lasthop.evaluating.fit import Estimate, Fit, Processes, Rates

__all__ = ["fit"]


def fit(
    logs: Annotated[
        list[Path],
        Argument(
            parser=as_path,
            metavar="LOG...",
            help="Losses per frame: text, CSV, JSON lines, frames.csv of a trace, a recording of "
            "live --record, or an 802.11 capture with radiotap headers; with --rates or --delays "
            "rates or delays over time.",
        ),
    ],
    *,
    column: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="CSV, JSON lines: column of the losses; default: lost, else the column of status "
            "words.",
        ),
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
        bool,
        Option("--rates", help="Fit rates over time: a trace of mahimahi or CellReplay, or CSV."),
    ] = False,
    delays: Annotated[
        bool,
        Option(
            "--delays", help="Fit delays over time: CSV, output of ping, or a trace of CellReplay."
        ),
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
    if rates and delays:
        raise BadInput("cannot use `--rates` with `--delays`: expected one of them")
    if (rates or delays) and (model or frame or rate or any(reading.values())):
        option = "--rates" if rates else "--delays"
        raise BadInput(f"cannot use `{option}` with options for losses; use `--plot` or `--format`")
    results = []
    for log in logs:
        if rates or delays:
            results.append(_process(log, plot, output, are_rates=rates))
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


def _process(
    log: Path, plot: Path | None, output: TableOrJson, *, are_rates: bool
) -> dict[str, object]:
    """Fits a process to rates or delays over time."""
    from lasthop.evaluating import fit as fits

    rates = None
    try:
        series = fits.read_rate_series(log) if are_rates else fits.read_delays(log)
        if series is None:
            rates = fits.read_rates(log)
            series = rates.series
        found = fits.fit_process(series)
    except fits.FitError as error:
        raise BadInput(str(error)) from None
    except OSError as error:
        raise BadInput(f"cannot read `{log}`: {error.strerror or error}") from None
    if output is TableOrJson.table:
        _print_process(found, rates)
    if plot is not None:
        from lasthop.showing.figures.fit import draw_process

        save_picture(draw_process(found), plot)
    result: dict[str, object] = found.to_dict()
    if rates is not None:
        result |= {
            "duration_s": rates.duration_s,
            "mean_bps": rates.mean_bps,
            "ci95_bps": rates.ci95_bps,
            "deciles_bps": list(rates.deciles_bps),
            "outages_s": rates.outages_s.tolist(),
            "rate": rates.rate,
            "warnings": [*rates.warnings, *found.warnings],
        }
    return result


def _print_process(found: Processes, rates: Rates | None) -> None:
    from lasthop.evaluating.cells import plus_minus, rounded
    from lasthop.showing.labels import scaled

    console = terminal.console()
    series, values = found.series, found.values
    unit = scaled("bps" if series.key == "rate" else "s", [float(values.mean())])
    low, middle, high = (rounded(q / unit.per) for q in np.quantile(values, [0.1, 0.5, 0.9]))
    mean = (
        rounded(values.mean() / unit.per)
        if rates is None
        else plus_minus(rates.mean_bps / unit.per, rates.ci95_bps / unit.per)
    )
    console.print(
        f"{printable(series.source)}: {values.size} intervals of {rounded(found.interval_s)} s, "
        f"mean {mean} {unit.name}; 10th percentile {low}, median {middle}, 90th percentile "
        f"{high} {unit.name}",
        highlight=False,
    )
    for text in series.notes:
        console.print(text, highlight=False)
    table = Table(caption="models in order of BIC; the scenario line is for the first")
    table.caption_justify = "left"
    table.add_column("model", overflow="fold")
    table.add_column("estimate", overflow="fold")
    for heading in ("log likelihood", "BIC"):
        table.add_column(heading, justify="right")
    for one in found.fitted:
        deviation = f"deviation {rounded(one.deviation / unit.per)} {unit.name}"
        levels = one.levels / unit.per
        if one.name == "steps":
            text = (
                f"{levels.size} steps from {rounded(levels.min())} to {rounded(levels.max())} "
                f"{unit.name}; {deviation}"
            )
        else:
            text = f"mean {rounded(levels[0])} {unit.name}; {deviation}"
        if one.correlation_s > 0.0:
            text += f"; correlation time {rounded(one.correlation_s)} s"
        table.add_row(one.name, text, f"{one.log_likelihood:.1f}", f"{one.bic:.1f}")
    console.print(table)
    for text in (*(() if rates is None else rates.warnings), *found.warnings):
        note(f"lasthop: {text}")
    if rates is not None and rates.warnings:
        console.print("the recording itself, the process in the last line:", highlight=False)
        print_line(rates.rate)
    print_line(found.line)
