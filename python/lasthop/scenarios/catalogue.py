"""Components of scenarios, read from the JSON Schema that the engine exports."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lasthop.evaluating.metric import Metric, metrics
from lasthop.scenarios.arguments import unknown
from lasthop.scenarios.scenario import schema

__all__ = ["CATEGORIES", "catalogue", "key_schema", "keys", "kind_keys"]

CATEGORIES = (
    "links",
    "wlans",
    "presets",
    "profiles",
    "queues",
    "agents",
    "errors",
    "transports",
    "applications",
    "metrics",
    "studies",
    "suites",
)


def catalogue(category: str) -> list[tuple[str, str]]:
    """Returns the entries of a category: name and description in one line.

    Raises:
        ValueError: If there is no such category.
    """
    if category == "studies":
        from lasthop.studies import studies

        return [(study.key, study.about) for study in studies().values()]
    if category == "suites":
        from lasthop.evaluating.suite import suites

        return [(key, f"Evaluation suite: {one.title}") for key, one in suites().items()]
    if category == "profiles":
        from lasthop.scenarios.profiles import profiles

        return [(one.name, one.about) for one in profiles().values()]
    if category == "metrics":
        return [(f"{one.entity}.*.{one.name}", _metric(one)) for one in metrics()]
    link = _items("link")
    flow = _items("flow")
    match category:
        case "links":
            return _kinds(link["protocol"])
        case "wlans":
            return _words(_items("wlan")["standard"])
        case "presets":
            return _words(link["preset"])
        case "queues":
            return _kinds(link["queue"])
        case "agents":
            return _kinds(link["agent"])
        case "errors":
            return _kinds(link["errors"])
        case "transports":
            return _transports(flow["transport"])
        case "applications":
            return _kinds(flow["app"])
    raise ValueError(unknown("category", category, CATEGORIES))


def _metric(one: Metric) -> str:
    """Returns the declaration of a metric in one line."""
    sentences = [one.about]
    if one.unit:
        sentences.append(f"Unit: {'fraction of 1' if one.unit == '%' else one.unit}.")
    if one.preferred != "neither":
        sentences.append(f"{one.preferred.capitalize()} is better.")
    if one.windowed:
        sentences.append("Has windows.")
    return " ".join(sentences)


def _items(table: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema()["properties"][table]["additionalProperties"]["properties"]
    return found


def variants(union: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the tables that a union in the schema distinguishes by their `kind`.

    The union also lists the kinds as plain strings, or a single value that replaces a table.
    """
    forms = [
        *union.get("oneOf", []),
        *(form for one in union.get("anyOf", []) for form in variants(one)),
    ]
    return [form for form in forms if "properties" in form]


@functools.cache
def key_schema(table: str, key: str) -> Mapping[str, Any]:
    """Returns the schema of a key of the named tables `table`, such as `link`."""
    found: Mapping[str, Any] = _items(table)[key]
    return found


def kind_keys(union: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Returns the schemas of the keys of a kind of a union; empty if it has no such kind."""
    forms = (form["properties"] for form in variants(union))
    return next((keys for keys in forms if keys["kind"]["const"] == kind), {})


def _kinds(union: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (variant["properties"]["kind"]["const"], " ".join(variant["description"].split()))
        for variant in variants(union)
    ]


def _transports(union: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the kinds of a union; a kind that has variants is listed once per variant."""
    found = []
    for variant, (kind, about) in zip(variants(union), _kinds(union), strict=True):
        choice = variant["properties"].get("variant")
        if choice is None:
            found.append((kind, about))
            continue
        found += [(f"{kind} {word}", meaning or about) for word, meaning in _words(choice)]
    return found


def _words(choice: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the values of an enumeration and their descriptions."""
    found = []
    for word in choice["enum"]:
        # The description ends in `"word": Meaning.` for each word.
        meaning = re.search(rf'"{re.escape(word)}": (.*?)(?= "[\w.-]+": |$)', choice["description"])
        found.append((word, meaning[1] if meaning else ""))
    return found


def keys() -> list[str]:
    """Returns all keys and enumerated values of a scenario, one per line, to compare schemas.

    Keys are dotted, with kinds in brackets and enumerated values after `=`; `*` stands for names:
    `link.*.protocol[selective-repeat].window`, `flow.*.transport[tcp].variant=sack`.
    """
    return sorted(set(_keys(schema(), "")))


def _keys(table: Mapping[str, Any], path: str) -> Iterator[str]:
    if path:
        yield path
    for word in table.get("enum", []):
        yield f"{path}={word}"
    if "const" in table:
        yield f"{path}={table['const']}"
    for name, one in table.get("properties", {}).items():
        if not (name == "kind" and "const" in one):
            yield from _keys(one, f"{path}.{name}" if path else name)
    more = table.get("additionalProperties")
    if isinstance(more, Mapping):
        yield from _keys(more, f"{path}.*")
    if isinstance(table.get("items"), Mapping):
        yield from _keys(table["items"], f"{path}[]")
    for form in [*table.get("oneOf", []), *table.get("anyOf", [])]:
        kind = form.get("properties", {}).get("kind", {}).get("const")
        yield from _keys(form, path if kind is None else f"{path}[{kind}]")
