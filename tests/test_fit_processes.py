"""Processes of measured rates and delays: formats, selection, parameters, lines of scenarios."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import lasthop
from lasthop import fit
from lasthop.commands import _main

Floats = NDArray[np.float64]


def correlated(count: int, persistence: float, seed: int = 1) -> Floats:
    """An autoregressive process with mean 0 and variance 1, by its definition."""
    random = np.random.default_rng(seed)
    values = [random.normal()]
    for _ in range(count - 1):
        noise = math.sqrt(1.0 - persistence**2) * random.normal()
        values.append(persistence * values[-1] + noise)
    return np.array(values)


def series(values: Floats, key: str = "delay", interval: float = 0.1) -> fit.Series:
    times: Floats = np.linspace(0.0, interval * (values.size - 1), values.size)
    return fit.Series(times, values, key, "log")


def table(found: fit.Processes) -> object:
    """The value in the line, which a scenario accepts."""
    value = tomllib.loads(found.line)[found.series.key]
    changes = {f"link.wireless.{found.series.key}": value}
    lasthop.load("examples/first.toml").with_(changes).points()
    return value


@pytest.mark.parametrize("seed", range(5))
def test_independent_deviations_are_constant(seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0.0, 1e-3, 2000)
    found = fit.fit_process(series(0.03 + noise))
    assert found.best.name == "constant"
    assert found.best.levels[0] == pytest.approx(0.03, abs=4 * 1e-3 / math.sqrt(2000))
    assert found.warnings == ()
    assert str(table(found)).endswith(" ms")


@pytest.mark.parametrize("seed", range(5))
def test_an_autoregressive_process_is_found_with_its_parameters(seed: int) -> None:
    found = fit.fit_process(series(0.03 + 2e-3 * correlated(5000, 0.9, seed)))
    best = found.best
    assert best.name == "autoregressive"
    # Four standard errors, sqrt((1 - φ²) / n).
    assert best.persistence == pytest.approx(0.9, abs=4 * math.sqrt(0.19 / 5000))
    assert best.correlation_s == pytest.approx(-0.1 / math.log(0.9), rel=0.3)
    # The path in the line has the variance and the correlation of the model.
    path = best.path(200_000, interval_s=0.3)
    assert path.std() == pytest.approx(best.deviation, rel=0.02)
    after = np.corrcoef(path[:-1], path[1:])[0, 1]
    assert after == pytest.approx(best.persistence**3, abs=0.02)
    value = table(found)
    assert isinstance(value, dict)
    assert len(value["at"]) == 100
    assert any("which all replications share" in text for text in found.warnings)


@pytest.mark.parametrize("seed", range(5))
def test_steps_are_found_at_their_times(seed: int) -> None:
    levels = np.repeat([5e6, 2e6, 4e6], [300, 200, 500])
    noise = np.random.default_rng(seed).normal(0.0, 2e5, levels.size)
    found = fit.fit_process(series(levels + noise, "rate"))
    assert found.best.name == "steps"
    assert found.best.starts_s.tolist() == pytest.approx([0.0, 30.0, 50.0], abs=0.11)
    assert found.best.levels.tolist() == pytest.approx([5e6, 2e6, 4e6], rel=0.02)
    value = table(found)
    assert isinstance(value, dict)
    assert value["at"][0][0] == "0 s"
    assert value["repeat"] == "100 s"


def test_a_structure_that_no_model_has_is_reported() -> None:
    """A period of 8 intervals."""
    wave = np.sin(np.arange(4000) * math.pi / 4) + correlated(4000, 0.0, 2)
    found = fit.fit_process(series(0.1 + 1e-2 * wave))
    assert any("residuals of model" in text for text in found.warnings)


def test_equal_values_have_the_simplest_model() -> None:
    found = fit.fit_process(series(np.full(100, 0.02)))
    assert found.best.name == "constant"
    assert found.line == 'delay = "20 ms"'


def test_formats_of_delays(tmp_path: Path) -> None:
    file = tmp_path / "delays"
    for text, times, values in (
        ("time_s,delay_ms\n0,20\n0.5,30\n", [0, 0.5], [0.02, 0.03]),
        ("# log\ntime_ms;rtt_ms\n0;40\n500;60\n", [0, 0.5], [0.02, 0.03]),
        # CellReplay: time, delay, opportunities.
        ("0 20 0 1 2\n500 30 0 4\n", [0, 0.5], [0.02, 0.03]),
        (
            "PING a (1.2.3.4) 56(84) bytes of data.\n"
            "64 bytes from 1.2.3.4: icmp_seq=1 ttl=64 time=40.0 ms\n"
            "64 bytes from 1.2.3.4: icmp_seq=3 ttl=64 time=60.0 ms\n",
            [1, 3],
            [0.02, 0.03],
        ),
        (
            "PING a (1.2.3.4) 56(84) bytes of data.\n"
            "[100.5] 64 bytes from 1.2.3.4: icmp_seq=1 ttl=64 time=40.0 ms\n"
            "[101.0] 64 bytes from 1.2.3.4: icmp_seq=2 ttl=64 time=60.0 ms\n",
            [100.5, 101],
            [0.02, 0.03],
        ),
    ):
        file.write_text(text)
        found = fit.read_delays(file)
        assert found.times_s.tolist() == pytest.approx(times)
        assert found.values.tolist() == pytest.approx(values)
    for text, message in (
        ("", "expected CSV"),
        ("1\n2\n", "expected CSV, the output of ping or a packet-train trace"),
        ("time_s,rate_bps\n0,1\n", "expected columns time_s, time_ms and one of delay_s"),
        ("time_s,delay_s\n0,x\n", ":2: invalid text: expected a number"),
        ("time_s,delay_s\n0\n", ":2: 1 columns: expected 2"),
        ("time_s,delay_s\n1,1\n0,1\n", "is before the previous one"),
        ("time_s,delay_s\n1,1\n", "1 values: expected at least 2"),
        ("0 20\n5\n", ":2: 1 columns: expected time and delay in ms"),
    ):
        file.write_text(text)
        with pytest.raises(fit.FitError, match=message):
            fit.read_delays(file)


def test_rates_are_read_from_iperf3(tmp_path: Path) -> None:
    # The fields of iperf 3.12 that matter, and some of the others.
    def interval(start: float, rate: float, *, omitted: bool = False) -> dict[str, object]:
        times = {"start": start, "end": start + 1.0, "seconds": 1.0}
        total = {**times, "bytes": int(rate / 8), "bits_per_second": rate, "omitted": omitted}
        return {"streams": [{"socket": 5, **total}], "sum": total}

    file = tmp_path / "iperf.json"
    intervals = [interval(0.0, 9e6, omitted=True), interval(0.0, 3e6), interval(1.00005, 5.5e6)]
    file.write_text(json.dumps({"start": {}, "intervals": intervals, "end": {}}, indent=1))
    found = fit.read_rate_series(file)
    assert found is not None
    assert found.times_s.tolist() == [0.0, 1.00005]
    assert found.values.tolist() == [3e6, 5.5e6]
    assert found.notes[-1] == "1 omitted interval ignored"
    for text, message in (
        ('{"intervals": 1}', "expected the output of `iperf3 --json`"),
        ('{"intervals": [{"sum": {"start": 0}}]}', "`bits_per_second` in the `sum`"),
        ('{"intervals": []}', "0 values: expected at least 2"),
        ("{" * 100_000, "invalid JSON"),
        (json.dumps({"intervals": [interval(0.0, -1.0)]}), "numbers of at least 0"),
    ):
        file.write_text(text)
        with pytest.raises(fit.FitError, match=message):
            fit.read_rate_series(file)


def test_a_gap_holds_the_previous_value() -> None:
    times = np.r_[np.arange(0, 30), np.arange(40, 70)].astype(float)
    found = fit.fit_process(
        fit.Series(times, np.r_[np.full(30, 1.0), np.full(30, 3.0)], "delay", "x")
    )
    assert found.interval_s == 1.0
    assert found.values.size == 70
    assert found.values[29:42].tolist() == [1.0] * 11 + [3.0] * 2
    with pytest.raises(fit.FitError, match="expected at least 20"):
        fit.fit_process(series(np.ones(5)))
    with pytest.raises(fit.FitError, match="expected increasing times"):
        fit.fit_process(fit.Series(np.zeros(30), np.ones(30), "delay", "x"))


def test_the_command_fits_rates_and_delays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    delays, rates = tmp_path / "delays.csv", tmp_path / "rates.csv"
    values = 30 + 5 * correlated(500, 0.9)
    delays.write_text(
        "time_s,delay_ms\n" + "".join(f"{k / 10},{one}\n" for k, one in enumerate(values))
    )
    picture = tmp_path / "fit.png"
    assert _main(["fit", "--delays", str(delays), "--plot", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "autoregressive" in out
    assert "correlation time" in out
    assert out.splitlines()[-1].startswith('delay = { kind = "steps", at = [["0 s", ')
    assert picture.stat().st_size > 10_000
    rates.write_text("time_s,rate_mbps\n" + "".join(f"{k},{3 + k // 50}\n" for k in range(100)))
    assert _main(["fit", "--rates", str(rates), "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["models"][0]["name"] == "steps"
    assert printed["models"][0]["levels"] == [3e6, 4e6]
    # A recording of mahimahi: the recording itself, and the process.
    trace = tmp_path / "trace"
    trace.write_text("".join(f"{ms}\n" for ms in range(1, 30_001) if ms % 20_000 < 10_000))
    assert _main(["fit", "--rates", str(trace)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith('rate = { kind = "trace"')
    assert lines[-1].startswith('rate = { kind = "steps"')
    for words, message in (
        (["--rates", "--delays", str(delays)], "cannot use `--rates` with `--delays`"),
        (["--delays", "--model", "uniform", str(delays)], "cannot use `--delays` with options"),
        (["--delays", str(rates)], "and one of delay_s"),
    ):
        assert _main(["fit", *words]) == 2
        assert message in capsys.readouterr().err
