"""The command `lasthop tcp-script`: conformance scripts against one TCP endpoint."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from lasthop import _lasthop
from lasthop.commands.codes import BAD_INPUT, DONE, FAILURE, NOT_MODELLED
from lasthop.commands.common import print_line
from lasthop.commands.declarations import Argument, Option
from lasthop.commands.values import BadInput, as_path
from lasthop.scenarios.arguments import invalid, unknown
from lasthop.scenarios.files import LARGEST_TEXT, read_bytes

__all__ = ["tcp_script"]

# Outcomes of a script and their exit codes; the first one that occurs is the exit code of the run.
CODES = {"syntax": BAD_INPUT, "differs": FAILURE, "not modelled": NOT_MODELLED, "holds": DONE}

LONGEST_TOLERANCE_US = 1_000_000_000


def tcp_script(
    files: Annotated[
        list[Path], Argument(parser=as_path, metavar="FILE...", help="Scripts or folders.")
    ],
    *,
    profile: Annotated[
        str, Option(help="TCP profile: " + "|".join(_lasthop.script_profiles()))
    ] = _lasthop.script_profiles()[0],
    tolerance_usecs: Annotated[
        int,
        Option(
            metavar="MICROSECONDS",
            help="Maximum deviation of a segment's time, unless the script sets it.",
        ),
    ] = 4000,
    define: Annotated[
        list[str] | None,
        Option(metavar="NAME=VALUE", help="Define a word used in scripts. Repeatable."),
    ] = None,
    quiet: Annotated[
        bool, Option("--quiet", help="Print only failed scripts and the summary.")
    ] = False,
) -> int:
    """Run packetdrill conformance scripts against one TCP endpoint.

    Exit code 0 if all scripts pass, 1 if the endpoint behaved differently, 2 if a script has a
    syntax error, 3 if a script uses a feature that is not modelled.
    """
    if profile not in _lasthop.script_profiles():
        raise BadInput(unknown("profile", profile, _lasthop.script_profiles(), "--profile"))
    if not 0 <= tolerance_usecs <= LONGEST_TOLERANCE_US:
        expected = f"0 to {LONGEST_TOLERANCE_US}"
        raise BadInput(invalid("--tolerance-usecs", tolerance_usecs, expected))
    for one in define or []:
        name, equals, _ = one.partition("=")
        if not equals or not re.fullmatch(r"\w+", name, re.ASCII):
            raise BadInput(invalid("--define", one, "NAME=VALUE"))
    counts = dict.fromkeys(CODES, 0)
    for file in _scripts(files):
        verdict, reason, notes = _lasthop.play_script(
            _read(file), profile, tolerance_usecs, define or []
        )
        counts[verdict] += 1
        if verdict != "holds":
            problem = {"syntax": "syntax error", "differs": "failed"}.get(verdict, verdict)
            print_line(f"{file}: {problem}: {reason}")
        elif not quiet:
            print_line(f"{file}: passed")
        if not quiet:
            for line, text in notes:
                print_line(f"  line {line}: {text}")
    total = sum(counts.values())
    shown = {"syntax": "syntax errors", "differs": "failed", "holds": "passed"}
    found = ", ".join(
        f"{count} {shown.get(verdict, verdict)}" for verdict, count in counts.items() if count
    )
    print_line(f"{total} script{'s' if total != 1 else ''}: {found}")
    return next((code for verdict, code in CODES.items() if counts[verdict]), DONE)


def _scripts(files: list[Path]) -> list[Path]:
    """Returns the given scripts and the scripts in the given folders."""
    found: list[Path] = []
    for file in files:
        if file.is_dir():
            inside = sorted(file.rglob("*.pkt"))
            if not inside:
                raise BadInput(f"{file}: the folder has no scripts (*.pkt)")
            found += inside
        else:
            found.append(file)
    return found


def _read(file: Path) -> str:
    try:
        return read_bytes(file, LARGEST_TEXT).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"cannot read `{file}`: {reason}: expected a script in UTF-8") from error
