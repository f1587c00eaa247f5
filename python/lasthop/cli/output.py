"""Output that is closed, or where not every character can be encoded.

That is so on an ASCII terminal, and for a name that is not UTF-8. A result that was computed is
never lost because its `±` has no code: it is printed as `+-`.
"""

from __future__ import annotations

import codecs
import os
import sys

__all__ = ["never_fail"]

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


def never_fail() -> None:
    """Lets standard output and error print every text, in plain characters if need be."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who called, as in `lasthop list >&-`
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    codecs.register_error("lasthop", _plain)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="lasthop")
