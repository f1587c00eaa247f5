"""Starter scenarios: short files whose comments say what each key means and what else is allowed.

A template is a scenario without comments; what the comments say comes from the engine's own
descriptions, which the JSON Schema carries.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Mapping
from typing import Any

from lasthop.arguments import ArgumentError
from lasthop.catalogue import variants
from lasthop.scenario import schema

__all__ = ["SCHEMA_FILE", "TEMPLATES", "starter"]

SCHEMA_FILE = "lasthop.schema.json"
"""Where the first line of a starter expects the JSON Schema, beside the scenario."""

WIDTH = 98

FILE = """
# One file over one lossy link, with three rates of loss.

name = "NAME"

[link.radio]
between = ["server", "phone"]
rate = "2 Mbps"
delay = "20 ms"
queue = "50 packets"
protocol = { kind = "raw" }

[link.radio.errors]
kind = "uniform"
loss = "1 %"

[flow.download]
from = "server"
to = "phone"

[flow.download.transport]
kind = "tcp"
profile = "linux"
variant = "cubic"

[flow.download.app]
kind = "file"
size = "1 MB"

[sweep]
"link.radio.errors.loss" = ["0.1 %", "1 %", "5 %"]

[run]
replications = 10
seed = 1
"""

WEB = """
# Web pages over a fast link and a slow, lossy one that repairs its losses or does not.

name = "NAME"

[link.backbone]
between = ["server", "base"]
rate = "10 Mbps"
delay = "5 ms"

[link.radio]
between = ["base", "phone"]
rate = "1 Mbps"
delay = "20 ms"

[link.radio.errors]
kind = "gilbert-elliott"
mean_loss = "3 %"
mean_burst = 4

[link.radio.protocol]
kind = "selective-repeat"
window = 32

[flow.browsing]
from = "server"
to = "phone"

[flow.browsing.transport]
kind = "tcp"
profile = "linux"
variant = "cubic"

[flow.browsing.app]
kind = "web"
connections = 4

[sweep]
"link.radio.protocol" = [{ kind = "raw" }, { kind = "selective-repeat", window = 32 }]

[run]
duration = "300 s"
replications = 10
seed = 1
"""

SPEECH = """
# A telephone call over a narrow lossy link: how much is lost, how much comes too late?

name = "NAME"

[link.radio]
between = ["exchange", "phone"]
rate = "64 kbps"
delay = "50 ms"

[link.radio.errors]
kind = "two-state"
good = "1 s"
bad = "100 ms"
good_ber = 1e-6
bad_ber = 1e-2

[link.radio.protocol]
kind = "oos-rlp"
retransmissions = 1

[flow.call]
from = "exchange"
to = "phone"

[flow.call.transport]
kind = "udp"

[flow.call.app]
kind = "media"
rate = "9.6 kbps"
packet = "60 B"
deadline = "300 ms"

[sweep]
"link.radio.protocol" = [
    { kind = "raw" },
    { kind = "xor-fec", block = 4 },
    { kind = "oos-rlp", retransmissions = 1 },
]

[run]
duration = "300 s"
replications = 10
seed = 1
"""

RADIO = """
# A file over a fading radio link: which error control of the link helps TCP, which hurts it?

name = "NAME"

[link.backbone]
between = ["server", "base"]
rate = "10 Mbps"
delay = "5 ms"

[link.radio]
between = ["base", "phone"]
rate = "384 kbps"
delay = "40 ms"

[link.radio.errors]
kind = "two-state"
good = "5 s"
bad = "100 ms"
good_ber = 1e-6
bad_ber = 1e-2

[link.radio.protocol]
kind = "selective-repeat"
window = 32

[flow.download]
from = "server"
to = "phone"

[flow.download.transport]
kind = "tcp"
profile = "linux"
variant = "cubic"
segment = "500 B"

[flow.download.app]
kind = "file"
size = "500 kB"

[sweep]
"link.radio.protocol" = [
    { kind = "raw" },
    { kind = "karn-rlp", retransmissions = 3 },
    { kind = "go-back-n", window = 32 },
    { kind = "selective-repeat", window = 32 },
]
"link.radio.errors.bad" = ["100 ms", "500 ms"]

[run]
replications = 10
seed = 1
"""

WLAN = """
# Downloads over an access point of IEEE 802.11: what do collisions, noise and retry limits cost?

name = "NAME"

[link.wire]
between = ["server", "ap"]
rate = "100 Mbps"
delay = "10 ms"

[wlan.cell]
access_point = "ap"
stations = ["laptop", "phone"]
standard = "802.11b"
rate = "11 Mbps"
short_retry_limit = 7

[wlan.cell.errors]
kind = "bit"
ber = 1e-5

[flow.laptop]
from = "server"
to = "laptop"

[flow.laptop.transport]
kind = "tcp"
profile = "linux"
variant = "cubic"

[flow.laptop.app]
kind = "file"
size = "2 MB"

[flow.phone]
from = "server"
to = "phone"

[flow.phone.transport]
kind = "tcp"
profile = "linux"
variant = "cubic"

[flow.phone.app]
kind = "file"
size = "2 MB"

[sweep]
"wlan.cell.short_retry_limit" = [1, 2, 4, 7]

[run]
replications = 10
seed = 1
"""

TEMPLATES: Mapping[str, str] = {
    "file": FILE,
    "web": WEB,
    "speech": SPEECH,
    "radio": RADIO,
    "wlan": WLAN,
}
"""The starters by name, without the comments on their keys."""


def starter(template: str, name: str) -> str:
    """A starter scenario as TOML text.

    Args:
        template: One of `TEMPLATES`.
        name: What the scenario is called.

    Raises:
        ValueError: If there is no such template.
    """
    if template not in TEMPLATES:
        allowed = ", ".join(TEMPLATES)
        raise ArgumentError(f"template: found {template!r}; allowed: {allowed}")
    skeleton = TEMPLATES[template].strip()
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
    "Run it: lasthop run THIS-FILE. See what it is: lasthop explain THIS-FILE. Editors read the "
    "first line: VS Code with the extension Even Better TOML then completes keys and marks "
    f"mistakes (lasthop schema > {SCHEMA_FILE})."
)


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _comment(text: str) -> list[str]:
    wrapped = textwrap.wrap(text, WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return [f"# {line}" for line in wrapped]


def _node(scenario: Mapping[str, Any], path: list[str]) -> Mapping[str, Any]:
    """The schema of the table at a path; of a union, that of the kind that stands there."""
    node: Mapping[str, Any] = schema()
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
        return f"{thing}s by name; this one is called {path[1]}."
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
    """The keys that a table may have besides, as a comment."""
    if not path or path == ["sweep"]:
        return []
    value: Any = scenario
    for part in path:
        value = value[part]
    others = [key for key in _node(scenario, path)["properties"] if key not in value]
    return ["", *_comment(f"Also in [{'.'.join(path)}]: {', '.join(others)}.")] if others else []
