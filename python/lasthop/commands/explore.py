"""The command `lasthop explore`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from lasthop import _lasthop
from lasthop.commands.codes import DONE
from lasthop.commands.common import Jobs, load, note, print_line
from lasthop.commands.declarations import Argument, Option
from lasthop.commands.values import BadInput, as_path
from lasthop.scenarios.arguments import invalid

__all__ = ["explore"]


def explore(
    source: Annotated[
        str | None,
        Argument(
            metavar="[FILE|STORE|ADDRESS]",
            help="Scenario file, profile, folder of a campaign, or a shared address of the page.",
        ),
    ] = None,
    *,
    port: Annotated[
        int, Option(min=0, max=65_535, help="Port on 127.0.0.1; 0: any free port.")
    ] = 0,
    browser: Annotated[bool, Option("--browser", help="Open the page in a browser.")] = True,
    jobs: Jobs = 0,
) -> int:
    """Explore a link interactively in the browser; Ctrl-C ends the server."""
    for name in ("starlette", "uvicorn"):
        if importlib.util.find_spec(name) is None:
            raise BadInput(f"needs {name}: run `pip install lasthop`")
    from lasthop.page import safety, server

    root, begin, fragment = _begin(source)
    try:
        listening = server.listen(port)
    except OSError as error:
        raise BadInput(f"cannot listen on port {port}: {error.strerror}; use `--port 0`") from None
    port = listening.getsockname()[1]
    token = safety.new_token()
    app = server.application(
        root=root, begin=begin, cores=jobs or _lasthop.cores(), port=port, token=token
    )
    address = f"http://127.0.0.1:{port}/?token={token}{fragment}"

    def started() -> None:
        print_line(address)
        sys.stdout.flush()
        note("lasthop: press Ctrl-C to end the server")
        if browser:
            import threading
            import webbrowser

            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    server.serve(app, [listening], started=started)
    return DONE


def _begin(source: str | None) -> tuple[Path, dict[str, Any], str]:
    """Returns the root folder of the page, its initial state and the fragment of its address."""
    from lasthop.page.presets import split, starting_point

    here = Path.cwd()
    if source is None:
        return here, {**starting_point(), "view": "play"}, ""
    if source.startswith(("http://", "#")):
        fragment = source[1:] if source.startswith("#") else urlsplit(source).fragment
        if not fragment:
            raise BadInput(invalid("ADDRESS", source, "an address with a part after `#`"))
        return here, {**starting_point(), "view": "play"}, f"#{fragment}"
    path = as_path(source)
    if path.is_dir():
        if not (path / "ledger.sqlite").is_file():
            raise BadInput(f"{path}: not a campaign: expected a folder written by `run --store`")
        inside = path.resolve()
        root = here if inside.is_relative_to(here.resolve()) else inside
        folder = str(inside.relative_to(root.resolve()))
        return root, {**starting_point(), "view": "browse", "campaign": folder}, ""
    scenario = load(path, None)
    scenario.points()
    # File names in the scenario are relative to its folder.
    root = path.parent.resolve() if path.parent != Path() else here
    return root, {**split(scenario), "view": "play"}, ""
