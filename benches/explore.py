"""Response times and resource usage of the page of `lasthop explore`.

    .venv/bin/python benches/explore.py [--moves 200] [--leak 1000] [--json FILE]

Needs Debian's chromium. The load of the machine during the measurements is printed with the
results:

* time from the command to the first results in the browser;
* 200 moves of a slider: time from the move to the first result in the page;
* 1,000 moves: threads and memory of the server, heap of the page, before and after;
* frames per second while a diagram of 50,000 events zooms;
* four pages simultaneously: time from the move to the first result, and number of working threads.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from explorer import Explorer, explorer  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SLIDER = '[data-slider="f-link-radio-rate"]'

MOVE = """async ([selector, place]) => {
  const slider = document.querySelector(selector);
  const started = performance.now();
  slider.value = place;
  slider.dispatchEvent(new Event('input', { bubbles: true }));
  while (true) {
    await new Promise(requestAnimationFrame);
    const { player } = lasthop;
    if (!player.waiting && player.running === null) break;
    if (!player.waiting && player.running && player.running.isTold) break;
    if (performance.now() - started > 20000) break;
  }
  return performance.now() - started;
}"""

ZOOM = """async (seconds) => {
  const look = lasthop.inside;
  const end = look.state.look.end_s;
  const times = [];
  const started = performance.now();
  while (performance.now() - started < seconds * 1000) {
    const now = await new Promise(requestAnimationFrame);
    times.push(now);
    const part = 0.5 + 0.5 * Math.cos((now - started) / 700);
    const length = end * (0.02 + 0.98 * part);
    look.show((end - length) / 2, (end + length) / 2);
  }
  return times;
}"""


def quantiles(values: list[float]) -> dict[str, float]:
    """Median, 95th percentile and maximum, in ms."""
    found = np.quantile(values, [0.5, 0.95, 1.0])
    names = ("median_ms", "p95_ms", "max_ms")
    return {name: round(float(one), 1) for name, one in zip(names, found, strict=True)}


def places(count: int) -> list[int]:
    """Positions of the slider: from 20 kbps to 100 Mbps and back."""
    return [int(280 + 560 * abs(((7 * n) % 200) / 100 - 1)) for n in range(count)]


def opened(browser: Browser, server: Explorer) -> Page:
    """A page with its first results."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(server.address)
    page.wait_for_selector(".estimates")
    return page


def status(pid: int, name: str) -> int:
    """A number of /proc/PID/status: threads, or kB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise LookupError(name)


def heap(page: Page) -> float:
    """Megabytes of JavaScript heap after a garbage collection."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    found = session.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    session.detach()
    return round(found, 2)


def leaks(page: Page, server: Explorer, moves: int) -> dict[str, Any]:
    """Resources used before and after 1,000 moves; a tenth as many moves are made first."""

    def move(count: int) -> None:
        for place in places(count):
            page.evaluate(MOVE, [SLIDER, place])

    def now() -> dict[str, Any]:
        time.sleep(3)
        pid = server.process.pid
        return {
            "threads": status(pid, "Threads"),
            "resident_kb": status(pid, "VmRSS"),
            "page_heap_mb": heap(page),
        }

    move(max(moves // 10, 10))
    before = now()
    move(moves // 2)
    half = now()
    move(moves - moves // 2)
    return {"moves": moves, "before": before, "half": half, "after": now()}


def frames(browser: Browser, server: Explorer) -> dict[str, Any]:
    """Frames per second while a diagram zooms."""
    page = opened(browser, server)
    # A file whose trace has about 50,000 events.
    page.locator("#f-flow-download-app-size").fill("5400 kB")
    page.locator("#f-flow-download-app-size").press("Enter")
    page.get_by_role("button", name="Trace view").click()
    page.wait_for_selector(".panel-plot canvas")
    events = page.evaluate("lasthop.inside.state.look.columns['event.time'].length")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy() -> float:
        """Processor time of the page's main thread."""
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")

    before = busy()
    times = page.evaluate(ZOOM, 4)
    spent = busy() - before
    gaps = np.diff(times)
    page.close()
    return {
        "events": events,
        "main_thread_ms_a_frame": round(1000 * spent / len(times), 2),
        "frames_per_s": round(1000 / float(gaps.mean()), 1),
        "slowest_5_percent_ms": round(float(np.quantile(gaps, 0.95)), 1),
    }


def together(browser: Browser, server: Explorer, people: int, moves: int) -> dict[str, Any]:
    """Several pages that move their sliders simultaneously."""
    most = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal most
        tasks = Path(f"/proc/{server.process.pid}/task")
        while not done.is_set():
            names = []
            for task in tasks.iterdir():
                try:
                    names.append((task / "comm").read_text().strip())
                except OSError:
                    continue
            most = max(most, names.count("replications"))
            time.sleep(0.005)

    pages = [opened(browser, server) for _ in range(people)]
    watcher = threading.Thread(target=watch)
    watcher.start()
    # All pages move their sliders by themselves; the last result of each page is awaited.
    script = f"""async ([selector, all]) => {{
      const move = {MOVE};
      const found = [];
      for (const place of all) found.push(await move([selector, place]));
      return found;
    }}"""
    for page in pages:
        page.evaluate("window.done = null")
    for number, page in enumerate(pages):
        order = places(moves)[number:] + places(moves)[:number]
        start = f"(all) => {{ ({script})(all).then((found) => {{ window.done = found; }}); }}"
        page.evaluate(start, [SLIDER, order])
    found: list[float] = []
    for page in pages:
        page.wait_for_function("() => window.done", timeout=300_000)
        found += page.evaluate("window.done")
        page.close()
    done.set()
    watcher.join()
    return {"people": people, "engine_threads_at_most": most, **quantiles(found)}


def main() -> None:
    """Runs the requested measurements, and prints and stores their results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--leak", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not installed (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    found: dict[str, Any] = {"cores": os.cpu_count(), "load_before": os.getloadavg()}
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        started = time.perf_counter()
        with explorer(Path(folder)) as server:
            found["address_s"] = round(time.perf_counter() - started, 2)
            page = opened(browser, server)
            usage = os.sysconf("SC_CLK_TCK")
            stat = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            found["first_view_server_cpu_s"] = (int(stat[11]) + int(stat[12])) / usage
            found["first_view_s"] = round(time.perf_counter() - started, 2)
            page.wait_for_timeout(1000)
            moved = [page.evaluate(MOVE, [SLIDER, place]) for place in places(chosen.moves)]
            found["slider"] = {"moves": chosen.moves, **quantiles(moved)}
            found["leaks"] = leaks(page, server, chosen.leak)
            page.close()
            found["zoom"] = frames(browser, server)
            found["together"] = together(browser, server, 4, 25)
        browser.close()
    found["load_after"] = os.getloadavg()
    text = json.dumps(found, indent=2)
    sys.stdout.write(text + "\n")
    if chosen.json:
        chosen.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
