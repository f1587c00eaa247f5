"""Fixtures and settings shared by all tests."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

# All runs use the same examples. A single example has no time limit, because other processes may
# use the machine.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")

ROOT = Path(__file__).parent.parent

# Reasons to skip a test that `.ci/run` accepts: what the machine does not permit. CONTRIBUTING.md
# lists them. A missing program or package is a failure.
OPTIONAL = (
    "live links are not allowed here",
    "needs CAP_NET_ADMIN",
    "mounting needs privileges",
    "this user may not raise priorities",
    "this kernel does not list Reno",
    "aioquic is not installed",
)


def is_optional(reason: str) -> bool:
    """Whether `.ci/run` accepts that a test is skipped for this reason."""
    return reason.removeprefix("Skipped: ").startswith(OPTIONAL)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fails a skipped test if `LASTHOP_ALL_TESTS` is set, as in `.ci/run`."""
    report = yield
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    if report.skipped and os.environ.get("LASTHOP_ALL_TESTS") and not is_optional(reason):
        report.outcome = "failed"
        report.longrepr = f"not run ({reason}), and not listed as optional in tests/conftest.py"
    return report


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
