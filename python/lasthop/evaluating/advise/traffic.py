"""Traffic mixes by name, which add or replace the flows of a scenario."""

from __future__ import annotations

import re
from typing import Any

from lasthop import _lasthop
from lasthop.evaluating.advise.space import kind_of
from lasthop.scenarios.arguments import ArgumentError
from lasthop.scenarios.scenario import Scenario
from lasthop.scenarios.starter import transport

__all__ = ["TRAFFIC", "with_traffic"]

TRAFFIC: dict[str, dict[str, Any]] = {
    "file": {"kind": "file", "size": "1 MB"},
    "web": {"kind": "web"},
    "page": {"kind": "page"},
    "voice": {"kind": "media", "rate": "14.4 kbps", "packet": "50 B", "deadline": "150 ms"},
    "video": {"kind": "media", "rate": "500 kbps", "packet": "1000 B", "silence": "0 s"},
}
OVER_UDP = ("voice", "video")
#: Default duration of a run with flows that do not end by themselves.
DURATION = "60 s"
SIZED = {"file": "size", "voice": "rate", "video": "rate"}
#: Versions of HTTP of a page; the last one uses QUIC.
VERSIONS = ("1.1", "2", "3")
ENDING = ("file", "page")


def with_traffic(scenario: Scenario, text: str, link: str | None) -> Scenario:
    """Replaces the flows of a scenario, between the hosts of its first flow or of a link.

    The transport is that of the scenario's first TCP flow, otherwise that of `lasthop new`: CUBIC
    of a Linux host.

    Args:
        scenario: Links, optionally flows.
        text: Comma-separated kinds, optionally with a size or rate: `file 300 kB, voice, voice`;
            a page with a version of HTTP, `page 3`.
            With flows that do not end by themselves, a run lasts 60 s, unless the scenario has a
            duration.
        link: Link whose hosts are used if the scenario has no flow; None: the only link.

    Raises:
        ArgumentError: If a kind or its number is invalid.
        lasthop.ScenarioError: If the scenario with these flows is refused.
    """
    tables = scenario.to_dict()
    flows = tables.get("flow", {})
    if flows:
        first = next(iter(flows.values()))
        ends = (first["from"], first["to"])
    else:
        links = tables.get("link", {})
        if link is None and len(links) != 1:
            raise ArgumentError(
                f"missing `link`: the scenario has {len(links)}: expected one of {', '.join(links)}"
            )
        ends = tuple(links[link or next(iter(links))]["between"])
    tcp = next(
        (flow["transport"] for flow in flows.values() if kind_of(flow["transport"]) == "tcp"),
        transport(),
    )
    made: dict[str, Any] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        found = re.fullmatch(r"(\w+)\s*(.*)", part)
        kind, number = (found[1], found[2]) if found else (part, "")
        is_page = kind == "page" and number in VERSIONS
        if kind not in TRAFFIC or (number and kind not in SIZED and not is_page):
            extra = {**{k: key.upper() for k, key in SIZED.items()}, "page": "|".join(VERSIONS)}
            allowed = ", ".join(f"{k} [{extra[k]}]" if k in extra else k for k in TRAFFIC)
            raise ArgumentError(f"invalid value `{part}` for `traffic`: expected {allowed}")
        app = dict(TRAFFIC[kind])
        own = {"kind": "udp"} if kind in OVER_UDP else tcp
        if is_page:
            app["http"] = number
            own = {"kind": "quic"} if number == VERSIONS[-1] else tcp
        elif number:
            try:
                _lasthop.quantity(SIZED[kind], number)
            except ValueError as error:
                raise ArgumentError(f"invalid {kind} for `traffic`: {error}") from None
            app[SIZED[kind]] = number
        flow = {"from": ends[0], "to": ends[1], "transport": own, "app": app}
        count = sum(name.rstrip("0123456789") == kind for name in made)
        made[f"{kind}{count + 1}" if count else kind] = flow
    if not made:
        raise ArgumentError(f"invalid value `{text}` for `traffic`: expected {', '.join(TRAFFIC)}")
    tables["flow"] = made
    if any(flow["app"]["kind"] not in ENDING for flow in made.values()):
        # Otherwise the end of a file or page would end the other flows, possibly before they send.
        tables["run"] = {"duration": DURATION, **tables.get("run", {})}
    return Scenario(tables, base=scenario._base)
