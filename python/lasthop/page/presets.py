"""Profiles that the page offers, and the initial scenario of the page."""

from __future__ import annotations

from functools import cache
from typing import Any

from lasthop.scenarios.profiles import profiles
from lasthop.scenarios.scenario import Scenario

__all__ = ["presets", "split", "starting_point"]

MOST_ALTERNATIVES = 6

START = """
name = "a file over a lossy link"

[link.radio]
between = ["server", "phone"]
rate = "2 Mbps"
delay = "20 ms"
queue = "50 packets"
protocol = { kind = "raw" }
errors = { kind = "uniform", loss = "2 %" }

[flow.download]
from = "server"
to = "phone"
transport = { kind = "tcp", variant = "cubic" }
app = { kind = "file", size = "1 MB" }
"""

COMPARED = (
    {"label": "raw", "changes": {"link.radio.protocol": {"kind": "raw"}}},
    {
        "label": "selective-repeat",
        "changes": {"link.radio.protocol": {"kind": "selective-repeat", "window": 32}},
    },
)


@cache
def presets() -> list[dict[str, Any]]:
    """Returns the profiles that the page offers: links named `radio`, and wireless LANs.

    Each has `name`, `about`, `source`, `chosen`, and `scenario`, the whole profile. Links also have
    `link`, the keys of a scenario's link, and the `segment` of their download if it has one.
    """
    found = []
    for one in profiles().values():
        link = one.tables["link"].get("radio")
        if link is None and "wlan" not in one.tables:
            continue
        entry: dict[str, Any] = {"name": one.name, "about": one.about}
        entry |= {"source": one.source, "chosen": one.chosen, "scenario": one.tables}
        if link is not None:
            entry["link"] = {key: value for key, value in link.items() if key != "between"}
        if segment := one.tables["flow"]["download"]["transport"].get("segment"):
            entry["segment"] = segment
        found.append(entry)
    return found


def starting_point() -> dict[str, Any]:
    """The scenario and alternatives of a page that was given no file."""
    return {
        "scenario": Scenario.from_toml(START).to_dict(),
        "alternatives": [dict(one) for one in COMPARED],
        "seed": 1,
    }


def split(scenario: Scenario) -> dict[str, Any]:
    """Splits a scenario for the page: values of the first swept key become alternatives.

    Other swept keys have their first value.
    """
    tables = scenario.to_dict()
    sweep = tables.pop("sweep", {})
    run = tables.get("run", {})
    seed = run.pop("seed", 1)
    run.pop("replications", None)
    if not run:
        tables.pop("run", None)
    alternatives: list[dict[str, Any]] = []
    first: dict[str, Any] = {}
    if sweep:
        import json

        keys = [key for key in sweep if key not in ("zip", "case")]
        for point in scenario.points():
            own = json.loads(point.parameters)
            label = str(own.pop("case", ""))
            if label:
                own |= sweep["case"][label]
            if not first:
                first = own
            # Points that differ from the first one only in the first swept key.
            varying = [key for key in own if own[key] != first.get(key)]
            if alternatives and not (
                label or (keys and varying == [keys[0]]) or (not keys and varying)
            ):
                continue
            name = label or _words(own, keys[:1] or list(own))
            if name not in [one["label"] for one in alternatives]:
                alternatives.append({"label": name, "changes": own})
            if len(alternatives) == MOST_ALTERNATIVES:
                break
    return {
        "scenario": tables,
        "alternatives": alternatives or [{"label": "unchanged", "changes": {}}],
        "seed": seed,
    }


def _words(values: dict[str, Any], keys: list[str]) -> str:
    from lasthop.evaluating.cells import value_text

    return ", ".join(value_text(values[key]) for key in keys if key in values)[:60] or "first"
