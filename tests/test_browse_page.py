"""Figures of results on the page of `lasthop explore` at several widths."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

import lasthop
from explorer import QUESTION, aborted_requests, explorer, wait_for_results

pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium")


def test_text_of_figures_is_readable_on_a_phone(tmp_path: Path) -> None:
    """Text is not scaled down with the figure, and labels of the axis do not overlap."""
    if CHROMIUM is None:
        pytest.skip("needs Debian's chromium")
    from playwright.sync_api import sync_playwright

    losses = {"link.radio.errors.loss": ["0.5 %", "1 %", "3 %"]}
    scenario = lasthop.Scenario(QUESTION["scenario"]).sweep(losses)
    lasthop.Campaign(tmp_path / "sweep").run(scenario, replications=2)
    with explorer(tmp_path) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 900})
        aborted = aborted_requests(page)
        page.goto(server.address)
        wait_for_results(page, ".estimates", aborted)
        page.get_by_role("button", name="Browse", exact=True).click()
        page.wait_for_selector("svg.means text", timeout=60_000)
        boxes = page.evaluate(
            """() => [...document.querySelectorAll('svg.means text.tick')].map(one => {
                 const { left, right, height } = one.getBoundingClientRect();
                 return [left, right, height];
               })"""
        )
        browser.close()
    assert len(boxes) >= 3
    assert all(height >= 10.0 for _, _, height in boxes)
    boxes.sort()
    assert all(after[0] > before[1] for before, after in itertools.pairwise(boxes))
