"""Connections of the server, so that clients without the token cannot exhaust it.

Headers and body of a request must be complete within `REQUEST_S` after its first byte, or after the
connection was opened. At most `MOST_ANONYMOUS` connections may lack the token; a further one closes
the oldest of them that is not being served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["MOST_ANONYMOUS", "MOST_CONNECTIONS", "REQUEST_S", "bounded"]

REQUEST_S = 5.0
"""Maximum time in seconds until a request is complete."""

MOST_CONNECTIONS = 96
"""Maximum number of connections; further ones are answered with status 503."""

MOST_ANONYMOUS = 32
"""Maximum number of connections that have not presented the token."""

Headers = Iterable[tuple[bytes, bytes]]


def bounded(has_token: Callable[[Headers], bool]) -> type[H11Protocol]:
    """The protocol of connections.

    Args:
        has_token: Whether the headers of a request present the token.
    """
    # In order of their opening.
    anonymous: dict[H11Protocol, None] = {}

    class Bounded(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            anonymous[self] = None
            self._start()
            if len(anonymous) > MOST_ANONYMOUS:
                idle = (
                    one for one in anonymous if one.cycle is None or one.cycle.response_complete
                )
                oldest = next(idle, self)
                anonymous.pop(oldest)
                oldest.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            anonymous.pop(self, None)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self in anonymous and self.headers and has_token(self.headers):
                anonymous.pop(self)
            self._check()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._check()

        def _check(self) -> None:
            """Starts or stops the time by whether a request is incomplete."""
            state = self.conn.their_state
            is_begun = state is h11.SEND_BODY or (
                state is h11.IDLE and bool(self.conn.trailing_data[0])
            )
            # The timer of a new connection is already running.
            if is_begun:
                self._start()
            elif self.cycle is not None:
                self._stop()

        def _start(self) -> None:
            if self._deadline is None:
                self._deadline = self.loop.call_later(REQUEST_S, self.transport.abort)

        def _stop(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Bounded
