"""Paired differences of results under common random numbers, point by point."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl

from lasthop.evaluating import statistics
from lasthop.evaluating.cells import plain
from lasthop.evaluating.results import Point, Results
from lasthop.scenarios.arguments import unknown

__all__ = ["differences"]


def differences(results: Results, metric: str, *, by: str, baseline: Any) -> pl.DataFrame:
    """Returns differences from the points at which a key has a value; see `Results.differences`."""
    results.index_of(metric)
    swept = list(dict.fromkeys(name for point in results.points for name in point.parameters))
    if by not in swept:
        raise KeyError(unknown("swept key", by, swept, "by"))
    others = [name for name in swept if name != by]

    def setting(point: Point) -> str:
        return json.dumps([point.parameters.get(name) for name in others])

    baselines = {
        setting(point): index
        for index, point in enumerate(results.points)
        if point.parameters.get(by) == baseline
    }
    if not baselines:
        values = ", ".join(dict.fromkeys(str(p.parameters.get(by)) for p in results.points))
        raise ValueError(
            f"invalid value `{baseline}` for `baseline`: expected a value of {by}: {values}"
        )
    compared, rows, ratios = [], [], []
    for index, point in enumerate(results.points):
        base = baselines.get(setting(point))
        if base is None or base == index:
            continue
        compared.append(index)
        samples, reference = results.samples(metric, index), results.samples(metric, base)
        rows.append(statistics.difference(samples, reference))
        ratios.append(statistics.ratio(samples, reference))
    parameters = results.parameter_columns(np.asarray(compared, dtype=np.uint32))
    numbers = {
        name: pl.Series(name, [getattr(row, name) for row in rows], dtype=pl.Float64).fill_nan(None)
        for name in ("mean", "ci95", "p_value", "ratio", "ratio_ci95")
    }
    counts = pl.Series("n", [row.n for row in rows], dtype=pl.UInt32)
    corrected = statistics.holm([row.p_value for row in rows])
    low, high = ([getattr(one, end) for one in ratios] for end in ("low", "high"))
    return pl.DataFrame(
        {
            **{name: parameters[name] for name in others},
            by: parameters[by],
            "baseline": pl.Series("baseline", [str(plain(baseline))] * len(rows)),
            "mean": numbers["mean"],
            "ci95": numbers["ci95"],
            "n": counts,
            "p_value": numbers["p_value"],
            "p_holm": pl.Series("p_holm", corrected, dtype=pl.Float64).fill_nan(None),
            "ratio": numbers["ratio"],
            "ratio_ci95": numbers["ratio_ci95"],
            "ratio_low": pl.Series("ratio_low", low, dtype=pl.Float64).fill_nan(None),
            "ratio_high": pl.Series("ratio_high", high, dtype=pl.Float64).fill_nan(None),
        }
    )
