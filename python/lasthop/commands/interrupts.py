"""Handling of Ctrl-C (SIGINT).

By default, the signal has its default action: it ends the process immediately, without a traceback,
also during imports, expansion of a sweep or a read from a pipe. Shells report exit code 130. While
replications run, the first Ctrl-C ends the run; finished replications are printed and written. A
second one ends the process.

If the signal is ignored (as in the background of a shell without job control), it stays ignored.
"""

from __future__ import annotations

# Without the enumerations of `signal`, which take milliseconds to import.
import _signal as signal  # type: ignore[import-not-found]
import contextlib

TYPE_CHECKING = False  # that of `typing`, for the same reason
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

__all__ = ["importing", "keep_finished"]


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Blocks SIGINT during imports, because Polars installs its own handler, which ignores it.

    The signal is delivered after the imports, within a fraction of a second.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        # Python does not see Polars' handler and still reports the default action.
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))


@contextlib.contextmanager
def keep_finished() -> Iterator[Callable[[], None]]:
    """Yields a function that turns the first Ctrl-C into a `KeyboardInterrupt`.

    The second Ctrl-C ends the process. The function is called with the first report of progress,
    not earlier: expanding a large sweep takes seconds, during which the interpreter does not handle
    signals.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt

    def begin() -> None:
        # A campaign and the caller may have installed their own handlers.
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, interrupt)

    try:
        yield begin
    finally:
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
