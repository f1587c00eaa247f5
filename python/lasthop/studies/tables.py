"""Reading the data of studies: tables, names, patterns of keys, vague words of papers."""

from __future__ import annotations

import functools
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np

from lasthop.evaluating.statistics import Floats
from lasthop.studies.models import matches

__all__ = [
    "first_match",
    "jain_index",
    "matching_keys",
    "normalized",
    "read_table",
    "standard_deviation",
    "value_of_row",
    "words",
]


def value_of_row(row: str) -> float:
    """The value of a row's label."""
    value = float(row)
    return int(value) if value.is_integer() else value


def standard_deviation(samples: Floats) -> float:
    """Returns the standard deviation; NaN for fewer than two samples."""
    values = samples[~np.isnan(samples)]
    return float(np.std(values, ddof=1)) if values.size > 1 else math.nan


def first_match(tables: Sequence[Mapping[str, Any]], where: Mapping[str, Any], key: str) -> Any:
    """Returns the key of the first table whose `when` matches."""
    return next(table[key] for table in tables if matches(table.get("when", {}), where))


def jain_index(total: Floats, squares: Floats, count: int) -> Floats:
    """Returns Jain's fairness index of `count` shares, from their sum and sum of squares."""
    index: Floats = total**2 / (count * squares)
    return index


def matching_keys(tables: Mapping[str, Any], pattern: str) -> list[str]:
    """Returns the dotted keys that a pattern matches: parts with `*` match existing tables."""
    first, dot, rest = pattern.partition(".")
    names = [name for name in tables if fnmatchcase(name, first)] if "*" in first else [first]
    if not dot:
        return names
    found = []
    for name in names:
        child = tables.get(name)
        found += [
            f"{name}.{key}" for key in matching_keys(child if isinstance(child, dict) else {}, rest)
        ]
    return found


def read_table(folder: Traversable, name: str) -> dict[str, Any]:
    """Reads a TOML file of a study."""
    return tomllib.loads((folder / name).read_text(encoding="utf-8"))


_ROMAN = {"i": "1", "ii": "2", "iii": "3", "iv": "4", "v": "5", "vi": "6", "vii": "7", "viii": "8"}


def normalized(name: str) -> str:
    """Returns the name of a table or figure as papers vary it: `Fig. IV` is `figure 4`."""
    words = re.findall(r"[a-z]+|[0-9]+", name.lower())
    return " ".join(_ROMAN.get(word, {"fig": "figure"}.get(word, word)) for word in words)


@functools.cache
def words() -> Mapping[str, float]:
    """Returns the numbers for the vague words of papers in all studies (`papers/words.toml`)."""
    tables = read_table(resources.files("lasthop.papers"), "words.toml")
    return {name: table["value"] for name, table in tables.items()}
