"""The lesson in the documentation agrees with the page."""

from __future__ import annotations

import itertools
import re
import shutil
from pathlib import Path

import pytest

import lasthop
from explorer import explorer
from lasthop.page.presets import presets, starting_point
from lesson import NAMES, PICTURES, give

CHROMIUM = shutil.which("chromium")
LESSON = Path(__file__).parent.parent / "docs" / "lesson.md"


@pytest.mark.slow
def test_the_lesson_says_what_the_page_shows(tmp_path: Path) -> None:
    """Its numbers equal those of the page within a tenth, and its pictures can be drawn."""
    if CHROMIUM is None:
        pytest.skip("needs Debian's chromium")
    from playwright.sync_api import sync_playwright

    with explorer(tmp_path) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        found = give(browser, server, PICTURES)
        browser.close()
    text = LESSON.read_text(encoding="utf-8")
    stated = {
        step: [float(raw), float(repeated)]
        for step, raw, repeated in re.findall(
            r"^\| (\w+) \|.*\| ([\d.]+) \| ([\d.]+) \|$", text, re.MULTILINE
        )
    }
    assert set(stated) == {"first", "loss", "shrunk", "satellite"}
    for step, (raw, repeated) in stated.items():
        assert found[step] == [pytest.approx(raw, rel=0.1), pytest.approx(repeated, rel=0.1)], step
    # Its statements.
    assert found["first"][1] > 1.1 * found["first"][0]
    assert found["loss"][1] > 2 * found["loss"][0]
    assert found["shrunk"][1] < 1.05 * found["shrunk"][0]
    assert found["satellite"][1] < found["satellite"][0]
    for name in NAMES:
        assert f"_generated/lesson/{name}.png" in text
        assert (PICTURES / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_answers_of_the_class_are_those_of_the_page() -> None:
    """Each number in bold type follows from the scenario with which the page opens."""
    text = LESSON.read_text(encoding="utf-8")
    schedule, _, rest = text.partition("## A class of 45 minutes")[2].partition("### Questions")
    times = [
        (int(start), int(end)) for start, end in re.findall(r"^\| (\d+)–(\d+) \|", schedule, re.M)
    ]
    assert times[0][0] == 0
    assert times[-1][1] == 45
    assert all(one[1] == other[0] for one, other in itertools.pairwise(times))
    questions, _, answers = rest.partition("<details>")
    assert [len(re.findall(r"^\d\. ", part, re.M)) for part in (questions, answers)] == [6, 6]
    page = lasthop.Scenario(starting_point()["scenario"])
    repeat = {"link.radio.protocol": {"kind": "selective-repeat", "window": 32}}

    def mean(metric: str, **changes: object) -> float:
        wide = lasthop.run(page.with_(changes), replications=200, seed=1).wide
        value = wide[f"flow.download.{metric}"].mean()
        assert isinstance(value, float)
        return value

    heavy = {"link.radio.errors.loss": "8 %"}
    satellite = next(one["link"] for one in presets() if one["name"] == "geo")
    assert satellite["rate"] == "2 Mbps"
    assert satellite["delay"] == "270 ms"
    expected = [
        mean("goodput_bps") / 2e4,
        mean("goodput_bps", **heavy) / 2e4,
        mean("goodput_bps", **heavy, **{"flow.download.transport.variant": "bbr3"}) / 1e6,
        mean("retransmissions"),
        mean("retransmissions", **repeat),
        100 * 0.08 / 0.92,
        50 * 1500 * 8 / 2e6,
        2e6 * 0.54 / (1500 * 8),
    ]
    stated = re.findall(r"\*\*([\d.]+)\*\*", answers)
    assert len(stated) == len(expected)
    for number, value in zip(stated, expected, strict=True):
        digits = len(number.partition(".")[2])
        assert float(number) == pytest.approx(value, abs=0.501 * 10.0**-digits), number
