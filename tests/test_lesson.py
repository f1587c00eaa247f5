"""The lesson in the documentation agrees with the page."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from explorer import explorer
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
