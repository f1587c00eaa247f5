"""A running `lasthop explore` server, and requests to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request

NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"
"""Error of all requests that Chromium is sending when an interface of the machine is added."""

QUESTION: dict[str, Any] = {
    "scenario": {
        "name": "page",
        "link": {
            "radio": {
                "between": ["server", "phone"],
                "rate": "2 Mbps",
                "delay": "20 ms",
                "errors": {"kind": "uniform", "loss": "2 %"},
            }
        },
        "flow": {
            "download": {
                "from": "server",
                "to": "phone",
                "transport": {"kind": "tcp", "variant": "sack", "profile": "rfc"},
                "app": {"kind": "file", "size": "100 kB"},
            }
        },
    },
    "alternatives": [
        {"label": "raw", "changes": {}},
        {
            "label": "repeated",
            "changes": {"link.radio.protocol": {"kind": "selective-repeat", "window": 32}},
        },
    ],
    "seed": 1,
}


@dataclass(frozen=True)
class Explorer:
    """A running server: its address, token and process."""

    address: str
    port: int
    token: str
    process: subprocess.Popen[str]

    def request(
        self,
        path: str,
        body: Any = None,
        *,
        method: str | None = None,
        headers: dict[str, str | None] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Sends a request; `headers` replace those of the page, and None omits one."""
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        sent: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json" if data is not None else None,
            **(headers or {}),
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            verb = method or ("GET" if data is None else "POST")
            connection.putrequest(verb, path, skip_host=True)
            for name, value in sent.items():
                if value is not None:
                    connection.putheader(name, value)
            if data is not None:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read()

    def ask(self, path: str, body: Any = None) -> Any:
        """Returns the answer as JSON; the request must succeed."""
        status, _, text = self.request(path, body)
        assert status == 200, text
        return json.loads(text)

    def play(self, question: Any) -> list[dict[str, Any]]:
        """Returns all events of an answer."""
        status, headers, text = self.request("/api/play", question)
        assert status == 200, text
        assert headers["content-type"].startswith("text/event-stream")
        parts = text.decode().strip().split("\n\n")
        return [json.loads(part.split("\ndata: ", 1)[1]) for part in parts]


@contextlib.contextmanager
def explorer(folder: Path, *arguments: str) -> Iterator[Explorer]:
    """Starts a server in a folder, and stops it at the end."""
    command = [sys.executable, "-m", "lasthop", "explore", "--no-browser", "--port", "0"]
    process = subprocess.Popen(
        [*command, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        parts = urlsplit(address)
        assert parts.port is not None, "the server did not start"
        yield Explorer(address, parts.port, parse_qs(parts.query)["token"][0], process)
    finally:
        process.terminate()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


def aborted_requests(page: Page) -> list[str]:
    """Returns the list of requests that fail from now on because the network has changed."""
    found: list[str] = []

    def note(request: Request) -> None:
        if request.failure == NETWORK_CHANGED:
            found.append(request.url)

    page.on("requestfailed", note)
    return found


def wait_for_results(page: Page, selector: str, aborted: list[str]) -> None:
    """Waits for an element, for 30 s; loads the page again if requests were aborted.

    Tests of live links add interfaces to the machine, which aborts the requests of a browser.
    """
    deadline = time.monotonic() + 30.0
    # By time: a selector is awaited by drawn frames, of which a loaded machine may have none.
    while time.monotonic() < deadline:
        if aborted:
            aborted.clear()
            page.reload()
        if page.locator(selector).count() > 0 and not aborted:
            return
        page.wait_for_timeout(50)
