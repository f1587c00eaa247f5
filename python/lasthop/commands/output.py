"""Output that is closed, where not every character can be encoded, or that a terminal would obey.

Not every character has a code on an ASCII terminal, or in a name that is not UTF-8. A result that
was computed is never lost because its `±` has no code: it is printed as `+-`. Control characters in
names of files are printed as their numbers, and long values of messages are cut.
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
"""Characters of what a message says was found."""

MOST_ALLOWED = 2000
"""Characters of what it says is allowed: there may be a thousand names."""


def printable(text: str) -> str:
    """A text with control characters, but for line breaks and tabs, as JSON writes them."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda it: f"\\u{ord(it[0]):04x}", text)


def shortened(message: str) -> str:
    """A message `where: found what; allowed: which` with its parts cut to a readable length."""
    parts = re.fullmatch(r"(.*?)(: found )(.*)(; allowed: )(.*)", message, flags=re.DOTALL)
    if parts is None:
        return _cut(message, MOST_ALLOWED)
    where, found, what, allowed, which = parts.groups()
    rest = _cut(which, MOST_ALLOWED)
    return f"{_cut(where, MOST_FOUND)}{found}{_cut(what, MOST_FOUND)}{allowed}{rest}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def never_fail() -> None:
    """Lets standard output and error print every text, in plain characters if need be."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, as in `lasthop list >&-`
            # Results that cannot be written are an error: writing to this file fails.
            mode = os.O_RDONLY if name == "stdout" else os.O_WRONLY
            setattr(sys, name, os.fdopen(os.open(os.devnull, mode), "w"))
    codecs.register_error("lasthop", _plain)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="lasthop")
