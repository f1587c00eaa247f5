"""The commands `new`, `check`, `explain`, `schema` and `list`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from lasthop.commands.codes import DONE
from lasthop.commands.common import (
    Changes,
    File,
    load,
    load_for_live,
    note,
    options,
    print_line,
    write,
)
from lasthop.commands.declarations import Argument, Option
from lasthop.commands.values import BadInput, as_path
from lasthop.running.writing import IS_FULL
from lasthop.scenarios import catalogue, starter
from lasthop.scenarios import scenario as scenarios
from lasthop.scenarios.arguments import invalid

__all__ = ["check", "explain_", "list_", "new", "schema"]


def check(file: File, *, changes: Changes = None) -> int:
    """Check whether a scenario is valid; report the invalid key and the accepted values."""
    scenario, has_flows = load_for_live(file, changes)
    points = scenario.points()
    text = f"{file}: valid, {len(points)} point{'s' if len(points) != 1 else ''}"
    print_line(text if has_flows else f"{text}; without flows, for `lasthop live` only")
    return DONE


def schema() -> int:
    """Print the JSON Schema of scenarios for editors."""
    print_line(_schema_text())
    return DONE


def _schema_text() -> str:
    return json.dumps(scenarios.schema(), indent=2, ensure_ascii=False)


def new(
    name: Annotated[
        str | None,
        Argument(
            metavar="[NAME]", help="Name of the scenario, or NAME.toml; default: the template's."
        ),
    ] = None,
    *,
    template: Annotated[str, Option(help="|".join(starter.TEMPLATES) + ", or a profile.")] = "file",
    out: Annotated[
        Path | None,
        Option(parser=as_path, metavar="FILE", help="Output file; default: NAME.toml."),
    ] = None,
    force: Annotated[bool, Option("--force", help="Overwrite an existing file.")] = False,
    congestion_control: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Write a congestion control in Python and its test, NAME.py and test_NAME.py, "
            "and print the command that evaluates it, instead of a scenario.",
        ),
    ] = None,
    rust: Annotated[
        bool, Option("--rust", help="With --congestion-control: write NAME.rs for the engine.")
    ] = False,
) -> int:
    """Write a starter scenario with a comment on each key, and the schema for editors."""
    if congestion_control is not None:
        if name is not None or out is not None:
            raise BadInput("`--congestion-control NAME` excludes the arguments NAME and `--out`")
        with options():
            texts, steps = starter.congestion_control(congestion_control, rust=rust)
        _write_new({Path(file): text for file, text in texts.items()}, force=force)
        for step in steps:
            note(step)
        return DONE
    if rust:
        raise BadInput("`--rust` requires `--congestion-control NAME`")
    name = (template if name is None else name).strip().removesuffix(".toml")
    if not name.isprintable() or not name:
        raise BadInput(invalid("NAME", repr(name)[1:-1], "non-empty printable text"))
    with options():
        text = starter.starter(template, name)
    slug = re.sub(r"[^\w-]+", "-", name).strip("-")
    path = out or Path(f"{slug or template}.toml")
    schema_file = path.parent / starter.SCHEMA_FILE
    files = {path: text}
    if not os.path.lexists(schema_file):
        files[schema_file] = _schema_text() + "\n"
    _write_new(files, force=force)
    return DONE


def _write_new(files: Mapping[Path, str], *, force: bool) -> None:
    for path in files:
        if os.path.lexists(path) and not force:
            raise BadInput(f"cannot write `{path}`: file exists; use `--force` to overwrite it")
    for target, content in files.items():
        try:
            write(target, content)
        except OSError as error:
            if error.errno in IS_FULL:
                raise
            raise BadInput(f"cannot write `{target}`: {error.strerror or error}") from None
        print_line(str(target))


def explain_(
    file: File,
    *,
    point: Annotated[int, Option(min=0, help="Point of the sweep.")] = 0,
    changes: Changes = None,
) -> int:
    """Explain a scenario with all defaults, or the runs of a folder of `--store`."""
    if file.is_dir():
        from lasthop.commands.stores import describe

        return describe(file)
    from lasthop.scenarios.explain import explain

    scenario = load(file, changes)
    with options():
        print_line(explain(scenario, point=point))
    return DONE


def list_(
    category: Annotated[
        str | None,
        Argument(metavar="[CATEGORY]", help="|".join(catalogue.CATEGORIES)),
    ] = None,
) -> int:
    """List the components of scenarios, the metrics and the studies."""
    from lasthop.showing import terminal

    try:
        tables = [
            terminal.show_list(name, catalogue.catalogue(name))
            for name in ([category] if category else catalogue.CATEGORIES)
        ]
    except ValueError as error:
        raise BadInput(str(error)) from None
    out = terminal.console()
    for table in tables:
        out.print(table)
    return DONE
