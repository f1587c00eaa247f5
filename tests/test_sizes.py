"""Sizes of files, functions and structs: at most 600 and 100 lines and 25 fields, except with a
reason."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILE_LINES = 600
FUNCTION_LINES = 100
STRUCT_FIELDS = 25
RUST_FUNCTION = re.compile(r"( *)(?:pub(?:\([^)]*\))? )?(?:(?:const|unsafe) )*fn (\w+)")
RUST_STRUCT = re.compile(r"( *)(?:pub(?:\([^)]*\))? )?struct (\w+).*\{$")
# Files and functions above the limits, each with the reason.
LONG: dict[str, str] = {}
# Structs with more fields, each with the reason.
LARGE = {
    "TcpInfo": "one field for each value of `tcp_info`",
    "WlanKeys": "one field for each key of a table",
    "World": "the kinds of entities of a replication, which are borrowed separately",
}


def sources() -> list[Path]:
    """The Rust and Python files of the repository."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "*.rs", "*.py"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for name in names.splitlines() if (path := ROOT / name).is_file()]


def rust_functions(lines: list[str]) -> Iterator[tuple[str, int]]:
    """Names and lengths of functions; rustfmt aligns the last brace with the first line."""
    for start, line in enumerate(lines):
        if "fn " in line and (found := RUST_FUNCTION.match(line)):
            last = found[1] + "}"
            ends = (end for end in range(start, len(lines)) if lines[end].startswith(last))
            is_declared = line.endswith((";", "}"))
            yield found[2], 1 if is_declared else next(ends, start) - start + 1


def rust_structs(lines: list[str]) -> Iterator[tuple[str, int]]:
    """Names and numbers of fields of structs."""
    for start, line in enumerate(lines):
        if "struct " in line and (found := RUST_STRUCT.match(line)):
            field = re.compile(found[1] + r"    (?:pub(?:\([^)]*\))? )?(?:r#)?\w+: ")
            body = itertools.takewhile(lambda one: one != found[1] + "}", lines[start + 1 :])
            yield found[2], sum(map(bool, map(field.match, body)))


def python_functions(text: str) -> Iterator[tuple[str, int]]:
    """Names and lengths of bodies: the parameters of a command declare its options."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[
                1 if ast.get_docstring(node, clean=False) and len(node.body) > 1 else 0
            ]
            yield node.name, (node.end_lineno or 0) - first.lineno + 1


def test_files_and_functions_are_short() -> None:
    long = set()
    functions = 0
    for path in sources():
        name, text = path.relative_to(ROOT).as_posix(), path.read_text()
        if len(text.splitlines()) > FILE_LINES:
            long.add(name)
        rust = path.suffix == ".rs"
        found = rust_functions(text.splitlines()) if rust else python_functions(text)
        for function, lines in found:
            functions += 1
            if lines > FUNCTION_LINES:
                long.add(f"{name}: {function}")
    assert functions > 5_000, "the functions are not found"
    assert sorted(long - set(LONG)) == []
    assert sorted(set(LONG) - long) == [], "exceptions that are not needed"


def test_structs_have_few_fields() -> None:
    found = [
        (name, fields)
        for path in sources()
        if path.suffix == ".rs"
        for name, fields in rust_structs(path.read_text().splitlines())
    ]
    assert len(found) > 500, "the structs are not found"
    assert sorted({name for name, fields in found if fields > STRUCT_FIELDS}) == sorted(LARGE)
