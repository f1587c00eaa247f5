"""Readings of a paper's text, and whether each reproduces the orders that the paper draws.

`[[reading]]` in `study.toml` names readings, with the keys that they change. `[[order]]` names two
expressions and the cells in which the paper draws the left one above the right one. The table has
the ratio of the means, left to right, over those cells. Each reading is evaluated alone. The best
ones are evaluated in pairs, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lasthop.evaluating.cells import number
from lasthop.evaluating.results import Results
from lasthop.evaluating.statistics import Estimate
from lasthop.running.campaign import Campaign
from lasthop.running.replications import Progress, run_points
from lasthop.studies.changes import Change
from lasthop.studies.claims import Cell, Comparison
from lasthop.studies.study import Study
from lasthop.studies.verdicts import Evaluator

__all__ = ["REPLICATIONS", "Order", "ReadingsReport", "orders_of", "run_readings"]

REPLICATIONS = 3
"""Default number of replications per cell."""

CHOSEN = "as chosen"

Readings: TypeAlias = Mapping[str, Sequence[Change]]
"""Changes by reading."""

Ratios: TypeAlias = Mapping[str, tuple[float, ...]]
"""By order, the ratio in each of its cells."""

BEST = 5
"""Number of readings whose pairs are evaluated."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order that the paper draws.

    Attributes:
        name: Its name.
        comparisons: Left above right, in these cells.
    """

    name: str
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True)
class ReadingsReport:
    """Ratios of the sides of each order under each reading.

    Attributes:
        study: The study.
        orders: The orders.
        ratios: By reading and order, the ratio in each of its cells; pairs of readings are last.
        pairs: The pairs of readings, by their name in `ratios`.
        replications: Replications per cell.
        complete: False if the run was interrupted.
        finished: Replications that were run, over all cells.
    """

    study: Study
    orders: tuple[Order, ...]
    ratios: Mapping[str, Ratios]
    replications: int
    complete: bool
    finished: int
    pairs: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def holds(self, reading: str, order: str) -> bool:
        """Returns `True` if all ratios are above 1."""
        return all(ratio > 1.0 for ratio in self.ratios[reading][order])

    def count(self, reading: str) -> int:
        """Returns the number of orders that hold."""
        return sum(self.holds(reading, order.name) for order in self.orders)

    def most(self, *, pairs: bool) -> int:
        """Returns the maximum number of orders that hold under one reading, or under one pair."""
        return max(
            (self.count(name) for name in self.ratios if (name in self.pairs) is pairs), default=0
        )

    def text(self, reading: str, order: str) -> str:
        """Smallest and largest ratio, and whether the order holds."""
        ratios = self.ratios[reading][order]
        low, high = min(ratios), max(ratios)
        word = "holds" if self.holds(reading, order) else "fails"
        span = f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"
        return f"{word}, {span}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the output of `lasthop reproduce --readings --format json`."""
        return {
            "study": self.study.key,
            "replications": self.replications,
            "readings": [
                {
                    "reading": reading,
                    **({"pair": list(self.pairs[reading])} if reading in self.pairs else {}),
                    "orders": [
                        {
                            "order": name,
                            "holds": self.holds(reading, name),
                            "ratios": list(map(number, found)),
                        }
                        for name, found in orders.items()
                    ],
                }
                for reading, orders in self.ratios.items()
            ],
        }


def orders_of(study: Study) -> tuple[Order, ...]:
    """The orders that a study names."""
    found = []
    for table in study.orders:
        each = table.get("each", {})
        comparisons = tuple(
            Comparison(
                table["left"],
                "greater",
                table["right"],
                math.nan,
                math.nan,
                study.grid.cell({**table.get("in", {}), **dict(zip(each, values, strict=True))}),
            )
            for values in itertools.product(*each.values())
        )
        found.append(Order(table["name"], comparisons))
    return tuple(found)


def run_readings(
    study: Study,
    *,
    replications: int | None = None,
    seed: int | None = None,
    jobs: int = 0,
    progress: Progress | None = None,
    campaign: Campaign | None = None,
) -> ReadingsReport:
    """Evaluates a study's orders under each of its readings.

    Args:
        study: The study.
        replications: Replications per cell; `REPLICATIONS` if None.
        seed: Master seed; the study's own if None.
        jobs: Threads; 0 for all cores.
        progress: As for `lasthop.run`.
        campaign: Store whose results are reused, and to which new ones are added.
    """
    orders = orders_of(study)
    cells = list(dict.fromkeys(_cells(study, orders)))
    count = REPLICATIONS if replications is None else replications
    run = run_points if campaign is None else campaign.run_points

    def evaluate(readings: Readings) -> tuple[dict[str, Ratios], Results]:
        points, places = _points(study, cells, readings)
        results = run(
            points,
            replications=count,
            seed=study.seed if seed is None else seed,
            scenario={"name": f"{study.key}: readings"},
            parameters=[{} for _ in points],
            jobs=jobs,
            progress=progress,
        )
        return {name: _ratios(study, orders, places[name], results) for name in places}, results

    ratios, results = evaluate({CHOSEN: (), **study.readings})
    finished = len(results.point)
    report = ReadingsReport(study, orders, ratios, count, results.complete, finished)
    pairs = _pairs(report, cells) if results.complete else {}
    if not pairs:
        return report
    both = {name: (*study.readings[a], *study.readings[b]) for name, (a, b) in pairs.items()}
    more, results = evaluate(both)
    finished += len(results.point)
    return ReadingsReport(study, orders, ratios | more, count, results.complete, finished, pairs)


def _points(
    study: Study, cells: Sequence[Cell], readings: Readings
) -> tuple[list[Any], dict[str, dict[Cell, int]]]:
    """Returns each scenario of these readings once, and its index by reading and cell."""
    points: list[Any] = []
    known: dict[int, int] = {}
    places: dict[str, dict[Cell, int]] = {}
    for name, changes in readings.items():
        place = places.setdefault(name, {})
        for cell in cells:
            applied = [change for change in changes if change.applies(dict(cell))]
            (point,) = study.scenario(cell, applied).points()
            if point.hash not in known:
                known[point.hash] = len(points)
                points.append(point)
            place[cell] = known[point.hash]
    return points, places


def _ratios(
    study: Study, orders: Sequence[Order], place: Mapping[Cell, int], results: Results
) -> Ratios:
    evaluator = Evaluator(study.samples(place, results), study.names, study.rule)
    return {
        order.name: tuple(
            _ratio(
                evaluator.value(one.left, one.cell).value,
                evaluator.value(one.right, one.cell).value,
            )
            for one in order.comparisons
        )
        for order in orders
    }


def _pairs(report: ReadingsReport, cells: Sequence[Cell]) -> dict[str, tuple[str, str]]:
    """Returns the pairs of the readings under which the maximum number of orders hold.

    Readings that set a key of a cell to different values exclude each other and form no pair.
    """
    # Sorting is stable: of readings with equal counts the earlier ones are chosen.
    names = sorted(report.study.readings, key=report.count, reverse=True)[:BEST]
    keys = {name: _keys_of(report.study.readings[name], cells) for name in names}
    return {
        f"{a} + {b}": (a, b)
        for a, b in itertools.combinations(names, 2)
        if all(keys[b].get(place, value) == value for place, value in keys[a].items())
    }


def _keys_of(changes: Sequence[Change], cells: Sequence[Cell]) -> dict[tuple[Cell, str], Any]:
    """Returns the values that changes set, by cell and key."""
    return {
        (cell, key): value
        for cell in cells
        for change in changes
        if change.applies(dict(cell))
        for key, value in change.set.items()
    }


def _ratio(left: float, right: float) -> float:
    """Left to right; of two zeros 1."""
    if right == 0.0:
        return 1.0 if left == 0.0 else math.inf
    return left / right


def _cells(study: Study, orders: Sequence[Order]) -> list[Cell]:
    """The cells that have to be run for these orders."""
    found: list[Cell] = []

    def note(cell: Cell, quantity: str) -> Estimate:
        found.extend(study.needs(cell, quantity))
        return Estimate.constant(1.0)

    evaluator = Evaluator(note, study.names, study.rule)
    for order in orders:
        for one in order.comparisons:
            evaluator.value(one.left, one.cell)
            evaluator.value(one.right, one.cell)
    return found
