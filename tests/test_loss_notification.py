"""Analytic model of loss notification: the command and its functions."""

import json
import math

import pytest

from lasthop import analysis
from lasthop import commands as cli


def test_the_command_prints_loads_and_delays(capsys: pytest.CaptureFixture[str]) -> None:
    loads = ["analyse", "loss-notification", "--loss", "20 %", "--limit", "1", "--limit", "2"]
    assert cli._main([*loads, "--format", "json"]) == 0
    one, two = json.loads(capsys.readouterr().out)["rows"]
    assert (one["ersn"], one["losses_in_a_row"]) == (0.0, 2)
    assert two["ersn"] == pytest.approx(0.2 / 6.0)
    assert two["ersn_printed"] == pytest.approx(0.03261, abs=5e-6)
    delays = ["analyse", "loss-notification", "--delays", "--loss", "5 %", "--format", "json"]
    assert cli._main(delays) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    ours = {row["scheme"]: row["uplink_s"] for row in rows}
    assert ours["ll-elsn"] == 0.0
    assert ours["hack"] == pytest.approx(0.04 + 0.8e-3 / 0.95)
    assert cli._main(["analyse", "loss-notification", "--loss", "1"]) == 2


def test_load_and_filter_agree_with_a_slotted_link() -> None:
    table = analysis.notification_load([0.2], [2])
    assert table["ersn"].item() == pytest.approx(0.2 / 6.0)
    assert math.isclose(table["eln"].item(), 0.2 * 0.8 * 0.04 / (1 - 0.04))
