"""Command lines: the parameters of a function are the options and arguments of a command.

`argparse` splits command lines and writes help. Values are converted here, so that all messages
have one grammar: ``invalid value `V` for `--option`: expected E``.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import shutil
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from lasthop.commands.codes import BAD_INPUT, DONE
from lasthop.commands.declarations import Argument, Group, Option, Rest
from lasthop.commands.values import BadInput, BadValue, of_option
from lasthop.scenarios.arguments import invalid, suggestion, unknown

__all__ = ["Parameter", "fill", "group_help", "new_parser", "parameters", "run", "unknown_command"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a command.

    Attributes:
        name: Name of the function's parameter.
        about: Its declaration.
        kind: Type of a value.
        is_list: Whether it takes several values.
        count: Number of values after one occurrence of the option, of the type `tuple`.
        default: Default; `inspect.Parameter.empty` if it is required.
    """

    name: str
    about: Argument
    kind: type
    is_list: bool
    count: int | None
    default: Any

    @property
    def option(self) -> str | None:
        """Name of the option; None for an argument."""
        if not isinstance(self.about, Option):
            return None
        return self.about.name or f"--{self.name.replace('_', '-')}"

    @property
    def metavar(self) -> str:
        """Name of the value."""
        if issubclass(self.kind, Enum):
            return self.about.metavar or "|".join(str(one.value) for one in self.kind)
        number = {int: "N", float: "NUMBER"}.get(self.kind)
        return self.about.metavar or number or self.name.upper()

    @property
    def shown_name(self) -> str:
        """Name in messages."""
        return self.option or self.metavar.strip("[].")

    @property
    def help(self) -> str:
        """Description with the default."""
        default = self.default.value if isinstance(self.default, Enum) else self.default
        if isinstance(self.about.show_default, str):
            default = self.about.show_default
        is_shown = not isinstance(default, bool) and default not in (None, inspect.Parameter.empty)
        return f"{self.about.help} [default: {default}]" if is_shown else self.about.help

    def convert(self, text: str) -> Any:
        """Converts a value.

        Raises:
            BadInput: If the value is invalid.
        """
        try:
            if self.about.parser is not None:
                return self.about.parser(text)
            value: Any = self.kind(text)
        except BadValue as error:
            raise BadInput(invalid(self.shown_name, error.value, error.expected)) from None
        except ValueError as error:
            if self.about.parser is not None:
                raise BadInput(of_option(str(error), self.shown_name)) from None
            names = {int: "an integer", float: "a number"}
            expected = names.get(self.kind) or self.metavar.replace("|", ", ")
            if issubclass(self.kind, Enum):
                expected = ", ".join(str(one.value) for one in self.kind)
            raise BadInput(invalid(self.shown_name, text, expected)) from None
        kind = "an integer" if self.kind is int else "a number"
        if self.about.min is not None and value < self.about.min:
            expected = f"{kind} of at least {self.about.min}"
            raise BadInput(invalid(self.shown_name, text, expected))
        if self.about.max is not None and value > self.about.max:
            raise BadInput(invalid(self.shown_name, text, f"{kind} of at most {self.about.max}"))
        return value


def parameters(function: Callable[..., int]) -> list[Parameter]:
    """Returns the options and arguments of a command."""
    hints = get_type_hints(function, include_extras=True)
    found = []
    for name, one in inspect.signature(function).parameters.items():
        kind, about = hints[name].__origin__, hints[name].__metadata__[0]
        if isinstance(about, Rest):
            continue
        if get_origin(kind) in (Union, types.UnionType):
            kind = next(each for each in get_args(kind) if each is not types.NoneType)
        is_list = get_origin(kind) is list
        count = len(get_args(kind)) if get_origin(kind) is tuple else None
        kind = get_args(kind)[0] if is_list or count else kind
        found.append(Parameter(name, about, kind, is_list, count, one.default))
    return found


def fill(parser: argparse.ArgumentParser, function: Callable[..., int]) -> list[Parameter]:
    """Adds the options and arguments of a command to a parser."""
    paragraphs = [" ".join(one.split()) for one in (function.__doc__ or "").split("\n\n")]
    parser.description = paragraphs[0].replace("%", "%%")
    parser.epilog = " ".join(paragraphs[1:]).replace("%", "%%") or None
    arguments, options = parser.add_argument_group("Arguments"), None
    options = parser.add_argument_group("Options")
    found = parameters(function)
    for one in found:
        help_text = one.help.replace("%", "%%")
        if one.option is None:
            many = "*" if one.is_list else "?"
            arguments.add_argument(one.name, nargs=many, metavar=one.metavar, help=help_text)
        elif one.kind is bool:
            paired = argparse.BooleanOptionalAction if one.default else "store_true"
            options.add_argument(
                one.option, dest=one.name, action=paired, default=one.default, help=help_text
            )
        else:
            action = options.add_argument(
                one.option,
                dest=one.name,
                metavar=one.metavar,
                help=help_text,
                action="append" if one.is_list else "store",
                nargs=one.count,
            )
            if issubclass(one.kind, Enum):
                values = [str(each.value) for each in one.kind]
                action.completer = lambda values=values, **_: values  # type: ignore[attr-defined]
    options.add_argument("--help", action="store_true", help="Show this message and exit.")
    words = [
        one.metavar if one.default is inspect.Parameter.empty or "[" in one.metavar
        else f"[{one.metavar}]"
        for one in found
        if one.option is None
    ]  # fmt: skip
    parser.usage = " ".join([parser.prog, "[OPTIONS]", *words]).replace("%", "%%")
    return found


def new_parser(name: str) -> argparse.ArgumentParser:
    """Returns a parser without options; words must not be abbreviated."""
    width = min(shutil.get_terminal_size().columns, 100) - 2
    formatter = functools.partial(argparse.HelpFormatter, max_help_position=26, width=width)
    return argparse.ArgumentParser(
        name,
        add_help=False,
        allow_abbrev=False,
        exit_on_error=False,
        formatter_class=formatter,
    )


def run(found: Callable[..., int] | Group, name: str, words: list[str]) -> int:
    """Runs a command or a command of a group, and returns its exit code.

    Args:
        found: The command.
        name: Its name with those of its groups, `lasthop run`.
        words: Its options and arguments.

    Raises:
        BadInput: If an option or argument is invalid.
    """
    if isinstance(found, Group):
        first = words[0] if words else ""
        if first in ("", "--help"):
            sys.stdout.write(group_help(name, found.about, {"Commands": _about(found)}))
            return DONE if words else BAD_INPUT
        if first not in found.commands:
            raise BadInput(unknown_command(first, list(found.commands)))
        return run(found.commands[first], f"{name} {first}", words[1:])
    rest = next((one for one in _metadata(found).items() if isinstance(one[1], Rest)), None)
    values: dict[str, Any] = {}
    if rest is not None:
        starts = rest[1].first
        end = next((at for at, word in enumerate(words) if word in starts), len(words))
        values[rest[0]], words = words[end:], words[:end]
    parser = new_parser(name)
    declared = fill(parser, found)
    texts, extra = _split(parser, declared, words)
    if texts.help:
        sys.stdout.write(parser.format_help())
        return DONE
    for word in extra:
        if word.startswith("-") and word != "--":
            own = [one.option for one in declared if one.option is not None]
            raise BadInput(unknown("option", word.partition("=")[0], sorted(["--help", *own])))
    if extra:
        arguments = " ".join(one.metavar for one in declared if one.option is None)
        command = name.rpartition(" ")[2]
        expected = arguments or "no arguments"
        raise BadInput(
            f"unexpected argument `{' '.join(extra)}` for `{command}`: expected {expected}"
        )
    # An invalid value is reported before a missing one.
    for one in sorted(declared, key=lambda one: getattr(texts, one.name) in (None, [])):
        values[one.name] = _value(one, getattr(texts, one.name))
    return found(**values)


def _metadata(function: Callable[..., int]) -> Mapping[str, Any]:
    hints = get_type_hints(function, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if name != "return"}


def _split(
    parser: argparse.ArgumentParser, declared: Sequence[Parameter], words: list[str]
) -> tuple[argparse.Namespace, list[str]]:
    try:
        return parser.parse_known_intermixed_args(words)
    except argparse.ArgumentError as error:
        option = (error.argument_name or "").partition("/")[0]
        own = {one.option: one for one in declared}
        if option == "--help" or own[option].kind is bool:
            raise BadInput(f"`{option}` does not take a value") from None
        raise BadInput(f"missing value for `{option}`") from None


def _value(one: Parameter, found: Any) -> Any:
    if isinstance(found, bool):
        return found
    if found in (None, []):
        if one.default is inspect.Parameter.empty:
            about = one.about.help or "a value"
            about = about[:1].lower() + about[1:] if about[1:2].islower() else about
            name = one.option or one.metavar
            raise BadInput(f"missing `{name}`: expected {about.rstrip('.')}")
        return one.default
    if one.count:
        return tuple(one.convert(text) for text in found)
    return [one.convert(text) for text in found] if one.is_list else one.convert(found)


def unknown_command(word: str, known: Sequence[str]) -> str:
    """Returns the message for an unknown command."""
    near = suggestion(word, known) or f": expected {', '.join(known)}"
    return f"unknown command `{word}`{near}"


def _about(group: Group) -> dict[str, str]:
    texts = {name: (one.__doc__ or "").partition("\n\n")[0] for name, one in group.commands.items()}
    return {name: " ".join(text.split()) for name, text in texts.items()}


def group_help(
    name: str,
    about: str,
    panels: Mapping[str, Mapping[str, str]],
    options: Mapping[str, str] | None = None,
) -> str:
    """Returns the help of a group of commands.

    Args:
        name: Name on the command line.
        about: Description.
        panels: Descriptions of the commands by heading and name.
        options: Descriptions of further options.
    """
    parser = new_parser(name)
    parser.description, parser.usage = about, f"{name} [OPTIONS] COMMAND [ARGS]..."
    group = parser.add_argument_group("Options")
    for option, text in {**(options or {}), "--help": "Show this message and exit."}.items():
        group.add_argument(option, action="store_true", help=text)
    for heading, commands in panels.items():
        group = parser.add_argument_group(heading)
        for command, text in commands.items():
            group.add_argument(command, help=text.replace("%", "%%"))
    return parser.format_help()
