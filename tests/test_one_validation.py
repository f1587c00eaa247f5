"""Scenarios that `check` accepts are accepted by `explain`, `run`, `trace`, `report` and theory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis.errors import NoSuchExample

import lasthop
from drawn import kinds_in, networks, networks_with, unions
from lasthop.scenarios.catalogue import CATEGORIES, catalogue
from lasthop.scenarios.explain import explain
from lasthop.showing import report

ALL = sorted(set(unions()))
# These keys have the kinds of `errors`.
ALSO_ERRORS = ("first", "second", "downlink_errors")
# Categories of `lasthop list`, and the key that accepts their kinds.
LISTED = {
    "links": "protocol",
    "queues": "queue",
    "agents": "agent",
    "errors": "errors",
    "transports": "transport",
    "applications": "app",
}


OVER_QUIC = {
    "name": "quic",
    "link": {"a": {"between": ["x", "y"], "rate": "1 Mbps", "delay": "1 ms"}},
    "flow": {
        "f": {
            "from": "x",
            "to": "y",
            "transport": {"kind": "quic"},
            "app": {"kind": "file", "size": "1 kB"},
        }
    },
}


def is_supported(wanted: tuple[str, str]) -> bool:
    """Returns `False` for congestion control algorithms that QUIC does not support.

    Those in Python, which need a file, are tested in `test_congestion_control`.
    """
    key, kind = wanted
    if key != "congestion_control":
        return True
    if kind == "python":
        return False
    try:
        lasthop.Scenario(OVER_QUIC).with_({"flow.f.transport.congestion_control": kind}).points()
    except lasthop.ScenarioError as error:
        return "an algorithm that needs neither delivery rates" not in str(error)
    return True


def is_valid(tables: dict[str, Any]) -> bool:
    try:
        lasthop.Scenario(tables)
    except lasthop.ScenarioError:
        return False
    return True


def all_take(tables: dict[str, Any]) -> None:
    """Passes a valid scenario to each command."""
    scenario = lasthop.Scenario(tables)
    assert explain(scenario)
    results = lasthop.run(scenario)
    lasthop.trace(scenario)
    lasthop.compare_theory(scenario)
    assert "</html>" in report.page(results)


@pytest.mark.slow
@given(networks())
@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
def test_what_check_accepts_the_others_take(tables: dict[str, Any]) -> None:
    if is_valid(tables):
        all_take(tables)


@pytest.mark.parametrize(
    "wanted",
    [it for it in ALL if it[0] not in ALSO_ERRORS and is_supported(it)],
    ids=" ".join,
)
def test_every_kind_is_drawn_and_taken(wanted: tuple[str, str]) -> None:
    """Fails for a registered kind that no generated scenario has: see `drawn.GIVEN`."""
    most = 1000

    def has_it(tables: dict[str, Any]) -> bool:
        return wanted in set(kinds_in(tables)) and is_valid(tables)

    try:
        tables = find(
            networks_with(wanted),
            has_it,
            settings=settings(
                max_examples=most,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
                database=None,
            ),
        )
    except NoSuchExample:
        pytest.fail(f"no valid scenario with {' = '.join(wanted)} in {most} draws")
    all_take(tables)


def test_what_lists_name_is_among_the_kinds() -> None:
    assert set(LISTED) | {"wlans", "presets", "profiles", "metrics", "studies", "suites"} == set(
        CATEGORIES
    )
    for category, key in LISTED.items():
        named = {name.partition(" ")[0] for name, _ in catalogue(category)}
        assert named <= {kind for of, kind in ALL if of == key}, category
