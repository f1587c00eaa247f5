"""Reading of input files: regular files of a limited size only.

A device, a pipe or an endless file would block or exhaust memory. Messages quote only numbers of a
file, because its text may be secret.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO

__all__ = ["LARGEST_DATA", "LARGEST_TEXT", "named", "open_regular", "quoted", "read_bytes"]

LARGEST_TEXT = 10_000_000
"""Maximum size in bytes of a scenario or a script."""

LARGEST_DATA = 1_000_000_000
"""Maximum size in bytes of measurements, captures, recordings and results."""

# Maximum length in characters of a quotation from a file.
LONGEST_QUOTE = 40


def open_regular(path: str | Path, *, pipes: bool = False) -> IO[bytes]:
    """Opens a regular file for reading.

    Args:
        path: The file.
        pipes: Whether pipes are accepted, as for `lasthop run /dev/stdin`.

    Raises:
        OSError: If it cannot be opened, or if it is a device, a pipe, a socket or a folder.
    """
    # A pipe without a writer does not block.
    flags = os.O_RDONLY | os.O_CLOEXEC | (0 if pipes else os.O_NONBLOCK)
    file = os.fdopen(os.open(path, flags), "rb")
    mode = os.fstat(file.fileno()).st_mode
    if not (stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode))):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def read_bytes(path: str | Path, largest: int = LARGEST_DATA, *, pipes: bool = False) -> bytes:
    """Returns the contents of a regular file.

    Args:
        path: The file.
        largest: Maximum size in bytes.
        pipes: Whether pipes are accepted.

    Raises:
        OSError: If it cannot be read, is not a regular file, or is larger than `largest` bytes.
    """
    blocks: list[bytes] = []
    with open_regular(path, pipes=pipes) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= largest:
            # The file may grow, and the system reports 0 for some.
            size = 0
            while size <= largest and (block := file.read(1 << 20)):
                blocks.append(block)
                size += len(block)
    if size > largest:
        limit = f"{largest / 1e6:g} MB"
        raise OSError(errno.EFBIG, f"file is larger than {limit}", str(path))
    return b"".join(blocks)


def named(names: Iterable[object]) -> str:
    """Returns column names for a message, or only their number if one may not be a name."""
    words = [str(name) for name in names]
    if len(words) > 1 and all(re.fullmatch(r"[\w\- ()%/]{0,24}", word, re.ASCII) for word in words):
        return f"one of {', '.join(words)}"
    return f"a name in the first line, which has {len(words)} columns without plain names"


def quoted(text: str) -> str:
    """Returns the problem of an invalid value in a file; quotes numbers, but no other text."""
    if len(text) <= LONGEST_QUOTE and re.fullmatch(r"[0-9eE+\-., ]*", text, re.ASCII):
        return f"invalid value `{text}`"
    return "invalid text"
