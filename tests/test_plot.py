"""Figures of results: axes, contents, errors."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.lines import Line2D

import lasthop
from lasthop import statistics
from lasthop.evaluating.results import Point, Results
from lasthop.evaluating.statistics import Floats
from lasthop.showing.figures import style
from lasthop.showing.labels import bars_note
from pictured import DELAY, GOODPUT, VARIANT, bars, legend_texts, made, xs, ys


def test_line_has_units_means_and_intervals() -> None:
    results = made()
    figure = lasthop.plot(results, x=DELAY, y=GOODPUT, by=VARIANT)
    (axes,) = figure.axes
    assert axes.get_xlabel().startswith("Link delay (ms)\nbars: 95 % intervals, Student t")
    assert axes.get_ylabel() == "Goodput (kbps)"
    assert legend_texts(figure) == ["Reno", "SACK"]
    reno = bars(axes)["Reno"]
    line, _, (segments,) = reno.lines
    # Slightly offset from the other curve.
    np.testing.assert_allclose(xs(line), [10.0, 100.0], atol=2.0)
    assert (xs(line) < xs(bars(axes)["SACK"].lines[0])).all()
    expected = [statistics.confidence(results.samples(GOODPUT, point)) for point in (0, 2)]
    np.testing.assert_allclose(ys(line), [one.value / 1e3 for one in expected])
    ends = np.array(segments.get_segments())[:, :, 1]
    np.testing.assert_allclose(ends, [[one.low / 1e3, one.high / 1e3] for one in expected])


def test_names_may_be_ends_and_what_is_clear_need_not_be_said() -> None:
    said = lasthop.plot(made(), x="delay", y="goodput_bps", by="variant")
    assert said.axes[0].get_xlabel().startswith("Link delay (ms)\nbars: ")
    left_out = lasthop.plot(made())
    assert left_out.axes[0].get_xlabel().startswith("Link delay (ms)")
    assert legend_texts(left_out) == ["Reno", "SACK"]


def test_labels_are_replaced_and_ordered_and_keep_their_style() -> None:
    plain = bars(lasthop.plot(made(), x=DELAY).axes[0])
    changed = lasthop.plot(made(), x=DELAY, order=["sack"], rename={"sack": "TCP SACK"})
    found = bars(changed.axes[0])
    assert (list(plain), list(found)) == (["Reno", "SACK"], ["TCP SACK", "Reno"])
    colours = [to_hex(one[0].get_color()) for one in (plain["SACK"], found["TCP SACK"])]
    assert colours[0] == colours[1]
    words = lasthop.plot(made(), x=VARIANT, where={DELAY: "10 ms"}, rename={"SACK": "TCP SACK"})
    assert [text.get_text() for text in words.axes[0].get_xticklabels()] == ["Reno", "TCP SACK"]
    with pytest.raises(lasthop.PlotError, match="unknown label `vegas` for `order`"):
        lasthop.plot(made(), x=DELAY, order=["vegas"])
    with pytest.raises(lasthop.PlotError, match="unknown label `vegas` for `rename`"):
        lasthop.plot(made(), x=DELAY, rename={"vegas": "Vegas"})


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_notes_of_a_paper_are_its_caption(tmp_path: Path, suffix: str) -> None:
    note = (
        "bars: 95 % intervals, Student t (of skewed samples percentile-t bootstrap) over 12 "
        "replications"
    )
    screen, paper = (lasthop.plot(made(), x=DELAY, paper=one) for one in (False, True))
    assert note in " ".join(screen.axes[0].get_xlabel().split())
    assert paper.axes[0].get_xlabel() == "Link delay (ms)"
    assert [path.name for path in style.save(screen, tmp_path / "s", suffix)] == [f"s.{suffix}"]
    picture, text = style.save(paper, tmp_path / "p", suffix)
    assert text.read_text() == f"Goodput (kbps) over Link delay (ms); {note}.\n"
    if suffix != "pdf":  # whose text may be encoded
        assert note.encode() in picture.read_bytes()


def test_shares_are_shown_in_per_cent() -> None:
    axes = lasthop.plot(made(), y="frame_loss").axes[0]
    assert axes.get_ylabel() == "Frame loss (%)"
    assert ys(bars(axes)["Reno"].lines[0])[0] == pytest.approx(5.0)


def test_several_flows_are_several_curves() -> None:
    results = made()
    two = Results(
        scenario={},
        points=results.points,
        metrics=[GOODPUT, "flow.web.goodput_bps"],
        point=results.point,
        replication=results.replication,
        values=results.values,
        seed=1,
    )
    figure = lasthop.plot(two, y="flow.*.goodput_bps")
    assert legend_texts(figure) == ["transfer, Reno", "transfer, SACK", "web, Reno", "web, SACK"]


def test_protocols_look_the_same_in_every_figure() -> None:
    assert style.looks(["selective-repeat"]) == [style.STYLES["Selective Repeat"]]
    assert style.looks(["Selective Repeat", "raw"])[1] == style.STYLES["Raw link"]
    # A curve without a predefined style has a style different from all other curves.
    found = style.looks(["a", "b", "reno", "c"])
    assert len(set(found)) == 4
    assert found[2] == style.STYLES["Reno"]
    # A name within a longer label.
    assert style.looks(["transfer, reno", "raw, window 8"]) == style.looks(["reno", "raw"])
    # A protocol with different parameters has two styles.
    assert len(set(style.looks(["raw", "raw"]))) == 2
    # The maximum number of curves in a figure, with markers and without.
    for names in ([f"window {n}" for n in range(12)], [f"raw, window {n}" for n in range(12)]):
        many = style.looks(names)
        assert len(set(many)) == len({(colour, line) for colour, _, line in many}) == 12
    assert len(set(style.STYLES.values())) >= len(style.STYLES) - 4


def test_text_is_of_one_size_and_figures_fit_columns() -> None:
    for size, width in (("column", 3.4), ("full", 7.0)):
        figure = lasthop.plot(made(), size=size)
        (axes,) = figure.axes
        assert figure.get_figwidth() == width
        assert axes.xaxis.label.get_fontsize() == 8.0
        assert axes.get_xticklabels()[0].get_fontsize() == 7.0


def test_numbers_among_words_stand_alone_under_the_axis() -> None:
    axes = lasthop.plot(made((2, 10, "unlimited")), x="delay", y="goodput_bps").axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["2", "10", "unlimited"]


def test_words_on_the_x_axis_are_not_joined_by_lines() -> None:
    figure = lasthop.plot(made(), x=VARIANT, where={DELAY: "10 ms"})
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["Reno", "SACK"]
    (container,) = (c for c in axes.containers if isinstance(c, ErrorbarContainer))
    line = container.lines[0]
    assert line is not None
    assert line.get_linestyle() == "None"


@pytest.mark.parametrize("count", [3, 8])
def test_long_words_are_folded_into_the_figure(count: int) -> None:
    words = [f"two-state, good 10 s, bad 100 ms, bad ber 0.0{n}" for n in range(count)]
    figure = lasthop.plot(made(words, [f"{w} {w}" for w in words[:2]]), x="delay", xlabel="x " * 60)
    (axes,) = figure.axes
    figure.draw_without_rendering()
    page = figure.bbox
    ticks = [text.get_window_extent() for text in axes.get_xticklabels()]
    boxes = [*ticks, axes.xaxis.label.get_window_extent(), figure.legends[0].get_window_extent()]
    for box in boxes:
        assert page.x0 <= box.x0 < box.x1 <= page.x1
        assert page.y0 <= box.y0 < box.y1 <= page.y1
    assert not any(one.overlaps(other) for one, other in itertools.pairwise(ticks))
    assert axes.get_window_extent().height > 1.5 * figure.dpi


def test_a_figure_whose_curves_take_every_swept_key_has_no_axis() -> None:
    message = f"missing `x`: expected one of {DELAY}, {VARIANT} that is not used for `by`, or kind"
    with pytest.raises(lasthop.PlotError, match=re.escape(message)):
        lasthop.plot(made(), by=[DELAY, VARIANT])


def test_tables_are_told_apart_by_what_differs() -> None:
    losses = [{"kind": "uniform", "loss": f"{loss} %"} for loss in (1, 5)]
    links = [{"kind": "raw"}, {"kind": "selective-repeat", "window": 8}]
    figure = lasthop.plot(made(losses, links))
    (axes,) = figure.axes
    assert axes.get_xlabel().startswith("Loss (%)\n")
    line = bars(axes)["Raw link"].lines[0]
    np.testing.assert_allclose(xs(line), [1.0, 5.0], atol=0.1)
    # The kind distinguishes them; two of one kind differ in their windows.
    assert legend_texts(figure) == ["Raw link", "Selective repeat"]
    links = ["raw", *({"kind": "selective-repeat", "window": w} for w in (8, 16))]
    assert legend_texts(lasthop.plot(made(losses, links))) == [
        "Raw link",
        "Selective repeat, Window 8",
        "Selective repeat, Window 16",
    ]


def test_of_many_points_the_interval_is_a_band() -> None:
    results = made(tuple(f"{delay} ms" for delay in range(1, 31)))
    axes = lasthop.plot(results, x=DELAY, y=GOODPUT).axes[0]
    assert not axes.containers
    np.testing.assert_allclose(xs(axes.get_lines()[0]), np.arange(1, 31))
    edge: Floats = np.asarray(axes.collections[0].get_paths()[0].vertices)
    for point, delay in ((0, 1.0), (58, 30.0)):
        expected = statistics.confidence(results.samples(GOODPUT, point))
        ends = edge[edge[:, 0] == delay, 1]
        np.testing.assert_allclose(
            [ends.min(), ends.max()], [expected.low / 1e3, expected.high / 1e3]
        )


def test_logarithmic_axes() -> None:
    axes = lasthop.plot(made(), log="xy").axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in axes.get_xticklabels()] == ["10", "100"]
    with pytest.raises(lasthop.PlotError, match="x-axis: it has the value 0"):
        lasthop.plot(made(("0 s", "1 s")), log="x")


def test_distribution_is_that_of_the_samples() -> None:
    results = made()
    figure = lasthop.plot(results, kind="cdf", where={"delay": "10 ms"})
    (axes,) = figure.axes
    assert axes.get_xlabel() == "Goodput (kbps)"
    assert axes.get_ylabel() == "Fraction of replications"
    line = axes.get_lines()[0]
    np.testing.assert_allclose(xs(line)[1:], np.sort(results.samples(GOODPUT, 0)) / 1e3)
    np.testing.assert_allclose(ys(line), np.arange(13) / 12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": "rate"}, r"unknown swept key `rate` for `x`"),
        (
            {"y": "goodputs"},
            r"unknown metric `goodputs` for `y`",
        ),
        ({"y": ["goodput_bps", "frame_loss"]}, r"expected one per figure"),
        ({"by": []}, r"missing key `flow.transfer.transport.variant` for `by`"),
        ({"where": {"delay": "3 s"}}, r"value `3 s` of `delay` for `where`: expected 10 ms, 100"),
        ({"kind": "pie"}, r"invalid value `pie` for `kind`: expected line, cdf"),
        ({"kind": "series"}, r"kind series requires a scenario"),
        ({"log": "z"}, r"invalid value `z` for `log`"),
        ({"size": "page"}, r"invalid value `page` for `size`: expected column, full"),
    ],
)
def test_figures_that_cannot_be_drawn(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lasthop.plot(made(), **arguments)  # type: ignore[arg-type]


def test_too_many_curves_are_refused() -> None:
    with pytest.raises(lasthop.PlotError, match=r"13 curves .*expected at most"):
        lasthop.plot(made(variants=[f"v{n}" for n in range(13)]))


def test_numbers_that_hardly_differ_are_written_out() -> None:
    results = made((1, 2, 3))
    values = 1e6 + results.values * 1e-6
    figure = lasthop.plot(replace(results, values=values), y="goodput_bps")
    (axes,) = figure.axes
    figure.draw_without_rendering()
    assert axes.yaxis.get_offset_text().get_text() == ""
    assert axes.get_yticklabels()[1].get_text().startswith("1.000000")


def test_single_replications_have_no_bars() -> None:
    results = made()
    keep = results.replication == 0
    one = replace(
        results,
        point=results.point[keep],
        replication=results.replication[keep],
        values=results.values[keep],
    )
    (segments,) = bars(lasthop.plot(one).axes[0])["Reno"].lines[2]
    ends = np.array(segments.get_segments())[:, :, 1]
    np.testing.assert_array_equal(ends[:, 0], ends[:, 1])


@pytest.mark.parametrize("suffix", ["svg", "pdf", "png"])
def test_the_same_figure_has_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    written = [style.save(lasthop.plot(made()), tmp_path / n, suffix)[0] for n in ("a", "b")]
    assert written[0].read_bytes() == written[1].read_bytes()


def test_user_settings_do_not_show(tmp_path: Path) -> None:
    from matplotlib import rc_context

    plain = style.save(lasthop.plot(made()), tmp_path / "plain", "svg")[0].read_bytes()
    with rc_context({"axes.facecolor": "red", "font.size": 30, "axes.grid": False}):
        figure = lasthop.plot(made())
    assert figure.axes[0].xaxis.label.get_fontsize() == 8.0
    assert plain


def test_units() -> None:
    assert style.scaled("s", [0.002, 0.5]).name == "ms"
    assert style.scaled("s", [2.0, math.nan]).name == "s"
    assert style.scaled("bps", [64e3]).name == "kbps"
    assert style.scaled("bps", [0.0]).name == "bps"
    assert style.scaled("%", [0.1]).per == 0.01
    assert style.metric_label("flow.web.delay_p95_s") == "Delay, 95th percentile"
    assert style.metric_unit("link.a.forward.frame_loss") == "%"
    assert style.metric_unit("link.a.forward.frames_lost") == ""


def test_frames_of_pandas_and_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    results = made()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for convert in (results.to_pandas, results.to_arrow):
        with pytest.raises(ImportError, match=r"pip install 'lasthop\[pandas\]'"):
            convert()


@pytest.mark.slow
def test_arrow_has_the_frame() -> None:
    results = made()
    assert pl.DataFrame(results.to_arrow()).equals(results.frame)


def test_pandas_has_the_frame() -> None:
    results = made()
    assert list(results.to_pandas().columns) == results.frame.columns


def test_notebooks_show_means_intervals_and_provenance(small: Path) -> None:
    html = made()._repr_html_()
    assert html.count("<tr>") == 5
    assert "<th>Link delay</th>" in html
    assert re.search(r"\d{3}\.\d+ (± \d\.\d+|−\d\.\d+ \+\d\.\d+)</td>", html)
    assert "95 % confidence interval" in html
    assert "<b>made</b>, lasthop" in html
    assert "seed 1, 48 replications, scenario 0 and 3 more" in html
    scenario = lasthop.load(small)._repr_html_()
    assert "<td><code>link.wireless.rate</code></td><td>64 kbps</td>" in scenario


def test_html_escapes_what_users_write() -> None:
    html = made(variants=["<b>", "&"])._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<td>&amp;</td>" in html


def test_two_things_are_told_by_colour_and_line_and_many_by_panels() -> None:
    few = lasthop.plot(made(("10 ms", "20 ms", "40 ms"), ("reno", "sack")))
    assert len(few.axes) == 1
    results = made(("1 %", "2 %", "3 %", "4 %"), ("reno", "newreno", "sack"))
    nine = Results(
        scenario={},
        points=[
            Point({**point.parameters, "link.radio.protocol": link}, f"{link}{index}")
            for link in ("raw", "selective-repeat", "go-back-n")
            for index, point in enumerate(results.points)
        ],
        metrics=[GOODPUT],
        point=np.arange(36, dtype=np.uint32),
        replication=np.zeros(36, dtype=np.uint64),
        values=np.linspace(1e5, 2e5, 36).reshape(-1, 1),
        seed=1,
    )
    figure = lasthop.plot(nine, x="delay")
    assert [axes.get_title() for axes in figure.axes] == [
        "Raw link",
        "Selective repeat",
        "Go-Back-N",
    ]
    assert legend_texts(figure) == ["Reno", "NewReno", "SACK"]
    two = lasthop.plot(nine, x="delay", where={"variant": "reno"})
    assert len(two.axes) == 1
    looks = style.curve_looks([("Reno", "a"), ("Reno", "b"), ("SACK", "a"), ("SACK", "b")])
    assert [look[0] for look in looks] == [
        *[style.STYLES["Reno"][0]] * 2,
        *[style.STYLES["SACK"][0]] * 2,
    ]
    assert looks[0][1:] == looks[2][1:] != looks[1][1:]


def test_the_legend_is_never_a_quarter_of_a_figure() -> None:
    figure = lasthop.plot(made(variants=[f"variant number {n}" for n in range(12)]))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert legend.get_window_extent().height < 0.25 * figure.bbox.height


def test_an_axis_of_decades_is_logarithmic_unless_it_is_said_otherwise() -> None:
    results = made(("1 ms", "30 ms", "1 s"))
    assert lasthop.plot(results).axes[0].get_xscale() == "log"
    assert lasthop.plot(results, log="none").axes[0].get_xscale() == "linear"
    assert lasthop.plot(made(("1 ms", "2 ms", "3 ms"))).axes[0].get_xscale() == "linear"


def test_notebooks_show_figures_and_figures_of_ones_own_take_them() -> None:
    from matplotlib import pyplot

    figure = lasthop.plot(made())
    shown = figure._repr_png_()  # type: ignore[attr-defined]
    assert shown.startswith(b"\x89PNG")
    own, (left, right) = pyplot.subplots(1, 2)
    assert lasthop.plot(made(), ax=right) is own
    assert not left.containers
    assert len(right.containers) == 2
    assert right.get_legend() is not None
    pyplot.close(own)
    with pytest.raises(lasthop.PlotError, match="`ax` requires kind line or cdf"):
        lasthop.plot(made(), kind="series", ax=right)


def test_every_picture_with_bars_says_what_they_are() -> None:
    note = "bars: 95 % intervals, Student t"
    for options in ({}, {"by": VARIANT, "x": DELAY}):
        axes = lasthop.plot(made(), **options).axes[0]  # type: ignore[arg-type]
        assert note in axes.get_xlabel().replace("\n", " ")
        assert "over 12 replications" in axes.get_xlabel().replace("\n", " ")
    assert (
        "intervals"
        not in lasthop.plot(made(), kind="cdf", where={DELAY: "10 ms"}).axes[0].get_xlabel()
    )
    assert bars_note([]) == bars_note([("", 1)]) == ""
    assert bars_note([("t", 20), ("percentile-t bootstrap", 30)], "band") == (
        "band: 95 % intervals, Student t (of skewed samples percentile-t bootstrap) over 20 to 30 "
        "replications"
    )


def test_a_legend_names_two_keys_separately_if_that_is_shorter() -> None:
    """Six curves of three TCPs over two links: the TCP is the colour, the link the marker."""
    links = [{"kind": "raw"}, {"kind": "selective-repeat", "window": 8}]
    results = made(("1 ms", "2 ms"), ("reno", "sack"))
    points = [
        Point({DELAY: delay, "link.radio.protocol": link, VARIANT: tcp}, f"{delay}{link}{tcp}")
        for delay in ("1 ms", "2 ms")
        for link in links
        for tcp in ("reno", "sack", "cubic")
    ]
    count = len(points)
    six = replace(
        results,
        points=points,
        point=np.repeat(np.arange(count, dtype=np.uint32), 4),
        replication=np.tile(np.arange(4, dtype=np.uint64), count),
        values=np.random.default_rng(1).normal(1e5, 1e3, (4 * count, 2)),
    )
    figure = lasthop.plot(six, x="delay", y=GOODPUT, rename={"SACK": "TCP SACK"})
    (legend,) = figure.legends
    # By column: a colour above a marker.
    assert [text for text in legend_texts(figure) if text] == [
        *("Reno", "Raw link", "TCP SACK", "Selective repeat", "CUBIC")
    ]
    hues, lines = {}, {}
    for handle, text in zip(legend.legend_handles, legend_texts(figure), strict=True):
        assert isinstance(handle, Line2D)
        if handle.get_marker() not in ("None", ""):
            lines[text] = (handle.get_marker(), handle.get_linestyle())
        elif text:
            hues[text] = to_hex(handle.get_color())
    assert len(set(hues.values())) == 3
    assert len(set(lines.values())) == 2
    for label, container in bars(figure.axes[0]).items():
        link, tcp = label.split(", ")
        line = container.lines[0]
        assert line is not None
        assert to_hex(line.get_color()) == hues[tcp]
        assert (line.get_marker(), line.get_linestyle()) == lines[link]
    # Distributions have lines without markers.
    cdf = lasthop.plot(six, y=GOODPUT, kind="cdf", where={"delay": "1 ms"})
    handles = [one for one in cdf.legends[0].legend_handles if isinstance(one, Line2D)]
    assert all(one.get_marker() in ("None", "") for one in handles)
    # Of four curves, each has its own entry.
    four = lasthop.plot(six, x="delay", y=GOODPUT, where={"variant": "reno"})
    assert legend_texts(four) == ["Raw link", "Selective repeat"]
