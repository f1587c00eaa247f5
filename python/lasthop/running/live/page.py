"""Web page of a live run: the state of its links, updated every second.

Served on 127.0.0.1 by a thread, with the guard, style and charts of the page of `lasthop explore`.
"""

from __future__ import annotations

import mimetypes
import shlex
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
from lasthop.running.live.session import links_of

__all__ = ["Page"]

# Number of seconds that are kept: one day.
MOST_TICKS = 86_400


class Page:
    """Web page of one run."""

    def __init__(self, scenario: Mapping[str, Any], port: int = 0) -> None:
        """Starts the server.

        Args:
            scenario: Tables of the scenario.
            port: Port on 127.0.0.1; 0: any free port.

        Raises:
            OSError: If the port is in use.
        """
        self._state: dict[str, Any] = {
            "name": scenario["name"],
            "links": [
                {"name": name, "between": link["between"]}
                for name, link in links_of(scenario).items()
            ],
            "end": None,
        }
        self._ticks: list[Mapping[str, Any]] = []
        self._run = 0
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
        """Processes a message of the run."""
        if message["kind"] == "tick" and len(self._ticks) < MOST_TICKS:
            links = [
                {name: value for name, value in one.items() if name != "conversations"}
                for one in message["links"]
            ]
            self._ticks.append({"time": message["time"], "links": links})
        elif message["kind"] == "end":
            programs = [{**one, "argv": shlex.join(one["argv"])} for one in message["programs"]]
            self._state["end"] = {
                "time": message["time"],
                "code": message["code"],
                "programs": programs,
            }
        elif message["kind"] == "start":
            # Another run of several: its clock starts again.
            self._run += 1
            self._ticks, self._state["end"] = [], None

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
                error = "invalid value for `since`: expected a number of seconds"
                return JSONResponse({"error": error}, 422)
            ticks = self._ticks[max(since, 0) :]
            return JSONResponse({**self._state, "run": self._run, "ticks": ticks})

        routes = [
            Route("/", index),
            Route("/api/state", state, methods=["POST"]),
            Mount("/live", StaticFiles(directory=own)),
            Mount("/", StaticFiles(directory=shared)),
        ]
        return Guard(Starlette(routes=routes), port=port, token=token)
