"""Random scenarios with every kind of the schema, checked by `random_scenarios.check`."""

import json

import pytest

from drawn import kinds_in, unions
from random_scenarios import AGGREGATION, HIGH, check, impossible, scenario

SEED = 1
COUNT = 400
# Factors of a product and the kinds of `congestion_control` are numerous; 5,000 scenarios contain
# all of them, except those that QUIC rejects: `test_one_validation`.
RARE = {"first", "second", "downlink_errors", "congestion_control", "snr", "fading"}


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, COUNT, 50))
def test_a_run_of_any_scenario_is_its_trace_and_has_no_impossible_metric(first: int) -> None:
    for number in range(first, first + 50):
        tables = scenario(SEED, number)
        try:
            check(tables)
        except Exception as error:
            pytest.fail(f"scenario {number} of seed {SEED}: {error}\n{tables}")


@pytest.mark.slow
def test_every_kind_is_among_the_scenarios() -> None:
    found = {kind for number in range(COUNT) for kind in kinds_in(scenario(SEED, number))}
    assert not {(key, kind) for key, kind in unions() if key not in RARE} - found


@pytest.mark.slow
def test_lt_tcp_is_among_the_scenarios() -> None:
    found = [json.dumps(scenario(SEED, number)) for number in range(COUNT)]
    for key in ("variant", "congestion_control"):
        assert sum(f'"{key}": "lt-tcp"' in text for text in found) >= COUNT // 40


@pytest.mark.slow
def test_every_standard_with_a_mpdus_is_among_the_scenarios() -> None:
    found = [scenario(SEED, number).get("wlan", {}).values() for number in range(COUNT)]
    wlans = [own for wlans in found for own in wlans if own.get("standard") in HIGH]
    for standard in HIGH:
        assert sum(own["standard"] == standard for own in wlans) >= COUNT // 40
    for key in AGGREGATION:
        assert sum(key in own for own in wlans) >= COUNT // 80, key


def test_an_impossible_metric_is_noticed() -> None:
    tables = {"flow": {"f": {"from": "a", "to": "b", "app": {"packet": "100 B"}}}}
    tables["link"] = {"l": {"between": ["b", "a"], "rate": "64 kbps"}}
    right = {
        "goodput_bps": 40e3,
        "duration_s": 1.0,
        "packets_sent": 60.0,
        "packets_delivered": 50.0,
    }
    right = {f"flow.f.{name}": value for name, value in right.items()}
    assert not list(impossible(tables, right))
    for name, value in (
        ("flow.f.packets_delivered", 61.0),
        ("flow.f.goodput_bps", 50e3),
        ("flow.f.goodput_bps", float("inf")),
        ("flow.f.loss", 1.1),
        ("flow.f.packets_damaged", 51.0),
        ("link.l.forward.frames_lost", -1.0),
    ):
        assert list(impossible(tables, right | {name: value})), name
    wlan = {"mpdus_per_ppdu": 257.0, "ppdus": 9.0, "attempts": 9.0}
    for name, value in wlan.items():
        right[f"wlan.w.{name}"] = value
    assert list(impossible(tables, right))
    right["wlan.w.mpdus_per_ppdu"] = 256.0
    assert not list(impossible(tables, right))
    faster = right | {"flow.f.packets_sent": 100.0, "flow.f.goodput_bps": 70e3}
    assert "of link.l" in " ".join(impossible(tables, faster))
