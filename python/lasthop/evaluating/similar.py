"""Summary of many similar flows and links: mean, spread and worst one."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lasthop.evaluating.metric import metric_of, repeated_in, window_of
from lasthop.evaluating.results import Results

if TYPE_CHECKING:
    from lasthop.evaluating.statistics import Floats

__all__ = ["LIMIT", "Group", "summarised"]

LIMIT = 10
"""Maximum number of similar flows or links that are shown individually."""

# Keys in which similar flows and links may differ.
PLACES = {"flow": ("from", "to"), "link": ("between",)}


@dataclass(frozen=True)
class Group:
    """Similar flows, or one direction of similar links.

    Attributes:
        name: Name of the group in tables: `flow.s1…s200`.
        members: Names in results, such as `flow.s1`.
        results: Results with their values.
    """

    name: str
    members: tuple[str, ...]
    results: Results

    @cached_property
    def _columns(self) -> dict[str, list[int]]:
        column = {name: index for index, name in enumerate(self.results.metrics)}
        return {
            quantity: [column[f"{one}.{quantity}"] for one in self.members]
            for quantity in _quantities(self.results, self.members[0])
        }

    def means(self, quantity: str, point: int) -> Floats:
        """Returns the mean over replications of each member at a point; NaN if undefined."""
        values = self.results.known(point)[:, self._columns[quantity]]
        return _mean(values, 0)

    def mean(self, quantity: str, point: int) -> float:
        """Returns the mean of the members' means."""
        return float(_mean(self.means(quantity, point), 0))

    def spread(self, quantity: str, point: int) -> float:
        """Returns the standard deviation of the members' means."""
        means = self.means(quantity, point)
        import numpy as np

        means = means[~np.isnan(means)]
        if means.size < 2:
            return float("nan")
        # The standard deviation of equal values may differ from 0 by rounding.
        return float(np.std(means, ddof=1)) if np.ptp(means) > 0.0 else 0.0

    def worst(self, quantity: str, point: int) -> tuple[float, str] | None:
        """Returns the worst mean and its member; None without a preference or if all are equal."""
        preferred = metric_of(f"{self.name}.{quantity}").preferred
        means = self.means(quantity, point)
        if preferred == "neither" or not self.spread(quantity, point) > 0.0:
            return None
        import numpy as np

        index = int(np.nanargmin(means) if preferred == "higher" else np.nanargmax(means))
        return float(means[index]), _own_name(self.members[index])

    def jain(self, point: int) -> float:
        """Returns the mean over replications of Jain's index of goodput; NaN for links."""
        from lasthop.evaluating.statistics import jain_index

        columns = self._columns.get("goodput_bps")
        if columns is None or not self.name.startswith("flow."):
            return float("nan")
        return float(_mean(jain_index(self.results.known(point)[:, columns]), 0))


def summarised(results: Results) -> tuple[Results, list[Group]]:
    """Returns results in which each group of similar flows or links is replaced by its mean.

    Also returns the groups. Two flows are similar if their keys differ only in `from` and `to`, and
    none of their keys is swept; two links, if they differ only in `between`. Stations of one radio
    or WLAN are similar.
    """
    entities: dict[str, list[str]] = {}
    for metric in results.metrics:
        entity, _, quantity = metric.rpartition(".")
        entities.setdefault(entity, []).append(quantity)
    alike: dict[tuple[str, ...], list[str]] = {}
    settings = _Settings(results)
    for entity, quantities in entities.items():
        alike.setdefault((settings.of(entity), *quantities), []).append(entity)
    groups = [
        Group(_name(members), tuple(members), results)
        for members in alike.values()
        if len(members) > LIMIT
    ]
    if not groups:
        return results, []
    group_of = {member: group for group in groups for member in group.members}
    names: dict[str, Floats] = {}
    for column, metric in enumerate(results.metrics):
        entity, _, quantity = metric.rpartition(".")
        group = group_of.get(entity)
        name = metric if group is None else f"{group.name}.{quantity}"
        if name not in names:
            columns = [column] if group is None else group._columns[quantity]
            names[name] = _mean(results.known()[:, columns], 1)
    import numpy as np

    values = np.stack(list(names.values()), axis=1)
    stopped = [stop for stop in results.stopped if stop.metric in names]
    return replace(results, metrics=list(names), values=values, stopped=stopped), groups


class _Settings:
    """Returns the keys of flows and links, excluding their places, as text."""

    def __init__(self, results: Results) -> None:
        self.scenario = results.scenario
        self.swept = {key for point in results.points for key in point.parameters}
        self.links = self.scenario.get("link", {})

    def of(self, entity: str) -> str:
        window, entity = window_of(entity)
        return f"window.{window}.{self._of(entity)}" if window else self._of(entity)

    def _of(self, entity: str) -> str:
        kind, _, name = entity.partition(".")
        part, rest = name, ""
        if kind != "flow":
            part, _, rest = name.partition(".")
            if part not in self.links:
                # Link of a station of a radio or WLAN: `rest` is the station and the side.
                return f"{kind}.{part}.{rest.partition('.')[2]}"
        tables: Mapping[str, Any] = self.scenario.get(kind, {})
        if kind == "flow":
            part = repeated_in(self.scenario, part) or part
        keys = tables.get(part)
        if keys is None or any(key.startswith(f"{kind}.{part}.") for key in self.swept):
            return entity
        keys = {key: value for key, value in keys.items() if key not in PLACES[kind]}
        return f"{kind}.{json.dumps(keys, sort_keys=True)}.{rest}"


def _quantities(results: Results, entity: str) -> list[str]:
    head = f"{entity}."
    return [
        name.removeprefix(head)
        for name in results.metrics
        if name.startswith(head) and "." not in name[len(head) :]
    ]


def _own_name(entity: str) -> str:
    """Returns `s1` for `flow.s1`, `cell.s1` for `link.cell.s1.forward`."""
    kind, _, name = window_of(entity)[1].partition(".")
    return name if kind == "flow" else name.rpartition(".")[0]


def _name(members: list[str]) -> str:
    """Returns the name of a group: `flow.s1…s200`, `link.cell.s1…s200.forward`."""
    first, last = members[0].split("."), members[-1].split(".")
    parts = [a if a == b else f"{a}…{b}" for a, b in zip(first, last, strict=True)]
    return ".".join(parts)


def _mean(values: Floats, axis: int) -> Floats:
    import numpy as np

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmean(values, axis=axis))
