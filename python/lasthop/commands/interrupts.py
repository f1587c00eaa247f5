"""What Ctrl-C does to a command.

Most of the time there is nothing to keep: the signal has its default action and ends the process
at once, without a traceback, whatever runs at that moment: an import, the building of a sweep, a
read from a pipe. Shells report that as exit code 130. While replications run, the first Ctrl-C
ends the run and what is finished is printed and written; a second one ends the process.

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
    """Around imports: Polars sets a handler of its own, which would swallow the signal.

    The signal waits for the end of the imports, which is a fraction of a second.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        # Python does not see that handler, and still knows of the default action.
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))


@contextlib.contextmanager
def keep_finished() -> Iterator[Callable[[], None]]:
    """What is finished is kept from the moment on at which what it yields is called.

    From then on one Ctrl-C is a `KeyboardInterrupt`, the next ends the process. It is called when
    replications run, not before: the points of a large sweep take seconds, during which the
    interpreter cannot look for signals.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt

    def begin() -> None:
        # A campaign has a handler of its own, and so may have who called.
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, interrupt)

    try:
        yield begin
    finally:
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
