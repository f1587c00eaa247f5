"""Table of the commands of `lasthop`, and reporting of their errors.

The module of a command is imported when the command runs: `lasthop --help` needs none of them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import re
import sys
import warnings
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
from lasthop.commands.values import BadValue, of_option
from lasthop.running.writing import IS_FULL
from lasthop.scenarios.arguments import Refused, invalid, suggestion, unknown

__all__ = ["COMMANDS", "run_command"]

# Headings of `lasthop --help`.
SIMULATION, SCENARIOS, RESULTS = "Simulation", "Scenarios", "Results"
THEORY = "Theory and conformance"
INSTALLATION = "Installation"


@dataclass(frozen=True, slots=True)
class Command:
    """A command whose module is not imported yet.

    Attributes:
        name: Name on the command line.
        home: Module in `lasthop.commands`, and function (or group of commands) in that module.
        panel: Heading in `lasthop --help`.
        about: Description in `lasthop --help`: the first line of the function's docstring.
    """

    name: str
    home: tuple[str, str]
    panel: str
    about: str


COMMANDS = (
    Command("run", ("run", "run"), SIMULATION, "Run a scenario and print its results."),
    Command(
        "explore",
        ("explore", "explore"),
        SIMULATION,
        "Explore a link interactively in the browser; Ctrl-C ends the server.",
    ),
    Command(
        "live",
        ("live", "live"),
        SIMULATION,
        "Run programs over the emulated links of a scenario, in separate network namespaces.",
    ),
    Command(
        "trace",
        ("trace", "trace"),
        SIMULATION,
        "Record one replication: windows, queues and frames as CSV and figures, or packets.",
    ),
    Command(
        "steady",
        ("trace", "steady"),
        SIMULATION,
        "Estimate steady-state means from one long replication, excluding the warm-up.",
    ),
    Command(
        "reproduce",
        ("reproduce", "reproduce"),
        SIMULATION,
        "Reproduce a published study: tables, figures and claims, compared with published values.",
    ),
    Command(
        "advise",
        ("advise", "advise"),
        SIMULATION,
        "Select the best link protocol and its parameters for a link and its traffic.",
    ),
    Command(
        "check",
        ("scenarios", "check"),
        SCENARIOS,
        "Check whether a scenario is valid; report the invalid key and the accepted values.",
    ),
    Command(
        "schema",
        ("scenarios", "schema"),
        SCENARIOS,
        "Print the JSON Schema of scenarios for editors.",
    ),
    Command(
        "new",
        ("scenarios", "new"),
        SCENARIOS,
        "Write a starter scenario with a comment on each key, and the schema for editors.",
    ),
    Command(
        "explain",
        ("scenarios", "explain_"),
        SCENARIOS,
        "Explain a scenario in text and a diagram, including all defaults.",
    ),
    Command(
        "list",
        ("scenarios", "list_"),
        SCENARIOS,
        "List the components of scenarios, the metrics and the studies.",
    ),
    Command(
        "fit",
        ("fit", "fit"),
        SCENARIOS,
        "Fit error models to measured losses; print the best one as a line of a scenario.",
    ),
    Command(
        "plot",
        ("plot", "plot"),
        RESULTS,
        "Plot results over a parameter, their distribution, or one replication over time.",
    ),
    Command(
        "report",
        ("campaigns", "report"),
        RESULTS,
        "Write a self-contained HTML report of a campaign: figures, tables, claims, provenance.",
    ),
    Command(
        "diff",
        ("campaigns", "compare"),
        RESULTS,
        "Report metrics that changed significantly between the last runs of two campaigns.",
    ),
    Command(
        "tcp-script",
        ("tcp_script", "tcp_script"),
        THEORY,
        "Run packetdrill conformance scripts against one TCP endpoint.",
    ),
    Command(
        "analyse",
        ("analyse", "app"),
        THEORY,
        "Compute analytical models: closed forms and Markov chains, without simulation.",
    ),
    Command(
        "doctor",
        ("doctor", "doctor"),
        INSTALLATION,
        "Report installed and missing parts.",
    ),
)
_HOMES = {command.name: command.home for command in COMMANDS}


class LateGroup(TyperGroup):
    """Group of commands whose modules are imported when they are called."""

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, ClickCommand | None, list[str]]:
        """Resolves a command as typer does, then imports it in place of its help entry."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, None if command is None or name is None else _command(name), rest


def _command(name: str) -> ClickCommand:
    """Imports a command."""
    module, function = _HOMES[name]
    with interrupts.importing():
        found: Any = getattr(importlib.import_module(f"lasthop.commands.{module}"), function)
    gc.enable()  # disabled by `lasthop.commands.main` during imports
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, cls=getattr(found, "command_class", None))(found)
    return typer.main.get_command(alone)


app = typer.Typer(
    cls=LateGroup,
    help="Simulate error recovery over lossy links: link ARQ, TCP and applications.",
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _in_help_only() -> None:
    """Help entry of a command whose module is not imported."""


for _one in COMMANDS:
    app.command(_one.name, help=_one.about, rich_help_panel=_one.panel)(_in_help_only)


FIRST_STEPS = """\
Usage: lasthop COMMAND [OPTIONS]

Start with:
  lasthop new my-link             Write a commented scenario to my-link.toml
  lasthop run my-link.toml        Simulate it and print throughput, loss and delay
  lasthop explore my-link.toml    Change its parameters interactively in the browser

lasthop --help lists all commands.
"""


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> int:
    if version:
        sys.stdout.write(f"lasthop {_lasthop.__version__}\n")
        raise typer.Exit
    if context.invoked_subcommand:
        return DONE
    sys.stdout.write(FIRST_STEPS)
    return BAD_INPUT


def run_command(arguments: list[str] | None = None) -> int:
    """Runs a command and returns its exit code; reports a failure in one line on standard error."""
    _shorten_warnings()
    try:
        # Commands return their exit code; typer returns the code of `typer.Exit`.
        code: int = app(arguments, prog_name="lasthop", standalone_mode=False) or DONE
        sys.stdout.flush()
    except (_lasthop.ScenarioError, Refused) as error:
        return _fail(str(error), BAD_INPUT)
    except ClickException as error:
        return _fail(_refusal(error), BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader closed the pipe.
        _abandon_output()
        return FAILURE
    except OSError as error:
        # Probably a full disk: buffered output cannot be written either.
        _abandon_output()
        action = "write" if error.errno in IS_FULL else "access"
        where = f"cannot {action} `{error.filename}`: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", FAILURE)
    except _lasthop.RunError as error:
        return _fail(str(error), FAILURE)
    except Exception as error:
        if not _is_of_polars(error):
            raise
        return _fail(str(error), FAILURE)
    return code


def _shorten_warnings() -> None:
    """Prints warnings for users, such as those on former names of keys, as messages."""
    default = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, FutureWarning):
            sys.stderr.write(f"lasthop: {printable(str(message))}\n")
        else:
            default(message, category, *place, **more)

    warnings.showwarning = show


def _is_of_polars(error: Exception) -> bool:
    """Returns `True` if Polars raised an error; does not import Polars."""
    polars: Any = sys.modules.get("polars")
    return polars is not None and isinstance(error, polars.exceptions.PolarsError)


def _refusal(error: ClickException) -> str:
    """Returns typer's errors in the grammar of the other messages."""
    if isinstance(error, NoSuchOption):
        params = error.ctx.command.params if error.ctx else []
        names = ["--help", *(name for one in params for name in one.opts if name[:2] == "--")]
        return unknown("option", error.option_name, sorted(names))
    if isinstance(error, BadOptionUsage):
        if "does not take a value" in error.message:
            return f"`{error.option_name}` does not take a value"
        return f"missing value for `{error.option_name}`"
    if isinstance(error, MissingParameter) and error.param is not None:
        one = error.param
        is_option = one.param_type_name == "option"
        name = one.opts[0] if is_option else getattr(one, "metavar", None) or str(one.name).upper()
        about = getattr(one, "help", None) or "a value"
        about = about[:1].lower() + about[1:] if about[1:2].islower() else about
        return f"missing `{name}`: expected {about.rstrip('.')}"
    if not isinstance(error, BadParameter) or error.param is None:
        return _usage(error)
    option = error.param.opts[0]
    if error.param.param_type_name == "argument":
        option = (getattr(error.param, "metavar", None) or option).strip("[].")
    if isinstance(error, BadValue):
        return invalid(option, error.value, error.expected)
    # typer validates options with pydantic.
    from pydantic import ValidationError

    cause = error.__cause__
    if not isinstance(cause, ValidationError):
        return of_option(error.message, option)
    first = cause.errors()[0]
    expected = first["msg"].removeprefix("Value error, ")
    match first["type"]:
        case "greater_than_equal":
            expected = f"an integer of at least {first['ctx']['ge']}"
        case "less_than_equal":
            expected = f"an integer of at most {first['ctx']['le']}"
        case kind if kind.startswith("int_"):
            expected = "an integer"
        case kind if kind.startswith("float_"):
            expected = "a number"
        case "value_error":
            # Message of an enumeration: 'xml' is not one of 'table', 'csv'.
            expected = expected.partition(" is not one of ")[2].strip(".").replace("'", "")
    return invalid(option, first["input"], expected)


def _usage(error: ClickException) -> str:
    """Returns errors about commands and surplus arguments, which typer identifies by text only."""
    text = error.format_message()
    context = getattr(error, "ctx", None)
    if context is None:
        return text
    if beyond := re.fullmatch(r"Got unexpected extra argument\(s\) \((.*)\)", text):
        own = [one for one in context.command.params if one.param_type_name == "argument"]
        names = [one.metavar or str(one.name).upper() for one in own]
        return (
            f"unexpected argument `{beyond[1]}` for `{context.info_name}`: expected "
            f"{' '.join(names) or 'no arguments'}"
        )
    if missing := re.fullmatch(r"No such command '(.*?)'\..*", text):
        known = context.command.list_commands(context)
        near = suggestion(missing[1], known) or f": expected {', '.join(known)}"
        return f"unknown command `{missing[1]}`{near}"
    return text


def _fail(message: str, code: int) -> int:
    if message:  # otherwise, typer has printed the help
        with contextlib.suppress(OSError):
            sys.stderr.write(f"lasthop: {printable(shortened(' '.join(message.split())))}\n")
    return code


def _abandon_output() -> None:
    """Redirects standard output to the null device, so that the flush at exit does not fail."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
