"""Diagram of a scenario: hosts in a row, parameters below each link, and flows."""

from __future__ import annotations

import itertools

from lasthop.scenarios.explain.quantities import Table, delay_text, list_text, rate_text


def picture(resolved: Table) -> list[str]:
    """Draws the hosts in a row if the links form a chain, otherwise link by link."""
    links: Table = resolved["links"]
    chain = _chain(links)
    if chain is None:
        return list(
            itertools.chain.from_iterable(
                _draw([link["between"][0], link["between"][1]], [(name, link, "forward")])
                for name, link in links.items()
            )
        )
    hosts, hops = chain
    lines = _draw(hosts, hops)
    edges = _edges(hosts, hops)
    for name, flow in resolved["flows"].items():
        first, last = hosts.index(flow["from"]), hosts.index(flow["to"])
        left, right = edges[min(first, last)], edges[max(first, last)]
        length = max(right - left - 1, 2)
        arrow = f"{'-' * (length - 1)}>" if first < last else f"<{'-' * (length - 1)}"
        lines.append(f"  {' ' * left}{arrow} {name}")
    return lines


Hop = tuple[str, Table, str]


def _chain(links: Table) -> tuple[list[str], list[Hop]] | None:
    """Returns the hosts of a chain, and link and direction (left to right) of each hop."""
    ends: dict[str, list[str]] = {}
    for name, link in links.items():
        for host in link["between"]:
            ends.setdefault(host, []).append(name)
    outer = [host for host, names in ends.items() if len(names) == 1]
    if len(outer) != 2 or any(len(names) > 2 for names in ends.values()):
        return None
    hosts, hops = [outer[0]], []
    used: set[str] = set()
    while remaining := [name for name in ends[hosts[-1]] if name not in used]:
        name = remaining[0]
        used.add(name)
        here, there = links[name]["between"]
        is_forward = here == hosts[-1]
        hops.append((name, links[name], "forward" if is_forward else "reverse"))
        hosts.append(there if is_forward else here)
    return (hosts, hops) if len(used) == len(links) else None


def _facts(link: Table, side: str) -> list[str]:
    """Returns the parameters below a link; if directions differ, left to right first."""
    ways = [link[side], link["reverse" if side == "forward" else "forward"]]

    def both(texts: list[str]) -> str:
        return texts[0] if texts[0] == texts[1] else " | ".join(texts)

    layers = link["protocol"].get("layers", ())
    protocol = " over ".join(layer["name"] for layer in layers) or link["protocol"]["kind"]
    return [
        both([rate_text(way["rate"]) for way in ways]),
        both([delay_text(way) for way in ways]),
        protocol + "".join(f", {agent}" for agent in link["agents"]),
        both([_errors(way["errors"]) for way in ways]),
    ]


def _errors(errors: Table) -> str:
    """Returns the error model below a link; listed losses with their frames."""
    if errors["kind"] != "listed":
        return f"errors {errors['kind']}"
    return f"loses {list_text(list(map(str, errors['lose'])))}"


def _hop_width(hop: Hop) -> int:
    name, link, side = hop
    return max(len(name) + 6, *(len(fact) + 2 for fact in _facts(link, side)))


def _edges(hosts: list[str], hops: list[Hop]) -> list[int]:
    """Returns the middle column of each host."""
    edges: list[int] = []
    column = 0
    for host, hop in itertools.zip_longest(hosts, hops):
        edges.append(column + (0 if not edges else len(host) // 2))
        column += len(host) + 2 + (0 if hop is None else _hop_width(hop))
    return edges


def _draw(hosts: list[str], hops: list[Hop]) -> list[str]:
    top, below = "", ["", "", "", ""]
    for host, hop in itertools.zip_longest(hosts, hops):
        top += host
        below = [line + " " * len(host) for line in below]
        if hop is not None:
            name, link, side = hop
            width = _hop_width(hop)
            top += " " + f" {name} ".center(width, "-") + " "
            facts = _facts(link, side)
            below = [
                line + " " + fact.center(width) + " "
                for line, fact in zip(below, facts, strict=True)
            ]
    return [f"  {line}" for line in (top, *below)]
