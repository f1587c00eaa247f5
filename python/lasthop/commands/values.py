"""Values of options that several commands share: files, folders, pictures, quantities.

Each is refused before anything is run: `--option: found this; allowed: that`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, overload

import typer

from lasthop import _lasthop
from lasthop.commands.output import printable
from lasthop.scenarios.arguments import Refused

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "BadInput",
    "Plot",
    "TableOrJson",
    "as_folder",
    "as_path",
    "as_picture",
    "nearest",
    "quantity",
    "save_picture",
    "seconds",
]

PICTURES = ".png, .pdf or .svg"


class BadInput(Refused):
    """Something the user gave is not right; the message says what."""


class TableOrJson(StrEnum):
    """How a result is printed that is no table of rows."""

    table = "table"
    json = "json"


def as_path(text: str | Path) -> Path:
    """Reads the name of a file or folder; a leading `~` is the home folder.

    A shell replaces it only where it begins a word, so not in `--out=~/results`.
    """
    name = os.fspath(text)
    if not name.strip():
        raise typer.BadParameter(f"found {name!r}; allowed: the name of a file or folder")
    # `Path.expanduser` fails where `~name` is no user, but a file.
    return Path(os.path.expanduser(name))  # noqa: PTH111


def as_folder(text: str | Path) -> Path:
    """Reads the name of a folder that a database can say: in UTF-8."""
    path = as_path(text)
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise typer.BadParameter(f"found {str(path)!r}; allowed: a name in UTF-8") from None
    return path


def as_picture(text: str | Path) -> Path:
    """Reads the name of a picture, whose ending says its format, in a folder that there is."""
    path = as_path(text)
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise typer.BadParameter(f"found {str(path)!r}; allowed: a name that ends in {PICTURES}")
    if not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        raise typer.BadParameter(
            f"found no folder {path.parent} to write to; allowed: one that is there"
        )
    return path


Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot", parser=as_picture, metavar="FILE", help=f"Also draw it, as FILE ({PICTURES})."
    ),
]


def save_picture(figure: Figure, path: Path) -> None:
    """Writes a picture in the format that its name says, and says so beside the results."""
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
    """Reads what an option says as scenarios do, such as `2.5 %` or `64 kbps`, in SI units.

    Args:
        option: With its dashes, for the message.
        kind: `probability`, `duration`, `rate` or `size`.
        text: What was given; None if nothing.
    """
    try:
        return None if text is None else _lasthop.quantity(kind, text)
    except ValueError as error:
        raise BadInput(f"{option}: {error}") from None


def seconds(option: str, text: str | None) -> float | None:
    """Reads the time that an option says, such as `1.5 s`."""
    return quantity(option, "duration", text)


def nearest(text: str, known: Iterable[str]) -> str:
    """`, nearest is …` where a name is like one that there is; else nothing."""
    import difflib

    ends = {name.rpartition(".")[2]: name for name in known}
    names = {name: name for name in known}
    found = difflib.get_close_matches(text, [*names, *ends], n=1, cutoff=0.5)
    return f", nearest is {names.get(found[0]) or ends[found[0]]}" if found else ""
