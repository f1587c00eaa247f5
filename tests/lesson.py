"""Runs the lesson of docs/lesson.md step by step in a browser, and draws its pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from explorer import Explorer

PICTURES = Path(__file__).parent.parent / "docs" / "_generated" / "lesson"
NAMES = ("first", "loss", "inside", "shrunk", "satellite")


def means(page: Page, metric: str) -> list[float]:
    """The means of a metric, in the order of the alternatives."""
    figure = page.locator("figure.estimates", has_text=metric).first
    texts = figure.locator("td:nth-child(2)").all_inner_texts()
    return [float(text.split(" ±")[0]) for text in texts]


def set_key(page: Page, key: str, text: str) -> None:
    """Types a value, and waits for results of the final precision."""
    field = page.locator(f"#f-{key}")
    field.fill(text)
    field.press("Enter")
    settle(page)


def settle(page: Page) -> None:
    """Waits for the last result."""
    page.wait_for_function(
        "() => { const p = lasthop.player; return !p.waiting && !p.running && p.answer.done; }",
        timeout=60_000,
    )


def give(browser: Browser, server: Explorer, folder: Path) -> dict[str, list[float]]:
    """Performs the steps of the lesson.

    Args:
        browser: The browser.
        server: A server in the initial state of `lasthop explore`.
        folder: Folder of the pictures.

    Returns:
        Goodputs mentioned in the lesson, by step, in the unit shown.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page = browser.new_page(viewport={"width": 1180, "height": 760}, device_scale_factor=1.5)
    found: dict[str, list[float]] = {}

    def picture(name: str) -> None:
        page.screenshot(path=folder / f"{name}.png")

    from explorer import aborted_requests, wait_for_results

    aborted = aborted_requests(page)
    page.goto(server.address)
    wait_for_results(page, ".estimates", aborted)
    settle(page)
    found["first"] = means(page, "Goodput")
    picture("first")
    # A higher loss rate.
    set_key(page, "link-radio-errors-loss", "8 %")
    found["loss"] = means(page, "Goodput")
    picture("loss")
    # The reason why the raw link is slow.
    page.get_by_role("button", name="Trace view").click()
    page.wait_for_selector(".panel-plot canvas")
    page.wait_for_timeout(500)
    picture("inside")
    page.get_by_role("button", name="Live view", exact=True).first.click()
    # The cost of retransmissions: the link fills a small queue.
    set_key(page, "link-radio-errors-loss", "2 %")
    set_key(page, "link-radio-queue", "8 packets")
    found["shrunk"] = means(page, "Goodput")
    page.locator(".delays").scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    picture("shrunk")
    page.locator("#preset").select_option("geo")
    settle(page)
    found["satellite"] = means(page, "Goodput")
    page.evaluate("scrollTo(0, 0)")
    picture("satellite")
    page.close()
    return found
