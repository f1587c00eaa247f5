"""Values of options that several commands share: files, folders, pictures, quantities.

Invalid values are refused before a simulation starts: ``invalid value `V` for `--option`: expected
E``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Container, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, overload

from lasthop import _lasthop
from lasthop.commands.declarations import Option
from lasthop.commands.output import printable
from lasthop.scenarios.arguments import Refused, invalid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "BadInput",
    "BadValue",
    "Plot",
    "TableOrJson",
    "as_folder",
    "as_path",
    "as_picture",
    "of_option",
    "quantity",
    "save_picture",
    "seconds",
    "with_options",
]

PICTURES = ".png, .pdf or .svg"


class BadInput(Refused):
    """An argument, option or input file is invalid."""


class BadValue(Refused):
    """A value that an option or argument does not accept; `parsing` adds its name."""

    def __init__(self, value: object, expected: str) -> None:
        super().__init__(f"invalid value `{value}`: expected {expected}")
        self.value, self.expected = value, expected


class TableOrJson(StrEnum):
    """Output formats of results that are not a table of rows."""

    table = "table"
    json = "json"


def as_path(text: str | Path) -> Path:
    """Reads the name of a file or folder; a leading `~` is the home folder.

    A shell expands `~` only at the start of a word, not in `--out=~/results`.
    """
    name = os.fspath(text)
    if not name.strip():
        raise BadValue(name, "the name of a file or folder")
    # `Path.expanduser` fails if `~name` is a file, not a user.
    return Path(os.path.expanduser(name))  # noqa: PTH111


def as_folder(text: str | Path) -> Path:
    """Reads the name of a folder, which must be valid UTF-8 because databases store it."""
    path = as_path(text)
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise BadValue(ascii(str(path))[1:-1], "a name in UTF-8") from None
    return path


def as_picture(text: str | Path) -> Path:
    """Reads the name of a picture in a writable folder; its suffix selects the format."""
    path = as_path(text)
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise BadValue(path, f"a name that ends in {PICTURES}")
    if not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        raise BadValue(path, "a file in an existing, writable folder")
    return path


Plot = Annotated[
    Path | None,
    Option("--plot", parser=as_picture, metavar="FILE", help=f"Also draw a figure ({PICTURES})."),
]


def save_picture(figure: Figure, path: Path) -> None:
    """Writes a picture in the format of its suffix and reports its name on standard error."""
    from lasthop.showing.figures import style

    for written in style.save(figure, path.with_suffix(""), path.suffix.lower().lstrip(".")):
        sys.stderr.write(f"written to {printable(str(written))}\n")


@overload
def quantity(option: str, kind: str, text: str) -> float: ...
@overload
def quantity(option: str, kind: str, text: None) -> None: ...
@overload
def quantity(option: str, kind: str, text: str | None) -> float | None: ...
def quantity(option: str, kind: str, text: str | None) -> float | None:
    """Reads a quantity in the notation of scenarios, such as `2.5 %` or `64 kbps`, in SI units.

    Args:
        option: Name of the option with its dashes, for the message.
        kind: `probability`, `duration`, `rate` or `size`.
        text: Value of the option; None if it is not given.

    Raises:
        BadInput: If the text is not such a quantity.
    """
    try:
        return None if text is None else _lasthop.quantity(kind, text)
    except ValueError as error:
        raise BadInput(of_option(str(error), option)) from None


def seconds(option: str, text: str | None) -> float | None:
    """Reads the duration given by an option, such as `1.5 s`, in seconds."""
    return quantity(option, "duration", text)


def of_option(message: str, option: str | None = None) -> str:
    """Rewrites a message of the engine, `NAME: found X; expected Y`, for an option.

    Args:
        message: The message; returned unchanged if it does not have this form.
        option: The option; by default the name in the message.
    """
    parts = re.fullmatch(r"(?:(\w+): )?found (.*?); expected (.*)", message, re.DOTALL)
    if parts is None:
        return message if option is None else f"{option}: {message}"
    value = parts[2]
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
    return invalid(option or parts[1] or "", value, parts[3])


def with_options(
    message: str, renamed: Mapping[str, str], known: Container[str] | None = None
) -> str:
    """Replaces the arguments that a message names in backquotes with command-line options.

    Args:
        message: Message that names arguments as in Python.
        renamed: Options whose names differ from those of the arguments.
        known: Arguments to replace; by default all.
    """

    def option(found: re.Match[str]) -> str:
        name = renamed.get(found[2], found[2])
        if known is not None and name not in known:
            return found[0]
        return f"{found[1]}--{name.replace('_', '-')}"

    before = r"(?:^|\b(?:for|requires|with|and|missing|use) )"
    return re.sub(rf"({before}`)([a-z_]+)(?=`)", option, message)
