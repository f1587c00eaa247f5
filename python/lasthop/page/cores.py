"""Scheduling of computations: at most as many running threads as cores.

A computation requests cores, runs for a fraction of a second and releases them. Requests are served
in order of arrival, so that four pages share two cores evenly.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

__all__ = ["Cores"]

T = TypeVar("T")


class Cores:
    """Cores of the server, lent for short pieces of work. For one event loop.

    Attributes:
        total: How many there are.
    """

    def __init__(self, total: int) -> None:
        """Takes the number of cores, at least 1."""
        self.total = total
        self._free = total
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def busy(self) -> int:
        """Cores that are lent."""
        return self.total - self._free

    @asynccontextmanager
    async def lend(self, most: int) -> AsyncIterator[int]:
        """Waits for a core; allocates up to `most` cores if there are no other requests.

        Yields:
            The number of allocated cores.
        """
        if self._free == 0 or self._waiting:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    # The core came too late to be used.
                    self._give_back(1)
                elif turn in self._waiting:
                    self._waiting.remove(turn)
                raise
            lent = 1
        else:
            lent = min(self._free, max(most, 1))
            self._free -= lent
        try:
            yield lent
        finally:
            self._give_back(lent)

    async def compute(
        self, work: Callable[[int], T], *, most: int = 1, stopped: threading.Event | None = None
    ) -> T:
        """Runs `work` in a thread; its argument is the number of allocated cores.

        If the caller is cancelled, `stopped` is set, and the cores are released at the end of the
        thread.
        """
        async with self.lend(most) as lent:
            task = asyncio.ensure_future(asyncio.to_thread(work, lent))
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                if stopped is not None:
                    stopped.set()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.exception()  # the caller was cancelled
                raise

    def _give_back(self, count: int) -> None:
        self._free += count
        while self._free and self._waiting:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                self._free -= 1
                turn.set_result(None)
