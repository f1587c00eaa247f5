"""Reads files that the user or a scenario names: regular files of a limited size only.

A device, a pipe or an endless file would block or exhaust memory. Messages repeat numbers of a
file, not its text, which may be secret.
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

# Length of the longest piece of a file that a message repeats.
LONGEST_QUOTE = 40


def open_regular(path: str | Path, *, pipes: bool = False) -> IO[bytes]:
    """Opens a regular file for reading.

    Args:
        path: The file.
        pipes: Whether a pipe is read, too, as for `lasthop run /dev/stdin`.

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
    """The contents of a regular file.

    Args:
        path: The file.
        largest: Its maximum size in bytes.
        pipes: Whether a pipe is read, too.

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
        raise OSError(errno.EFBIG, f"larger than {limit}, the maximum of such files", str(path))
    return b"".join(blocks)


def named(names: Iterable[object]) -> str:
    """Names of columns as a message repeats them: none unless all of them could be names."""
    words = [str(name) for name in names]
    if len(words) > 1 and all(re.fullmatch(r"[\w\- ()%/]{0,24}", word, re.ASCII) for word in words):
        return f"one of {', '.join(words)}"
    return f"a name of the first line, which has {len(words)} and no plain names"


def quoted(text: str) -> str:
    """A piece of a file as a message repeats it: numbers in quotation marks, else no text of it."""
    if len(text) <= LONGEST_QUOTE and re.fullmatch(r"[0-9eE+\-., ]*", text, re.ASCII):
        return repr(text)
    return "text that is no number"
