"""Output to closed streams and terminals of limited character sets; control characters.

An ASCII terminal cannot print every character, and names of files need not be valid UTF-8. Results
are printed nevertheless, `±` as `+-`. Control characters in names of files are escaped, and long
values in messages are truncated.
"""

from __future__ import annotations

import codecs
import os
import re
import sys

__all__ = ["never_fail", "printable", "shortened"]

PLAIN = {
    "±": "+-",
    "–": "-",
    "—": "-",
    "…": "...",
    "µ": "u",
    "≤": "<=",
    "≥": ">=",
    "×": "x",
    "→": "->",
    "←": "<-",
    "σ": "sd",
}


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(PLAIN.get(letter, "?") for letter in letters), error.end


MOST_FOUND = 160
"""Maximum length in characters of a value in a message."""

MOST_ALLOWED = 2000
"""Maximum length in characters of a list of accepted values, which may have 1000 entries."""


def printable(text: str) -> str:
    """Escapes control characters as in JSON, except line breaks and tabs."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda it: f"\\u{ord(it[0]):04x}", text)


def shortened(message: str) -> str:
    """Truncates long values and lists of accepted values in a message.

    Messages of the engine have the form `KEY: found X; expected Y`.
    """
    parts = re.fullmatch(r"(.*?)(: found )(.*)(; expected )(.*)", message, flags=re.DOTALL)
    if parts is None:
        start, colon, expected = re.sub(
            r"`([^`]*)`", lambda it: f"`{_cut(it[1], MOST_FOUND)}`", message
        ).partition(": expected ")
        return f"{_cut(start, MOST_ALLOWED)}{colon}{_cut(expected, MOST_ALLOWED)}"
    where, found, what, allowed, which = parts.groups()
    rest = _cut(which, MOST_ALLOWED)
    return f"{_cut(where, MOST_FOUND)}{found}{_cut(what, MOST_FOUND)}{allowed}{rest}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def never_fail() -> None:
    """Makes standard output and error accept every text, replacing characters if necessary."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, as in `lasthop list >&-`
            # Opened for reading: results that cannot be written must be an error.
            mode = os.O_RDONLY if name == "stdout" else os.O_WRONLY
            setattr(sys, name, os.fdopen(os.open(os.devnull, mode), "w"))
    codecs.register_error("lasthop", _plain)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="lasthop")
