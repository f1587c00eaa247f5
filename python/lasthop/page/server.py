"""Routes of the page, and the server that answers them.

The server only reads and computes; it writes no file. Work runs in threads on cores allocated by
`Cores`; the engine releases the interpreter lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import mimetypes
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from lasthop import _lasthop
from lasthop.page import browse, export
from lasthop.page.connections import MOST_CONNECTIONS, bounded
from lasthop.page.cores import Cores
from lasthop.page.inside import MOST_EVENTS, inside, pack, trace_most
from lasthop.page.play import Samples, answer, run_round
from lasthop.page.presets import presets
from lasthop.page.question import Question, Refused, read_question
from lasthop.page.safety import Guard, read_json
from lasthop.running.campaign import CampaignError
from lasthop.running.replications import run_points
from lasthop.scenarios.explain import explain
from lasthop.scenarios.scenario import schema
from lasthop.showing.figures import PlotError
from lasthop.studies import StudyError

__all__ = ["application", "listen", "serve"]

MOST_STREAMS = 24
"""Pages that are answered at a time."""

LONGEST_S = 1e9
"""Maximum time in seconds up to which a replication is recorded."""

MOST_REPLICATIONS = 1_000
"""Maximum number of replications of a figure or an export."""

REFUSALS = (
    _lasthop.ScenarioError,
    _lasthop.RunError,
    CampaignError,
    PlotError,
    StudyError,
    Refused,
)


class EventStream(Response):
    """Server-sent events; closes their source as soon as the page has left."""

    media_type = "text/event-stream"

    def __init__(self, source: AsyncGenerator[Mapping[str, Any], None]) -> None:
        """Takes the events, each with its name in `event`."""
        super().__init__()
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends until the events or the page end."""
        del scope
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def copy() -> None:
            async with contextlib.aclosing(_told(self._source)) as events:
                async for event in events:
                    body = json.dumps(event, allow_nan=False, separators=(",", ":"))
                    text = f"event: {event['event']}\ndata: {body}\n\n"
                    await send(
                        {"type": "http.response.body", "body": text.encode(), "more_body": True}
                    )
            await send({"type": "http.response.body", "body": b""})

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        tasks = {asyncio.ensure_future(copy()), asyncio.ensure_future(gone())}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                with contextlib.suppress(OSError):
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _told(
    source: AsyncGenerator[Mapping[str, Any], None],
) -> AsyncGenerator[Mapping[str, Any], None]:
    """The events; a refusal is one, too."""
    try:
        async with contextlib.aclosing(source) as events:
            async for event in events:
                yield event
    except REFUSALS as error:
        yield {"event": "refused", **_refusal(error)}


def _refusal(error: Exception) -> dict[str, Any]:
    text = " ".join(str(error).split())
    key = text.partition(":")[0]
    return {
        "error": text,
        "key": key if " " not in key else None,
        "alternative": getattr(error, "alternative", None),
    }


class Server:
    """State shared by the routes: the folder, what the page begins with, the cores."""

    def __init__(self, root: Path, begin: Mapping[str, Any], cores: int) -> None:
        """Takes the folder that everything must be in, and the number of cores."""
        self.root = root
        self.begin = begin
        self.cores = Cores(cores)
        self._streams = 0

    def routes(self) -> list[Route]:
        """The interface of the page."""
        posts: dict[str, Callable[[Any], Any]] = {
            "check": self.check,
            "inside": self.inside,
            "figure": self.figure,
            "take": self.take,
            "campaign": self.campaign,
            "curves": self.curves,
            "point": self.point,
        }
        return [
            Route("/api/begin", self.beginning),
            Route("/api/campaigns", self.campaigns),
            Route("/api/play", self.play, methods=["POST"]),
            *(
                Route(f"/api/{name}", _answering(work), methods=["POST"])
                for name, work in posts.items()
            ),
        ]

    async def beginning(self, _: Request) -> Response:
        """Returns the initial state of a page."""
        return JSONResponse(
            {
                **self.begin,
                "version": _lasthop.__version__,
                "cores": self.cores.total,
                "folder": self.root.name,
                "presets": presets(),
                "schema": schema(),
                "metrics": json.loads(_lasthop.metrics()),
                "colours": colours(),
            }
        )

    async def play(self, request: Request) -> Response:
        """Answers a question until it is answered well enough, or the page leaves."""
        try:
            question = await self._question(await _body(request))
        except REFUSALS as error:
            return JSONResponse(_refusal(error), status_code=422)
        if self._streams >= MOST_STREAMS:
            return JSONResponse(
                {"error": f"{self._streams} open pages: expected at most {MOST_STREAMS}"},
                status_code=503,
            )

        async def counted() -> AsyncGenerator[Mapping[str, Any], None]:
            self._streams += 1
            try:
                async with contextlib.aclosing(answer(question, self.cores)) as events:
                    async for event in events:
                        yield event
            finally:
                self._streams -= 1

        return EventStream(counted())

    async def _question(self, body: Any) -> Question:
        """A question, read in a thread: it may name large files."""
        return await asyncio.to_thread(read_question, body, self.root)

    async def _compute(self, work: Callable[[], Any]) -> Any:
        return await self.cores.compute(lambda _cores: work())

    async def check(self, body: Any) -> Response:
        """Returns the explanation of each alternative."""
        question = await self._question(body)

        def work() -> list[dict[str, Any]]:
            return [
                {
                    "label": one.label,
                    "words": explain(one.scenario),
                    "resolved": json.loads(one.point().to_json()),
                }
                for one in question.alternatives
            ]

        return JSONResponse({"alternatives": await self._compute(work)})

    async def inside(self, body: Any) -> Response:
        """Events of one replication of one alternative, as columns."""
        question = await self._question(body)
        number = _whole(body, "alternative", len(question.alternatives) - 1)
        replication = _whole(body, "replication", 2**31)
        until = body.get("until_s")
        is_time = isinstance(until, (int, float)) and 0 < until < LONGEST_S
        if until is not None and not is_time:
            raise Refused(f"invalid value `{until}` for `until_s`: expected seconds")

        def work() -> bytes:
            found, cut = self._trace(question, number, replication, until)
            about, columns = inside(found)
            about |= {"until_s": cut, "label": question.alternatives[number].label}
            return pack(about, columns)

        return Response(await self._compute(work), media_type="application/octet-stream")

    def _trace(
        self, question: Question, number: int, replication: int, until: float | None
    ) -> tuple[Any, float | None]:
        """Returns a trace with a limited number of events, estimated by a run without a trace."""
        chosen = question.alternatives[number]
        samples = Samples()
        run_round([chosen.point()], samples, 1, question.seed, 1, first_replication=replication)
        metrics = dict(zip(samples.metrics, samples.values[0][0].tolist(), strict=True))
        return trace_most(
            chosen.scenario,
            metrics,
            seed=question.seed,
            replication=replication,
            most=MOST_EVENTS,
            until=until,
        )

    async def figure(self, body: Any) -> Response:
        """A figure for print."""
        question = await self._question(body)
        wanted = body.get("figure")
        if not isinstance(wanted, dict):
            raise Refused("missing `figure`: expected a table")
        count = _whole(body, "replications", MOST_REPLICATIONS, least=1)

        def work() -> bytes:
            if wanted.get("kind") in ("line", "cdf"):
                samples = Samples()
                points = [one.point() for one in question.alternatives]
                run_round(points, samples, count, question.seed, 1)
                results = run_points(
                    points,
                    replications=count,
                    seed=question.seed,
                    jobs=1,
                    parameters=[{"alternative": one.label} for one in question.alternatives],
                )
                return export.draw(wanted, results)
            number = _whole(body, "alternative", len(question.alternatives) - 1)
            replication = _whole(body, "replication", 2**31)
            found, _ = self._trace(question, number, replication, None)
            return export.draw_trace(found, wanted)

        picture = await self._compute(work)
        kind = {"svg": "image/svg+xml", "pdf": "application/pdf", "png": "image/png"}
        return Response(picture, media_type=kind[wanted.get("format", "svg")])

    async def take(self, body: Any) -> Response:
        """The scenario with its alternatives as text."""
        question = await self._question(body)
        count = _whole(body, "replications", MOST_REPLICATIONS, least=1)
        return JSONResponse(
            {
                "toml": export.to_toml(question, count),
                "python": export.to_python(question, count),
                "command": export.to_command(question, count),
            }
        )

    async def campaigns(self, _: Request) -> Response:
        """Campaigns below the folder."""
        found = await asyncio.to_thread(browse.campaigns, self.root)
        return JSONResponse({"campaigns": found})

    async def campaign(self, body: Any) -> Response:
        """Returns the contents of a run of a campaign."""

        def work() -> Any:
            return browse.contents(*browse.open_campaign(body, self.root))

        return JSONResponse(await self._compute(work))

    async def curves(self, body: Any) -> Response:
        """A figure of it."""

        def work() -> Any:
            return browse.figures(browse.open_campaign(body, self.root)[1], body)

        return JSONResponse(await self._compute(work))

    async def point(self, body: Any) -> Response:
        """One point of it."""

        def work() -> Any:
            results = browse.open_campaign(body, self.root)[1]
            return browse.point_of(results, body, self.root)

        return JSONResponse(await self._compute(work))


def colours() -> list[str]:
    """Returns the colours of `lasthop plot`, in its order."""
    # As in figures.style.SPARE, without the quarter of a second that Matplotlib takes.
    return ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]


def _whole(body: Mapping[str, Any], name: str, most: int, *, least: int = 0) -> int:
    value = body.get(name, least)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Refused(f"invalid value `{value}` for `{name}`: expected {least} to {most}")
    return value


async def _body(request: Request) -> Any:
    try:
        found = read_json(await request.body())
    except ValueError:
        raise Refused("invalid body: expected JSON") from None
    if not isinstance(found, dict):
        raise Refused("invalid body: expected a JSON object")
    return found


def _answering(work: Callable[[Any], Any]) -> Callable[[Request], Any]:
    """A route that takes JSON; refusals are reported in one line."""

    async def endpoint(request: Request) -> Response:
        try:
            found: Response = await work(await _body(request))
        except (*REFUSALS, ValueError) as error:
            return JSONResponse(_refusal(error), status_code=422)
        except RecursionError:
            return JSONResponse({"error": "the body is nested too deeply"}, 422)
        return found

    return endpoint


def application(
    *, root: Path, begin: Mapping[str, Any], cores: int, port: int, token: str
) -> Guard:
    """The application behind its guard."""
    # Browsers run no module of another type, and a system's own table may have one.
    for suffix, kind in ((".js", "text/javascript"), (".mjs", "text/javascript")):
        mimetypes.add_type(kind, suffix)
    static = Path(str(resources.files("lasthop.page") / "static"))
    server = Server(root, begin, cores)
    app = Starlette(routes=[*server.routes(), Mount("/", StaticFiles(directory=static, html=True))])
    return Guard(app, port=port, token=token)


def listen(port: int) -> socket.socket:
    """A socket on 127.0.0.1; any free port if 0.

    Raises:
        OSError: If the port is taken.
    """
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
    except OSError:
        found.close()
        raise
    return found


def serve(app: Guard, sockets: list[socket.socket], *, started: Callable[[], object]) -> None:
    """Serves until interrupted.

    Args:
        app: What to serve.
        sockets: Where it listens.
        started: Called when requests are answered.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        ws="none",
        http=bounded(app.has_token),
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=16 * 1024,
    )

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started()

    Announced(config).run(sockets)
