"""Sources of a figure's data: a table, a trace or a scenario, in a file or folder."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Protocol

import polars as pl

from lasthop.running.tracing import Trace
from lasthop.scenarios.arguments import Refused
from lasthop.scenarios.files import open_regular
from lasthop.scenarios.scenario import Scenario

__all__ = ["KINDS", "OF_TRACES", "HasFrame", "PlotError", "read", "read_table"]

KINDS = ("line", "cdf", "series", "sequence", "ladder")
OF_TRACES = KINDS[2:]


class PlotError(Refused):
    """A figure cannot be drawn."""


class HasFrame(Protocol):
    """Results, or another object with their tidy table."""

    @property
    def frame(self) -> pl.DataFrame:
        """Tidy table: one row per (point, replication, flow or link); see `Results.frame`."""


def read(path: Path, kind: str | None) -> pl.DataFrame | Trace | Scenario | HasFrame:
    """Reads a table, a trace or a scenario from a file or folder."""
    if path.is_dir():
        is_trace = (path / "cwnd.csv").is_file()
        if kind in OF_TRACES and not is_trace:
            raise PlotError(
                f"kind {kind} requires a scenario file, or a folder written by `lasthop trace`, "
                f"not {path}"
            )
        if is_trace and kind not in KINDS[:2]:
            try:
                return Trace.read(path)
            except ValueError as error:
                raise PlotError(str(error)) from None
        return read_table(path)
    if path.suffix.lower() in (".parquet", ".csv"):
        return read_table(path)
    return Scenario.from_file(path)


def read_table(path: Path) -> pl.DataFrame:
    """Reads the tidy table written by `lasthop run --out` or `--format csv|parquet`.

    Args:
        path: The file, or the folder with `replications.parquet`.

    Raises:
        PlotError: If there is no such table.
        OSError: If it cannot be read.
    """
    if path.is_dir():
        stored = path / "replications.parquet"
        if not stored.is_file():
            return _read_campaign(path)
        path = stored
    # Opened here, so that a missing file is reported like any other.
    with open_regular(path) as file:
        try:
            if path.suffix.lower() == ".parquet":
                return pl.read_parquet(file)
            _refuse_columns_twice(path, file.readline())
            file.seek(0)
            return pl.read_csv(file, infer_schema_length=None)
        except pl.exceptions.PolarsError as error:
            raise PlotError(f"{path}: not a table ({error}): expected Parquet or CSV") from None


def _refuse_columns_twice(path: Path, header: bytes) -> None:
    """Refuses duplicate columns, of which Polars would rename the second one."""
    names = next(csv.reader([header.decode("utf-8-sig", "replace")]), [])
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice is not None:
        raise PlotError(
            f"{path}: {names.count(twice)} columns are named `{twice}`: expected unique names"
        )


def _read_campaign(path: Path) -> pl.DataFrame:
    """Returns the last run of a campaign in this folder."""
    from lasthop.running.campaign import Campaign

    try:
        return Campaign(path).results().frame
    except ValueError as error:
        if (path / "ledger.sqlite").exists():
            # A damaged campaign.
            raise PlotError(str(error)) from None
        raise PlotError(
            f"{path}: no results: expected a folder written by `lasthop run`"
        ) from error
