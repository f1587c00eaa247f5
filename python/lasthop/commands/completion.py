"""Completion of command lines in bash, zsh, fish and PowerShell, by `argcomplete`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import argcomplete
from argcomplete.shell_integration import shellcode

from lasthop.commands import parsing
from lasthop.commands.app import COMMANDS, command
from lasthop.commands.declarations import Group
from lasthop.commands.values import BadInput

__all__ = ["complete", "install", "show"]

START_FILES = {"bash": ".bashrc", "zsh": ".zshrc", "fish": ".config/fish/config.fish"}
SHELLS = (*START_FILES, "powershell")


def complete() -> None:
    """Writes the completions of the command line in the environment, and exits.

    Only the module of the command on this line is imported.
    """
    words = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])].split(" ")
    parser = parsing.new_parser("lasthop")
    parsers = parser.add_subparsers()
    for one in COMMANDS:
        own = parsers.add_parser(one.name, help=one.about, add_help=False)
        if one.name not in words[1:-1]:
            continue
        found = command(one.name)
        if isinstance(found, Group):
            inner = own.add_subparsers()
            for name, function in found.commands.items():
                parsing.fill(inner.add_parser(name, add_help=False), function)
        else:
            parsing.fill(own, found)
    argcomplete.autocomplete(parser, always_complete_options=False)


def show(shell: str) -> None:
    """Prints the shell script that enables completion.

    Args:
        shell: Name of the shell; empty: the current one.
    """
    sys.stdout.write(shellcode(["lasthop"], shell=_known(shell, SHELLS)))


def install(shell: str) -> None:
    """Adds a line that enables completion to the start file of a shell.

    Args:
        shell: Name of the shell; empty: the current one.
    """
    shell = _known(shell, tuple(START_FILES))
    line = f'eval "$(lasthop --show-completion={shell})"'
    if shell == "fish":
        line = "lasthop --show-completion=fish | source"
    file = Path.home() / START_FILES[shell]
    file.parent.mkdir(parents=True, exist_ok=True)
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    if line not in before.splitlines():
        end = "" if before.endswith("\n") or not before else "\n"
        file.write_text(f"{before}{end}{line}\n", encoding="utf-8")
    sys.stdout.write(f"completion is enabled by a line in {file}; start a new shell\n")


def _known(shell: str, known: tuple[str, ...]) -> str:
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in known:
        raise BadInput(
            f"unknown shell `{name}`: expected `--show-completion=SHELL` with one of "
            f"{', '.join(known)}"
        )
    return name
