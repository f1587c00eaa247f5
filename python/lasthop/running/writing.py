"""Writing of complete files; truncated files are removed."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

__all__ = ["IS_FULL", "remove_partial", "write_file"]

# Errors while writing a file, which leave it truncated.
IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def write_file(path: Path, data: bytes) -> None:
    """Writes a file, or removes it if only a part of it could be written.

    Raises:
        OSError: If it cannot be written; the error names the file.
    """
    try:
        path.write_bytes(data)
    except OSError as error:
        remove_partial(path, error)
        raise OSError(error.errno, error.strerror, str(path)) from None


def remove_partial(path: Path, error: OSError) -> None:
    """Removes a regular file that an error truncated; devices and links remain."""
    if error.errno in IS_FULL and path.is_file() and not path.is_symlink():
        with contextlib.suppress(OSError):
            path.unlink()
