"""QUIC of a real program (quinn, TLS 1.3) over live links; see `tools/live/quic.py`."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from test_live import why_not

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
SIZE = 500_000


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("live_quic", ROOT / "tools/live/quic.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = _tool()


@pytest.fixture(scope="module")
def program() -> Path:
    if reason := why_not():
        pytest.skip(reason)
    if shutil.which("cargo") is None:
        pytest.skip("the example is built with cargo")
    path: Path = TOOL.build()
    return path


@pytest.mark.parametrize("loss", TOOL.LOSSES)
@pytest.mark.parametrize("link", TOOL.LINKS)
def test_a_file_crosses_the_link(program: Path, link: str, loss: str) -> None:
    found = TOOL.transfer(program, TOOL.scenario(link, loss, SIZE), 0, SIZE)
    assert found["bytes"] == SIZE
    assert 0 < found["goodput_bps"] < 20e6
    lost = found["link.radio.forward.frames_lost"]
    if link == "raw":
        # Each lost packet is declared lost, except for the last ones: only ACKs.
        assert found["packets_lost"] >= lost - 3
        assert lost > 0 or loss == "0 %"
    else:
        # Every lost frame with a packet is retransmitted; some lost frames are acknowledgments.
        assert found["link.radio.forward.retransmissions"] >= 0.5 * lost
        assert found["link.radio.forward.abandoned"] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "usage: quic-live serve | send HOST BYTES"),
        (["send", "localhost", "much"], "BYTES: found much; expected a whole number"),
        (["send", "localhost", "1", "vegas"], "variant: found vegas; expected cubic, newreno or"),
    ],
)
def test_wrong_words_are_named(program: Path, words: list[str], message: str) -> None:
    found = subprocess.run(
        [program, *words], capture_output=True, text=True, timeout=30, check=False
    )
    assert found.returncode == 1
    assert message in found.stderr
