"""The commands `new`, `check`, `explain`, `schema` and `list`."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Annotated

from lasthop.commands.codes import DONE
from lasthop.commands.common import (
    Changes,
    File,
    load,
    load_for_live,
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
) -> int:
    """Write a starter scenario with a comment on each key, and the schema for editors."""
    name = (template if name is None else name).strip().removesuffix(".toml")
    if not name.isprintable() or not name:
        raise BadInput(invalid("NAME", repr(name)[1:-1], "non-empty printable text"))
    with options():
        text = starter.starter(template, name)
    slug = re.sub(r"[^\w-]+", "-", name).strip("-")
    path = out or Path(f"{slug or template}.toml")
    if os.path.lexists(path) and not force:
        raise BadInput(f"cannot write `{path}`: file exists; use `--force` to overwrite it")
    schema_file = path.parent / starter.SCHEMA_FILE
    files = {path: text}
    if not os.path.lexists(schema_file):
        files[schema_file] = _schema_text() + "\n"
    for target, content in files.items():
        try:
            write(target, content)
        except OSError as error:
            if error.errno in IS_FULL:
                raise
            raise BadInput(f"cannot write `{target}`: {error.strerror or error}") from None
        print_line(str(target))
    return DONE


def explain_(
    file: File,
    *,
    point: Annotated[int, Option(min=0, help="Point of the sweep.")] = 0,
    changes: Changes = None,
) -> int:
    """Explain a scenario with all defaults, or the runs of a folder of `--store`."""
    if (file / "ledger.sqlite").is_file():
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
