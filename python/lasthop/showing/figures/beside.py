"""Parallel drawing of the figures of a study.

Helpers are processes that import Matplotlib while the study is simulated. Each reads one pickle per
figure from its standard input and returns the names of the files, or the error. A helper exits at
the end of its input.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from lasthop import _lasthop

if TYPE_CHECKING:
    from types import TracebackType
    from typing import BinaryIO, Self

    from lasthop.studies import Artefact, Report, ReportCell

__all__ = ["Painters"]

FORMATS = ("png", "pdf")

EACH = 4
"""Figures per additional process, whose start takes as long as 2 figures."""


class Painters:
    """Draws the figures of a study in this process and in helpers; a context manager."""

    def __init__(self, figures: int, jobs: int) -> None:
        """Starts helpers if there are enough figures.

        Args:
            figures: Number of figures.
            jobs: Maximum number of processes; 0: number of cores.
        """
        count = min((jobs or _lasthop.cores()) - 1, (figures - 1) // EACH)
        self._helpers = [_start() for _ in range(count)]
        self._threads: list[Thread] = []
        self._left: deque[tuple[int, Artefact]] = deque()
        self._written: dict[int, list[Path] | OSError] = {}

    def begin(self, report: Report, folder: Path) -> None:
        """Submits the figures of a report to the helpers."""
        self._report, self._folder = report, folder
        figures = [artefact for artefact in report.artefacts if artefact.kind == "figure"]
        self._left.extend(enumerate(figures))
        self._threads = [Thread(target=self._feed, args=(one,)) for one in self._helpers]
        for thread in self._threads:
            thread.start()

    def finish(self) -> list[Path]:
        """Draws the remaining figures, waits for the helpers and returns all files in order.

        Raises:
            OSError: If a file cannot be written.
        """
        self._draw_left()
        for thread in self._threads:
            thread.join()
        # Figures that a helper could not draw, for any reason.
        self._draw_left()
        paths: list[Path] = []
        for _, written in sorted(self._written.items()):
            if isinstance(written, OSError):
                raise written
            paths += written
        return paths

    def _take(self) -> tuple[int, Artefact] | None:
        try:
            return self._left.popleft()
        except IndexError:
            return None

    def _draw_left(self) -> None:
        while taken := self._take():
            number, artefact = taken
            self._written[number] = _draw(artefact, self._report.cells, self._folder)

    def _feed(self, helper: subprocess.Popen[bytes]) -> None:
        """Submits figures to a helper one by one; failed figures remain."""
        assert helper.stdin is not None and helper.stdout is not None  # noqa: S101, PT018
        while taken := self._take():
            number, artefact = taken
            own = [cell for cell in self._report.cells if cell.artefact == artefact.name]
            try:
                _send(helper.stdin, (self._report.study.key, artefact.name, own, self._folder))
                self._written[number] = pickle.load(helper.stdout)  # noqa: S301 - our own
            except (OSError, EOFError, pickle.UnpicklingError):
                self._left.append(taken)
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for helper in self._helpers:
            helper.kill()
            helper.communicate()


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "lasthop.showing.figures.beside"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A failed figure is drawn in the main process, which reports the error.
        stderr=subprocess.DEVNULL,
        # Ctrl-C is handled by the main process.
        start_new_session=True,
    )


def _send(to: BinaryIO | Any, message: object) -> None:
    pickle.dump(message, to)
    to.flush()


def _draw(artefact: Artefact, cells: Sequence[ReportCell], folder: Path) -> list[Path] | OSError:
    from lasthop.showing.figures.studies import draw_figure
    from lasthop.showing.figures.style import save

    try:
        return save(draw_figure(artefact, cells), folder / artefact.file_name, *FORMATS)
    except OSError as error:
        return error


def _help() -> None:
    """Runs a helper."""
    # Imported before the first figure is requested.
    from lasthop.showing.figures import studies as _  # noqa: F401
    from lasthop.studies import studies

    # As in the command: objects created by imports persist.
    gc.disable()
    known = studies()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            key, name, cells, folder = pickle.load(sys.stdin.buffer)  # noqa: S301 - our own
            (artefact,) = known[key].find([name])
            _send(sys.stdout.buffer, _draw(artefact, cells, folder))


if __name__ == "__main__":
    _help()
