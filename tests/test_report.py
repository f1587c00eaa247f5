"""The HTML page: self-contained, and readable in a browser of any width."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import lasthop.running.campaign
from lasthop import commands as cli
from lasthop.commands import _main as run_command
from lasthop.showing import report
from lasthop.showing.figures.live import chart
from lasthop.studies import studies

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium")
SLOWER = "link.wireless.rate=32 kbps"
EXAMPLE = Path(__file__).parent.parent / "examples" / "sr-file-transfer.toml"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A sweep and a study, each as a page."""
    folder = tmp_path_factory.mktemp("pages")
    scenario = lasthop.load(EXAMPLE).set("name", f"<b>5 & 6</b>{60 * '_'}")
    sweep = lasthop.run(scenario, replications=2)
    study = studies()["multilayer"].reproduce(["Table I", "Figure 2"], replications=2)
    broken = dataclasses.replace(sweep, complete=False)
    texts = {
        "sweep": report.page(sweep),
        "broken": report.page(broken),
        "study": report.page(study.results, study),
    }
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
    """Opens a page in a window of this width; returns it with the addresses of its requests."""
    page = browser.new_page(
        viewport={"width": width, "height": 800},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    return page, [url for url in asked if not url.startswith("data:")]


@pytest.mark.slow
def test_a_page_refers_to_nothing_outside(pages: dict[str, Path]) -> None:
    for file in pages.values():
        text = file.read_text(encoding="utf-8")
        targets = re.findall(r"""(?:src|href)=["']([^"']*)""", text)
        assert targets
        assert all(target.startswith(("data:", "#")) for target in targets)
        assert "url(" not in text
        # A single script, whose hash is in the page's policy; other <script> elements are data.
        scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
        others = re.findall(r"<script(?! type=.application/json.>)(?!>)", text)
        assert len(scripts) == 1
        assert others == []
        digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
        assert policy
        assert f"script-src 'sha256-{digest}';" in policy[1].replace("&#39;", "'")


def test_names_are_text_not_markup(pages: dict[str, Path]) -> None:
    text = pages["sweep"].read_text(encoding="utf-8")
    assert "&lt;b&gt;5 &amp; 6&lt;/b&gt;" in text
    assert "<b>5" not in text


def test_the_same_results_give_the_same_page(pages: dict[str, Path]) -> None:
    study = studies()["multilayer"].reproduce(["Table I", "Figure 2"], replications=2)
    assert report.page(study.results, study) == pages["study"].read_text(encoding="utf-8")


@pytest.mark.slow
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


@pytest.mark.slow
def test_figures_are_live_from_the_numbers_of_the_pictures(
    pages: dict[str, Path], browser: Browser
) -> None:
    for name in ("sweep", "study"):
        page, _ = open_page(browser, pages[name], 1280)
        figures = page.locator("figure.is-live")
        assert figures.count() > 0
        assert figures.first.locator("canvas").is_visible()
        assert not figures.first.locator("img").is_visible()
        chart = json.loads(figures.first.locator("script").inner_text())
        names = [curve["label"] for curve in chart["curves"]]
        legend = figures.first.locator(".u-legend .u-label").all_inner_texts()
        assert legend[1:] == [label or chart["ylabel"] for label in names]
        for curve in chart["curves"]:
            bounds = zip(curve["low"], curve["y"], curve["high"], strict=False)
            assert all(low <= y <= high for low, y, high in bounds if low is not None)
        # Markers have the colour of the curve; of dashed ones they are hollow.
        markers = figures.first.locator(".u-legend .u-marker").evaluate_all(
            """all => all.slice(1).map(one => {
                const found = getComputedStyle(one);
                return [found.borderStyle, found.borderColor, found.backgroundColor];
            })"""
        )
        for curve, (border, edge, fill) in zip(chart["curves"], markers, strict=True):
            assert border == ("dashed" if curve["dash"] else "solid")
            hue = [int(curve["colour"][place : place + 2], 16) for place in (1, 3, 5)]
            # Black is the colour of the text.
            if any(hue):
                assert [int(part) for part in re.findall(r"\d+", edge)] == hue
            assert (fill == edge) is not bool(curve["dash"])
        # A click on a name hides its curve.
        figures.first.locator(".u-legend .u-series").nth(1).click()
        assert figures.first.locator(".u-legend .u-off").count() == 1
        page.close()


@pytest.mark.slow
def test_without_script_and_in_print_pictures_are_shown(
    pages: dict[str, Path], browser: Browser
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pages["study"].as_uri())
    assert page.locator("figure img").first.is_visible()
    assert not page.locator("figure .live").first.is_visible()
    context.close()
    page, _ = open_page(browser, pages["study"], 1280)
    page.emulate_media(media="print")
    assert page.locator("figure img").first.is_visible()
    assert not page.locator("figure canvas").first.is_visible()
    assert not page.locator("nav").is_visible()
    page.close()


def test_a_sweep_is_live_with_its_means(small: Path) -> None:
    results = lasthop.run(lasthop.load(small), replications=3)
    found = chart(lasthop.plot(results, x="variant", y="goodput_bps"))
    assert found is not None
    assert [word.lower() for _, word in found["words"]] == ["reno", "sack"]
    means = [results.point_intervals(n)["flow.transfer.goodput_bps"].mean for n in range(2)]
    ratio = np.asarray(found["curves"][0]["y"]) / means
    assert ratio[0] == pytest.approx(ratio[1])
    # The note on the bars is folded below the figure; in a label it would be cut off.
    assert (found["xlabel"], found["note"]) == (
        "TCP",
        "bars: 95 % intervals, Student t over 3 replications",
    )
    many = lasthop.plot(results, y="goodput_bps", kind="cdf")
    assert len((chart(many) or {})["curves"]) == 2


def test_claims_and_numbers_are_there(pages: dict[str, Path], browser: Browser) -> None:
    page, _ = open_page(browser, pages["study"], 1280)
    verdicts = page.locator(".claim .verdict").all_inner_texts()
    assert verdicts
    assert set(verdicts) <= {"reproduced", "in part", "undecided", "contradicted"}
    # Table I: one row per loss rate, one column per combination.
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


def test_commands_make_a_page_and_compare(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    assert run_command(["run", str(small), "--store", str(a)]) == 0
    assert run_command(["run", str(small), "--store", str(b), "--set", SLOWER]) == 0
    assert run_command(["report", str(a)]) == 0
    assert "<title>small</title>" in (a / "report.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert run_command(["diff", str(a), str(a), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == []
    assert ": 0 changed significantly" in found["summary"]
    assert run_command(["diff", str(a), str(b), "--format", "json"]) == 0
    moved = {row["metric"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert "flow.transfer.duration_s" in moved


def test_a_report_of_one_of_several_runs_states_its_run(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "a")
    assert run_command(["run", str(small), "--store", folder]) == 0
    capsys.readouterr()
    assert run_command(["report", folder]) == 0
    assert capsys.readouterr().err == ""
    assert run_command(["run", str(small), "--store", folder, "--seed", "7"]) == 0
    capsys.readouterr()
    assert run_command(["report", folder]) == 0
    err = capsys.readouterr().err
    assert err == "lasthop: the report shows run 2 (seed 7) of 2 runs; --run N selects another\n"
    assert run_command(["report", folder, "--run", "1"]) == 0
    assert capsys.readouterr().err == ""


def test_a_study_in_a_campaign_is_reported_as_a_study(tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    command = ["reproduce", "multilayer", "Table I", "--replications", "2", "--out", str(tmp_path)]
    assert run_command([*command, "--store", str(folder)]) == 0
    assert run_command(["report", str(folder), "--out", str(tmp_path / "page.html")]) == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Table I. File transfer throughput" in text
    assert 'id="claim-M1"' in text
    assert "lasthop reproduce multilayer --replications 2 --seed " in text


def captions(text: str) -> list[str]:
    return re.findall(r"<figcaption>(.*?)</figcaption>", text)


@pytest.mark.slow
def test_a_sweep_over_many_keys_has_figures_that_can_be_read(small: Path) -> None:
    scenario = lasthop.load(small).sweep(
        {
            "flow.transfer.transport.variant": ["reno", "newreno", "sack"],
            "link.wireless.queue": [f"{count} packets" for count in range(10, 60, 10)],
            "flow.transfer.app.size": ["20 kB", "30 kB"],
        },
        zip=[
            {
                "link.wireless.rate": [f"{rate} kbps" for rate in range(64, 640, 64)],
                "link.wireless.delay": [f"{delay} ms" for delay in range(50, 59)],
            }
        ],
    )
    text = report.page(lasthop.run(scenario, replications=1))
    assert "270 points" in text
    # All points are drawn: with more than six curves over the rate, in panels.
    assert "flow.transfer.goodput_bps; by TCP, Queue limit, File size" in captions(text)


def test_a_sweep_over_words_has_a_place_for_each(small: Path) -> None:
    scenario = lasthop.load(small).sweep(
        {
            "flow.transfer.transport.variant": ["reno", "newreno", "sack"],
            "link.wireless.protocol": [{"kind": "raw"}, {"kind": "stop-and-wait"}],
        }
    )
    text = report.page(lasthop.run(scenario, replications=3))
    assert "flow.transfer.goodput_bps; by Link protocol" in captions(text)
    assert "6 points x 3 replications = 18, seed 1" in text


@pytest.mark.slow
def test_swept_tables_and_their_keys_are_told_in_words(small: Path) -> None:
    links = [{"kind": "raw"}, *({"kind": "selective-repeat", "window": w} for w in (8, 16))]
    scenario = lasthop.load(small).sweep(
        {
            "link.wireless.protocol": links,
            "link.wireless.queue": ["10 packets", "20 packets", "10 kB", "20 kB"],
            "link.wireless.delay": ["50 ms", "60 ms"],
            "link.wireless.reverse.delay": ["50 ms", "60 ms"],
        }
    )
    text = report.page(lasthop.run(scenario, replications=2))
    assert "<td>selective-repeat, window 8</td>" in text
    assert "&#39;kind" not in text
    headings = re.findall(r'<th scope="col">(.*?)</th>', text)
    assert headings[1:5] == ["Link protocol", "Queue limit", "Link delay", "Reverse link delay"]
    # Packets and bytes have no common scale, so that the axis is the delay.
    assert (
        "flow.transfer.goodput_bps; by TCP, Link protocol, Queue limit, Reverse link delay"
    ) in captions(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "absent"], "not a campaign"),
        (["report", "campaign", "--run", "9"], "invalid value `9` for `--run`: expected 1"),
        (["report", "campaign", "--out", "absent/page.html"], "cannot write `absent/page.html`"),
        (["diff", "campaign", "absent"], "not a campaign"),
        (
            ["diff", "campaign", "campaign", "--level", "2"],
            "invalid value `2` for `--level`: expected",
        ),
    ],
)
def test_bad_input_is_one_line(
    small: Path,
    tmp_path: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    lasthop.Campaign("campaign").run(small, replications=2)
    assert run_command(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_differences_from_a_baseline_stand_in_the_page(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    lasthop.Campaign(folder).run(small)
    assert cli._main(["report", str(folder), "--baseline", "variant=reno"]) == cli.DONE
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "Difference from TCP reno" in text
    assert cli._main(["report", str(folder), "--baseline", "variant=vegas"]) == cli.BAD_INPUT
