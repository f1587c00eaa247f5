"""The commands of `lasthop` by name, and what becomes of their errors.

A command's module is imported when that command is run, not before: `lasthop --help` needs none.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import re
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import typer

# typer 0.29 bundles click, without a public name.
from typer._click import Command as ClickCommand
from typer._click import Context
from typer._click.exceptions import (
    BadOptionUsage,
    BadParameter,
    ClickException,
    MissingParameter,
    NoSuchOption,
)
from typer.core import TyperGroup

from lasthop import _lasthop
from lasthop.commands import interrupts
from lasthop.commands.codes import BAD_INPUT, DONE, FAILURE, INTERRUPTED
from lasthop.commands.output import printable, shortened
from lasthop.commands.values import nearest
from lasthop.scenarios.arguments import Refused

__all__ = ["COMMANDS", "run_command"]

# Headings of `lasthop --help`.
SIMULATION, SCENARIOS, RESULTS = "Simulation", "Scenarios", "Results"
THEORY = "Theory and conformance"
INSTALLATION = "Installation"


@dataclass(frozen=True, slots=True)
class Command:
    """A command before its module is imported.

    Attributes:
        name: What is typed.
        home: Its module in `lasthop.commands`, and its function there (or its group of commands).
        panel: Its heading in `lasthop --help`.
        about: Its line there: the first one of its docstring.
    """

    name: str
    home: tuple[str, str]
    panel: str
    about: str


COMMANDS = (
    Command("run", ("run", "run"), SIMULATION, "Run a scenario and print what it delivers."),
    Command(
        "explore",
        ("explore", "explore"),
        SIMULATION,
        "Open a page where sliders move a link, and results follow; Ctrl-C ends it.",
    ),
    Command(
        "live",
        ("live", "live"),
        SIMULATION,
        "Run real programs behind the links of a scenario, in namespaces of their own.",
    ),
    Command(
        "trace",
        ("trace", "trace"),
        SIMULATION,
        "Record one replication: windows, queues and frames as CSV and pictures, or its packets.",
    ),
    Command(
        "steady",
        ("trace", "steady"),
        SIMULATION,
        "Say what one long replication settles to: means without its warm-up, with intervals.",
    ),
    Command(
        "reproduce",
        ("reproduce", "reproduce"),
        SIMULATION,
        "Reproduce a published study: its tables beside the printed ones, its figures, its claims.",
    ),
    Command(
        "advise",
        ("advise", "advise"),
        SIMULATION,
        "Say which link protocol, with which parameters, serves a link and its traffic best.",
    ),
    Command(
        "check",
        ("scenarios", "check"),
        SCENARIOS,
        "Say whether a scenario is valid; if not, which key is wrong and what is allowed.",
    ),
    Command(
        "schema",
        ("scenarios", "schema"),
        SCENARIOS,
        "Print the JSON Schema of scenarios, for editors.",
    ),
    Command(
        "new",
        ("scenarios", "new"),
        SCENARIOS,
        "Write a starter scenario whose comments say what each key means, and the schema beside "
        "it.",
    ),
    Command(
        "explain",
        ("scenarios", "explain_"),
        SCENARIOS,
        "Say in words and a small picture what a scenario is, defaults filled in.",
    ),
    Command(
        "list",
        ("scenarios", "list_"),
        SCENARIOS,
        "List what a scenario can be made of, and the studies.",
    ),
    Command(
        "fit",
        ("fit", "fit"),
        SCENARIOS,
        "Fit error processes to measured losses, and write the line of a scenario.",
    ),
    Command(
        "plot",
        ("plot", "plot"),
        RESULTS,
        "Draw results over a parameter, their distribution, or the course of one replication.",
    ),
    Command(
        "report",
        ("campaigns", "report"),
        RESULTS,
        "Write one self-contained HTML page of a campaign: figures, numbers, claims, provenance.",
    ),
    Command(
        "diff",
        ("campaigns", "compare"),
        RESULTS,
        "Say which metrics moved beyond noise between the last runs of two campaigns.",
    ),
    Command(
        "tcp-script",
        ("tcp_script", "tcp_script"),
        THEORY,
        "Play conformance scripts in packetdrill's language against one end of a connection.",
    ),
    Command(
        "analyse",
        ("analyse", "app"),
        THEORY,
        "Say what theory says: closed forms and Markov models, without a simulation.",
    ),
    Command(
        "doctor",
        ("doctor", "doctor"),
        INSTALLATION,
        "Report what is installed and what is missing.",
    ),
)
_HOMES = {command.name: command.home for command in COMMANDS}


class LateGroup(TyperGroup):
    """Commands that are imported when they are called."""

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, ClickCommand | None, list[str]]:
        """As typer does, with the command itself in place of its line in the help."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, None if command is None or name is None else _command(name), rest


def _command(name: str) -> ClickCommand:
    """The command itself, from its module."""
    module, function = _HOMES[name]
    with interrupts.importing():
        found: Any = getattr(importlib.import_module(f"lasthop.commands.{module}"), function)
    gc.enable()  # `lasthop.commands.main` has stopped it for the imports
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, cls=getattr(found, "command_class", None))(found)
    return typer.main.get_command(alone)


app = typer.Typer(
    cls=LateGroup,
    help="Simulates error recovery over lossy links: link ARQ, TCP and applications.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _in_help_only() -> None:
    """Stands for a command whose module is not imported yet."""


for _one in COMMANDS:
    app.command(_one.name, help=_one.about, rich_help_panel=_one.panel)(_in_help_only)


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> int:
    if version:
        sys.stdout.write(f"lasthop {_lasthop.__version__}\n")
        raise typer.Exit
    return DONE if context.invoked_subcommand else BAD_INPUT


def run_command(arguments: list[str] | None = None) -> int:
    """Runs a command and returns its exit code; a failure is one line on standard error."""
    try:
        # What a command returns is its exit code; typer itself returns that of `typer.Exit`.
        code: int = app(arguments, prog_name="lasthop", standalone_mode=False) or DONE
        sys.stdout.flush()
    except (_lasthop.ScenarioError, Refused) as error:
        return _fail(str(error), BAD_INPUT)
    except ClickException as error:
        return _fail(_refusal(error), BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has had enough.
        _abandon_output()
        return FAILURE
    except OSError as error:
        # A full disk, most likely; what is still buffered for it cannot be written either.
        _abandon_output()
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", FAILURE)
    except _lasthop.RunError as error:
        return _fail(str(error), FAILURE)
    except Exception as error:
        if not _is_of_polars(error):
            raise
        return _fail(str(error), FAILURE)
    return code


def _is_of_polars(error: Exception) -> bool:
    """Whether Polars raised it, which is only asked where Polars is imported."""
    polars: Any = sys.modules.get("polars")
    return polars is not None and isinstance(error, polars.exceptions.PolarsError)


def _refusal(error: ClickException) -> str:
    """What typer refuses, as all other messages say it: which option, found what, allowed what."""
    if isinstance(error, NoSuchOption):
        known = error.ctx.command.params if error.ctx else []
        names = ["--help", *(name for one in known for name in one.opts if name[:2] == "--")]
        near = nearest(error.option_name, names)
        allowed = ", ".join(sorted(names))
        return f"{error.option_name}: found an option that there is not{near}; allowed: {allowed}"
    if isinstance(error, BadOptionUsage):
        if "does not take a value" in error.message:
            return f"{error.option_name}: found a value; allowed: none"
        return f"{error.option_name}: found no value; allowed: one"
    if isinstance(error, MissingParameter) and error.param is not None:
        one = error.param
        is_option = one.param_type_name == "option"
        name = one.opts[0] if is_option else getattr(one, "metavar", None) or str(one.name).upper()
        about = getattr(one, "help", None) or "a value"
        return f"{name}: found nothing; allowed: {about.rstrip('.')}"
    if not isinstance(error, BadParameter) or error.param is None:
        return _usage(error)
    # typer checks options by pydantic.
    from pydantic import ValidationError

    text, cause = error.message, error.__cause__
    if isinstance(cause, ValidationError):
        first = cause.errors()[0]
        allowed = first["msg"].removeprefix("Value error, ")
        match first["type"]:
            case "greater_than_equal":
                allowed = f"a whole number of at least {first['ctx']['ge']}"
            case "less_than_equal":
                allowed = f"a whole number of at most {first['ctx']['le']}"
            case kind if kind.startswith("int_"):
                allowed = "a whole number"
            case kind if kind.startswith("float_"):
                allowed = "a number"
            case "value_error":
                # That of an enumeration: 'xml' is not one of 'table', 'csv'.
                allowed = allowed.partition(" is not one of ")[2].strip(".").replace("'", "")
        text = f"found {first['input']!r}; allowed: {allowed}"
    return f"{error.param.opts[0]}: {text}"


def _usage(error: ClickException) -> str:
    """Words where no command or no argument stands, in ours; typer tells them by its text alone."""
    text = error.format_message()
    context = getattr(error, "ctx", None)
    if context is None:
        return text
    if beyond := re.fullmatch(r"Got unexpected extra argument\(s\) \((.*)\)", text):
        own = [one for one in context.command.params if one.param_type_name == "argument"]
        names = [one.metavar or str(one.name).upper() for one in own]
        return (
            f"{context.info_name}: found {beyond[1]} after the last argument; allowed: "
            f"{' '.join(names) or 'no argument'}"
        )
    if unknown := re.fullmatch(r"No such command '(.*?)'\..*", text):
        known = context.command.list_commands(context)
        allowed = ", ".join(known)
        return f"found no command {unknown[1]}{nearest(unknown[1], known)}; allowed: {allowed}"
    return text


def _fail(message: str, code: int) -> int:
    if message:  # without one, typer has printed the help instead
        with contextlib.suppress(OSError):
            sys.stderr.write(f"lasthop: {printable(shortened(' '.join(message.split())))}\n")
    return code


def _abandon_output() -> None:
    """Lets the interpreter's own flush at exit go nowhere, instead of failing again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
