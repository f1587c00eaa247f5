"""The HTML page: complete in itself, and readable in a browser of any width."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lasthop
from lasthop import report
from lasthop.studies import studies

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium")
EXAMPLE = Path(__file__).parent.parent / "examples" / "sr-file-transfer.toml"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A sweep and a study, each as a page."""
    folder = tmp_path_factory.mktemp("pages")
    scenario = lasthop.load(EXAMPLE).set("name", "<b>5 & 6</b>")
    sweep = lasthop.run(scenario, replications=2)
    study = studies()["multilayer"].reproduce(["Table I", "Figure 2"], replications=2)
    texts = {"sweep": report.page(sweep), "study": report.page(study.results, study)}
    files = {}
    for name, text in texts.items():
        files[name] = folder / f"{name}.html"
        files[name].write_text(text, encoding="utf-8")
    return files


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Debian's chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def open_page(
    browser: Browser, file: Path, width: int, scheme: str = "light"
) -> tuple[Page, list[str]]:
    """Opens a page in a window of that width; also everything that it asked for."""
    page = browser.new_page(
        viewport={"width": width, "height": 800},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    return page, [url for url in asked if not url.startswith("data:")]


def test_a_page_refers_to_nothing_outside(pages: dict[str, Path]) -> None:
    for file in pages.values():
        text = file.read_text(encoding="utf-8")
        targets = re.findall(r"""(?:src|href)=["']([^"']*)""", text)
        assert targets
        assert all(target.startswith(("data:", "#")) for target in targets)
        assert "<script" not in text
        assert "url(" not in text


def test_names_are_text_not_markup(pages: dict[str, Path]) -> None:
    text = pages["sweep"].read_text(encoding="utf-8")
    assert "&lt;b&gt;5 &amp; 6&lt;/b&gt;" in text
    assert "<b>5" not in text


def test_the_same_results_give_the_same_page(pages: dict[str, Path]) -> None:
    study = studies()["multilayer"].reproduce(["Table I", "Figure 2"], replications=2)
    assert report.page(study.results, study) == pages["study"].read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [360, 1280])
def test_a_browser_shows_it_without_network_and_without_sideways_scrolling(
    pages: dict[str, Path], browser: Browser, width: int
) -> None:
    for file in pages.values():
        page, asked = open_page(browser, file, width)
        assert asked == [file.as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        pictures = page.evaluate("[...document.images].map(i => [i.complete, i.naturalWidth])")
        assert pictures
        assert all(complete and natural > 0 for complete, natural in pictures)
        page.close()


def test_claims_and_numbers_are_there(pages: dict[str, Path], browser: Browser) -> None:
    page, _ = open_page(browser, pages["study"], 1280)
    verdicts = page.locator(".claim .verdict").all_inner_texts()
    assert verdicts
    assert set(verdicts) <= {"reproduced", "in part", "undecided", "contradicted"}
    # Table I: a row for each loss rate, a column for each combination.
    table = page.locator("section#numbers table").first
    assert table.locator("tbody tr").count() == 4
    assert table.locator("thead th").all_inner_texts()[1:] == [
        "Reno/Raw (kbps)",
        "SACK/Raw (%)",
        "Reno/SR (%)",
        "SACK/SR (%)",
    ]
    page.close()


def test_it_is_readable_in_the_dark(pages: dict[str, Path], browser: Browser) -> None:
    def brightness(page: Page, property_name: str) -> float:
        colour = page.evaluate(f"getComputedStyle(document.body).{property_name}")
        return sum(int(part) for part in re.findall(r"\d+", colour)[:3]) / 3

    page, _ = open_page(browser, pages["study"], 800, "dark")
    assert brightness(page, "color") - brightness(page, "backgroundColor") > 125
    page.close()
