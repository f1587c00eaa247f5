"""Changes of links at given times: a timeline file, for simulations and live runs.

```text
# time  change
5 s     set link.radio.rate=2 Mbps
8.5 s   set link.radio.delay=80 ms link.radio.rate=500 kbps
10 s    down 5 s radio
```

The changes become steps of the keys `rate` and `delay`, so that a simulation and a live run apply
them at the same nanosecond.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lasthop import _lasthop
from lasthop.scenarios.arguments import ArgumentError, unknown
from lasthop.scenarios.files import LARGEST_TEXT, read_bytes
from lasthop.scenarios.scenario import Scenario

__all__ = ["Change", "apply", "joined", "read"]

TIME = re.compile(r"\s*([0-9.]+\s*(?:ns|us|ms|s|min|h))\s+(.*)")
KEY = re.compile(r"link\.(.+?)(\.reverse)?\.(rate|delay)")
FORMS = (
    "`TIME set link.NAME.rate=VALUE`, `TIME set link.NAME.delay=VALUE` or `TIME down TIME [LINK]`"
)


@dataclass(frozen=True, slots=True)
class Change:
    """A change at a time.

    Attributes:
        time: Time since the start in nanoseconds.
        text: The change as given.
        settings: New values of keys.
        down: Duration in nanoseconds for which links do not transmit; 0: no interruption.
        link: The interrupted link; None: all links.
    """

    time: int
    text: str
    settings: Mapping[str, str]
    down: int = 0
    link: str | None = None


def joined(words: Sequence[str]) -> list[str]:
    """Joins values and times that contain a space: `set KEY=2 Mbps`, `down 5 s`."""
    found: list[str] = []
    for word in words:
        is_value = len(found) > 1 and found[0] == "set" and "=" not in word
        is_unit = found[:1] == ["down"] and len(found) == 2 and re.fullmatch(r"[0-9.]+", found[1])
        if is_value or is_unit:
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


def read(path: Path) -> list[Change]:
    """Reads a timeline.

    Raises:
        lasthop.scenarios.arguments.ArgumentError: If a line is malformed.
        OSError: If the file cannot be read.
    """
    changes = []
    try:
        lines = read_bytes(path, LARGEST_TEXT).decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise ArgumentError(f"{path}: invalid bytes: expected text in UTF-8") from None
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            changes.append(_change(text))
        except ValueError as error:
            raise ArgumentError(f"{path}:{number}: invalid change `{text}`: {error}") from None
    return sorted(changes, key=lambda change: change.time)


def _change(text: str) -> Change:
    parts = TIME.fullmatch(text)
    if parts is None:
        raise ValueError(f"expected {FORMS}")
    time = round(_lasthop.quantity("duration", parts[1]) * 1e9)
    words = joined(shlex.split(parts[2]))
    if words[:1] == ["set"] and len(words) > 1:
        settings = {}
        for word in words[1:]:
            key, equals, value = word.partition("=")
            if not equals or KEY.fullmatch(key) is None:
                raise ValueError(f"expected {FORMS}")
            settings[key] = value.strip()
        return Change(time, parts[2], settings)
    if words[:1] == ["down"] and len(words) in (2, 3):
        down = round(_lasthop.quantity("duration", words[1]) * 1e9)
        link = words[2].removeprefix("link.") if len(words) == 3 else None
        return Change(time, parts[2], {}, down, link)
    raise ValueError(f"expected {FORMS}")


def apply(scenario: Scenario, changes: Sequence[Change]) -> Scenario:
    """Returns the scenario with the changes as steps of its rates and delays.

    Raises:
        lasthop.scenarios.arguments.ArgumentError: If a link does not exist, or its rate or delay is
            swept, recorded or repeated.
        lasthop.ScenarioError: If a value is invalid.
    """
    tables = scenario.to_dict()
    links = json.loads(scenario.points()[0].to_json())["link"]
    settings: dict[str, Any] = {}
    keys = {key: None for change in changes for key in change.settings}
    for change in changes:
        if change.link is not None and change.link not in links:
            raise ArgumentError(unknown("link", change.link, links, "--timeline"))
        for name in links if change.down and change.link is None else [change.link]:
            if change.down:
                keys[f"link.{name}.rate"] = None
    for key in list(keys):
        parts = KEY.fullmatch(key)
        if parts is None or parts[1] not in links:
            name = "" if parts is None else parts[1]
            raise ArgumentError(unknown("link", name, links, "--timeline"))
        # An own rate of the reverse direction is interrupted, too.
        if parts[3] == "rate" and "rate" in links[parts[1]].get("reverse", {}):
            keys[f"link.{parts[1]}.reverse.rate"] = None
    for key in keys:
        settings[key] = _steps(key, links, tables, changes)
    return scenario.with_(settings) if settings else scenario


def _steps(
    key: str, links: Mapping[str, Any], tables: Mapping[str, Any], changes: Sequence[Change]
) -> dict[str, Any]:
    """Returns the steps of a key."""
    parts = KEY.fullmatch(key)
    assert parts is not None  # noqa: S101 - checked by the caller
    link, is_reverse, kind = parts[1], parts[2] is not None, parts[3]
    table = links[link]
    value = table.get("reverse", {}).get(kind, table[kind]) if is_reverse else table[kind]
    if key in tables.get("sweep", {}):
        raise ArgumentError(f"cannot change `{key}` by `--timeline`: it is swept")
    if isinstance(value, str):
        steps = [(0, value)]
    elif value["kind"] == "steps" and "repeat" not in value:
        steps = [(round(_lasthop.quantity("duration", at) * 1e9), v) for at, v in value["at"]]
    else:
        raise ArgumentError(
            f"cannot change `{key}` by `--timeline`: it is recorded or repeated; expected a "
            "constant value or steps without `repeat`"
        )
    steps += [(one.time, one.settings[key]) for one in changes if key in one.settings]
    steps.sort(key=lambda step: step[0])
    downs = [
        (one.time, one.time + one.down)
        for one in changes
        if kind == "rate" and one.down and one.link in (None, link)
    ]
    times = sorted({time for time, _ in steps} | {end for down in downs for end in down})
    at = []
    for time in times:
        present = [value for begin, value in steps if begin <= time][-1]
        is_down = any(begin <= time < end for begin, end in downs)
        at.append([f"{time} ns", "0 bps" if is_down else present])
    return {"kind": "steps", "at": at}
