"""Notes on misleading results: unfinished transfers, short recordings, single replications."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import lasthop
from lasthop import statistics
from lasthop.evaluating.metric import metric_bounds
from lasthop.scenarios.explain import explain
from lasthop.showing import terminal
from lasthop.showing.figures.selection import Table
from lasthop.showing.labels import measured, scaled

PATH = """
name = "path"

[link.air]
between = ["a", "b"]
rate = "64 kbps"
delay = "20 ms"
protocol = { kind = "raw" }
errors = { kind = "uniform", loss = "5 %" }

[flow.transfer]
from = "a"
to = "b"
transport = { kind = "tcp", variant = "sack", profile = "rfc", segment = "500 B" }
app = { kind = "file", size = "100 kB" }

[sweep]
"link.air.protocol" = ["raw", "selective-repeat"]

[run]
replications = 10
max_time = "17 s"
"""


def results(text: str = PATH) -> lasthop.Results:
    return lasthop.run(lasthop.Scenario(tomllib.loads(text)))


@pytest.fixture(scope="module")
def halves() -> lasthop.Results:
    """Raw transfers are not complete within 17 s; transfers over selective repeat are."""
    return results()


def test_durations_of_unfinished_transfers_are_not_averaged(halves: lasthop.Results) -> None:
    done = halves.samples("flow.transfer.complete", 0)
    assert 0 <= np.count_nonzero(done) < 10
    duration = halves.samples("flow.transfer.duration_s", 0)
    assert np.array_equal(np.isnan(duration), done == 0.0)
    assert np.nanmax(halves.values) >= 17.0, "the table contains all values of the run"
    (note,) = halves.notes
    assert note.startswith(f"flow.transfer: {np.count_nonzero(done)} of 10 (")
    assert " transfers were complete at the end of the run; " in note
    assert "aw)" in note, "the point is named by its words"
    summary = halves.summary().filter(point=0, metric="flow.transfer.complete")
    assert summary["mean"].item() == np.count_nonzero(done) / 10


def test_tables_show_the_share_that_is_complete(halves: lasthop.Results) -> None:
    heads = [str(column.header) for column in terminal.show_results(halves, ()).columns]
    assert any("omplete" in head for head in heads)
    finished = halves.part([1])
    assert not finished.unfinished
    assert finished.notes == ()


def test_figures_leave_unfinished_transfers_out(halves: lasthop.Results) -> None:
    figure = lasthop.plot(halves, y="duration_s", kind="cdf", by="link.air.protocol")
    assert "of 20 transfers complete, others excluded" in figure.axes[0].get_xlabel()
    longest = max(float(np.max(np.asarray(line.get_xdata()))) for line in figure.axes[0].lines)
    assert longest < 17.0


def test_the_interval_is_one_everywhere(halves: lasthop.Results) -> None:
    points = halves.to_dict()["points"]
    for row in halves.summary().iter_rows(named=True):
        samples = halves.samples(row["metric"], row["point"])
        found = statistics.confidence(samples).within(metric_bounds(row["metric"]))
        metrics = points[row["point"]]["metrics"][row["metric"]]
        for name, value in (("mean", found.value), ("low", found.low), ("high", found.high)):
            assert row[name] == value
            assert metrics[name] == value
        assert row["method"] == metrics["method"] == found.method
    # A figure shows the same values.
    table = Table(halves.frame)
    _, curves = table.curves(None, "flow.transfer.timeouts", None, over_x=True)
    for curve in curves:
        for point, one in zip(curve.points, curve.estimates(), strict=True):
            row = halves.summary().filter(point=point, metric=curve.metric).row(0, named=True)
            assert (one.value, one.low, one.high) == (row["mean"], row["low"], row["high"])


def test_skewed_samples_reach_further_on_one_side() -> None:
    samples = np.array([0.0] * 10 + [1.0] * 8 + [2.0] * 4 + [3.0, 5.0, 12.0])
    found = statistics.mean_interval(samples)
    assert found.method == "percentile-t bootstrap"
    assert found.high - found.mean > found.mean - found.low
    text = measured(found.mean, found.ci95, scaled("", [found.mean]), (found.low, found.high))
    assert "−" in text
    assert "+" in text
    assert "±" not in text


def test_one_replication_has_no_interval_and_says_so() -> None:
    one = results(PATH.replace("replications = 10", "replications = 1"))
    table = terminal.show_results(one, ())
    assert table.caption == "one replication: means have no interval"
    assert not any("±" in str(cell) for column in table.columns for cell in column.cells)
    assert one.summary()["method"].null_count() == one.summary().height


def test_a_recording_shorter_than_a_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "losses").write_text("0\n" * 50 + "1\n" + "0\n" * 49)
    errors = 'errors = { kind = "trace", file = "losses" }'
    text = PATH.replace('errors = { kind = "uniform", loss = "5 %" }', errors)
    file = tmp_path / "path.toml"
    file.write_text(text.replace("17 s", "100 s"))
    found = lasthop.run(file)
    notes = [note for note in found.notes if "loss recording" in note]
    assert len(notes) == 2, "of both directions"
    assert "100 frames" in notes[0]
    # Replications start at different frames, which are the same for both protocols.
    goodput = found.samples("flow.transfer.goodput_bps", 0)
    assert np.ptp(goodput) > 0.0
    # Stored results have the same notes, even if the recording is missing.
    campaign = lasthop.Campaign(tmp_path / "store")
    assert campaign.run(file).notes == found.notes
    (tmp_path / "losses").unlink()
    again = lasthop.Campaign(tmp_path / "store").results()
    assert again.recorded == [dict(one) for one in found.recorded]
    assert again.notes == found.notes
    (tmp_path / "losses").write_text("0\n" * 100_000)
    assert lasthop.run(file).notes == ()


def test_frames_keep_what_was_run(halves: lasthop.Results) -> None:
    unfinished = halves.frame.filter(pl.col("complete") == 0.0)
    assert unfinished["duration_s"].to_numpy() == pytest.approx(17.0)


def test_lt_tcp_where_no_queue_marks_is_told(tmp_path: Path) -> None:
    text = """
name = "loss-tolerant"

[link.wired]
between = ["a", "b"]
rate = "10 Mbps"
delay = "5 ms"
queue = { kind = "red", ecn = true }

[link.wireless]
between = ["b", "c"]
rate = "1 Mbps"
delay = "5 ms"

[flow.transfer]
from = "a"
to = "c"
transport = { kind = "tcp", variant = "sack", profile = "rfc" }
app = { kind = "file", size = "10 kB" }

[sweep]
"flow.transfer.transport.variant" = ["sack", "lt-tcp"]

[run]
duration = "10 s"
replications = 2
"""
    file = tmp_path / "path.toml"
    file.write_text(text)
    (note,) = lasthop.run(file).notes
    assert note.startswith("flow.transfer (lt-tcp): lt-tcp detects congestion only by ECN marks")
    assert note.endswith("set none: wireless")
    red = 'rate = "1 Mbps"\nqueue = { kind = "red", ecn = true }'
    file.write_text(text.replace('rate = "1 Mbps"', red))
    assert lasthop.run(file).notes == ()


FAST = """
name = "fast"

[link.path]
between = ["a", "b"]
rate = "100 Mbps"
delay = "25 ms"

[flow.transfer]
from = "a"
to = "b"
transport = { kind = "tcp", variant = "cubic" }
app = { kind = "file", size = "50 MB" }

[run]
replications = 2
"""


def test_a_receive_window_that_limits_a_flow_is_reported() -> None:
    """By hand: 64 segments of 1460 B per round trip of 50.1232 ms are 14.91 Mbps."""
    rfc = results(FAST.replace('"cubic"', '"cubic", profile = "rfc"'))
    assert rfc.samples("flow.transfer.goodput_bps", 0).mean() == pytest.approx(14.91e6, rel=0.03)
    assert rfc.notes == (
        "flow.transfer: limited to 14.91 Mbps by the receive window of 64 segments, not by the "
        'network; set a larger `receive_window` or use profile "linux" without it',
    )
    # Profile linux has no such limit; a flow limited by losses does not reach it.
    default = results(FAST.replace('"cubic"', '"cubic", profile = "linux"'))
    assert default.samples("flow.transfer.goodput_bps", 0).mean() > 30e6
    assert default.notes == ()
    lossy = results(
        FAST.replace('"cubic"', '"reno", profile = "rfc"').replace(
            'delay = "25 ms"', 'delay = "25 ms"\nerrors = { kind = "uniform", loss = "2 %" }'
        )
    )
    assert lossy.notes == ()


def test_a_send_buffer_that_limits_a_flow_is_reported() -> None:
    """By hand: 60 segments of 1460 B per round trip of 50.1232 ms are 13.98 Mbps."""
    key = '"cubic", profile = "rfc", receive_window = "1000 segments", send_buffer = "87600 B"'
    text = FAST.replace('"cubic"', key)
    found = results(text)
    assert found.samples("flow.transfer.goodput_bps", 0).mean() == pytest.approx(13.98e6, rel=0.03)
    assert found.samples("flow.transfer.limited_by_send_buffer", 0).min() > 0.9
    note = (
        "limited to 13.98 Mbps by the send buffer of 87.6 kB, not by the network; set a larger "
        "`send_buffer` or omit it"
    )
    assert found.notes == (f"flow.transfer: {note}",)
    assert note in explain(lasthop.Scenario(tomllib.loads(text)))


def test_a_send_buffer_of_a_linux_host_is_reported() -> None:
    found = results(FAST.replace('"cubic"', '"cubic", send_buffer = "64 KiB"'))
    assert found.samples("flow.transfer.limited_by_send_buffer", 0).min() > 0.5
    assert found.samples("flow.transfer.goodput_bps", 0).mean() < 25e6
    assert len(found.notes) == 1
    assert " by the send buffer of 65.54 kB, not by the network; " in found.notes[0]


BBR = """
name = "bbr"

[link.path]
between = ["server", "client"]
rate = "100 Mbps"
delay = "25 ms"
queue = "1000 packets"
errors = { kind = "uniform", loss = "2 %" }
reverse = { errors = { kind = "none" } }

[flow.file]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "bbr" }
app = { kind = "file", size = "20 MB" }

[run]
replications = 2
"""


def test_a_receive_window_that_limits_the_rate_of_bbr_is_reported() -> None:
    """BBR sends at the rate that the window has limited, and seldom waits for the window itself."""
    key = '"bbr", receive_window = "100 segments"'
    narrow = results(BBR.replace('"bbr" }', f"{key} }}"))
    assert narrow.samples("flow.file.limited_by_receive_window", 0).min() > 0.5
    assert narrow.notes == (
        "flow.file: limited in most of its time by the receive window of 100 segments, not by the "
        "network; set a larger `receive_window` or omit it",
    )
    wide = results(BBR)
    assert wide.samples("flow.file.limited_by_receive_window", 0).max() < 0.5
    assert wide.samples("flow.file.goodput_bps", 0).min() > 60e6
    assert wide.notes == ()


PAGES = """
name = "pages"

[link.path]
between = ["server", "client"]
rate = "100 Mbps"
delay = "25 ms"

[flow.pages]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "reno", profile = "rfc", receive_window = "WINDOW segments" }
app = { kind = "web" }

[run]
duration = "60 s"
replications = 2
"""


def test_a_receive_window_that_limits_pages_is_reported() -> None:
    """Web flows have no bound on goodput, since they are idle between pages."""
    narrow = results(PAGES.replace("WINDOW", "1"))
    assert narrow.samples("flow.pages.limited_by_receive_window", 0).min() > 0.5
    assert narrow.notes == (
        "flow.pages: limited in most of its time by the receive window of 1 segment, not by the "
        'network; set a larger `receive_window` or use profile "linux" without it',
    )
    wide = results(PAGES.replace("WINDOW", "1000"))
    assert wide.samples("flow.pages.limited_by_receive_window", 0).max() == 0.0
    assert wide.notes == ()


WEB = """
name = "web"

[link.path]
between = ["server", "browser"]
rate = "10 Mbps"
delay = "20 ms"

[flow.web]
from = "server"
to = "browser"
transport = { kind = "tcp", variant = "cubic" }
app = { kind = "web" }

[run]
duration = "60 s"
replications = 3
"""


def test_an_application_that_limits_a_web_flow_is_reported() -> None:
    """By hand: 4 replies of 7231 B per 2 RTTs of 42.38 ms are 2.730 Mbps; the link has 10 Mbps."""
    found = results(WEB)
    assert found.samples("flow.web.limited_by_application", 0).min() > 0.8
    assert found.samples("link.path.forward.utilization", 0).max() < 0.3
    (note,) = found.notes
    assert note.startswith(
        "flow.web: limited in most of its time by the application, not by the network: "
    )
    assert "limited to 2.729 Mbps by the application, not by the network: 4 connections" in explain(
        lasthop.Scenario(tomllib.loads(WEB))
    )


@pytest.mark.parametrize(
    "path",
    [
        pytest.param('rate = "512 kbps"', id="slow"),
        pytest.param('rate = "10 Mbps"\nerrors = { kind = "uniform", loss = "10 %" }', id="lossy"),
    ],
)
def test_a_network_that_limits_a_web_flow_is_not_attributed_to_the_application(path: str) -> None:
    """The ends of replies and waiting for timeouts are included in the application's time.

    One connection over 512 kbps has few retransmissions, and the lossy link is mostly idle: each
    case is decided by one condition.
    """
    text = WEB.replace('rate = "10 Mbps"', path).replace('"web" }', '"web", connections = 1 }')
    found = results(text.replace('"60 s"', '"300 s"'))
    assert found.samples("flow.web.limited_by_application", 0).mean() > 0.5
    assert found.notes == ()


def test_a_link_window_that_limits_a_link_is_reported() -> None:
    """By hand: 8 frames of 1500 B and header per round trip of the link, at 100 Mbps."""
    text = FAST.replace(
        'delay = "25 ms"',
        'delay = "25 ms"\nprotocol = { kind = "selective-repeat", window = 8 }',
    ).replace("50 MB", "5 MB")
    (note,) = results(text).notes
    assert note.startswith("link.path.forward: limited to 1.9")
    assert " by the link protocol's window of 8 frames, not by the link rate of 100 Mbps; " in note
    assert note.endswith("set a larger `protocol.window`")


def test_a_file_that_ends_within_slow_start_is_reported() -> None:
    """By hand: 10 + 20 + 40 segments of 1448 B hold 100 kB; 4 round trips of 50.124 ms with the
    SYN.
    """
    text = FAST.replace("50 MB", "100 kB")
    found = results(text)
    (note,) = found.notes
    assert note.startswith("flow.transfer: limited to 3.99 Mbps by the application")
    assert "100 kB take 4 RTT of handshake and slow start; set a larger `app.size`" in note
    assert note.removeprefix("flow.transfer: ") in explain(lasthop.Scenario(tomllib.loads(text)))
    # A flow limited by losses, and a path that the initial window fills, have no such limit.
    lossy = 'delay = "25 ms"\nerrors = { kind = "uniform", loss = "20 %" }'
    assert results(text.replace('delay = "25 ms"', lossy)).notes == ()
    assert results(text.replace("100 Mbps", "1 Mbps")).notes == ()


def test_results_of_a_store_report_limits(tmp_path: Path) -> None:
    file = tmp_path / "path.toml"
    file.write_text(FAST.replace('"cubic"', '"cubic", profile = "rfc"'))
    notes = lasthop.run(file).notes
    assert "by the receive window" in notes[0]
    assert lasthop.Campaign(tmp_path / "store").run(file).notes == notes
    assert lasthop.Campaign(tmp_path / "store").results().notes == notes


BURSTS = """
name = "bursts"

[link.wireless]
between = ["server", "client"]
rate = "2 Mbps"
delay = "20 ms"
errors = ERRORS

[flow.transfer]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "cubic" }
app = { kind = "file", size = "200 kB" }
"""


@pytest.mark.parametrize(
    ("errors", "is_told"),
    [
        ('{ kind = "gilbert-elliott", mean_loss = 0.1, mean_burst = 10 }', True),
        (
            '{ kind = "two-state", good = "900 ms", bad = "100 ms", good_ber = 0, bad_ber = 0.01 }',
            False,
        ),
        ('{ kind = "uniform", loss = "10 %" }', False),
    ],
)
def test_bursts_that_are_counted_in_frames_are_reported(errors: str, is_told: bool) -> None:
    scenario = lasthop.Scenario.from_toml(BURSTS.replace("ERRORS", errors))
    results = lasthop.run(scenario, replications=4)
    assert not is_told or results.samples("flow.transfer.timeouts", 0).mean() >= 1.0
    notes = [text for text in results.notes if "step per frame, not in time" in text]
    assert bool(notes) is is_told
    assert ("step per frame, not in time" in explain(scenario)) is is_told


def test_a_note_separates_the_points_it_names() -> None:
    errors = '{ kind = "gilbert-elliott", mean_loss = 0.1, mean_burst = 10 }'
    sweep = """
[sweep]
"link.wireless.rate" = ["1 Mbps", "2 Mbps"]
"flow.transfer.transport.variant" = ["cubic", "reno"]
"""
    scenario = lasthop.Scenario.from_toml(BURSTS.replace("ERRORS", errors) + sweep)
    (note,) = (text for text in lasthop.run(scenario, replications=4).notes if "per frame" in text)
    assert note.startswith(
        "flow.transfer (1 Mbps, cubic; 1 Mbps, reno; 2 Mbps, cubic and at 1 other point): "
    )
