"""The comparison of live links with other emulators."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[1] / "benches" / "live.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_live", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_live"] = module
    spec.loader.exec_module(module)
    return module


def test_rows_are_computed_from_measurements(bench: ModuleType) -> None:
    row = bench.Row("a")
    # Round trips of 40.01 to 43 ms over 2 x 20 ms.
    row.add("echo", [0.04 + 1e-5 * number for number in range(1, 301)], None, 2.0)
    assert math.isclose(row.added_p50_ms, 1.51, rel_tol=1e-9)
    assert math.isclose(row.added_p99_ms, 2.97, rel_tol=1e-9)
    # 1448 kB/s are 1000 packets per second; 10 ms for 2000 packets.
    row.add("bulk", 1_448_000, 0.01, 2.0)
    assert (row.packets_per_s, row.processor_us) == (1000, 5.0)
    row.add("loss", 19_000, None, 2.0)
    # 1.96 sqrt(0.05 * 0.95 / 20000) = 0.302 %.
    assert row.cells() == ["a", "1.51", "2.97", "1,000", "5.00", "5.00 ± 0.30"]
    lines = bench.table([row, bench.Row("b: absent")]).splitlines()
    assert lines[-1] == "| b: absent | – | – | – | – | – |"


def test_measurements_work_without_a_tool(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "DATAGRAMS", 50)
    monkeypatch.setattr(bench, "ECHOES", 5)
    with bench.running(sys.executable, str(BENCH), "serve"):
        echoes = bench.ask("echo", "127.0.0.1", bench.PORT, 0.2)
        assert len(echoes) == 5
        assert all(0 < one < 5 for one in echoes)
        assert bench.ask("bulk", "127.0.0.1", bench.PORT, 0.2) > 0
        assert bench.ask("loss", "127.0.0.1", bench.PORT, 0.2) == 50


def test_absent_tools_are_named(bench: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("TOXIPROXY", raising=False)
    tools = (bench.toxiproxy, bench.netem, bench.mahimahi)
    assert all(": absent" in tool(0.1).tool for tool in tools)


def test_the_command_has_help() -> None:
    done = subprocess.run([sys.executable, BENCH, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "--seconds" in done.stdout
