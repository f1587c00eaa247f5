"""QUIC endpoints for `interop.py`, with aioquic: files by `GET /NAME` on a stream (hq-interop).

    python endpoint.py server FOLDER
    python endpoint.py client SIM SERVER NAME...

The server uses port 443 and files in FOLDER, which also has `cert.pem` and `key.pem`. The client
waits until the simulator at address SIM is ready, requests all files, and writes them to
the working directory. Both write their TLS secrets to the file in SSLKEYLOGFILE.
"""

# ruff: noqa: T201

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
import time
from pathlib import Path

from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration

READY_PORT = 57832
READY_S = 30.0
# Interval of PING frames of the client.
PING_S = 0.5


def configuration(*, is_client: bool) -> QuicConfiguration:
    """Returns the configuration of an endpoint."""
    secrets = Path(os.environ["SSLKEYLOGFILE"]).open("a", encoding="utf-8")  # noqa: SIM115
    own = QuicConfiguration(
        alpn_protocols=["hq-interop"], is_client=is_client, secrets_log_file=secrets
    )
    own.verify_mode = ssl.CERT_NONE
    return own


async def server(folder: Path) -> None:
    """Serves files until it is killed."""
    own = configuration(is_client=False)
    own.load_cert_chain(folder / "cert.pem", folder / "key.pem")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = (await reader.read()).split()[1].decode().removeprefix("/")
        writer.write((folder / name).read_bytes())
        writer.write_eof()

    running: set[asyncio.Task[None]] = set()

    def start(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(answer(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    await serve("::", 443, configuration=own, stream_handler=start)
    await asyncio.Future()


async def client(sim: str, host: str, names: list[str]) -> None:
    """Fetches files over one connection; prints the time until all are complete."""
    end = time.monotonic() + READY_S
    while True:
        try:
            socket.create_connection((sim, READY_PORT), 5).close()
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
    start = time.monotonic()
    async with connect(host, 443, configuration=configuration(is_client=True)) as connection:

        async def fetch(name: str) -> None:
            reader, writer = await connection.create_stream()
            writer.write(f"GET /{name}\r\n".encode())
            writer.write_eof()
            Path(name).write_bytes(await reader.read())

        async def keep_alive() -> None:
            while True:
                await asyncio.sleep(PING_S)
                await connection.ping()

        # Without it, a client that only receives may have nothing to send after a rebinding, so
        # that the server never learns of its new address.
        pings = asyncio.create_task(keep_alive())
        await asyncio.gather(*(fetch(name) for name in names))
        pings.cancel()
        print(f"{time.monotonic() - start:.3f}")


def main() -> None:
    """Runs one endpoint."""
    match sys.argv[1:]:
        case ["server", folder]:
            asyncio.run(server(Path(folder)))
        case ["client", sim, host, *names]:
            asyncio.run(client(sim, host, names))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
