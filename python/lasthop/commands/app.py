"""Table of the commands of `lasthop`, and reporting of their errors.

The module of a command is imported when the command runs: `lasthop --help` needs none of them.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import os
import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lasthop import _lasthop
from lasthop.commands import interrupts
from lasthop.commands.codes import BAD_INPUT, DONE, FAILURE, INTERRUPTED
from lasthop.commands.output import printable, shortened
from lasthop.running.writing import IS_FULL
from lasthop.scenarios.arguments import Refused, unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from lasthop.commands.declarations import Group

__all__ = ["COMMANDS", "command", "run_command"]

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
        "evaluate",
        ("evaluate", "evaluate"),
        SIMULATION,
        "Evaluate senders by a suite of scenarios, in comparison with baselines.",
    ),
    Command(
        "advise",
        ("advise", "advise"),
        SIMULATION,
        "Select the best link protocol and its parameters, or the best point of a sweep.",
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
        "Explain a scenario with all defaults, or the runs of a folder of `--store`.",
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
        "query",
        ("stores", "query"),
        RESULTS,
        "Query stored results with SQL; the table is `results`.",
    ),
    Command(
        "merge",
        ("stores", "merge"),
        RESULTS,
        "Merge results of several folders into one, such as those of several machines.",
    ),
    Command(
        "archive",
        ("stores", "archive"),
        RESULTS,
        "Write an archive for a publication: scenarios, seeds, results, figures and their check.",
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


def command(name: str) -> Callable[..., int] | Group:
    """Imports a command, or a group of commands."""
    module, function = _HOMES[name]
    with interrupts.importing():
        found: Any = getattr(importlib.import_module(f"lasthop.commands.{module}"), function)
    gc.enable()  # disabled by `lasthop.commands.main` during imports
    return found  # type: ignore[no-any-return]


ABOUT = "Simulate error recovery over lossy links: link ARQ, TCP and applications."
OPTIONS = {
    "--version": "Print the version.",
    "--install-completion": "Install completion for the current shell.",
    "--show-completion": "Show completion for the current shell, to copy it or customize the "
    "installation.",
}

FIRST_STEPS = """\
Usage: lasthop COMMAND [OPTIONS]

Start with:
  lasthop new my-link             Write a commented scenario to my-link.toml
  lasthop run my-link.toml        Simulate it and print throughput, loss and delay
  lasthop explore my-link.toml    Change its parameters interactively in the browser

lasthop --help lists all commands.
"""


def _run(words: list[str]) -> int:
    """Runs a command line and returns the exit code."""
    name = next((word for word in words if not word.startswith("-")), None)
    before = words if name is None else words[: words.index(name)]
    for word in before:
        option, _, shell = word.partition("=")
        match option:
            case "--help":
                sys.stdout.write(_help())
            case "--version":
                sys.stdout.write(f"lasthop {_lasthop.__version__}\n")
            case "--install-completion" | "--show-completion":
                from lasthop.commands import completion

                is_shown = option == "--show-completion"
                (completion.show if is_shown else completion.install)(shell)
            case _:
                raise Refused(unknown("option", option, sorted([*OPTIONS, "--help"])))
        return DONE
    if name is None:
        sys.stdout.write(FIRST_STEPS)
        return BAD_INPUT
    from lasthop.commands import parsing

    if name not in _HOMES:
        raise Refused(parsing.unknown_command(name, list(_HOMES)))
    return parsing.run(command(name), f"lasthop {name}", words[len(before) + 1 :])


def _help() -> str:
    from lasthop.commands import parsing

    panels: dict[str, dict[str, str]] = {}
    for one in COMMANDS:
        panels.setdefault(one.panel, {})[one.name] = one.about
    return parsing.group_help("lasthop", ABOUT, panels, OPTIONS)


def run_command(arguments: list[str] | None = None) -> int:
    """Runs a command and returns its exit code; reports a failure in one line on standard error."""
    _shorten_warnings()
    try:
        if "_ARGCOMPLETE" in os.environ:
            from lasthop.commands import completion

            completion.complete()
        code = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except (_lasthop.ScenarioError, Refused) as error:
        return _fail(str(error), BAD_INPUT)
    except KeyboardInterrupt:
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
        if not where and error.errno in {*IS_FULL, errno.EBADF}:
            where = "cannot write the output: "
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


def _fail(message: str, code: int) -> int:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"lasthop: {printable(shortened(' '.join(message.split())))}\n")
    return code


def _abandon_output() -> None:
    """Redirects standard output to the null device, so that the flush at exit does not fail."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
