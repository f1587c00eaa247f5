"""Readings of a paper's text: their ranking and their pairs."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from lasthop.showing import markdown
from lasthop.studies import Change, studies
from lasthop.studies.readings import ReadingsReport, _pairs, orders_of


def changes(when: dict[str, Any], **keys: Any) -> tuple[Change, ...]:
    return (Change(when, keys),)


def test_the_best_readings_are_paired_unless_they_exclude_each_other() -> None:
    """Six readings: `last` is not paired, and `b` and `c` set one key to different values."""
    readings = {
        "a": changes({"hops": 1}, timeout=1),
        "b": changes({"hops": 2}, timeout=2),
        "c": changes({"hops": [1, 2]}, timeout=1),
        "d": changes({}, window=3),
        "e": changes({}, window=3, mode="x"),
        "last": changes({}, other=1),
    }
    orders: Any = [SimpleNamespace(name="first"), SimpleNamespace(name="second")]
    ratios = {
        "as chosen": {"first": (0.5, 0.5), "second": (0.5,)},
        "last": {"first": (0.9, 0.9), "second": (0.9,)},
        "a": {"first": (1.1, 0.9), "second": (1.2,)},
        "b": {"first": (1.1, 1.1), "second": (1.2,)},
        "c": {"first": (0.9, 0.9), "second": (1.2,)},
        "d": {"first": (1.1, 0.9), "second": (0.9,)},
        "e": {"first": (1.1, 0.9), "second": (0.9,)},
    }
    study: Any = SimpleNamespace(readings=readings)
    report = ReadingsReport(study, tuple(orders), ratios, 3, True, 0)
    cells = [(("hops", 1),), (("hops", 2),)]
    # By orders that hold: b (2), a and c (1), d and e (0).
    assert list(_pairs(report, cells).values()) == [
        ("b", "a"),
        ("b", "d"),
        ("b", "e"),
        ("a", "c"),
        ("a", "d"),
        ("a", "e"),
        ("c", "d"),
        ("c", "e"),
        ("d", "e"),
    ]


def test_the_report_has_the_best_count_alone_and_in_pairs() -> None:
    study = studies()["disruption"]
    orders = orders_of(study)
    low = {order.name: (0.5,) for order in orders}
    high = low | {order.name: (1.5,) for order in orders[:7]}
    pairs = {"a + b": ("a", "b")}
    report = ReadingsReport(study, orders, {"a": low, "b": low}, 3, True, 0)
    assert "alone at most 0 of 12 hold." in markdown.readings(report)
    report = replace(report, ratios={"a": low, "b": low, "a + b": high}, pairs=pairs)
    assert "at most 0 of 12 hold, in pairs of the best readings" in markdown.readings(report)
    assert "(marked +) at most 7." in markdown.readings(report)
    assert [one.get("pair") for one in report.to_dict()["readings"]] == [None, None, ["a", "b"]]
