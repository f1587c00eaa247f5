"""Declarations of options and arguments, in the annotations of the functions of commands."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False  # that of `typing`, whose import takes a while
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = ["Argument", "Group", "Option", "Rest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """Argument of a command: `Annotated[TYPE, Argument(...)]`.

    Attributes:
        metavar: Name of the value in help and messages.
        help: Description.
        parser: Function that converts the text; by default the type.
        min: Minimum of a number.
        max: Maximum of a number.
        show_default: Text of the default in help; True: the default itself.
    """

    metavar: str | None = None
    help: str = ""
    parser: Callable[[str], Any] | None = None
    min: float | None = None
    max: float | None = None
    show_default: bool | str = True


@dataclass(frozen=True, slots=True)
class Option(Argument):
    """Option of a command; `name` by default is the parameter's name: `--dry-run`."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class Rest:
    """All words from the first of some words on, which are neither options nor arguments."""

    first: Sequence[str]


class Group:
    """Commands that are called by the name of their group and their own name.

    Args:
        about: Description.
    """

    def __init__(self, about: str) -> None:
        self.about = about
        self.commands: dict[str, Callable[..., int]] = {}

    def command(self, function: Callable[..., int]) -> Callable[..., int]:
        """Adds a function as a command."""
        self.commands[function.__name__.rstrip("_").replace("_", "-")] = function
        return function
