"""Figures of a study drawn on several cores.

Helpers are processes that import what they draw with while the study is being simulated. Each reads
pickles from its standard input, one a figure, and answers with what it has written, or with the
error that kept it from that. It ends when its input does.
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
"""Figures for which one more process is worth its start, which takes as long as two."""


class Painters:
    """Draws the figures of a study here and in helpers; a context that ends these."""

    def __init__(self, figures: int, jobs: int) -> None:
        """Starts helpers, if so many figures are worth any.

        Args:
            figures: How many will be drawn.
            jobs: Processes that may draw at a time; 0 for as many as there are cores.
        """
        count = min((jobs or _lasthop.cores()) - 1, (figures - 1) // EACH)
        self._helpers = [_start() for _ in range(count)]
        self._threads: list[Thread] = []
        self._left: deque[tuple[int, Artefact]] = deque()
        self._written: dict[int, list[Path] | OSError] = {}

    def begin(self, report: Report, folder: Path) -> None:
        """Lets the helpers draw the figures of a report into a folder."""
        self._report, self._folder = report, folder
        figures = [artefact for artefact in report.artefacts if artefact.kind == "figure"]
        self._left.extend(enumerate(figures))
        self._threads = [Thread(target=self._feed, args=(one,)) for one in self._helpers]
        for thread in self._threads:
            thread.start()

    def finish(self) -> list[Path]:
        """Draws what is left, waits for the helpers, and tells what all have written, in order.

        Raises:
            OSError: If a file cannot be written.
        """
        self._draw_left()
        for thread in self._threads:
            thread.join()
        # What a helper could not draw, whatever befell it.
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
        """Hands one figure after the other to a helper; one that it fails at is left to others."""
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
        # A figure that it fails at is drawn here, where it fails again, aloud.
        stderr=subprocess.DEVNULL,
        # Ctrl-C is for who asked for the figures.
        start_new_session=True,
    )


def _send(to: BinaryIO | Any, told: object) -> None:
    pickle.dump(told, to)
    to.flush()


def _draw(artefact: Artefact, cells: Sequence[ReportCell], folder: Path) -> list[Path] | OSError:
    from lasthop.showing.figures.studies import draw_figure
    from lasthop.showing.figures.style import save

    try:
        return save(draw_figure(artefact, cells), folder / artefact.file_name, *FORMATS)
    except OSError as error:
        return error


def _help() -> None:
    """What a helper does."""
    # Imported while nothing is asked for.
    from lasthop.showing.figures import studies as _  # noqa: F401
    from lasthop.studies import studies

    # As in the command itself: what imports make stays.
    gc.disable()
    known = studies()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            key, name, cells, folder = pickle.load(sys.stdin.buffer)  # noqa: S301 - our own
            (artefact,) = known[key].find([name])
            _send(sys.stdout.buffer, _draw(artefact, cells, folder))


if __name__ == "__main__":
    _help()
