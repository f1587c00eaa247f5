"""The page of `lasthop explore` in a browser: every feature, at three widths, by keyboard."""

from __future__ import annotations

import itertools
import shutil
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lasthop
from explorer import (
    NETWORK_CHANGED,
    QUESTION,
    Explorer,
    aborted_requests,
    explorer,
    wait_for_results,
)

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

CHROMIUM = shutil.which("chromium")
WIDTHS = (390, 800, 1280)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explorer]:
    """A server in a folder with a campaign and a reproduced study."""
    folder = tmp_path_factory.mktemp("page")
    scenario = lasthop.Scenario(QUESTION["scenario"]).sweep(
        {
            "link.radio.errors.loss": ["1 %", "2 %", "5 %"],
            "flow.download.transport.variant": ["reno", "sack"],
        }
    )
    lasthop.Campaign(folder / "sweep").run(scenario, replications=3)
    with explorer(folder) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Debian's chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """An opened page, its requests and its errors."""

    def __init__(self, browser: Browser, address: str, **options: Any) -> None:
        options.setdefault("viewport", {"width": 1280, "height": 900})
        self.context = browser.new_context(**options)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.wrong: list[str] = []
        self.asked: list[str] = []
        self.aborted = aborted_requests(self.page)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on(
            "console",
            lambda entry: self.wrong.append(entry.text) if entry.type == "error" else None,
        )
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)

    def answered(self) -> Visit:
        """Waits for the first results."""
        wait_for_results(self.page, ".estimates, .error.banner", self.aborted)
        text = self.page.inner_text("body")
        assert self.page.locator(".estimates").count() > 0, f"no results: {text[:500]} {self.wrong}"
        return self

    def means(self, metric: str = "Goodput") -> list[str]:
        """The means printed next to the labels of a metric."""
        figure = self.page.locator("figure.estimates", has_text=metric)
        return [text.split(" ±")[0] for text in figure.locator("td:nth-child(2)").all_inner_texts()]

    def view(self, name: str) -> Page:
        """Opens a view."""
        self.page.get_by_role("button", name=name, exact=True).click()
        return self.page

    def close(self) -> None:
        """Closes the page and checks that it had no errors and sent no external requests."""
        wrong = [text for text in self.wrong if NETWORK_CHANGED not in text]
        asked = self.asked
        self.context.close()
        assert wrong == []
        assert all(url.startswith(("http://127.0.0.1:", "data:", "blob:")) for url in asked)


@pytest.fixture
def visit(browser: Browser, server: Explorer) -> Iterator[Visit]:
    found = Visit(browser, server.address)
    yield found
    found.close()


def test_a_slider_moves_the_link_and_results_follow(visit: Visit) -> None:
    page = visit.answered().page
    # The token is removed from the address immediately.
    assert "token" not in page.url
    assert len(visit.means()) == 2
    before = visit.means()
    page.locator('[data-slider="f-link-radio-rate"]').fill("300")
    page.wait_for_function(
        "before => !document.querySelector('figure.estimates td').innerText.startsWith(before)",
        arg=before[0],
    )
    rate = page.locator("#f-link-radio-rate").input_value()
    assert rate.endswith("kbps")
    assert visit.means() != before
    page.wait_for_selector("text=done: 200 replications")
    page.wait_for_selector(".delays canvas")
    # The keyboard moves the slider, too.
    page.locator('[data-slider="f-link-radio-rate"]').focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#f-link-radio-rate").input_value() != rate


def test_the_form_is_the_schemas(visit: Visit) -> None:
    page = visit.answered().page
    schema = lasthop.schema()["properties"]["link"]["additionalProperties"]["properties"]
    kinds = page.locator("#f-link-radio-protocol option").all_inner_texts()
    variants = [one for one in schema["protocol"]["oneOf"] if "properties" in one]
    known = [one["properties"]["kind"]["const"] for one in variants]
    assert [kind for kind in kinds if "(default)" not in kind] == known
    for kind in ("karn-rlp", "rlc-am"):
        page.locator("#f-link-radio-protocol").select_option(kind)
        assert page.locator(".union", has_text="protocol").first.inner_text()
    # Every visible quantity has a slider.
    for key in (
        "link-radio-rate",
        "link-radio-delay",
        "link-radio-queue",
        "flow-download-app-size",
    ):
        assert page.locator(f'[data-slider="f-{key}"]').count() == 1, key
    page.locator("#f-link-radio-errors").select_option("two-state")
    # The form shows the required keys, with an example from their descriptions.
    assert page.locator("#f-link-radio-errors-good").input_value() != ""


def test_every_choice_of_the_form_is_answered_or_told(visit: Visit) -> None:
    """Every variant yields an answer or an error message."""
    page = visit.answered().page
    refused = set()
    for key in ("f-link-radio-errors", "f-link-radio-protocol"):
        values = page.locator(f"#{key} option").evaluate_all("all => all.map(one => one.value)")
        for value in values:
            page.locator(f"#{key}").select_option(value)
            page.wait_for_function(
                "() => !lasthop.player.waiting && (!lasthop.player.running "
                "|| lasthop.player.running.isTold)"
            )
            assert page.evaluate("Boolean(lasthop.player.answer || lasthop.player.error)")
            error = page.evaluate("lasthop.player.error && lasthop.player.error.message")
            # A slow machine rejects long computations, which does not concern the form.
            if error and "replication takes more than" not in error:
                refused.add(value)
        page.locator(f"#{key}").select_option("uniform" if key.endswith("errors") else "raw")
    # Kinds with a required key that the form cannot fill in.
    kinds = {"trace", "outages", "listed", "markov-chain", "slotted-gilbert-elliott"}
    assert refused == kinds
    visit.wrong[:] = [text for text in visit.wrong if "422" not in text]


def test_a_refusal_stands_beside_its_key(visit: Visit) -> None:
    page = visit.answered().page
    field = page.locator("#f-link-radio-delay")
    field.fill("soon")
    field.press("Enter")
    page.wait_for_selector("[role=alert]")
    assert "found" in page.locator("#f-link-radio-delay-error").inner_text()
    assert field.get_attribute("aria-invalid") == "true"
    field.fill("30 ms")
    field.press("Enter")
    page.wait_for_selector("[role=alert]", state="detached")
    # The browser logs a status of 422 to the console, which is not an error of the page.
    visit.wrong[:] = [text for text in visit.wrong if "422" not in text]


def test_alternatives_have_their_own_keys(visit: Visit) -> None:
    page = visit.answered().page
    page.get_by_role("button", name="+ alternative").click()
    page.locator("#label").fill("go-back-n")
    page.locator("#label").press("Enter")
    page.locator("#f-link-radio-protocol").select_option("go-back-n")
    page.wait_for_function(
        "() => document.querySelectorAll('figure.estimates td:nth-child(2)').length >= 15"
    )
    assert page.locator("figure.estimates").first.locator("tr").count() == 3
    changes = page.evaluate("lasthop.page.state.shown.alternatives[2].changes")
    assert (
        changes == {"link.radio.protocol": {"kind": "go-back-n", "window": 8}}
        or changes["link.radio.protocol"]["kind"] == "go-back-n"
    )
    for _ in range(3):
        page.get_by_role("button", name="+ alternative").click()
    assert page.get_by_role("button", name="+ alternative").count() == 0
    page.get_by_role("button", name="remove").click()
    assert page.locator(".alternatives .chip").count() == 6


def test_presets_tell_their_sources(visit: Visit) -> None:
    page = visit.answered().page
    page.locator("#preset").select_option("geo")
    assert "RFC 2488" in page.locator(".presets").inner_text()
    assert page.locator("#f-link-radio-delay").input_value() == "270 ms"
    page.locator("#preset").select_option("lora")
    page.wait_for_function("() => lasthop.player.running && lasthop.player.running.isTold")
    assert page.locator("[role=alert]").count() == 0


def test_a_preset_of_a_wlan_replaces_the_scenario(visit: Visit) -> None:
    page = visit.answered().page
    page.locator("#preset").select_option("wifi-6")
    assert "IEEE Std 802.11ax-2021" in page.locator(".presets").inner_text()
    page.wait_for_function("() => lasthop.player.running && lasthop.player.running.isTold")
    assert page.locator("[role=alert]").count() == 0
    assert page.evaluate("lasthop.page.state.shown.scenario.wlan.home.standard") == "802.11ax"
    # A link then replaces the WLAN.
    page.locator("#preset").select_option("geo")
    page.wait_for_function("() => lasthop.player.running && lasthop.player.running.isTold")
    assert page.locator("#f-link-radio-delay").input_value() == "270 ms"
    assert page.locator("[role=alert]").count() == 0


def test_an_address_shows_the_same_in_another_tab(visit: Visit, server: Explorer) -> None:
    page = visit.answered().page
    # The page stores its first state in the address after 0.25 s.
    page.wait_for_function("() => location.hash !== ''")
    before = page.evaluate("location.hash")
    page.locator("#f-link-radio-rate").fill("3 Mbps")
    page.locator("#f-link-radio-rate").press("Enter")
    page.wait_for_function("before => location.hash !== before", arg=before)
    address = page.url
    assert server.token not in address
    other = visit.context.new_page()
    other.goto(address)
    other.wait_for_selector(".estimates")
    # A function with an argument: the policy of the page forbids to evaluate an expression.
    value = "wanted => document.querySelector('#f-link-radio-rate').value === wanted"
    other.wait_for_function(value, arg="3 Mbps")
    other.close()


def test_without_a_token_nothing_is_shown(browser: Browser, server: Explorer) -> None:
    stranger = Visit(browser, f"http://127.0.0.1:{server.port}/")
    stranger.page.wait_for_selector("#token")
    stranger.page.locator("#token").fill(server.address)
    stranger.page.locator("#token").press("Enter")
    stranger.answered().close()


def test_looking_inside_and_zooming_together(visit: Visit) -> None:
    visit.answered()
    page = visit.view("Trace view")
    page.wait_for_selector(".panel-plot canvas")
    assert page.locator(".panel-plot").count() == 4
    summary = page.locator(".summary").inner_text()
    assert "duplicate ACKs" in summary
    assert "SACK blocks" in summary

    def spans() -> list[list[float]]:
        script = "[...insides().plots.values()].map(p => [p.scales.x.min, p.scales.x.max])"
        found: list[list[float]] = page.evaluate(script.replace("insides()", "lasthop.inside"))
        return found

    first = spans()
    assert len({tuple(one) for one in first}) == 1
    canvas = page.locator(".panel-plot .u-over").first
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 100, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 60, steps=4)
    page.mouse.up()
    page.wait_for_timeout(200)
    second = spans()
    assert len({tuple(one) for one in second}) == 1
    assert second[0][1] - second[0][0] < first[0][1] - first[0][0]
    page.keyboard.press("Escape")
    page.get_by_role("button", name="show all").click()
    page.wait_for_timeout(200)
    assert spans()[0][0] == 0
    # With each step to the next event, the list follows.
    page.get_by_role("button", name="next event").click()
    page.wait_for_timeout(500)
    where = page.evaluate("lasthop.inside.window.at")
    rows = page.locator("table.events tbody tr").all_inner_texts()
    assert any(row.endswith((" segments", " packets", " B")) for row in rows), rows
    page.get_by_role("button", name="next event").click()
    page.wait_for_timeout(200)
    assert page.evaluate("lasthop.inside.window.at") > where
    page.get_by_role("button", name="Play", exact=True).last.click()
    page.wait_for_timeout(400)
    assert page.evaluate("lasthop.inside.window.at") > where
    page.get_by_role("button", name="Pause").click()
    page.locator("select").first.select_option("1")
    page.wait_for_selector(".tone.control")


def test_diagrams_are_moved_by_keys(visit: Visit) -> None:
    visit.answered()
    page = visit.view("Trace view")
    page.wait_for_selector(".panel-plot canvas")
    page.get_by_role("button", name="next event").focus()
    before = page.evaluate("({...lasthop.inside.window})")
    for key, holds in (
        ("+", "now.to - now.from < was.to - was.from"),
        ("ArrowRight", "now.from > was.from"),
        ("ArrowLeft", "now.from < was.from"),
        ("-", "now.to - now.from > was.to - was.from"),
        (".", "now.at > (was.at ?? was.from) || now.at >= 0"),
    ):
        page.keyboard.press(key)
        assert page.evaluate(
            f"was => {{ const now = lasthop.inside.window; return {holds}; }}", before
        )
        before = page.evaluate("({...lasthop.inside.window})")


def test_a_campaign_is_browsed_down_to_a_trace(visit: Visit) -> None:
    visit.answered()
    page = visit.view("Browse")
    page.wait_for_selector("svg.means")
    assert page.locator("svg.means .point").count() == 6
    page.get_by_label("panels by").select_option("flow.download.transport.variant")
    page.wait_for_function("() => document.querySelectorAll('svg.means').length == 2")
    page.get_by_label("panels by").select_option("")
    page.wait_for_function("() => document.querySelectorAll('svg.means').length == 1")
    for kind, selector in (
        ("bar", "svg.means rect"),
        ("cdf", ".plot canvas"),
        ("line", "svg.means"),
    ):
        page.locator("label", has_text="show").locator("select").select_option(kind)
        page.wait_for_selector(selector)
    page.locator("svg.means .point").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("section[aria-label='The point'] tbody tr")
    assert page.locator("section[aria-label='The point'] tbody tr").count() == 3
    page.get_by_role("button", name="trace replication 2").click()
    page.wait_for_selector(".panel-plot canvas")
    assert page.evaluate("lasthop.page.state.shown.inside.replication") == 2


def test_what_is_taken_away(visit: Visit) -> None:
    visit.answered()
    page = visit.page
    page.get_by_role("button", name="Export").click()
    page.wait_for_function("() => document.querySelector('#take pre code').innerText.length > 50")
    tables = tomllib.loads(page.locator("#take pre code").inner_text())
    assert list(tables["sweep"]["case"]) == ["raw", "selective-repeat"]
    for name, part in (
        ("Python", "import lasthop"),
        ("Command line", "| lasthop run"),
        ("Address", "#1."),
    ):
        page.get_by_role("button", name=name, exact=True).click()
        assert part in page.locator("#take pre code").inner_text()
    page.locator("#take select").last.select_option("pdf")
    with page.expect_download() as found:
        page.get_by_role("button", name="Save figure").click()
    assert Path(found.value.path()).read_bytes().startswith(b"%PDF")
    page.get_by_role("button", name="close").click()
    assert page.locator("#take").count() == 0


@pytest.mark.parametrize("width", WIDTHS)
def test_every_view_fits_every_width_and_zoom(
    browser: Browser, server: Explorer, width: int
) -> None:
    found = Visit(browser, server.address, viewport={"width": width, "height": 800}).answered()
    for name in ("Live view", "Trace view", "Browse"):
        page = found.view(name)
        page.wait_for_selector(
            {"Live view": ".estimates", "Trace view": ".panel-plot canvas", "Browse": "svg.means"}[
                name
            ]
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # 200 % zoom is half the width in pixels of CSS.
        page.set_viewport_size({"width": max(width // 2, 320), "height": 400})
        assert page.evaluate("document.documentElement.scrollWidth") <= max(width // 2, 320)
        page.set_viewport_size({"width": width, "height": 800})
    found.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing(browser: Browser, server: Explorer, width: int, scheme: str) -> None:
    """No view violates a rule of axe-core, regardless of its impact."""
    rules = (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    size = {"width": width, "height": 900}
    found = Visit(browser, server.address, viewport=size, color_scheme=scheme).answered()
    page = found.page
    ready = {
        "Live view": ".delays canvas",
        "Trace view": ".panel-plot canvas",
        "Browse": "svg.means",
        "Export": "#take pre code",
    }
    for name, selector in ready.items():
        page.get_by_role("button", name=name, exact=True).first.click()
        page.wait_for_selector(selector)
        if name == "Browse":
            page.locator("svg.means .point").first.press("Enter")
            page.wait_for_selector("section[aria-label='The point']")
        page.evaluate(rules)
        broken = page.evaluate("async () => (await axe.run(document)).violations")
        violations = [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in broken]
        assert violations == [], name
    found.close()


def test_it_is_readable_in_the_dark(browser: Browser, server: Explorer) -> None:
    found = Visit(browser, server.address, color_scheme="dark").answered()
    values = found.page.evaluate(
        "['color', 'backgroundColor'].map(name => getComputedStyle(document.body)[name]"
        ".match(/\\d+/g).slice(0, 3).map(Number))"
    )
    ink, paper = (sum(one) / 3 for one in values)
    assert ink - paper > 125
    found.close()


def test_a_file_is_what_the_page_begins_with(browser: Browser, small: Path) -> None:
    with explorer(small.parent, small.name) as server:
        found = Visit(browser, server.address).answered()
        chips = found.page.locator(".alternatives .chip").all_inner_texts()
        assert [text.strip() for text in chips] == ["all", "reno", "sack"]
        # The page writes its state into the address shortly after it shows the results.
        found.page.wait_for_function("() => location.hash.length > 20")
        address = found.page.url
        found.close()
    # A shared address, opened on another server.
    with explorer(small.parent, address.replace("?", "")) as server:
        assert "#1." in server.address
        found = Visit(browser, server.address).answered()
        assert found.page.evaluate("lasthop.page.state.shown.scenario.name") == "small"
        found.close()


def test_two_thousand_bytes_of_state_survive_the_address(visit: Visit) -> None:
    visit.answered()
    state = visit.page.evaluate(
        """async () => {
          const { encode, decode } = await import('/state.js');
          const state = { text: 'ä€😀'.repeat(500), list: [1, null, { a: true }] };
          const back = await decode(await encode(state));
          return [back, await decode('1.!!'), await decode('x'), state];
        }"""
    )
    assert state[0] == state[3]
    assert state[1:3] == [None, None]


def test_quantities_are_read_and_written_as_the_engine_does(visit: Visit) -> None:
    """Values written by sliders are read back by the engine unchanged."""
    written = visit.answered().page.evaluate(
        """async () => {
          const { write, scale, KINDS } = await import('/quantity.js');
          const found = [];
          for (const kind of ['rate', 'duration', 'size', 'probability']) {
            const at = scale(KINDS[kind].range);
            for (let place = 0; place <= 1; place += 0.01) {
              found.push([kind, at.value(place), write(at.value(place), kind)]);
            }
          }
          return found;
        }"""
    )
    from lasthop import _lasthop

    for kind, value, text in written:
        if kind == "duration":
            assert _lasthop.seconds(text) == pytest.approx(value, rel=0.06)
        key = {
            "rate": "link.radio.rate",
            "size": "flow.download.app.size",
            "probability": "link.radio.errors.loss",
        }
        if kind in key:
            lasthop.Scenario(QUESTION["scenario"]).set(key[kind], text).points()
    assert len(written) == 400


def test_a_request_whose_connection_fails_is_repeated(browser: Browser, server: Explorer) -> None:
    found = Visit(browser, "about:blank")
    failures = iter(["play"])

    def fail_once(route: Route) -> None:
        if next(failures, None):
            route.abort("connectionreset")
        else:
            route.continue_()

    found.page.route("**/api/play", fail_once)
    found.page.goto(server.address)
    found.answered()
    # The browser itself reports the failed connection.
    (reported,) = [text for text in found.wrong if NETWORK_CHANGED not in text]
    assert "ERR_CONNECTION_RESET" in reported
    found.wrong.clear()
    found.close()


def test_important_keys_come_first(visit: Visit) -> None:
    """Profile, variant and segment; keys for special cases are folded away."""
    transport = visit.answered().page.locator("fieldset.union", has_text="transport").first
    labels = transport.locator(":scope > .fields > .field > label").all_inner_texts()
    assert labels == ["profile", "variant", "segment"]
    folded = transport.locator("details.more").first
    assert "byte counting" not in folded.locator("summary").first.inner_text()
    folded.locator("summary").first.click()
    assert folded.locator("label", has_text="byte counting").is_visible()


@pytest.mark.parametrize("width", [390, 480, 600, 768, 1024, 1280])
def test_numbers_are_not_clipped(browser: Browser, server: Explorer, width: int) -> None:
    """Means, intervals and differences are inside of their figure."""
    found = Visit(browser, server.address, viewport={"width": width, "height": 900}).answered()
    found.page.wait_for_selector("text=done: 200 replications")
    beyond = """() => [...document.querySelectorAll('.estimates td')].filter(cell => {
        const figure = cell.closest('figure').getBoundingClientRect();
        const own = cell.getBoundingClientRect();
        return own.width > 0 && (own.right > figure.right + 1 || own.left < figure.left - 1
            || cell.scrollWidth > cell.clientWidth + 1);
    }).map(cell => cell.innerText)"""
    assert found.page.locator(".estimates .gap .sure").count() > 0
    assert found.page.evaluate(beyond) == []
    found.close()


# Records the texts that diagrams draw, with their left and right end.
RECORD = """
window.texts = [];
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const width = this.measureText(text).width;
  const left = this.textAlign === "center" ? x - width / 2 : x;
  window.texts.push({ text, y, left, right: left + width, font: this.font, canvas: this.canvas });
  return draw.apply(this, arguments);
};
null;
"""


@pytest.mark.parametrize("width", [390, 1280])
def test_frame_numbers_do_not_overlap_and_axes_have_names(
    browser: Browser, server: Explorer, width: int
) -> None:
    found = Visit(browser, server.address, viewport={"width": width, "height": 900}).answered()
    page = found.view("Trace view")
    page.wait_for_selector(".panel-plot canvas")
    page.evaluate(RECORD)
    page.set_viewport_size({"width": width - 10, "height": 900})
    page.wait_for_timeout(500)
    drawn = page.evaluate(
        """() => {
            const last = [...document.querySelectorAll('canvas')].pop();
            return texts.filter(one => one.canvas === last && one.font.startsWith('11px')
                && /^\\d+$/.test(one.text)).map(({ canvas, ...one }) => one);
        }"""
    )
    rows = {one["y"] for one in drawn}
    assert len(rows) == 2
    for y in rows:
        # A diagram is drawn again, from the left, when its size changes.
        row = [one for one in drawn if one["y"] == y]
        assert len(row) > 4
        for one, other in itertools.pairwise(row):
            assert other["left"] >= one["right"] + 4 or other["left"] < one["left"]
    names = page.evaluate("() => [...new Set(texts.map(one => one.text))]")
    assert {"Time (s)", "Sequence (kB)", "Segments", "Packets"} <= set(names)
    found.close()
