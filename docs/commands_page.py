"""Writes the page of all commands with their options, which is also the man page `lasthop(1)`."""

from collections.abc import Callable, Iterator

from lasthop.commands.app import COMMANDS, command
from lasthop.commands.declarations import Group
from lasthop.commands.parsing import parameters


def page() -> str:
    """The page, in Markdown."""
    parts = [
        "# All commands\n",
        "The output of `lasthop COMMAND --help` for all commands; see [](cli.md) for their use.\n",
        "Exit codes: 0 success, 1 failure, 2 invalid input, 3 not modelled (`tcp-script`), 130 "
        "interrupted.\n",
    ]
    for one in COMMANDS:
        found = command(one.name)
        if isinstance(found, Group):
            for name, each in found.commands.items():
                parts += _section(f"{one.name} {name}", each)
        else:
            parts += _section(one.name, found)
    return "\n".join(parts)


def _section(name: str, function: Callable[..., int]) -> Iterator[str]:
    found = parameters(function)
    words = " ".join(one.metavar for one in found if one.option is None)
    yield f"## {name}\n"
    yield f"`lasthop {name} [OPTIONS]{' ' if words else ''}{words}`\n"
    yield " ".join((function.__doc__ or "").split()) + "\n"
    for one in found:
        if one.option is None and one.about.help:
            yield f"`{one.metavar}`\n: {_plain(one.about.help)}\n"
    for one in found:
        if one.option is not None:
            value = "" if one.kind is bool else f" {one.metavar}"
            yield f"`{one.option}{value}`\n: {_plain(one.about.help)}\n"


def _plain(text: str) -> str:
    """Text with escaped Markdown markup."""
    words = " ".join(text.split())
    return words.replace("*", "\\*").replace("_", "\\_").replace("[", "\\[")
