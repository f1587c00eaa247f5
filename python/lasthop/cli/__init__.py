"""The command `lasthop`.

Exit codes: 0 done, 1 failure, 2 bad input, 130 interrupted (what is finished is still printed and
written). Results go to standard output; progress and errors to standard error.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Annotated, NoReturn

import polars as pl
import typer
from pydantic import ValidationError

# typer 0.29 bundles click, without a public name, and checks options by pydantic.
from typer._click.exceptions import BadParameter, ClickException, MissingParameter

import lasthop
from lasthop.campaign import CampaignError
from lasthop.cli import analyse, campaigns, plot, reproduce, run, scenarios, trace
from lasthop.cli.common import BAD_INPUT, DONE, FAILURE, INTERRUPTED, BadInput, note, print_line
from lasthop.figures import PlotError
from lasthop.studies import StudyError

__all__ = ["BAD_INPUT", "DONE", "FAILURE", "INTERRUPTED", "main"]


app = typer.Typer(
    help="Simulates error recovery over lossy links: link ARQ, TCP and applications.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# Headings of `lasthop --help`.
SIMULATION, SCENARIOS, RESULTS, THEORY = "Simulation", "Scenarios", "Results", "Theory"

app.command(rich_help_panel=SIMULATION)(run.run)
app.command(rich_help_panel=SCENARIOS)(scenarios.check)
app.command(rich_help_panel=SCENARIOS)(scenarios.schema)
app.command(rich_help_panel=SCENARIOS)(scenarios.new)
app.command("explain", rich_help_panel=SCENARIOS)(scenarios.explain_)
app.command("list", rich_help_panel=SCENARIOS)(scenarios.list_)
app.command(rich_help_panel=SIMULATION)(trace.trace)
app.command(rich_help_panel=SIMULATION)(trace.steady)
app.command(rich_help_panel=SIMULATION)(reproduce.reproduce)
app.command(rich_help_panel=RESULTS)(plot.plot)
app.command(rich_help_panel=RESULTS)(campaigns.report)
app.command("diff", rich_help_panel=RESULTS)(campaigns.compare)
app.add_typer(analyse.app, name="analyse", rich_help_panel=THEORY)


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> int:
    if version:
        print_line(f"lasthop {lasthop.__version__}")
        raise typer.Exit
    return DONE if context.invoked_subcommand else BAD_INPUT


def _main(arguments: list[str] | None = None) -> int:
    """Runs the command line; every expected failure is one line on standard error."""
    try:
        # What a command returns is its exit code; typer itself returns that of `typer.Exit`.
        code: int = app(arguments, prog_name="lasthop", standalone_mode=False) or DONE
        sys.stdout.flush()
    except (lasthop.ScenarioError, StudyError, CampaignError, PlotError, BadInput) as error:
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
    except pl.exceptions.PolarsError as error:
        return _fail(str(error), FAILURE)
    except lasthop.RunError as error:
        return _fail(str(error), FAILURE)
    return code


def _refusal(error: ClickException) -> str:
    """What typer refuses, as all other messages say it: which option, found what, allowed what."""
    if not isinstance(error, BadParameter) or isinstance(error, MissingParameter):
        return error.format_message()
    if error.param is None:
        return error.format_message()
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
            case "value_error":
                # That of an enumeration: 'xml' is not one of 'table', 'csv'.
                allowed = allowed.partition(" is not one of ")[2].strip(".").replace("'", "")
        text = f"found {first['input']!r}; allowed: {allowed}"
    return f"{error.param.opts[0]}: {text}"


def _fail(message: str, code: int) -> int:
    if message:  # without one, typer has printed the help instead
        with contextlib.suppress(OSError):
            note(f"lasthop: {' '.join(message.split())}")
    return code


def _abandon_output() -> None:
    """Lets the interpreter's own flush at exit go nowhere, instead of failing again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> NoReturn:
    """Runs the command line and leaves the process."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who called, as in `lasthop list >&-`
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    sys.exit(_main())
