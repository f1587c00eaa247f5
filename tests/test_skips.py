"""The rule of `.ci/run` for skipped tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import OPTIONAL, ROOT, is_optional

TESTS = """
import pytest

def test_program():
    pytest.skip("needs a program")

def test_permission():
    pytest.skip("mounting needs privileges")

def test_passes():
    pass
"""


@pytest.mark.parametrize(
    ("wanted", "line"),
    [
        pytest.param("", "1 passed, 2 skipped", marks=pytest.mark.slow),
        ("1", "1 failed, 1 passed, 1 skipped"),
    ],
)
def test_a_skip_without_a_listed_reason_fails(tmp_path: Path, wanted: str, line: str) -> None:
    (tmp_path / "test_two.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(tmp_path),
            str(tmp_path),
        ],
        env={**os.environ, "LASTHOP_ALL_TESTS": wanted},
        capture_output=True,
        text=True,
        check=False,
    )
    assert line in done.stdout, done.stdout
    assert (done.returncode == 1) == bool(wanted)
    if wanted:
        assert "not run (Skipped: needs a program)" in done.stdout


def test_reasons_are_named_in_the_tests() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "tests").glob("test_live*.py"))
    sources += (ROOT / "tests" / "test_campaign_faults.py").read_text()
    assert all(reason in sources for reason in OPTIONAL)
    assert is_optional("Skipped: needs CAP_NET_ADMIN")
    assert not is_optional("tshark (Wireshark on the command line) is not installed")
