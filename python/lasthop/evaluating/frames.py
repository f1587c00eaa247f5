"""Results as data frames."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lasthop.evaluating.cells import UNITS, plain, quantity_of

if TYPE_CHECKING:
    from lasthop.evaluating.results import Results
    from lasthop.evaluating.statistics import Confidence

__all__ = [
    "confidences",
    "need",
    "parameter_columns",
    "quantity_columns",
    "summary",
    "tidy",
    "wide",
]


def parameter_columns(results: Results, rows: Sequence[int] | NDArray[Any]) -> dict[str, pl.Series]:
    """Returns the swept keys as columns, for rows of the given points."""
    places = pl.Series(rows, dtype=pl.UInt32)
    columns = {}
    for name in dict.fromkeys(name for point in results.points for name in point.parameters):
        cells = [plain(point.parameters.get(name)) for point in results.points]
        if len({type(cell) for cell in cells if cell is not None}) > 1:
            cells = [None if cell is None else str(cell) for cell in cells]
        columns[name] = pl.Series(name, cells).gather(places)
    return columns


def quantity_columns(results: Results, rows: NDArray[Any]) -> dict[str, pl.Series]:
    """Returns swept quantities as numbers in SI units; see `Results.frame`."""
    columns = quantities([point.parameters for point in results.points])
    return {name: column.gather(rows) for name, column in columns.items()}


def quantities(labels: Sequence[Mapping[str, Any]]) -> dict[str, pl.Series]:
    """Returns swept quantities as numbers in SI units, one row per label; see `Results.frame`."""
    columns = {}
    for name in dict.fromkeys(name for label in labels for name in label):
        cells = [label.get(name) for label in labels]
        found = [quantity_of(cell) for cell in cells]
        units = {one[1] for one in found if one is not None and one[1]}
        if len(units) != 1 or any(
            one is None and cell is not None for one, cell in zip(found, cells, strict=True)
        ):
            continue
        unit = units.pop()
        label = name + UNITS.get(unit, f"_{unit}")
        numbers = [None if one is None else one[0] for one in found]
        columns[label] = pl.Series(label, numbers, dtype=pl.Float64)
    return columns


def _provenance(results: Results) -> dict[str, pl.Series]:
    hashes = pl.Series("scenario_hash", [point.scenario_hash for point in results.points])
    rows = len(results.point)
    return {
        "point": pl.Series("point", results.point),
        "replication": pl.Series("replication", results.replication),
        **parameter_columns(results, results.point),
        "scenario_hash": hashes.cast(pl.String).gather(results.point),
        "seed": pl.Series("seed", np.full(rows, results.seed, dtype=np.uint64)),
        "engine_version": pl.Series("engine_version", [results.engine_version] * rows),
        **quantity_columns(results, results.point),
    }


def tidy(results: Results) -> pl.DataFrame:
    """Returns one row per (point, replication, flow or link); see `Results.frame`."""
    entities: dict[tuple[str, str], dict[str, int]] = {}
    columns: dict[str, None] = {}
    for index, metric in enumerate(results.metrics):
        kind, _, rest = metric.partition(".")
        name, _, quantity = rest.rpartition(".")
        entities.setdefault((kind, name), {})[quantity] = index
        columns[quantity] = None
    provenance = _provenance(results)
    rows = len(results.point)
    empty = pl.Series("", [None] * rows, dtype=pl.Float64)
    frames = []
    for (kind, name), own in entities.items():
        cells = {
            quantity: pl.Series(quantity, results.values[:, own[quantity]], nan_to_null=True)
            if quantity in own
            else empty.alias(quantity)
            for quantity in columns
        }
        # Points without this flow or link have no row.
        there = ~np.isnan(results.values[:, list(own.values())]).all(axis=1)
        frame = pl.DataFrame(
            {
                **provenance,
                "kind": pl.Series("kind", [kind] * rows, dtype=pl.String),
                "name": pl.Series("name", [name] * rows, dtype=pl.String),
                **cells,
            }
        )
        frames.append(frame.filter(pl.Series(there)))
    if not frames:
        return pl.DataFrame(provenance)
    return pl.concat(frames).sort(["point", "replication"], maintain_order=True)


def wide(results: Results) -> pl.DataFrame:
    """Returns one row per (point, replication); see `Results.wide`."""
    metrics = {
        metric: pl.Series(metric, results.values[:, index], nan_to_null=True)
        for index, metric in enumerate(results.metrics)
    }
    return pl.DataFrame({**_provenance(results), **metrics})


def summary(results: Results) -> pl.DataFrame:
    """Returns mean and 95 % confidence interval of each metric; see `Results.summary`."""
    rows = results.summary_rows()

    def column(name: str, dtype: type[pl.DataType]) -> pl.Series:
        # As lists: for arrays, Polars imports `numpy.ma` to check for masks.
        return pl.Series(name, [row[name] for row in rows], dtype=dtype)

    return pl.DataFrame(
        {
            "point": column("point", pl.UInt32),
            **parameter_columns(results, [row["point"] for row in rows]),
            "metric": column("metric", pl.String),
            "mean": column("mean", pl.Float64),
            "ci95": column("ci95", pl.Float64),
            "n": column("n", pl.UInt32),
            "low": column("low", pl.Float64),
            "high": column("high", pl.Float64),
            "method": column("method", pl.String),
        }
    )


def confidences(
    results: Results, rows: Sequence[tuple[int, str, Confidence]], more: Mapping[str, str]
) -> pl.DataFrame:
    """Returns estimates as a table.

    Args:
        results: The results of the estimates.
        rows: Point, metric and estimate.
        more: Further columns, of which all cells are equal.
    """
    points = [index for index, _, _ in rows]
    ends = {
        name: pl.Series(name, [getattr(one, name) for _, _, one in rows], dtype=pl.Float64)
        for name in ("value", "low", "high")
    }
    return pl.DataFrame(
        {
            "point": pl.Series("point", points, dtype=pl.UInt32),
            **parameter_columns(results, points),
            "metric": pl.Series("metric", [name for _, name, _ in rows], dtype=pl.String),
            **{key: pl.Series(key, [text] * len(rows)) for key, text in more.items()},
            **{name: column.fill_nan(None) for name, column in ends.items()},
            "n": pl.Series("n", [one.n for _, _, one in rows], dtype=pl.UInt32),
            "method": pl.Series("method", [one.method for _, _, one in rows], dtype=pl.String),
        }
    )


def need(*modules: str) -> None:
    """Checks that these optional packages are installed.

    Raises:
        ImportError: If one is missing.
    """
    for name in modules:
        if importlib.util.find_spec(name) is None:
            raise ImportError(
                f"needs {name}: run `pip install 'lasthop[pandas]'`, or use the Polars frame "
                "results.frame, which most libraries accept"
            )
