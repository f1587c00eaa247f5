"""Writes the page of all commands with their options, which is also the man page `lasthop(1)`."""

from collections.abc import Iterator
from enum import Enum
from typing import Any

from lasthop.commands.app import COMMANDS, _command


def page() -> str:
    """The page, in Markdown."""
    parts = [
        "# All commands\n",
        "The output of `lasthop COMMAND --help` for all commands; see [](cli.md) for their use.\n",
        "Exit codes: 0 success, 1 failure, 2 invalid input, 3 not modelled (`tcp-script`), 130 "
        "interrupted.\n",
    ]
    for one in COMMANDS:
        command: Any = _command(one.name)
        inner = getattr(command, "commands", None)
        if inner:
            for name, each in inner.items():
                parts += _section(f"{one.name} {name}", each)
        else:
            parts += _section(one.name, command)
    return "\n".join(parts)


def _section(name: str, command: Any) -> Iterator[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    words = " ".join(_metavar(one) for one in arguments)
    yield f"## {name}\n"
    yield f"`lasthop {name} [OPTIONS]{' ' if words else ''}{words}`\n"
    yield " ".join((command.help or "").split()) + "\n"
    for one in arguments:
        if one.help:
            yield f"`{_metavar(one)}`\n: {_plain(one.help)}\n"
    for one in options:
        if not one.hidden:
            value = "" if one.is_flag else f" {_metavar(one)}"
            yield f"`{', '.join(one.opts)}{value}`\n: {_plain(one.help or '')}\n"


def _metavar(one: Any) -> str:
    if one.metavar:
        return str(one.metavar)
    kind = one.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(each.value) for each in kind)
    return {int: "N", float: "NUMBER"}.get(kind, one.name.upper())


def _plain(text: str) -> str:
    """Text with escaped Markdown markup."""
    words = " ".join(text.split())
    return words.replace("*", "\\*").replace("_", "\\_").replace("[", "\\[")
