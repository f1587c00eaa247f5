"""The command `tcp-script`: conformance scripts against one end of a connection."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from lasthop import _lasthop
from lasthop.commands.codes import BAD_INPUT, DONE, FAILURE, NOT_MODELLED
from lasthop.commands.common import print_line
from lasthop.commands.values import BadInput, as_path
from lasthop.scenarios.files import LARGEST_TEXT, read_bytes

__all__ = ["tcp_script"]

# What comes of a script, and its exit code: the first of these that any script has.
CODES = {"syntax": BAD_INPUT, "differs": FAILURE, "not modelled": NOT_MODELLED, "holds": DONE}

LONGEST_TOLERANCE_US = 1_000_000_000


def tcp_script(
    files: Annotated[
        list[Path], typer.Argument(parser=as_path, metavar="FILE...", help="Scripts, or folders.")
    ],
    *,
    profile: Annotated[
        str, typer.Option(help="Whose conventions: " + "|".join(_lasthop.script_profiles()))
    ] = _lasthop.script_profiles()[0],
    tolerance_usecs: Annotated[
        int,
        typer.Option(
            metavar="MICROSECONDS",
            help="How early or late a segment may be, where the script does not say.",
        ),
    ] = 4000,
    define: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="What a word of the scripts stands for; repeatable."
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only what does not hold, and the sum.")
    ] = False,
) -> int:
    """Play conformance scripts in packetdrill's language against one end of a connection.

    Exit code 0 if all hold, 1 if a connection behaved otherwise, 2 if a script is not in the
    language, 3 if one needs what is not modelled.
    """
    if profile not in _lasthop.script_profiles():
        allowed = ", ".join(_lasthop.script_profiles())
        raise BadInput(f"--profile: found {profile!r}; allowed: {allowed}")
    if not 0 <= tolerance_usecs <= LONGEST_TOLERANCE_US:
        raise BadInput(
            f"--tolerance-usecs: found {tolerance_usecs}; allowed: 0 to {LONGEST_TOLERANCE_US}"
        )
    for one in define or []:
        name, equals, _ = one.partition("=")
        if not equals or not re.fullmatch(r"\w+", name, re.ASCII):
            raise BadInput(f"--define: found {one!r}; allowed: NAME=VALUE")
    counts = dict.fromkeys(CODES, 0)
    for file in _scripts(files):
        verdict, reason, notes = _lasthop.play_script(
            _read(file), profile, tolerance_usecs, define or []
        )
        counts[verdict] += 1
        if verdict != "holds":
            print_line(f"{file}: {verdict}: {reason}")
        elif not quiet:
            print_line(f"{file}: holds")
        if not quiet:
            for line, text in notes:
                print_line(f"  line {line}: {text}")
    total = sum(counts.values())
    found = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    print_line(f"{total} script{'s' if total != 1 else ''}: {found}")
    return next((code for verdict, code in CODES.items() if counts[verdict]), DONE)


def _scripts(files: list[Path]) -> list[Path]:
    """The scripts named, and those in folders that are."""
    found: list[Path] = []
    for file in files:
        if file.is_dir():
            inside = sorted(file.rglob("*.pkt"))
            if not inside:
                raise BadInput(f"FILE: found {file}, without scripts; allowed: *.pkt in a folder")
            found += inside
        else:
            found.append(file)
    return found


def _read(file: Path) -> str:
    try:
        return read_bytes(file, LARGEST_TEXT).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file}: {error}; allowed: a script in UTF-8") from error
