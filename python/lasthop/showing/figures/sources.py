"""Where a figure's numbers come from: a table, a trace or a scenario, in a file or folder."""

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
    """A figure that cannot be drawn; the message says what was found and what is allowed."""


class HasFrame(Protocol):
    """Results, or whatever else has their tidy table."""

    @property
    def frame(self) -> pl.DataFrame:
        """One row per (point, replication, flow or link); see `lasthop.Results.frame`."""


def read(path: Path, kind: str | None) -> pl.DataFrame | Trace | Scenario | HasFrame:
    """A table, a trace or a scenario from a file or folder."""
    if path.is_dir():
        is_trace = (path / "cwnd.csv").is_file()
        if kind in OF_TRACES and not is_trace:
            raise PlotError(
                f"kind: found {kind} of {path}; allowed: of a scenario file, or of a folder that "
                "lasthop trace wrote"
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
    """The tidy table that `lasthop run --out` or `--format csv|parquet` wrote.

    Args:
        path: The file, or the folder with `replications.parquet`.

    Raises:
        PlotError: If there is none.
        OSError: If it cannot be read.
    """
    if path.is_dir():
        stored = path / "replications.parquet"
        if not stored.is_file():
            return _read_campaign(path)
        path = stored
    # Opened here, so that a missing file is told like any other one.
    with open_regular(path) as file:
        try:
            if path.suffix.lower() == ".parquet":
                return pl.read_parquet(file)
            _refuse_columns_twice(path, file.readline())
            file.seek(0)
            return pl.read_csv(file, infer_schema_length=None)
        except pl.exceptions.PolarsError as error:
            raise PlotError(f"{path}: found no table ({error}); allowed: Parquet or CSV") from None


def _refuse_columns_twice(path: Path, header: bytes) -> None:
    """Polars would give the second one another name, so that the first one alone is drawn."""
    names = next(csv.reader([header.decode("utf-8-sig", "replace")]), [])
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice is not None:
        raise PlotError(
            f"{path}: found {names.count(twice)} columns {twice!r}; allowed: one of a name"
        )


def _read_campaign(path: Path) -> pl.DataFrame:
    """The last run of a campaign in this folder."""
    from lasthop.running.campaign import Campaign

    try:
        return Campaign(path).results().frame
    except ValueError as error:
        if (path / "ledger.sqlite").exists():
            # A campaign, but a damaged one.
            raise PlotError(str(error)) from None
        raise PlotError(
            f"{path}: found no results; allowed: a folder that lasthop run wrote"
        ) from error
