"""Fixtures and settings shared by all tests."""

from pathlib import Path

import pytest
from hypothesis import settings

# All runs use the same examples. A single example has no time limit, because other processes may
# use the machine.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")

ROOT = Path(__file__).parent.parent

SMALL = """
name = "small"

[link.wireless]
between = ["server", "client"]
rate = "64 kbps"
delay = "50 ms"
errors = { kind = "uniform", loss = "5 %" }

[flow.transfer]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "reno", profile = "ns-2", segment = "250 B" }
app = { kind = "file", size = "50 kB" }

[sweep]
"flow.transfer.transport.variant" = ["reno", "sack"]

[run]
replications = 4
seed = 1
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A scenario of two points with a negligible run time."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path
