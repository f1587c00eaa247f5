"""Checks of every request, and headers of every response.

The server listens only on 127.0.0.1, but every page in the same browser can send requests to it.
Therefore the Host header must name this server (no DNS rebinding), an Origin must be its own (no
requests from other sites), routes that read or compute require the token of the printed address,
and bodies are limited. Responses have the headers recommended by the OWASP Secure Headers Project;
the content security policy permits no inline script and no other host.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "LARGEST_BODY", "Guard", "new_token", "read_json"]

LARGEST_BODY = 256 * 1024
"""Bytes of a request."""

HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), usb=(), serial=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-dns-prefetch-control": "off",
    "x-frame-options": "DENY",
    "x-permitted-cross-domain-policies": "none",
}


def new_token() -> str:
    """Returns a token of 192 random bits."""
    return secrets.token_urlsafe(24)


class Guard:
    """Stands before the application; see the head of this module."""

    def __init__(self, app: ASGIApp, *, port: int, token: str) -> None:
        """Takes what it guards, its port, and the token to ask for."""
        self._app = app
        self._token = f"Bearer {token}".encode()
        names = ("127.0.0.1", "localhost")
        self._hosts = {f"{name}:{port}".encode() for name in names}
        if port == 80:
            self._hosts |= {name.encode() for name in names}
        self._origins = {b"http://" + host for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request through, or answers it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                if scope["path"].startswith("/api/"):
                    own.append((b"cache-control", b"no-store"))
                else:
                    own.append((b"cache-control", b"no-cache"))
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            status, text = refusal
            await _answer(send_guarded, status, text)
            return
        # Before the application starts, so that no part of it sees an incomplete body.
        body, has_more = b"", True
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            has_more = message.get("more_body", False)
            if len(body) > LARGEST_BODY:
                await _answer(
                    send_guarded, 413, f"body too large: expected at most {LARGEST_BODY} B"
                )
                return
        whole: Message | None = {"type": "http.request", "body": body, "more_body": False}

        async def receive_whole() -> Message:
            nonlocal whole
            message, whole = whole, None
            return await receive() if message is None else message

        await self._app(scope, receive_whole, send_guarded)

    def has_token(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether the headers of a request present the token, once."""
        given = [value for name, value in headers if name.lower() == b"authorization"]
        return len(given) == 1 and secrets.compare_digest(given[0], self._token)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        if [host.lower() for host in headers.get(b"host", [])] not in ([h] for h in self._hosts):
            return 421, "invalid host: expected the address printed by `lasthop explore`"
        origins = headers.get(b"origin", [])
        if any(origin not in self._origins for origin in origins):
            return 403, "invalid origin: expected this page"
        site = headers.get(b"sec-fetch-site", [b"none"])
        is_interface = scope["path"].startswith("/api/")
        if is_interface and any(one not in (b"same-origin", b"none") for one in site):
            return 403, "invalid origin: expected this page"
        if scope["method"] not in ("GET", "HEAD") and is_interface:
            kinds = headers.get(b"content-type", [])
            if [kind.split(b";")[0].strip() for kind in kinds] != [b"application/json"]:
                return 415, "invalid content type: expected application/json"
        length = headers.get(b"content-length", [b"0"])[0]
        if not length.isdigit() or int(length) > LARGEST_BODY:
            return 413, f"body too large: expected at most {LARGEST_BODY} B"
        if is_interface and not self.has_token(scope["headers"]):
            return 401, "invalid token: expected the address printed by `lasthop explore`"
        return None


def read_json(body: bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: If it is not JSON, is nested too deeply, or has a number that is not finite.
    """
    try:
        return json.loads(body, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("too many tables within tables") from None


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"invalid value `{text[:40]}`: expected a finite number")
    return value


async def _answer(send: Send, status: int, text: str) -> None:
    body = json.dumps({"error": text}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
