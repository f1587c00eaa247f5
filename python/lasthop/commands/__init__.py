"""The command `lasthop`.

Exit codes: 0 success, 1 failure, 2 invalid input, 3 not modelled (`tcp-script`), 130 interrupted
(finished replications are printed and written). Results are written to standard output, progress
and errors to standard error.

This module has no slow imports, so that Ctrl-C ends the process without a traceback from the start.
`app` defines the commands.
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
    """Runs the command line; an expected failure is reported in one line on standard error."""
    if (sys.argv[1:] if arguments is None else arguments) == ["--version"]:
        # Without importing the table of commands, which takes longer than the rest.
        from lasthop import _lasthop

        try:
            sys.stdout.write(f"lasthop {_lasthop.__version__}\n")
            sys.stdout.flush()
        except OSError:
            pass  # reported below, as for every command
        else:
            return DONE
    from lasthop.commands.app import run_command

    return run_command(arguments)


def _end_at_once() -> None:
    """Gives SIGINT its default action, unless it is ignored or handled by the caller.

    Uses the C module behind `signal`: during the milliseconds of an import, Ctrl-C would print a
    traceback. See `lasthop.commands.interrupts`.
    """
    import _signal  # type: ignore[import-not-found]

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def main() -> NoReturn:
    """Runs the command line and exits the process."""
    _end_at_once()
    from lasthop.commands import output

    output.never_fail()
    # Starting the threads of NumPy's BLAS takes 10 % of a short command, and no matrix here is
    # large enough to profit from them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Objects created by imports persist; collecting garbage among them takes 10 % of their time.
    gc.disable()
    sys.exit(_main())
