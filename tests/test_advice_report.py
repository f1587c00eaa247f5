"""The HTML report of advice."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

import lasthop
from lasthop import advise
from lasthop.commands import _main
from lasthop.showing.advice_report import page

LINK = """
name = "cell"
[link.radio]
between = ["server", "phone"]
rate = "1 Mbps"
delay = "30 ms"
errors = { kind = "gilbert-elliott", mean_loss = "3 %", mean_burst = 2 }
[flow.transfer]
from = "server"
to = "phone"
transport = { kind = "tcp", variant = "sack", profile = "rfc" }
app = { kind = "file", size = "100 kB" }
[flow.voice]
from = "server"
to = "phone"
transport = "udp"
app = { kind = "media", rate = "16 kbps", packet = "100 B" }
[run]
duration = "30 s"
"""


def made(tmp_path: Path, want: str, *protocols: str) -> tuple[advise.Advice, str]:
    """Advice and its page."""
    scenario = lasthop.Scenario.from_toml(LINK)
    found = advise.advise(
        scenario,
        want,
        lasthop.Campaign(tmp_path / "race"),
        options=advise.Options(trials=0, most=40, protocols=protocols),
    )
    return found, page(found, scenario, command="lasthop advise", run="lasthop run")


def section(text: str, name: str) -> str:
    """Text of a section, without tags."""
    found = re.search(rf'<section id="{name}">(.*?)</section>', text, re.DOTALL)
    assert found is not None, name
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found[1])))


@pytest.mark.slow
def test_the_report_has_recommendation_reasons_risks_and_front(tmp_path: Path) -> None:
    found, text = made(
        tmp_path,
        "transfer.goodput, residual_loss < 1.5 %",
        *("raw", "selective-repeat", "stop-and-wait"),
    )
    assert found.choice is not None
    recommended = section(text, "recommendation")
    assert "Use selective-repeat (window " in recommended
    # The present value of the key, which the scenario does not contain, and the bound.
    assert 'link.radio.protocol raw { kind = "selective-repeat", window = ' in recommended
    assert "< 1.5 % satisfied with 95 % confidence" in recommended
    assert "residual_loss < 1.5 % (flow.voice.residual_loss) eliminates: raw." in section(
        text, "reasons"
    )
    risks = section(text, "risks")
    for warning in found.warnings:
        assert warning[1:] in risks
    assert "Energy, memory and implementation cost" in risks
    assert "Pareto front" in section(text, "figure")
    candidates = section(text, "candidates")
    assert "Goodput, transfer (Mbps)" in candidates or "Goodput, transfer (kbps)" in candidates
    assert "Residual loss, voice (%)" in candidates
    for one in found.standings:
        assert one.candidate.name in candidates
    # Self-contained, without script, and the same for the same advice.
    assert "<script" not in text
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert page(found, lasthop.Scenario.from_toml(LINK), command="lasthop advise") != text
    assert made(tmp_path, "transfer.goodput, residual_loss < 1.5 %", "raw")[1] != text


def test_one_objective_has_bars_instead_of_a_front(tmp_path: Path) -> None:
    _, text = made(tmp_path, "transfer.goodput", "raw", "selective-repeat")
    assert "Pareto front" not in section(text, "figure")
    assert "the best at the top" in section(text, "figure")


def test_the_report_without_a_choice_names_the_bound(tmp_path: Path) -> None:
    found, text = made(tmp_path, "transfer.goodput, delay_p99 < 1 ms", "raw", "selective-repeat")
    assert found.choice is None
    assert "No candidate satisfies the bounds" in section(text, "recommendation")
    assert "delay_p99 < 1 ms" in section(text, "reasons")


def test_the_command_writes_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, report = tmp_path / "cell.toml", tmp_path / "advice.html"
    file.write_text(LINK)
    arguments = ["advise", str(file), "--want", "transfer.goodput", "--protocol", "raw"]
    arguments += ["--trials", "0", "--max-replications", "12"]
    assert _main([*arguments, "--report", str(report)]) == 0
    assert f"written to {report}" in capsys.readouterr().err
    text = report.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert f"lasthop run {file}" in section(text, "provenance")
    assert _main([*arguments, "--report", str(tmp_path / "advice.pdf")]) == 2
    assert "` for `--report`: expected a name that ends in .html" in capsys.readouterr().err
    assert _main([*arguments, "--report", str(tmp_path / "none" / "advice.html")]) == 2
    assert "cannot write" in capsys.readouterr().err
