"""A web page of 20 objects over four connections, as a browser loads it.

On the server, then on the client:

    python3 page.py serve
    python3 page.py load server
"""

import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 8000
OBJECTS = 20
OBJECT = bytes(30_000)
CONNECTIONS = 4


class Page(BaseHTTPRequestHandler):
    """Every path is an object of the page."""

    def do_GET(self) -> None:
        """Send an object."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(OBJECT)))
        self.end_headers()
        self.wfile.write(OBJECT)

    def log_message(self, *_: object) -> None:
        """Disable the log of requests."""


def load(host: str) -> None:
    """Load the page five times and print the duration of each."""

    def fetch(number: int) -> int:
        with urllib.request.urlopen(f"http://{host}:{PORT}/{number}", timeout=60) as answer:
            return len(answer.read())

    for _ in range(5):
        start = time.monotonic()
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            size = sum(pool.map(fetch, range(OBJECTS)))
        print(f"{size / 1000:.0f} kB in {time.monotonic() - start:.2f} s", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        ThreadingHTTPServer(("", PORT), Page).serve_forever()
    elif sys.argv[1:2] == ["load"] and len(sys.argv) == 3:
        load(sys.argv[2])
    else:
        sys.exit(__doc__)
