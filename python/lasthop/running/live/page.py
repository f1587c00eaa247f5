"""The page of a live run: what its links do, drawn second by second in a browser.

Serves on 127.0.0.1 in a thread, behind the same guard as the page of `lasthop explore`, whose style
and charts it has.
"""

from __future__ import annotations

import mimetypes
import threading
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from lasthop.page.safety import Guard, new_token, read_json
from lasthop.page.server import listen, serve

__all__ = ["Page"]

# Seconds that are kept: a day.
MOST_TICKS = 86_400


class Page:
    """What a browser is shown of one run."""

    def __init__(self, scenario: Mapping[str, Any], port: int = 0) -> None:
        """Begins to serve.

        Args:
            scenario: Its tables.
            port: Where, on 127.0.0.1; any free one if 0.

        Raises:
            OSError: If the port is taken.
        """
        self._state: dict[str, Any] = {
            "name": scenario["name"],
            "links": [
                {"name": name, "between": link["between"]}
                for name, link in scenario["link"].items()
            ],
            "end": None,
        }
        self._ticks: list[Mapping[str, Any]] = []
        listening = listen(port)
        port = listening.getsockname()[1]
        token = new_token()
        self.address = f"http://127.0.0.1:{port}/?token={token}"
        app = self._application(port, token)
        started = threading.Event()
        threading.Thread(
            target=serve, args=(app, [listening]), kwargs={"started": started.set}, daemon=True
        ).start()
        started.wait(timeout=10)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Takes what the run tells."""
        if message["kind"] == "tick" and len(self._ticks) < MOST_TICKS:
            self._ticks.append({"time": message["time"], "links": message["links"]})
        elif message["kind"] == "end":
            self._state["end"] = {"time": message["time"], "code": message["code"]}

    def _application(self, port: int, token: str) -> Guard:
        for suffix in (".js", ".mjs"):
            mimetypes.add_type("text/javascript", suffix)
        own = Path(str(resources.files("lasthop.running.live") / "static"))
        shared = Path(str(resources.files("lasthop.page") / "static"))

        async def index(_request: Request) -> Response:
            return FileResponse(own / "index.html")

        async def state(request: Request) -> Response:
            try:
                since = int(read_json(await request.body())["since"])
            except (ValueError, KeyError, TypeError):
                return JSONResponse({"error": "since: allowed: a number of seconds"}, 422)
            return JSONResponse({**self._state, "ticks": self._ticks[max(since, 0) :]})

        routes = [
            Route("/", index),
            Route("/api/state", state, methods=["POST"]),
            Mount("/live", StaticFiles(directory=own)),
            Mount("/", StaticFiles(directory=shared)),
        ]
        return Guard(Starlette(routes=routes), port=port, token=token)
