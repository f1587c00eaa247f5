"""The command `lasthop`.

Exit codes: 0 done, 1 failure, 2 bad input, 3 not modelled (`tcp-script`), 130 interrupted (what is
finished is still printed and written). Results go to standard output; progress and errors to
standard error.

This module imports nothing that takes time, so that Ctrl-C ends the process quietly from its first
moments on; `app` has the commands.
"""

from __future__ import annotations

import gc
import os
import sys

from lasthop.commands.codes import BAD_INPUT, DONE, FAILURE, INTERRUPTED

TYPE_CHECKING = False  # that of `typing`, whose import takes a while
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["BAD_INPUT", "DONE", "FAILURE", "INTERRUPTED", "main"]


def _main(arguments: list[str] | None = None) -> int:
    """Runs the command line; every expected failure is one line on standard error."""
    if (sys.argv[1:] if arguments is None else arguments) == ["--version"]:
        # Without typer, whose import takes longer than all else.
        from lasthop import _lasthop

        try:
            sys.stdout.write(f"lasthop {_lasthop.__version__}\n")
            sys.stdout.flush()
        except OSError:
            pass  # told below, as for every command
        else:
            return DONE
    from lasthop.commands.app import run_command

    return run_command(arguments)


def _end_at_once() -> None:
    """Gives SIGINT its default action, unless it is ignored or handled by who called.

    Here and by the half of `signal` that is written in C: an import takes milliseconds, in which
    Ctrl-C would print a traceback. `lasthop.commands.interrupts` has the rest.
    """
    import _signal  # type: ignore[import-not-found]

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def main() -> NoReturn:
    """Runs the command line and leaves the process."""
    _end_at_once()
    from lasthop.commands import output

    output.never_fail()
    # Threads of NumPy's BLAS take a tenth of a short command to start, and nothing here that is as
    # large as they need; rows are computed by the engine's own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Imports make objects that stay: looking for garbage among them takes a tenth of their time.
    gc.disable()
    sys.exit(_main())
