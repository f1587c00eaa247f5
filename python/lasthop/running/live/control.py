"""Changes of a live run from another process: a Unix socket, and its client.

By default the socket is in the abstract namespace of the machine, so that nothing remains if the
run is killed; only processes of the same user are served. A request is a line of JSON, `{"words":
["set", "link.radio.rate=2Mbps"]}`; the response is a line with `text` and `time`, or `error`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lasthop import _lasthop
from lasthop.running.live.session import LiveError, Session
from lasthop.scenarios.arguments import ArgumentError, unknown
from lasthop.scenarios.scenario import Scenario

__all__ = ["ENVIRONMENT", "Control", "ask", "change_of", "running_sockets"]

ENVIRONMENT = "LASTHOP_CONTROL"
"""Variable in the environment of programs that names the socket of `--control`."""

# Prefix of abstract sockets; the first byte of their names is zero.
PREFIX = "lasthop-live-"
FORMS = "set KEY=VALUE..., or down TIME [LINK]"
# Seconds for which a client waits for a response.
PATIENCE_S = 10.0
LONGEST = 1 << 20


def change_of(scenario: Scenario, words: Sequence[str]) -> tuple[dict[str, Any], Scenario]:
    """Reads a change of a run.

    Args:
        scenario: The present scenario.
        words: `set KEY=VALUE...`, or `down TIME [LINK]`.

    Returns:
        The change for the driver, and the scenario after it.

    Raises:
        lasthop.scenarios.arguments.ArgumentError: If the words have another form.
        lasthop.ScenarioError: If a key or value is invalid.
    """
    if words[:1] == ["set"] and len(words) > 1:
        settings = {}
        for word in words[1:]:
            key, equals, value = word.partition("=")
            if not equals or not key.strip():
                raise ArgumentError(f"invalid change `{word}`: expected KEY=VALUE")
            settings[key.strip()] = value.strip()
        changed = scenario.with_(settings)
        [point] = changed.points()
        return {"scenario": json.loads(point.to_json()), "text": " ".join(words)}, changed
    if words[:1] == ["down"] and len(words) in (2, 3):
        try:
            seconds = _lasthop.quantity("duration", words[1])
        except ValueError:
            raise ArgumentError(f"invalid time `{words[1]}`: expected such as `5 s`") from None
        link = words[2].removeprefix("link.") if len(words) == 3 else None
        links = scenario.to_dict().get("link", {})
        if link is not None and link not in links:
            raise ArgumentError(unknown("link", link, links))
        pause = {"pause_ns": round(seconds * 1e9), "link": link, "text": " ".join(words)}
        return pause, scenario
    raise ArgumentError(f"invalid change `{' '.join(words)}`: expected {FORMS}")


class Control:
    """Socket of a run, served by a thread."""

    def __init__(self, session: Session, path: Path | None = None) -> None:
        """Opens the socket.

        Args:
            session: The run.
            path: File name of the socket; by default an abstract name.

        Raises:
            OSError: If another run uses the name, or the file cannot be created.
        """
        self._session, self._scenario, self._path = session, session.scenario, path
        self._waiting: dict[int, Callable[[Mapping[str, Any]], None]] = {}
        self._number = 0
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if path is None:
            self._socket.bind(f"\0{PREFIX}{os.getpid()}")
        else:
            _remove_stale(path)
            before = os.umask(0o077)
            try:
                self._socket.bind(str(path))
            finally:
                os.umask(before)
        self._socket.listen(8)
        self._server = threading.Thread(target=self._serve, daemon=True)
        self._server.start()

    def close(self) -> None:
        """Closes the socket and removes its file."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        # Until `accept` has returned, the name is in use.
        self._server.join(PATIENCE_S)
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()

    def tell(self, message: Mapping[str, Any]) -> None:
        """Processes the driver's response to a change."""
        answer = self._waiting.pop(int(message["id"]), None)
        if answer is not None:
            answer(message)

    def change(self, words: Sequence[str]) -> Mapping[str, Any]:
        """Changes the links; returns the driver's response.

        Raises:
            lasthop.scenarios.arguments.ArgumentError: If the words are invalid.
            lasthop.ScenarioError: If a key or value is invalid.
            LiveError: If the driver refuses the change, or the run has ended.
        """
        with self._lock:
            change, scenario = change_of(self._scenario, words)
            self._number += 1
            answered = threading.Event()
            found: dict[str, Any] = {}

            def answer(message: Mapping[str, Any]) -> None:
                found.update(message)
                answered.set()

            self._waiting[self._number] = answer
            text = " ".join(words)
            self._session.send({"id": self._number, "text": text, "change": change})
            if not answered.wait(PATIENCE_S):
                raise LiveError("the driver does not respond")
            if found["kind"] == "refused":
                raise LiveError(found["message"])
            self._scenario = scenario
            return found

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._respond, args=(peer,), daemon=True).start()

    def _respond(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            peer.settimeout(PATIENCE_S)
            _, user, _ = struct.unpack(
                "3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            )
            response: dict[str, Any]
            if user not in (os.geteuid(), 0):
                response = {"error": "the run belongs to another user"}
            else:
                try:
                    words = [str(word) for word in json.loads(_line(peer))["words"]]
                    done = self.change(words)
                    response = {"text": done["text"], "time": done["time"]}
                except (
                    KeyError,
                    TypeError,
                    ValueError,
                    LiveError,
                    _lasthop.ScenarioError,
                ) as error:
                    response = {"error": str(error)}
            peer.sendall(json.dumps(response).encode() + b"\n")


def _line(peer: socket.socket) -> bytes:
    """Reads a line of limited length."""
    data = b""
    while not data.endswith(b"\n") and len(data) < LONGEST:
        more = peer.recv(65_536)
        if not more:
            break
        data += more
    return data


def _remove_stale(path: Path) -> None:
    """Removes the socket of a run that was killed."""
    if path.is_socket():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()


def running_sockets() -> list[str]:
    """Returns the abstract names of the sockets of running commands, without the zero byte."""
    table = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace")
    names = (line.split()[-1] for line in table.splitlines()[1:])
    return sorted({name[1:] for name in names if name.startswith(f"@{PREFIX}")})


def ask(words: Sequence[str], where: str | None) -> Mapping[str, Any]:
    """Sends a change to a run.

    Args:
        words: The change.
        where: File name of the socket or number of the process; by default `$LASTHOP_CONTROL`, or
            else the only run.

    Raises:
        LiveError: If the run is not found, or refuses the change.
    """
    where = where or os.environ.get(ENVIRONMENT)
    if where is None:
        names = running_sockets()
        if len(names) != 1:
            known = ", ".join(name.removeprefix(PREFIX) for name in names)
            raise LiveError(
                f"several runs ({known}): use `--control PID`"
                if names
                else "no run on this machine"
            )
        address = f"\0{names[0]}"
    else:
        address = f"\0{PREFIX}{where}" if where.isdigit() else where
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(2 * PATIENCE_S)
            peer.connect(address)
            peer.sendall(json.dumps({"words": list(words)}).encode() + b"\n")
            response: dict[str, Any] = json.loads(_line(peer))
    except (OSError, ValueError) as error:
        name = address.replace("\0", "@")
        raise LiveError(f"no response of a run at `{name}`: {error}") from None
    if "error" in response:
        raise LiveError(response["error"])
    return response
