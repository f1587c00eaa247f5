"""Starter scenarios: short files with comments on the meaning and the values of each key.

A template is a scenario without comments; the comments are the engine's descriptions in the JSON
Schema.
"""

from __future__ import annotations

import functools
import keyword
import re
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lasthop.scenarios.arguments import ArgumentError, invalid, unknown
from lasthop.scenarios.catalogue import variants
from lasthop.scenarios.profiles import profiles
from lasthop.scenarios.scenario import schema

__all__ = ["SCHEMA_FILE", "TEMPLATES", "congestion_control", "starter", "template", "transport"]

SCHEMA_FILE = "lasthop.schema.json"
"""File name of the JSON Schema, in the folder of the scenario, whose first line refers to it."""

WIDTH = 98

TEMPLATES = ("file", "page", "web", "speech", "radio", "wlan", "wifi6", "satellite", "proxy")
"""Names of the templates: files in the folder `starters`, without comments on their keys."""


def template(name: str) -> str:
    """Returns a template as TOML text; the name of the scenario is `NAME`.

    Raises:
        ValueError: If there is no such template.
    """
    if name not in TEMPLATES:
        raise ArgumentError(unknown("template", name, [*TEMPLATES, *profiles()]))
    return (Path(__file__).parent / "starters" / f"{name}.toml").read_text(encoding="utf-8")


def transport() -> dict[str, Any]:
    """Returns the transport that the templates use: the TCP of a current host."""
    found: dict[str, Any] = tomllib.loads(template("file"))["flow"]["download"]["transport"]
    return found


def congestion_control(name: str, *, rust: bool) -> tuple[dict[str, str], list[str]]:
    """Returns starter files of a congestion control, and the next steps.

    Args:
        name: Name of the file, without extension: an identifier in lower case.
        rust: Whether the algorithm is for the engine, in Rust, not in Python.

    Returns:
        Texts by file name, and lines that describe the next steps.

    Raises:
        ArgumentError: If the name is not an identifier in lower case.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ArgumentError(
            invalid("--congestion-control", name, "lower-case letters, digits and _, as in my_cc")
        )
    words = {"CLASS": "".join(word.title() for word in name.split("_"))}
    words |= {"NAME": name, "KEBAB": name.replace("_", "-")}

    def filled(file: str) -> str:
        text = (Path(__file__).parent / "starters" / file).read_text(encoding="utf-8")
        return re.sub("CLASS|NAME|KEBAB", lambda found: words[found[0]], text)

    if rust:
        return {f"{name}.rs": filled("congestion_control.rs.template")}, [
            f"Move {name}.rs to crates/lasthop-tcp/src/congestion_control/ and add this line to "
            "the list in mod.rs of that folder:",
            f"    {name}: {words['CLASS']}({words['CLASS']}Keys);",
            f"Test: cargo test -p lasthop-tcp {name}",
            f"Evaluate: make setup && lasthop evaluate {words['KEBAB']} --replications 5",
        ]
    files = {
        f"{name}.py": filled("congestion_control.py.template"),
        f"test_{name}.py": filled("test_congestion_control.py.template"),
    }
    evaluate = f"lasthop evaluate {name}.py:{words['CLASS']} --replications 5"
    return files, [f"Test: pytest test_{name}.py", f"Evaluate: {evaluate}"]


def starter(kind: str, name: str) -> str:
    """Returns a starter scenario as TOML text.

    Args:
        kind: One of `TEMPLATES`, or the name of a profile, which has its own comments.
        name: Name of the scenario.

    Raises:
        ValueError: If there is no such template.
    """
    if kind in profiles():
        head = f"#:schema ./{SCHEMA_FILE}\n"
        return head + profiles()[kind].text.replace(f'name = "{kind}"', f"name = {_quoted(name)}")
    skeleton = template(kind)
    scenario = tomllib.loads(skeleton)
    about, _, body = skeleton.partition("\n\n")
    lines = [f"#:schema ./{SCHEMA_FILE}", about, "#", *_comment(HOW_TO)]
    path: list[str] = []
    for line in body.splitlines():
        if header := re.fullmatch(r"\[(.+)\]", line):
            lines += _others(scenario, path)
            path = header[1].split(".")
            lines += ["", *_comment(_section(scenario, path)), line]
        elif (key := re.match(r"(\w+) = ", line)) and path != ["sweep"]:
            gap = [] if lines[-1].startswith("[") else [""]
            lines += [*gap, *_comment(_meaning(scenario, path, key[1])), line]
        elif line:
            lines.append(line)
    lines += _others(scenario, path)
    return "\n".join(lines).replace('"NAME"', _quoted(name)) + "\n"


HOW_TO = (
    "Run: lasthop run THIS-FILE. Explain: lasthop explain THIS-FILE. The first line is for "
    "editors: VS Code with the extension Even Better TOML completes keys and marks errors "
    f"(lasthop schema > {SCHEMA_FILE})."
)


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _comment(text: str) -> list[str]:
    wrapped = textwrap.wrap(text, WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return [f"# {line}" for line in wrapped]


@functools.cache
def _schema() -> Mapping[str, Any]:
    """Caches the schema, which is read for every key of a starter."""
    return schema()


def _node(scenario: Mapping[str, Any], path: list[str]) -> Mapping[str, Any]:
    """Returns the schema of the table at a path; of a union, the schema of the kind used."""
    node = _schema()
    value: Any = scenario
    for part in path:
        value = value[part]
        known = node.get("properties", {})
        node = known[part] if part in known else node["additionalProperties"]
        kinds = variants(node)
        for variant in kinds:
            if variant["properties"]["kind"]["const"] == value.get("kind"):
                node = {**variant, "about": node["description"], "kinds": kinds}
    return node


def _section(scenario: Mapping[str, Any], path: list[str]) -> str:
    if len(path) == 2 and path[0] in ("link", "flow", "wlan"):
        thing = "WLAN" if path[0] == "wlan" else path[0].capitalize()
        return f"{thing} named {path[1]}."
    node = _node(scenario, path)
    return str(node.get("about") or node["description"])


def _meaning(scenario: Mapping[str, Any], path: list[str], key: str) -> str:
    node = _node(scenario, path)
    known = node["properties"][key]
    text = str(known["description"])
    if "oneOf" in known:
        text += f" Kinds: {_kinds(variants(known))}."
    if key == "kind" and "kinds" in node:
        others = [variant for variant in node["kinds"] if variant["title"] != node["title"]]
        text += f" Other kinds: {_kinds(others)}."
    default = known.get("default")
    if isinstance(default, dict):
        default = default.get("kind")
    if default is not None:
        text += f" Default: {str(default).lower() if isinstance(default, bool) else default}."
    return text


def _kinds(variants: list[Mapping[str, Any]]) -> str:
    return ", ".join(variant["title"] for variant in variants)


def _others(scenario: Mapping[str, Any], path: list[str]) -> list[str]:
    """Returns a comment that lists the other keys of a table."""
    if not path or path == ["sweep"]:
        return []
    value: Any = scenario
    for part in path:
        value = value[part]
    others = [key for key in _node(scenario, path)["properties"] if key not in value]
    if not others:
        return []
    return ["", *_comment(f"Other keys of [{'.'.join(path)}]: {', '.join(others)}.")]
