"""Scenarios generated from the engine's own schema, so that every kind and every key is covered.

The schema of a key determines its values: one of its words, a number within its limits, or a text
of `TEXTS` that matches its pattern. Values that depend on the rest of a scenario (hosts, files,
matrices) are in `GIVEN`, by the end of their path. Many of the scenarios are rejected. Every
command must accept all others.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import lasthop

Node = Mapping[str, Any]
Strategy = st.SearchStrategy[Any]

TEXTS = (
    *("0 s", "1 us", "10 ms", "100 ms", "1 s", "exp 100 ms", "pareto 100 ms shape 1.5"),
    *("64 kbps", "2 Mbps", "11 Mbps", "24 Mbps", "unlimited", "auto", "off", "random"),
    *(
        "8 B",
        "60 B",
        "300 B",
        "1460 B",
        "20 kB",
        "1 packets",
        "20 packets",
        "2 segments",
        "8 frames",
    ),
    *("0 %", "10 %", "100 %", "0 m", "200 m", "250 m", "1 km", "0 dB", "10 dB"),
)
NUMBERS = (0, 1e-5, 0.1, 0.5, 1, 2, 3.5, 8, 33, 200, 32768, 65535)

_FILES = Path(tempfile.mkdtemp(prefix="lasthop-drawn-"))
LOSSES, RATES, DELAYS, OUTAGES, SNRS = (
    _FILES / name for name in ("losses.txt", "rates.txt", "delays.csv", "outages.csv", "snrs.csv")
)
LOSSES.write_text("0\n0\n1\n0\n0\n0\n1\n1\n0\n0\n")
OUTAGES.write_text("0,up\n0.2,down\n0.25,up\n")
SNRS.write_text("0,30\n0.1,-3\n0.2,12.5\n")
DELAYS.write_text("0,0.02\n0.1,0.001\n0.2,0.05\n")
RATES.write_text("".join(f"{ms}\n" for ms in range(1, 100, 3)))

SHARES = st.sampled_from([0.0, 0.1, 1.0])

GIVEN: Mapping[str, Strategy] = {
    "[gilbert-elliott]": st.one_of(
        st.fixed_dictionaries(
            {"kind": st.just("gilbert-elliott"), "p_good_to_bad": SHARES, "p_bad_to_good": SHARES},
            optional={"loss_good": SHARES, "loss_bad": SHARES},
        ),
        st.fixed_dictionaries(
            {"kind": st.just("gilbert-elliott"), "mean_loss": SHARES}
            | {"mean_burst": st.sampled_from([1, 3.5])}
        ),
    ),
    "[slotted-gilbert-elliott]": st.fixed_dictionaries(
        {"kind": st.just("slotted-gilbert-elliott"), "slot": st.just("10 ms")}
        | {"stay_good": SHARES, "stay_bad": SHARES},
        optional={"loss_good": SHARES, "loss_bad": SHARES},
    ),
    "errors[trace].file": st.just(str(LOSSES)),
    "first[trace].file": st.just(str(LOSSES)),
    "second[trace].file": st.just(str(LOSSES)),
    "[outages]": st.one_of(
        st.fixed_dictionaries(
            {"kind": st.just("outages"), "file": st.just(str(OUTAGES))},
            optional={"repeat": st.just("300 ms"), "start": st.just("100 ms")},
        ),
        st.fixed_dictionaries(
            {"kind": st.just("outages"), "file": st.just(str(RATES))}
            | {"format": st.just("mahimahi"), "gap": st.sampled_from(["3 ms", "100 ms"])}
        ),
    ),
    "rate[trace]": st.just({"kind": "trace", "file": str(RATES), "format": "mahimahi"}),
    "rate[steps]": st.sampled_from(
        [
            {"kind": "steps", "at": [["0 s", "64 kbps"]]},
            {"kind": "steps", "at": [["0 s", "2 Mbps"], ["100 ms", "0 bps"], ["200 ms", "1 Mbps"]]},
            {"kind": "steps", "at": [["0 s", "2 Mbps"], ["9 ms", "1 Mbps"]], "repeat": "10 ms"},
        ]
    ),
    "delay[trace]": st.just({"kind": "trace", "file": str(DELAYS)}),
    "delay[steps]": st.sampled_from(
        [
            {"kind": "steps", "at": [["0 s", "10 ms"]]},
            {"kind": "steps", "at": [["0 s", "1 ms"], ["100 ms", "80 ms"], ["200 ms", "5 ms"]]},
            {"kind": "steps", "at": [["0 s", "20 ms"], ["5 ms", "1 ms"]], "repeat": "10 ms"},
        ]
    ),
    "snr[trace]": st.just({"kind": "trace", "file": str(SNRS)}),
    "snr[steps]": st.just({"kind": "steps", "at": [["0 s", "30 dB"], ["100 ms", "5 dB"]]}),
    "snr[distance]": st.just({"kind": "distance", "distance": "20 m"}),
    "wlan.category": st.just({"voice": {"aifsn": 3}}),
    "[adaptive-persistence]": st.fixed_dictionaries(
        {"kind": st.just("adaptive-persistence")}
        | {"stay_good": st.just(0.9), "stay_bad": st.just(0.5)}
        | {"loss_good": st.just(0.0), "loss_bad": st.just(1.0)},
        optional={
            # A radio has such an agent at each station.
            "at": st.sampled_from(["a", "c"]),
            "inversion": st.sampled_from(["eigenvalue", "exact"]),
        },
    ),
    "[listed].lose": st.lists(st.integers(1, 40), min_size=1, max_size=12, unique=True),
    "radio.slot": st.sampled_from(["60 B", "1600 B"]),
    "[markov-chain].transitions": st.sampled_from([[[0.9, 0.1], [0.5, 0.5]], [[1, 0], [0, 1]]]),
    "[markov-chain].loss": st.sampled_from([[0, 1], [0.1, 0.9]]),
    ".at": st.sampled_from(["a", "b", "c"]),
    # Generating this key would repeat the values of links.
    "[services].service": st.sampled_from(
        [
            {"one": {"protocol": "raw"}, "two": {"protocol": {"kind": "selective-repeat"}}},
            {"one": {"protocol": "karn-rlp", "weight": 3}},
        ]
    ),
}
# Keys of networks and flows that a test sets itself.
OWN = {"between", "from", "to", "service", "start", "access_point", "stations", "base", "station"}
# Keys that depend on each other or on the names of hosts.
REPEATED = {"count", "spacing"}


SCHEMA: Node = lasthop.schema()


def unions(node: Node = SCHEMA, key: str = "") -> Iterator[tuple[str, str]]:
    """Every kind that some key accepts: (key, kind), as `("protocol", "selective-repeat")`."""
    for form in [*node.get("oneOf", []), *node.get("anyOf", [])]:
        kind = form.get("properties", {}).get("kind", {}).get("const")
        if kind is not None:
            yield key, kind
        yield from unions(form, key)
    for name, one in node.get("properties", {}).items():
        yield from unions(one, name)
    for inner in (node.get("additionalProperties"), node.get("items")):
        if isinstance(inner, Mapping):
            yield from unions(inner, key)


def kinds_in(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """The kinds in a scenario, as (key, kind)."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for one in value:
            yield from kinds_in(one, key)
    elif isinstance(value, dict):
        if isinstance(value.get("kind"), str):
            yield key, value["kind"]
        for name, one in value.items():
            yield from kinds_in(one, name)


class Drawer:
    """Generates values of keys; `wanted` is a (key, kind) that must be among them."""

    def __init__(self, wanted: tuple[str, str] = ("", "")) -> None:
        self.wanted = wanted

    def table(self, name: str, *needed: str, **given: Strategy) -> Strategy:
        """A table of the schema, such as `link`, with its required keys, `needed` and `given`."""
        node: Node = SCHEMA["properties"][name]["additionalProperties"]
        required = [*node.get("required", ()), *needed]
        return self._table({**node, "required": required}, name, OWN | REPEATED, given)

    def _table(
        self, node: Node, path: str, left_out: set[str], given: Mapping[str, Strategy]
    ) -> Strategy:
        own = {name: one for name, one in node["properties"].items() if name not in left_out}
        kept = dict(given)
        needed = {
            name
            for name, one in own.items()
            if name in node.get("required", ()) or self._has_wanted(one, name)
        } - set(kept)
        optional = sorted(set(own) - needed - set(kept))

        def drawn(names: Iterable[str]) -> dict[str, Strategy]:
            return {name: self.value(own[name], f"{path}.{name}", name) for name in names}

        needed_part = st.fixed_dictionaries({**drawn(sorted(needed)), **kept})
        if not optional:
            return needed_part
        # Few optional keys: with many, nearly all scenarios are rejected.
        most = 1 if any(self.wanted) else 2
        few = st.lists(st.sampled_from(optional), max_size=most, unique=True).flatmap(
            lambda names: st.fixed_dictionaries(drawn(names))
        )
        return st.tuples(needed_part, few).map(lambda parts: {**parts[1], **parts[0]})

    def _has_wanted(self, node: Node, key: str) -> bool:
        return self.wanted in set(unions(node, key))

    def value(self, node: Node, path: str, key: str) -> Strategy:
        """A value of a key, according to its schema."""
        for end, strategy in GIVEN.items():
            if path.endswith(end):
                return strategy
        if "const" in node:
            return st.just(node["const"])
        if "enum" in node:
            return st.sampled_from(node["enum"])
        forms = [*node.get("oneOf", []), *node.get("anyOf", [])]
        if forms and "properties" not in node:
            if any(self._has_wanted(form, key) or self._is_wanted(form, key) for form in forms):
                forms = [f for f in forms if self._has_wanted(f, key) or self._is_wanted(f, key)]
            # Built only when it is selected: most of the many forms of a union are not.
            return st.sampled_from(forms).flatmap(lambda form: self._form(form, path, key))
        if "properties" in node:
            return self._table(node, path, set(), {})
        match node.get("type"):
            case "boolean":
                return st.booleans()
            case "integer" | "number":
                return st.sampled_from([n for n in NUMBERS if within(n, node)])
            case "string":
                pattern = node.get("pattern", "")
                return st.sampled_from([text for text in TEXTS if re.search(pattern, text)])
            case "array":
                item = self.value(node["items"], path, key)
                return st.lists(item, min_size=node.get("minItems", 0), max_size=2)
        raise AssertionError(f"{path}: the schema has {node}; add its values to GIVEN")

    def _is_wanted(self, form: Node, key: str) -> bool:
        kind = form.get("properties", {}).get("kind", {}).get("const")
        return (key, kind) == self.wanted

    def _form(self, form: Node, path: str, key: str) -> Strategy:
        kind = form.get("properties", {}).get("kind", {}).get("const")
        return self.value(form, path if kind is None else f"{path}[{kind}]", key)


def within(number: float, node: Node) -> bool:
    if node["type"] == "integer" and number != int(number):
        return False
    low, high = node.get("minimum", -1e300), node.get("maximum", 1e300)
    above = node.get("exclusiveMinimum", -1e300)
    return bool(low <= number <= high and number > above)


RUN = {"duration": "1 s", "replications": 2, "seed": 1}
ENDS = {"from": st.just("a"), "to": st.just("c")}
# Tables that are always valid, to complete a network around a table with the wanted kind.
LINK = {"rate": "2 Mbps", "delay": "10 ms"}
PLAIN: Mapping[str, Strategy] = {
    "first": st.just({"between": ["a", "b"], **LINK}),
    "second": st.just({"between": ["b", "c"], **LINK}),
    "flow": st.sampled_from(
        [
            {
                "from": "a",
                "to": "c",
                "transport": {"kind": "tcp", "variant": "sack", "profile": "rfc"},
            }
            | {"app": {"kind": "file", "size": "20 kB"}},
            {"from": "a", "to": "c", "transport": "udp"}
            | {"app": {"kind": "media", "rate": "64 kbps", "packet": "40 B"}},
        ]
    ),
    "radio": st.just({"base": "b", "stations": ["c", "d"], "rate": "2 Mbps"}),
    "wlan": st.just({"access_point": "b", "stations": ["c", "d"], "standard": "802.11b"}),
}


# The tables of a network, each as a function of the generator.
TABLES: Mapping[str, Callable[[Drawer], Strategy]] = {
    "first": lambda draw: draw.table(
        "link", "rate", "delay", "protocol", between=st.just(["a", "b"])
    ),
    "second": lambda draw: draw.table(
        "link", "rate", "delay", "protocol", between=st.just(["b", "c"])
    ),
    "flow": lambda draw: draw.table("flow", **ENDS),
    "radio": lambda draw: draw.table(
        "radio", "slot", base=st.just("b"), stations=st.just(["c", "d"])
    ),
    "wlan": lambda draw: draw.table(
        "wlan", access_point=st.just("b"), stations=st.just(["c", "d"])
    ),
}


def _placed(wlan: dict[str, Any]) -> dict[str, Any]:
    """Gives every host a position if the access point has one: all hosts need one, or none."""
    if "x" not in wlan and "y" not in wlan:
        return wlan
    places = {"c": {"x": "0 m"}, "d": {"x": "200 m"}}
    return wlan | {"x": "200 m", "transmission_range": "250 m", "station": places}


def _with_snr(wlan: dict[str, Any]) -> dict[str, Any]:
    """Selects a standard that permits an SNR, and an SNR for fading."""
    if "snr" not in wlan and "fading" not in wlan:
        return wlan
    return {"snr": "20 dB", **wlan, "standard": "802.11n"}


def _network(tables: Mapping[str, Strategy], *last: str) -> Strategy:
    """A link from a to b, and another link, a radio or a WLAN at b."""
    parts = {"first": tables["first"], "flow": tables["flow"]} | {n: tables[n] for n in last}

    def made(drawn: dict[str, Any]) -> dict[str, Any]:
        links = {"l": drawn["first"]} | ({"m": drawn["second"]} if "second" in drawn else {})
        others: dict[str, Any] = {
            name: {"x": drawn[name]} for name in ("radio", "wlan") if name in drawn
        }
        if "wlan" in others:
            others["wlan"]["x"] = _placed(_with_snr(others["wlan"]["x"]))
        return {"name": "x", "link": links, **others, "flow": {"f": drawn["flow"]}, "run": RUN}

    return st.fixed_dictionaries(parts).map(made)


LASTS = ("second", "radio", "wlan")


def networks() -> Strategy:
    """Scenarios of 1 s with a link and a second link, a radio or a WLAN."""
    tables = {name: make(Drawer()) for name, make in TABLES.items()}
    return st.one_of([_network(tables, last) for last in LASTS])


def networks_with(wanted: tuple[str, str]) -> Strategy:
    """Scenarios with the (key, kind) `wanted` in one table; the other tables are always valid."""
    found = []
    for name, make in TABLES.items():
        of = "link" if name in ("first", "second") else name
        if wanted in set(unions(SCHEMA["properties"][of], of)):
            tables = {**PLAIN, name: make(Drawer(wanted))}
            found += [_network(tables, name if name in LASTS else "second")]
    return st.one_of(found)
