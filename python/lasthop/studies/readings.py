"""Readings of a paper's text, and whether each reproduces the orders that the paper draws.

`[[reading]]` in `study.toml` names readings, with the keys that they change. `[[order]]` names two
expressions and the cells in which the paper draws the left one above the right one. The table has
the ratio of the means, left to right, over those cells.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lasthop.evaluating.cells import number
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
        ratios: By reading and order, the ratio in each of its cells.
        replications: Replications per cell.
        complete: False if the run was interrupted.
        finished: Replications that were run, over all cells.
    """

    study: Study
    orders: tuple[Order, ...]
    ratios: Mapping[str, Mapping[str, tuple[float, ...]]]
    replications: int
    complete: bool
    finished: int

    def holds(self, reading: str, order: str) -> bool:
        """Returns `True` if all ratios are above 1."""
        return all(ratio > 1.0 for ratio in self.ratios[reading][order])

    def count(self, reading: str) -> int:
        """Returns the number of orders that hold."""
        return sum(self.holds(reading, order.name) for order in self.orders)

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
    readings: dict[str, Sequence[Change]] = {CHOSEN: (), **dict(study.readings)}
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
    count = REPLICATIONS if replications is None else replications
    run = run_points if campaign is None else campaign.run_points
    results = run(
        points,
        replications=count,
        seed=study.seed if seed is None else seed,
        scenario={"name": f"{study.key}: readings"},
        parameters=[{} for _ in points],
        jobs=jobs,
        progress=progress,
    )
    ratios = {}
    for name, place in places.items():
        evaluator = Evaluator(study.samples(place, results), study.names, study.rule)
        ratios[name] = {
            order.name: tuple(
                _ratio(
                    evaluator.value(one.left, one.cell).value,
                    evaluator.value(one.right, one.cell).value,
                )
                for one in order.comparisons
            )
            for order in orders
        }
    return ReadingsReport(study, orders, ratios, count, results.complete, len(results.point))


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
