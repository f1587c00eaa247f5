"""The rules of `deny.toml` for third-party crates, checked without cargo-deny."""

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RULES = tomllib.loads((ROOT / "deny.toml").read_text())


def packages() -> list[dict[str, Any]]:
    """The crates of the lock file, on all platforms."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    crates: list[dict[str, Any]] = json.loads(found)["packages"]
    return [crate for crate in crates if crate["source"] is not None]


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Returns whether an SPDX expression can be met with the allowed licences.

    AND and OR have their usual precedence; `/` is an old form of OR.
    """
    words = re.findall(
        r"[()]|AND|OR|(?:(?!\b(?:AND|OR)\b)[\w.+-]+ ?)+", expression.replace("/", " OR ")
    )
    python = [
        {"AND": "and", "OR": "or", "(": "(", ")": ")"}.get(
            word := text.strip(), str(word in allowed)
        )
        for text in words
    ]
    return bool(eval(" ".join(python), {"__builtins__": {}}))


def test_expressions_of_licences() -> None:
    allowed = {"MIT", "ISC", "Apache-2.0 WITH LLVM-exception"}
    for expression in ("MIT OR GPL-3.0", "(GPL-3.0 OR MIT) AND ISC", "Apache-2.0 / MIT"):
        assert is_allowed(expression, allowed), expression
    assert is_allowed("Apache-2.0 WITH LLVM-exception", allowed)
    for expression in ("GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0 OR (MIT AND GPL-3.0)"):
        assert not is_allowed(expression, allowed), expression


def test_all_crates_have_an_allowed_licence_and_come_from_the_registry() -> None:
    allowed = set(RULES["licenses"]["allow"])
    crates = packages()
    assert len(crates) > 50
    refused = {crate["name"]: crate["license"] for crate in crates}
    refused = {name: text for name, text in refused.items() if not is_allowed(text or "", allowed)}
    assert not refused
    assert {crate["source"] for crate in crates} == {
        "registry+https://github.com/rust-lang/crates.io-index"
    }


def test_duplicate_versions_are_listed_with_a_reason() -> None:
    versions: dict[str, set[str]] = {}
    for crate in packages():
        versions.setdefault(crate["name"], set()).add(crate["version"])
    skipped = [rule["crate"].split("@") for rule in RULES["bans"]["skip"]]
    for name, version in skipped:
        # A rule that no crate needs is removed.
        own = versions.get(name, set())
        matches = {one for one in own if one.startswith(f"{version}.")}
        assert matches, f"{name}@{version}"
        versions[name] = own - matches
    assert not {name: own for name, own in versions.items() if len(own) > 1}
