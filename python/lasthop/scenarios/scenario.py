"""Scenarios as Python objects. Keys and values are validated by the engine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from lasthop import _lasthop
from lasthop.scenarios.arguments import warn_renamed
from lasthop.scenarios.files import LARGEST_TEXT, read_bytes

__all__ = ["Scenario", "as_scenario", "assign", "inline_toml", "load", "schema"]


class Scenario:
    """A scenario, optionally with a sweep; immutable.

    Build it from a file (`load`), from TOML text (`Scenario.from_toml`) or from a mapping with the
    same keys and values as the file (`Scenario(...)`). Values are read by dotted keys:
    `scenario["link.wireless.rate"]`.

    Raises:
        lasthop.ScenarioError: From every method that creates a scenario; the message states the
            key, the value found and the values accepted.
    """

    __slots__ = ("_base", "_document")

    def __init__(self, mapping: Mapping[str, Any], *, base: str | Path = ".") -> None:
        """Creates a scenario from a mapping.

        Args:
            mapping: Nested tables as in a scenario file.
            base: Folder that file names in the scenario are relative to.
        """
        self._base = str(base)
        try:
            text = json.dumps(mapping, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise _lasthop.ScenarioError(
                f"invalid value in scenario ({error}): "
                "expected tables, lists, text, finite numbers, true or false"
            ) from None
        self._document = _lasthop.Document.from_json(text, self._base)
        for text in self._document.notes:
            warn_renamed(text)

    @classmethod
    def _of(cls, document: _lasthop.Document, base: str, known: int = 0) -> Scenario:
        """Creates a scenario from its document, of whose notes the first `known` were shown."""
        for text in document.notes[known:]:
            warn_renamed(text)
        scenario = cls.__new__(cls)
        scenario._document = document
        scenario._base = base
        return scenario

    def __reduce__(self) -> tuple[Any, ...]:
        # The engine's document is recreated from its tables.
        return _restored, (self.to_dict(), self._base)

    @property
    def base(self) -> str:
        """Folder that file names in the scenario are relative to."""
        return self._base

    @classmethod
    def from_toml(cls, text: str, *, base: str | Path = ".") -> Scenario:
        """Reads TOML text; `base` as for the constructor."""
        return cls._of(_lasthop.Document.from_toml(text, str(base)), str(base))

    @classmethod
    def from_file(cls, path: str | Path, *, defaults: Mapping[str, Any] | None = None) -> Scenario:
        """Reads a TOML file, or a JSON file if its name ends in `.json`.

        Args:
            path: The file.
            defaults: Tables whose keys complete the file.

        Raises:
            OSError: If the file cannot be read.
        """
        path = Path(path)
        data = read_bytes(path, LARGEST_TEXT, pipes=True)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _lasthop.ScenarioError(
                f"{path}: invalid text ({error.reason} at byte {error.start}): expected UTF-8"
            ) from None
        added = None if defaults is None else json.dumps(defaults)
        document = _lasthop.Document.from_file_text(text, str(path), added)
        return cls._of(document, str(path.parent))

    def to_dict(self) -> dict[str, Any]:
        """Returns the scenario as nested tables, with the keys and values of its file."""
        value: dict[str, Any] = json.loads(self._document.to_json())
        return value

    def __getitem__(self, key: str) -> Any:
        """Returns the value of a dotted key, without defaults.

        Raises:
            KeyError: If the scenario does not set the key.
        """
        value: Any = self.to_dict()
        for part in key.split("."):
            if not isinstance(value, dict) or part not in value:
                raise KeyError(key)
            value = value[part]
        return value

    def with_(self, changes: Mapping[str, Any] | None = None, /, **keys: Any) -> Scenario:
        """Returns a copy with dotted keys changed.

        Text is parsed as on the command line (`--set`): `"64 kbps"` is text, `"8"` a number. A
        changed key is no longer swept.

            scenario.with_({"link.wireless.errors.bad": "200 ms", "run.replications": 10})
        """
        document = self._document
        for key, value in {**(changes or {}), **keys}.items():
            document = document.with_key(
                key, value if isinstance(value, str) else inline_toml(value)
            )
        return Scenario._of(document, self._base, len(self._document.notes))

    def place(self, key: str) -> str | None:
        """Returns the place of a dotted key in the scenario's file, as `FILE:LINE`.

        The place of a key that is absent is that of its table. `None` if the scenario was not read
        from a file, or the key was changed later.
        """
        return self._document.place(key)

    def set(self, key: str, value: Any) -> Scenario:
        """Returns a copy with one dotted key changed; see `with_`."""
        return self.with_({key: value})

    def sweep(self, sweep: Mapping[str, Any] | None = None, /, **keys: Any) -> Scenario:
        """Returns a copy that sweeps dotted keys over lists of values or ranges, as a full grid.

        Keys that are already swept remain, unless they are given again. `zip` and `case` have the
        meaning of the file format:

            scenario.sweep({"link.wireless.delay": {"from": "1 ms", "to": "9 ms", "step": "2 ms"}})
            scenario.sweep(zip=[{"link.wireless.rate": rates, "link.wireless.delay": delays}])
            scenario.sweep(case={"slow": {"link.wireless.rate": "64 kbps"}, "plain": {}})
        """
        tables = self.to_dict()
        axes = tables.setdefault("sweep", {})
        for key, values in {**(sweep or {}), **keys}.items():
            axes[key] = _tables(values)
        return Scenario(tables, base=self._base)

    def points(self) -> list[_lasthop.Point]:
        """Returns the resolved points in sweep order; the last swept key varies fastest."""
        return self._document.points()

    @property
    def name(self) -> str:
        """Name of the scenario; empty if it is unnamed."""
        return str(self.to_dict().get("name", ""))

    def __repr__(self) -> str:
        return f"<Scenario {self.name!r}>"

    def _repr_html_(self) -> str:
        """Returns the keys and values as HTML for notebooks."""
        from lasthop.showing.html import scenario_html

        return scenario_html(self)


def _tables(value: Any) -> Any:
    """Converts mappings to dicts, other iterables to lists, and NumPy numbers to Python's."""
    match value:
        case Mapping():
            return {key: _tables(one) for key, one in value.items()}
        case Iterable() if not isinstance(value, str):
            return [_tables(one) for one in value]
        case bool():
            return value
        case Integral():
            return int(value)
        case Real():
            return float(value)
    return value


def inline_toml(given: Any) -> str:
    """Returns a value as TOML on one line."""
    match value := _tables(given):
        case bool() | str():
            return json.dumps(value, ensure_ascii=False)
        case int() | float():
            return repr(value)
        case Mapping():
            pairs = ", ".join(
                f"{_key(name)} = {inline_toml(child)}" for name, child in value.items()
            )
            return f"{{ {pairs} }}"
        case list():
            return f"[{', '.join(map(inline_toml, value))}]"
    raise _lasthop.ScenarioError(
        f"invalid value `{value!r}` in scenario: "
        "expected tables, lists, text, numbers, true or false"
    )


def _key(name: str) -> str:
    """Returns a key as TOML: without quotes if possible."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def assign(tables: dict[str, Any], key: str, value: Any) -> None:
    """Sets the value of a dotted key in nested tables."""
    *parents, last = key.split(".")
    for number, part in enumerate(parents):
        child = tables.setdefault(part, {})
        if not isinstance(child, dict):
            path = ".".join(parents[: number + 1])
            raise _lasthop.ScenarioError(
                f"cannot set `{key}`: invalid value `{child!r}` for `{path}`: expected a table"
            )
        tables = child
    tables[last] = value


def load(path: str | Path) -> Scenario:
    """Reads a scenario file (TOML; JSON if its name ends in `.json`).

    Raises:
        lasthop.ScenarioError: If the scenario is refused.
        OSError: If the file cannot be read.
    """
    return Scenario.from_file(path)


def as_scenario(given: Scenario | Mapping[str, Any] | str | Path) -> Scenario:
    """Returns a scenario, given the object, its tables, or the path of its file.

    Raises:
        lasthop.ScenarioError: If the scenario is refused.
        OSError: If the file cannot be read.
    """
    if isinstance(given, Scenario):
        return given
    return load(given) if isinstance(given, (str, Path)) else Scenario(given)


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of scenarios."""
    value: dict[str, Any] = json.loads(_lasthop.schema())
    return value


def _restored(tables: Mapping[str, Any], base: str) -> Scenario:
    """Restores a pickled scenario."""
    return Scenario(tables, base=base)
