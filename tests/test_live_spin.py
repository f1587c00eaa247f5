"""Polling before deliveries: `lasthop live --spin`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from test_live import LINK, live, scenario, why_not

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not() or "")]

ECHO = """
import socket, sys, time
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if sys.argv[1] == "answer":
    own.bind(("0.0.0.0", 9000))
    while True:
        own.sendto(*own.recvfrom(1500))
own.connect(("server", 9000))
for number in range(10):
    time.sleep(0.02)
    own.send(b"packet")
    own.recv(1500)
"""


def test_spin_polls_before_deliveries(tmp_path: Path) -> None:
    """Polling for the 40 ms before each delivery costs far more than sleeping."""
    path = scenario(tmp_path, "raw", LINK.replace('"5 ms"', '"40 ms"').replace('"3 %"', '"0 %"'))
    (tmp_path / "echo.py").write_text(ECHO)

    def cost(*options: str) -> float:
        words = [*options, "--quiet", "--out", "out.json"]
        words += ["--at", "server", "--", f"{sys.executable} echo.py answer"]
        words += ["--at", "client", "--", sys.executable, "echo.py", "ask"]
        done = live(path, *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return float(json.loads((tmp_path / "out.json").read_text())["processor_per_packet_s"])

    assert cost("--spin", "50ms") > 4 * cost()


def test_the_time_of_spin_is_checked(tmp_path: Path) -> None:
    done = live(scenario(tmp_path), "--spin", "fast", "--", "true", cwd=tmp_path)
    assert done.returncode == 2
    assert "--spin" in done.stderr
    assert "fast" in done.stderr
