"""Evaluation suites: a sender is compared with baselines over families of scenarios.

A suite is a folder in `lasthop.suites`: `suite.toml` with families, criteria and thresholds, and a
scenario for each family. The transport of the family's *candidates* is the sender under test. Each
sender and baseline is run over all points with the same random numbers, so that criteria are
paired comparisons (`lasthop.evaluating.verdicts`).

A criterion may also observe the phases of congestion control, by traces of the first replications
of the sender (`observed`), and a family may change the path when a phase begins.
"""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np

from lasthop import _lasthop
from lasthop.evaluating.metric import metric_unit
from lasthop.evaluating.observation import Observation, Trigger
from lasthop.evaluating.results import Point, Results
from lasthop.evaluating.statistics import Floats, jain_index
from lasthop.evaluating.swept import point_words
from lasthop.running.algorithms import allow_code
from lasthop.scenarios.arguments import ArgumentError, unknown
from lasthop.scenarios.scenario import Scenario
from lasthop.showing.labels import scaled

__all__ = [
    "Criterion",
    "Family",
    "Prepared",
    "Sender",
    "Suite",
    "prepare",
    "sender",
    "suites",
]


@dataclass(frozen=True, slots=True)
class Sender:
    """A transport or a queue discipline under test.

    Attributes:
        name: Name in tables.
        transport: Value of the key `transport` of its flows, or keys of its queues.
    """

    name: str
    transport: Mapping[str, Any]


def sender(text: str) -> Sender:
    """Reads a sender: `VARIANT` or `FILE.py:CLASS`, also with `@PROFILE`; `quic`, `quic:VARIANT`.

    A variant is a TCP of `lasthop list transports`; without a profile, it has profile `linux`. A
    class is a congestion control in Python, and its file is permitted to run.

    Raises:
        ArgumentError: If a file is named without a class, or a profile for QUIC.
    """
    named, at, profile = text.partition("@")
    tcp = {"kind": "tcp", "profile": profile or "linux"}
    file, _, name = named.rpartition(":")
    if named.endswith(".py"):
        raise ArgumentError(f"invalid value `{text}` for `SENDER`: expected FILE.py:CLASS")
    if at and "quic" in (file, named):
        raise ArgumentError(
            f"invalid value `{text}` for `SENDER`: expected `{named}`, as QUIC has no profiles"
        )
    if file.endswith(".py"):
        allow_code(file)
        own = {"kind": "python", "class": f"{Path(file).resolve()}:{name}"}
        return Sender(text, {**tcp, "variant": "sack", "congestion_control": own})
    if file == "quic" or named == "quic":
        return Sender(text, {"kind": "quic", **({"variant": name} if file else {})})
    return Sender(text, {**tcp, "variant": named})


@dataclass(frozen=True, slots=True)
class Family:
    """Scenarios with a common question.

    Attributes:
        key: Short name.
        title: Heading.
        about: Description of the scenarios.
        scenario: The scenario with its sweep.
        candidates: Flows whose transport is the sender, or links whose queue is under test.
        subject: `transport`, or `queue` for queue disciplines.
        trigger: Keys that change when a phase of the sender begins.
    """

    key: str
    title: str
    about: str
    scenario: Scenario
    candidates: Sequence[str]
    subject: str = "transport"
    trigger: Trigger | None = None

    def of(self, tested: Sender) -> Scenario:
        """Returns the scenario with a sender or a queue discipline."""
        if self.subject == "queue":
            tables = self.scenario.to_dict()
            own = {name: tables["link"][name]["queue"]["limit"] for name in self.candidates}
            queues = {
                f"link.{name}.queue": {**tested.transport, "limit": limit}
                for name, limit in own.items()
            }
            return self.scenario.with_(queues)
        changes = {f"flow.{name}.transport": dict(tested.transport) for name in self.candidates}
        scenario = self.scenario.with_(changes)
        return scenario if self.trigger is None else self.trigger.apply(scenario)


@dataclass(frozen=True, slots=True)
class Criterion:
    """A question about a metric.

    Attributes:
        id: Short name.
        family: Key of its family.
        question: The question.
        metric: Full name of the metric, with `*` and `?` if it combines flows.
        over_flows: How several flows are combined: `sum` or `jain`.
        at_least: Minimum ratio to the baseline; None: no bound.
        at_most: Maximum ratio to the baseline; None: no bound.
        absolute: Whether the bound refers to the value itself, in the metric's unit.
        observed: Value that is observed in traces of the sender instead of the metric.
        source: Source of the bound.
        refuted_by: Reason for which a sender may miss the bound.
    """

    id: str
    family: str
    question: str
    metric: str = ""
    over_flows: str = "sum"
    at_least: float | None = None
    at_most: float | None = None
    absolute: bool = False
    observed: Observation | None = None
    source: str = ""
    refuted_by: str = ""

    @property
    def bound(self) -> str:
        """The bound in words; empty without one."""
        number = self.at_most if self.at_least is None else self.at_least
        if number is None:
            return ""
        sign = "≤" if self.at_least is None else "≥"
        return f"{sign} {self.in_words(number) if self.absolute else f'{number:g} × baseline'}"

    def in_words(self, value: float) -> str:
        """Returns a value with four digits, in a suitable unit."""
        unit = scaled(self.unit, [value])
        return f"{value / unit.per:.4g} {unit.name}".rstrip()

    @property
    def quantity(self) -> str:
        """Name of the metric whose unit and direction the values have; empty if observed."""
        return "fairness" if self.over_flows == "jain" else self.metric

    @property
    def unit(self) -> str:
        """Unit of the values."""
        if self.observed is not None:
            return self.observed.unit
        return "" if self.over_flows == "jain" else metric_unit(self.metric)

    def values(self, results: Results, point: int) -> Floats | None:
        """Returns one value per replication; None if the metric does not exist."""
        names = [name for name in results.metrics if fnmatchcase(name, self.metric)]
        if not names:
            return None
        columns = np.array([results.samples(name, point, censored=True) for name in names])
        # Flows of other families have no values at this point.
        columns = columns[~np.isnan(columns).all(axis=1)]
        if not len(columns):
            return None
        if self.over_flows == "jain":
            return jain_index(columns, axis=0)
        return np.asarray(columns.sum(axis=0))


class Suite:
    """An evaluation suite.

    Attributes:
        key: Short name.
        title: Heading.
        about: Description.
        version: Version of its scenarios and bounds.
        families: Families by key.
        criteria: Criteria.
        not_tested: What the suite does not test.
        subject: Object under test: `transport`, or `queue` for queue disciplines.
        baselines: Default baselines.
    """

    def __init__(self, folder: Traversable) -> None:
        """Reads a folder."""

        def read(name: str) -> dict[str, Any]:
            return tomllib.loads((folder / name).read_text(encoding="utf-8"))

        tables = read("suite.toml")
        self.key = folder.name
        self.title: str = tables["title"]
        self.about: str = tables["description"].strip()
        self.version: int = tables["version"]
        self.not_tested: list[str] = tables["not_tested"]
        self.subject: str = tables.get("subject", "transport")
        self.baselines: list[str] = tables.get("baselines", ["cubic", "reno"])
        self.families = {
            one["key"]: Family(
                one["key"],
                one["title"],
                one["about"],
                Scenario(read(one["scenario"])).with_(one.get("keys", {})),
                one.get("candidates", ["candidate"]),
                self.subject,
                Trigger(**one["at_phase"]) if "at_phase" in one else None,
            )
            for one in tables["family"]
        }
        self.criteria = [_criterion(one) for one in tables["criterion"]]

    @property
    def observes(self) -> bool:
        """Whether a criterion needs traces."""
        return any(one.observed is not None for one in self.criteria)

    def tested(self, text: str) -> Sender:
        """Reads the name of an object under test: a sender, or the kind of a queue discipline."""
        return Sender(text, {"kind": text}) if self.subject == "queue" else sender(text)

    def only(self, families: Sequence[str]) -> Suite:
        """Returns a copy with some families; all if none is named.

        Raises:
            ArgumentError: If there is no such family.
        """
        for key in families:
            if key not in self.families:
                raise ArgumentError(unknown("family", key, self.families, "family"))
        if not families:
            return self
        part = Suite.__new__(Suite)
        part.__dict__ |= self.__dict__
        part.families = {key: self.families[key] for key in families}
        part.criteria = [one for one in self.criteria if one.family in families]
        return part


def _criterion(table: Mapping[str, Any]) -> Criterion:
    observed = {"observed": Observation(**table["observed"])} if "observed" in table else {}
    return Criterion(**{**table, **observed})


@functools.cache
def suites() -> Mapping[str, Suite]:
    """Returns the suites of this installation by key."""
    folders = sorted(resources.files("lasthop.suites").iterdir(), key=lambda one: one.name)
    return {one.name: Suite(one) for one in folders if (one / "suite.toml").is_file()}


@dataclass(frozen=True)
class Prepared:
    """Points of an evaluation.

    Attributes:
        suite: The suite.
        senders: Senders under test.
        baselines: Baselines; the first is the reference of verdicts.
        points: Points of all families, senders and baselines.
        labels: Family, sender and parameters of each point.
        cells: Indices of points by family, sender and place in the family.
        names: Labels of the points of each family.
        refused: Reasons why a sender cannot be run in a family, by family and sender.
    """

    suite: Suite
    senders: Sequence[Sender]
    baselines: Sequence[Sender]
    points: Sequence[_lasthop.Point]
    labels: Sequence[Mapping[str, Any]]
    cells: Mapping[tuple[str, str], Sequence[int]]
    names: Mapping[str, Sequence[str]]
    refused: Mapping[tuple[str, str], str]


def prepare(suite: Suite, senders: Sequence[Sender], baselines: Sequence[Sender]) -> Prepared:
    """Builds the points of an evaluation.

    A sender that a family refuses, such as QUIC on a path with Snoop, is not run there.

    Raises:
        lasthop.ScenarioError: If a sender is refused by all families.
    """
    points: list[_lasthop.Point] = []
    labels: list[dict[str, Any]] = []
    cells: dict[tuple[str, str], list[int]] = {}
    names: dict[str, list[str]] = {}
    refused: dict[tuple[str, str], str] = {}
    for tested in {one.name: one for one in (*baselines, *senders)}.values():
        error: _lasthop.ScenarioError | None = None
        for key, family in suite.families.items():
            try:
                own = family.of(tested).points()
            except _lasthop.ScenarioError as failed:
                refused[key, tested.name] = str(failed)
                error = failed
                continue
            cells[key, tested.name] = list(range(len(points), len(points) + len(own)))
            for point in own:
                parameters = _parameters(point)
                labels.append({"family": key, "sender": tested.name, **parameters})
            points += own
            names[key] = names.get(key) or _names(own)
        if error is not None and all((key, tested.name) in refused for key in suite.families):
            raise error
    return Prepared(suite, senders, baselines, points, labels, cells, names, refused)


def _parameters(point: _lasthop.Point) -> dict[str, Any]:
    return dict(json.loads(point.parameters))


def _names(points: Sequence[_lasthop.Point]) -> list[str]:
    words = point_words([Point(_parameters(one), "") for one in points])
    names = [", ".join(column[at] for column in words.values()) for at in range(len(points))]
    return [name or "single point" for name in names]
