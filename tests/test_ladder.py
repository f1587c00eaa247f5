from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

import lasthop
from conftest import ROOT
from lasthop import commands as cli
from lasthop.showing.figures import arrows

PICTURES = ROOT / "docs" / "links" / "scenarios"


@pytest.fixture(scope="module")
def repeated() -> lasthop.Trace:
    """Selective repeat: frame 3 is lost, requested and retransmitted."""
    return lasthop.trace(PICTURES / "selective-repeat.toml")


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_transmissions_are_told_frame_by_frame(repeated: lasthop.Trace) -> None:
    air = repeated.transmissions
    assert air["end_s"].is_sorted()
    assert set(air["entity"]) == {"link.radio.forward", "link.radio.reverse"}
    assert set(air["kind"]) == {"data", "ack", "nack"}
    (lost,) = air.filter(pl.col("arrival_s").is_null()).iter_rows(named=True)
    assert (lost["kind"], lost["sequence"], lost["repeated"]) == ("data", 3, False)
    (again,) = air.filter("repeated").iter_rows(named=True)
    assert again["sequence"] == 3
    # 250 bytes at 64 kbps, and a delay of 50 ms.
    assert again["bytes"] == 250
    assert again["end_s"] - again["start_s"] == pytest.approx(0.03125)
    assert again["arrival_s"] - again["end_s"] == pytest.approx(0.05)
    (nack,) = air.filter(kind="nack").iter_rows(named=True)
    assert (nack["sequence"], nack["ack"], nack["count"], nack["bytes"]) == (3, 3, 1, 2)
    assert repeated.hosts == {"radio": ("sender", "receiver")}


def test_series_have_the_same_frames_and_what_goes_up(repeated: lasthop.Trace) -> None:
    sent = repeated.frame.filter(pl.col("event").is_in(["frame_sent", "frame_lost"]))
    assert sent["time_s"].to_list() == repeated.transmissions["end_s"].to_list()
    is_data = repeated.transmissions["kind"] == "data"
    assert sent["sequence"].is_not_null().to_list() == is_data.to_list()
    ups = repeated.frame.filter(event="delivered")
    assert set(ups["entity"]) == {"link.radio.forward"}
    assert ups["sequence"].to_list() == list(range(ups.height))
    together = ups.group_by("time_s").len().filter(pl.col("len") > 1)
    assert together["len"].to_list() == [5]


def test_automatic_window_holds_the_loss_and_its_repair(repeated: lasthop.Trace) -> None:
    figure = repeated.plot_link("radio")
    bottom, top = figure.axes[0].get_ylim()
    (lost,) = repeated.transmissions.filter(pl.col("arrival_s").is_null())["start_s"]
    (found,) = repeated.frame.filter(event="delivered", sequence=3)["time_s"]
    assert top < 1e3 * lost < 1e3 * found < bottom
    shown = texts(figure)
    assert "NACK 3" in shown
    assert "delivered 3–7" in shown
    assert shown.count("3") == 2


def test_chosen_window_is_the_one_drawn(repeated: lasthop.Trace) -> None:
    figure = repeated.plot_link("radio", start=0.0, end=0.1)
    assert figure.axes[0].get_ylim() == (100.0, 0.0)
    assert "NACK 3" not in texts(figure)
    # With only the start given, the window has its automatic length.
    bottom, top = repeated.plot_link("radio").axes[0].get_ylim()
    moved = repeated.plot_link("radio", start=0.02).axes[0].get_ylim()
    assert moved == pytest.approx((20.0 + bottom - top, 20.0))


@pytest.mark.parametrize(
    ("link", "start", "end", "message"),
    [
        ("moon", None, None, "unknown link `moon`: expected radio"),
        ("radio", 0.3, 0.2, "invalid value `0.3 s` for `from`: expected 0 s to before 0.2 s"),
        ("radio", 7.0, 8.0, "no frame between 7 s and 8 s: link `radio` sends"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    link: str, start: float | None, end: float | None, message: str, repeated: lasthop.Trace
) -> None:
    with pytest.raises(ValueError, match=message):
        repeated.plot_link(link, start=start, end=end)


def test_too_many_frames_are_not_drawn() -> None:
    scenario = lasthop.load(PICTURES / "raw.toml").set("run.duration", "20 s")
    trace = lasthop.trace(scenario)
    with pytest.raises(ValueError, match=r"\d{3} frames from .* expected at most 120"):
        trace.plot_link("radio", start=0.0, end=20.0)
    trace.plot_link("radio")


def test_packets_that_nobody_watches_cannot_be_drawn() -> None:
    scenario = lasthop.load(PICTURES / "raw.toml").set("flow.packets.app.replay", "lazy")
    with pytest.raises(ValueError, match=r'has no frames in .* replay = "per-packet"'):
        lasthop.trace(scenario).plot_link("radio")


def test_a_loss_that_nobody_repairs_is_followed_by_three_packets() -> None:
    shown = texts(lasthop.trace(PICTURES / "raw.toml").plot_link("radio"))
    assert [text for text in shown if text.startswith("delivered")][-3:] == [
        "delivered 4",
        "delivered 5",
        "delivered 6",
    ]
    assert "delivered 3" not in shown


def test_what_a_receiver_gives_up_and_finds_late_is_written_beside_its_line() -> None:
    shown = texts(lasthop.trace(PICTURES / "rlp.toml").plot_link("radio", start=1.0, end=1.9))
    assert {"delivered 1, 2, 3", "gave up 4", "delivered 5–8", "delivered 9"} <= set(shown)
    assert "keep-alive 10" in shown


def test_a_frame_computed_from_parity_is_recovered() -> None:
    shown = texts(lasthop.trace(PICTURES / "xor-fec.toml").plot_link("radio"))
    assert {"parity 0–3", "recovered 1", "delivered 2"} <= set(shown)
    assert "delivered 1" not in shown


def test_a_link_without_protocol_shows_segments_and_its_agent() -> None:
    trace = lasthop.trace(PICTURES / "snoop.toml")
    assert trace.agents == {"radio": "base"}
    air = trace.transmissions.filter(pl.col("entity") == "link.radio.forward")
    # The SYN, then 250 bytes per segment; the retransmission is sent in a frame with a new number.
    (lost,) = air.filter(pl.col("arrival_s").is_null()).iter_rows(named=True)
    (again,) = air.filter(segment=751, sequence=10).iter_rows(named=True)
    assert (lost["sequence"], lost["segment"], lost["segment_ack"]) == (4, 751, 1)
    assert again["arrival_s"] is not None
    shown = texts(trace.plot_link("radio", start=0.0, end=0.61))
    assert shown.count("4") == 2
    assert "delivered 4" in shown
    # Segments 5 to 9 cause five duplicate ACKs: the first is forwarded, the others are suppressed.
    assert shown.count("ACK 4") == 1
    assert sum(text.startswith("dup ACK 4") for text in shown) == 5
    assert shown.count("suppressed ACK 4") == 4
    assert shown.count("retransmits 4") == 1
    # The automatic window extends from the loss to the repair.
    bottom, top = trace.plot_link("radio").axes[0].get_ylim()
    assert top < 1e3 * lost["start_s"] < 1e3 * again["arrival_s"] < bottom


LESSON = """
name = "two losses"
[link.radio]
between = ["server", "client"]
rate = "64 kbps"
delay = "50 ms"
errors = { kind = "listed", lose = [12, 14] }
reverse = { errors = { kind = "none" } }
[flow.transfer]
from = "server"
to = "client"
transport.kind = "tcp"
transport.variant = "reno"
transport.profile = "rfc"
transport.segment = "250 B"
transport.delayed_ack = "off"
app = { kind = "file", size = "10 kB" }
[sweep]
"flow.transfer.transport.variant" = ["reno", "sack"]
"""


def test_duplicate_acks_and_sack_blocks_stand_on_their_arrows() -> None:
    """By hand: frame 1 is the SYN, so that segments 11 and 13 are lost; 12 and later ones except 13
    arrive.
    """
    scenario = lasthop.Scenario.from_toml(LESSON)
    reno, sack = (lasthop.trace(scenario, point=point) for point in (0, 1))
    blocks = sack.transmissions.drop_nulls("sack")
    assert blocks["sack"].head(2).to_list() == ["2751-3001", "3251-3501 2751-3001"]
    assert reno.transmissions["sack"].null_count() == reno.transmissions.height
    shown = texts(sack.plot_link("radio", start=0.4, end=1.0))
    labels = [text for text in shown if text.startswith("dup ACK")]
    assert {"dup ACK 11, SACK 12", "dup ACK 11, SACK 14, 12"} <= set(labels)
    assert "dup ACK 11, SACK 14–17, 12" in labels
    plain = texts(reno.plot_link("radio", start=0.4, end=1.0))
    assert [text for text in plain if text.startswith("dup ACK")] == ["dup ACK 11"] * len(labels)
    assert "ACK 11" in shown
    assert not any(text.startswith("delivered 11") for text in shown), "an ACK is not a delivery"


VAIN = """
name = "two segments"
[link.radio]
between = ["server", "client"]
rate = "64 kbps"
delay = "50 ms"
errors = { kind = "listed", lose = [99] }
reverse = { errors = { kind = "listed", lose = [99] } }
[flow.transfer]
from = "server"
to = "client"
transport.kind = "tcp"
transport.variant = "reno"
transport.profile = "rfc"
transport.segment = "250 B"
transport.delayed_ack = "off"
app = { kind = "file", size = "500 B" }
"""


@pytest.mark.parametrize("in_vain", [True, False])
def test_copies_and_timeouts_in_vain_look_different(in_vain: bool) -> None:
    """By hand: frame 3 carries segment 2, and its ACK in the reverse direction. One of them is
    lost.
    """
    errors = "link.radio.reverse.errors.lose" if in_vain else "link.radio.errors.lose"
    trace = lasthop.trace(lasthop.Scenario.from_toml(VAIN).set(errors, [3]))
    ladder = trace.plot_link("radio", start=0.0, end=1.6)
    shown = texts(ladder)
    timeouts = [text for text in shown if text.endswith("TCP timeout")]
    assert timeouts == ["spurious TCP timeout" if in_vain else "TCP timeout"]
    assert ("2 again" in shown) == in_vain
    names = {text.get_text() for legend in ladder.legends for text in legend.get_texts()}
    assert ("spurious retransmission" in names, "data, retransmitted" in names) == (
        in_vain,
        not in_vain,
    )

    (axes,) = lasthop.plot(trace, kind="sequence").axes
    marks = {str(line.get_label()): line for line in axes.lines}
    assert ("spurious timeout" in marks, "timeout" in marks) == (in_vain, not in_vain)
    line = marks["spurious timeout" if in_vain else "timeout"]
    at, _ = np.asarray(line.get_xdata(), dtype=float)
    # Segment 1 is acknowledged 141.25 ms after the handshake of 110 ms; the timer is 1 s.
    assert at == pytest.approx(1.25125)
    assert ("not needed" in marks) == in_vain
    if in_vain:
        where = np.asarray(marks["not needed"].get_xydata(), dtype=float)
        assert where.ravel().tolist() == pytest.approx([1.25125, 251.0])


def test_timeouts_stand_beside_their_sender_only() -> None:
    """On a link behind another one, the axis is a router, not the sender."""
    scenario = lasthop.Scenario.from_toml(VAIN).to_dict()
    radio = scenario["link"]["radio"]
    radio["between"] = ["router", "client"]
    radio["reverse"]["errors"]["lose"] = [3]
    wire = {"between": ["server", "router"], "rate": "1 Mbps", "delay": "20 ms", "errors": "none"}
    scenario["link"]["wire"] = wire
    trace = lasthop.trace(scenario)
    assert "2 again" in texts(trace.plot_link("radio", start=0.0, end=2.0))
    assert arrows.endpoints(trace, "radio") == {"reverse": "flow.transfer.receiver"}
    assert arrows.endpoints(trace, "wire") == {"forward": "flow.transfer"}
    for link, count in (("radio", 0), ("wire", 1)):
        shown = texts(trace.plot_link(link, start=0.0, end=2.0))
        assert sum("TCP timeout" in text for text in shown) == count, link


@pytest.mark.slow
def test_two_points_stand_on_one_time_axis(tmp_path: Path) -> None:
    scenario = lasthop.Scenario.from_toml(LESSON)
    both = [lasthop.trace(scenario, point=point) for point in (0, 1)]
    drawn = lasthop.plot(both, kind="ladder", link="radio", start=0.4, end=1.0)
    sequence = lasthop.plot(both, kind="sequence")
    for figure in (drawn, sequence):
        left, right = figure.axes
        assert [axes.get_title() for axes in figure.axes] == ["TCP Reno", "TCP SACK"]
        assert left.get_ylim() == right.get_ylim()
    assert sequence.axes[0].get_xlim() == sequence.axes[1].get_xlim()
    file = tmp_path / "lesson.toml"
    file.write_text(LESSON)
    words = ["plot", str(file), "--kind", "sequence", "--point", "0", "--point", "1"]
    assert cli._main([*words, "--out", str(tmp_path / "a.png")]) == 0
    with pytest.raises(lasthop.PlotError, match="cannot draw 2 replications with kind series"):
        lasthop.plot(both, kind="series")
    with pytest.raises(lasthop.PlotError, match="invalid list for `data`"):
        lasthop.plot([1, 2])  # type: ignore[list-item]


@pytest.mark.slow
def test_long_labels_begin_behind_the_line_of_their_host() -> None:
    trace = lasthop.trace(lasthop.Scenario.from_toml(LESSON), point=1)
    for size in ("column", "full", None):
        figure = trace.plot_link("radio", start=0.4, end=1.0, size=size)
        figure.draw_without_rendering()
        (axes,) = figure.axes
        edge = figure.get_window_extent().x1
        for text in axes.texts:
            box = text.get_window_extent()
            if text.get_text().startswith("dup ACK"):
                assert box.x1 <= axes.transData.transform((1.02, 0.0))[0], text.get_text()
            assert box.x1 <= edge + 1.0, text.get_text()


def test_segments_of_several_connections_are_not_mixed_up() -> None:
    scenario = lasthop.load(PICTURES / "snoop.toml").to_dict()
    scenario["flow"]["other"] = scenario["flow"]["file"]
    scenario["link"]["radio"]["errors"] = {"kind": "none"}
    shown = texts(lasthop.trace(scenario).plot_link("radio", start=0.0, end=0.3))
    # Frame numbers in transmission order: two SYNs have numbers 0 and 1.
    assert {"delivered 0", "delivered 1"} <= set(shown)
    assert not any(text.startswith("ACK") for text in shown)


@pytest.mark.parametrize(
    ("values", "words"),
    [([5], "5"), ([5, 6, 7], "5, 6, 7"), ([5, 6, 7, 8], "5–8"), ([1, 3, 4, 5, 6], "1, 3–6")],
)
def test_numbers_in_words(values: list[int], words: str) -> None:
    assert arrows.numbers(values) == words


def test_every_page_has_the_scenario_of_its_picture() -> None:
    for page in PICTURES.parent.glob("*.md"):
        for line in page.read_text().splitlines():
            if "_generated/links/" in line:
                name = line.split("_generated/links/")[1].removesuffix(".svg)")
                assert (PICTURES / f"{name}.toml").is_file(), f"{page.name}: {name}"


@pytest.mark.parametrize("path", sorted(PICTURES.glob("*.toml")), ids=lambda path: path.stem)
def test_what_was_written_is_read_back(path: Path, tmp_path: Path) -> None:
    trace = lasthop.trace(path)
    trace.write(tmp_path)
    again = lasthop.Trace.read(tmp_path)
    assert again.transmissions.equals(trace.transmissions)
    for name, events in trace.series().items():
        assert again.series()[name].equals(events)
    assert (again.hosts, again.agents, again.name) == (trace.hosts, trace.agents, trace.name)
    np.testing.assert_array_equal(list(again.metrics.values()), list(trace.metrics.values()))
    for link in trace.hosts:
        drawn = [
            [(text.get_text(), text.get_position()) for text in one.plot_link(link).axes[0].texts]
            for one in (trace, again)
        ]
        assert drawn[0] == drawn[1]


@pytest.mark.parametrize("file", ["frames.csv", "link.csv", "trace.json"])
def test_damaged_traces_are_refused(file: str, tmp_path: Path) -> None:
    lasthop.trace(PICTURES / "raw.toml").write(tmp_path)
    (tmp_path / file).write_text("{}\n1,2")
    with pytest.raises(lasthop.PlotError, match="damaged files"):
        lasthop.plot(tmp_path, kind="series")


def test_the_same_replication_is_told_the_same() -> None:
    one, two = (lasthop.trace(PICTURES / "go-back-n.toml") for _ in range(2))
    assert one.transmissions.equals(two.transmissions)
    assert one.frame.equals(two.frame, null_equal=True)


def wifi(**keys: object) -> lasthop.Trace:
    """A download over a WLAN of 802.11n, with A-MPDUs of up to four MPDUs."""
    wlan = {"access_point": "ap", "stations": ["a"], "standard": "802.11n", "mcs": 7}
    app = {"kind": "on-off", "rate": "50 Mbps", "packet": "1500 B", "on": "1 s", "off": "0 s"}
    flow = {"from": "ap", "to": "a", "transport": "udp", "app": app}
    return lasthop.trace(
        {
            "name": "wifi",
            "wlan": {"w": {**wlan, "max_ampdu": "6200 B", **keys}},
            "flow": {"one": flow, "two": {**flow, "dscp": "AF41"}} if keys else {"one": flow},
            "run": {"duration": "20 ms"},
        }
    )


def test_an_ampdu_and_its_block_ack_are_one_arrow_each() -> None:
    """MPDU 2 of 0 to 3 is lost; it is retransmitted in the next A-MPDU, before new ones."""
    trace = wifi(errors={"kind": "listed", "lose": [3]}, control_errors=False)
    air = trace.transmissions.filter(pl.col("start_s") < 3e-3)
    first = air.filter(kind="block-ack")["start_s"].min()
    ampdu = air.filter(pl.col("end_s") < first, kind="data")
    frames = arrows.with_aggregates(trace, "w.a", arrows.frames_of(trace, "w.a"))
    places = [place for place, one in enumerate(frames) if one.missing]
    assert len(places) == 1
    sent, answer, again = frames[places[0] : places[0] + 3]
    assert (sent.look, answer.look, again.look) == ("a-mpdu", "block-ack", "a-mpdu copy")
    numbers = sent.members or ()
    assert set(answer.members or ()) == set(numbers) - set(sent.missing)
    assert again.members is not None
    assert again.members[0] == sent.missing[0]
    assert again.text.startswith(f"A-MPDU {sent.missing[0]}")
    assert sent.text.endswith(f"; lost {sent.missing[0]}")
    assert ampdu.height >= 1
    # The end of an MPDU is not a NAV: one shaded span for each PPDU and response.
    figure = trace.plot_link("w.a")
    assert any("BlockAck" in text for text in texts(figure))
    shaded = [patch for patch in figure.axes[0].patches if patch.get_alpha() == 0.18]
    assert 0 < len(shaded) <= 6


def test_categories_have_separate_numbers() -> None:
    """Each category of a host numbers its MPDUs; a lower number is not a retransmission."""
    trace = wifi(edca=True)
    air = trace.transmissions.filter(kind="data")
    assert air.n_unique("sequence") < air.height
    assert not air["repeated"].any()


def test_every_frame_of_a_wlan_has_a_style() -> None:
    """BlockAck requests, CF-Ends, RTS and A-MPDUs that collide."""
    trace = wifi(edca=True, durations="ns-3", missed_block_ack="request", rts_threshold="3000 B")
    kinds = {row["kind"] for row in trace.transmissions.iter_rows(named=True)}
    assert {"block-ack", "cf-end", "rts", "cts"} <= kinds
    assert {"block-ack-request", *kinds} <= set(arrows.LOOKS)
    trace.plot_link("w.a", start=0.0, end=0.02)
