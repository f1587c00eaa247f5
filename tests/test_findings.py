"""Sentences at the beginning of reports: recommended configuration and paired differences."""

from __future__ import annotations

import lasthop
from lasthop.showing.findings import sentences
from lasthop.showing.labels import key_words
from lasthop.showing.report import page

LINK = """
name = "findings"
[link.air]
between = ["server", "client"]
rate = "1 Mbps"
delay = "20 ms"
errors = { kind = "uniform", loss = "8 %" }
[flow.file]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "sack", profile = "rfc" }
app = { kind = "file", size = "50 kB" }
[run]
replications = 12
[sweep]
"link.air.protocol" = ["raw", "selective-repeat"]
"""
PROTOCOL = "link.air.protocol"


def test_the_better_protocol_is_recommended_with_its_difference() -> None:
    results = lasthop.run(lasthop.Scenario.from_toml(LINK))
    first, *differences = sentences(results)
    assert first.startswith("Recommended: ")
    assert "Selective repeat, which has the highest goodput, " in first
    ratio = results.differences("goodput", by=PROTOCOL, baseline="raw")["ratio"][0]
    goodput = next(text for text in differences if ", goodput is " in text)
    assert f"goodput is {100 * (ratio - 1):.3g}"[:15] in goodput
    assert "% higher than with" in goodput
    assert "not significant" not in goodput
    # The direction follows the baseline.
    other = sentences(results, (PROTOCOL, "selective-repeat"))
    assert any(", goodput is " in text and "% lower than with" in text for text in other)


def test_other_swept_keys_are_counted() -> None:
    text = LINK + '"link.air.rate" = ["1 Mbps", "2 Mbps"]\n'
    found = sentences(lasthop.run(lasthop.Scenario.from_toml(text)))
    assert "highest goodput at 2 of 2 combinations of the other swept keys." in found[0]
    assert any("significantly higher at 2 of 2 points (+" in text for text in found)


def test_swept_tables_are_named_by_their_kind() -> None:
    """A table is the same configuration as its kind alone, and is not printed as JSON."""
    tables = LINK.replace('"selective-repeat"', '{ kind = "selective-repeat", window = 16 }')
    _, *found = sentences(lasthop.run(lasthop.Scenario.from_toml(tables)))
    assert found
    assert all("{" not in text for text in found)
    assert any("With Link protocol Selective repeat, window 16, goodput is" in one for one in found)


def test_equal_configurations_are_not_distinguished() -> None:
    text = LINK.replace('loss = "8 %"', 'loss = "0 %"').replace(
        f'"{PROTOCOL}" = ["raw", "selective-repeat"]', '"link.air.queue" = ["80 packets"]'
    )
    assert sentences(lasthop.run(lasthop.Scenario.from_toml(text))) == []


def test_equal_results_are_stated_as_equal() -> None:
    """Reno with SACK and variant `sack` are the same sender; neither is better than the other."""
    text = LINK.replace('profile = "rfc"', 'profile = "linux"').replace('"8 %"', '"1 %"')
    text += '"link.air.rate" = ["1 Mbps", "2 Mbps"]\n'
    text = text.replace(
        f'"{PROTOCOL}" = ["raw", "selective-repeat"]',
        '"flow.file.transport.variant" = ["reno", "sack"]',
    )
    found = sentences(lasthop.run(lasthop.Scenario.from_toml(text)))
    assert "; not significantly worse at any: TCP SACK." in found[0]
    assert "With TCP SACK, goodput is equal to that with TCP Reno at all points." in found


def test_a_kind_is_labelled_by_its_component() -> None:
    assert key_words("link.air.protocol.kind") == ("Link protocol", "air")
    assert key_words("link.air.errors.kind") == ("Error process", "air")
    assert key_words("flow.file.app.kind") == ("Application", "file")


def test_notes_of_a_page_keep_names_and_show_code() -> None:
    text = LINK.replace('rate = "1 Mbps"', 'rate = "10 Mbps"').replace('"8 %"', '"0.1 %"')
    text = text.replace('"50 kB"', '"500 kB"')
    results = lasthop.run(lasthop.Scenario.from_toml(text))
    html = page(results)
    assert any(note.startswith("link.air.forward") for note in results.notes)
    assert "Link.air.forward" not in html
    assert "<code>protocol.window</code>" in html


def test_the_page_begins_with_results() -> None:
    results = lasthop.run(lasthop.Scenario.from_toml(LINK))
    html = page(results)
    places = [html.index(f'<section id="{name}">') for name in ("results", "figures", "numbers")]
    assert places == sorted(places)
    assert places[-1] < html.index('<section id="scenario">')
    assert sentences(results)[0] in html
