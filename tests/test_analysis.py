import json
import math
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lasthop
from lasthop import analysis
from lasthop import commands as cli
from lasthop.commands import analyse

CHANNEL = analysis.Channel(0.1, 0.1, 0.01, 0.9)

ARQ = ["analyse", "arq", "--good-to-bad", "0.1", "--bad-to-good", "10 %"]
PAPER = [*ARQ, "--loss-in-good", "1 %", "--loss-in-bad", "0.9", "--pdus", "25"]


def test_the_paper_of_the_chain() -> None:
    """The Rust tests check these values against tables; this test checks the Python interface."""
    table = analysis.arq(CHANNEL, [1, 10, 30], pdus=25)
    assert table.columns[:3] == ["limit", "residual_loss", "approximate_loss"]
    assert table["residual_loss"].to_list() == pytest.approx(
        [0.61108932, 0.199528827, 0.0157348614]
    )
    assert table["approximate_loss"][1] == pytest.approx(0.0918357845)
    assert table["transmissions_per_pdu"][1] == pytest.approx(3.022402, abs=5e-7)
    assert table["mean_attempts"][1] == pytest.approx(4.277019, abs=5e-7)
    assert table["energy_ratio"].to_list() == pytest.approx([0.66037, 1.16660, 1.02045], abs=5e-6)
    assert table["energy_ratio_at_once"][0] == pytest.approx(2.34, abs=0.01)
    assert analysis.residual_loss(CHANNEL, 10, pdus=25) == table["residual_loss"][1]
    assert analysis.mean_attempts(CHANNEL, pdus=25) == pytest.approx(6.04755882)
    assert analysis.transmissions_per_pdu(CHANNEL) == pytest.approx(3.37938363)
    assert analysis.transmissions_per_pdu(CHANNEL, 2) == pytest.approx(1.455)
    assert analysis.smallest_limit(CHANNEL, 0.01, pdus=25) == 33
    assert analysis.smallest_limit(CHANNEL, 0.01, pdus=25, method="approximate") == 21
    assert analysis.arq_quantile(CHANNEL, 0.99, pdus=25) == 33
    assert analysis.residual_loss(CHANNEL, 5, pdus=25, spacing=3) == pytest.approx(0.1874, abs=5e-6)


def test_delays_sum_to_what_arrives() -> None:
    law = analysis.arq_delay(CHANNEL, pdus=25, spacing=3, longest=40)
    assert law["frames"].to_list()[:3] == [1, 4, 7]
    assert law["probability"].sum() + law["lost"][-1] == pytest.approx(1.0)
    assert analysis.arq_quantile(CHANNEL, 0.5, pdus=25, spacing=3) == 4


def test_statistics_of_the_channel() -> None:
    channel = analysis.Channel(0.02, 0.25)
    assert channel.loss_rate == pytest.approx(0.02 / 0.27)
    assert channel.bad_share == channel.loss_rate
    assert (channel.mean_burst, channel.mean_gap) == pytest.approx((4.0, 50.0))
    assert channel.loss_correlation(2) == pytest.approx(0.73**2)
    runs = analysis.run_lengths(channel, longest=3)
    assert runs["probability"].to_list() == pytest.approx([0.25, 0.1875, 0.140625])
    law = analysis.losses_among(channel, 20)
    assert law["probability"].sum() == pytest.approx(1.0)
    assert (law["lost"] * law["probability"]).sum() == pytest.approx(20 * channel.loss_rate)
    spaced = channel.spaced(5)
    assert spaced.loss_rate == pytest.approx(channel.loss_rate)
    assert spaced.good_to_bad + spaced.bad_to_good == pytest.approx(1 - 0.73**5)


def test_codes_protocols_and_tcp() -> None:
    independent = analysis.Channel.independent(0.05)
    xor = analysis.block_code(independent, 9, 8)
    assert xor.residual == pytest.approx(0.05 * (1 - 0.95**8))
    assert analysis.block_code(independent, 20, 18).failure == pytest.approx(0.0755, abs=5e-5)
    parity = analysis.parity_for(independent, 18, 1e-3)
    assert analysis.block_code(independent, 18 + parity, 18).residual <= 1e-3
    assert analysis.block_code(independent, 17 + parity, 18).residual > 1e-3
    assert analysis.rlp_residual_loss(0.05, 0.05, 1) == pytest.approx(0.0049, abs=5e-5)
    table = analysis.arq_efficiency(
        [0.0, 0.1], window=8, round_trip_frames=5.0, recovery_frames=5.0
    )
    assert table["stop_and_wait"].to_list() == pytest.approx([0.2, 0.18])
    assert table["go_back_n"].to_list() == pytest.approx([1.0, 0.9 / 1.4])
    assert table["selective_repeat"].to_list() == pytest.approx([1.0, 0.9])
    formulas = analysis.tcp_formulas([0.01], 0.02, timeout_s=0.2)
    assert formulas["padhye_simplified"][0] * 8e-3 == pytest.approx(4.0, abs=0.05)
    assert analysis.padhye(0.01, 0.02, timeout_s=0.2) == formulas["padhye"][0]
    assert (
        analysis.padhye(0.01, 0.02, timeout_s=0.2, simplified=True)
        == (formulas["padhye_simplified"][0])
    )
    assert analysis.mathis(0.01, 0.1) == pytest.approx(math.sqrt(1.5) / 0.01)
    assert analysis.mathis(0.01, 0.1, independent=True) == pytest.approx(131.0)
    assert analysis.tcp_chain(0.01, 1.1, capacity_per_s=10.0) == pytest.approx(8.8248, abs=5e-5)
    window = analysis.tcp_window(0.1, 8)
    assert window["probability"][1] == pytest.approx(0.223567, abs=5e-7)


def test_tcp_over_arq() -> None:
    table = analysis.tcp_over_arq(
        CHANNEL,
        [3, 45, None],
        pdus=25,
        frame_s=0.01,
        capacity_per_s=100.0,
        wired_loss=0.01,
        wired_round_trip_s=1.1,
    )
    goodput = (table["goodput_per_s"] * 8).to_list()
    assert goodput == pytest.approx([6.5, 78.1, 82.1], abs=0.05)
    assert table["limit"].to_list() == [3, 45, None]
    assert table["round_trip_s"][2] == pytest.approx(1.1705, abs=5e-5)


def test_the_ideal_link_counts() -> None:
    link = analysis.ideal_selective_repeat(CHANNEL, pdus=25, limit=5, sdus=4000, seed=7)
    assert link.delivered + link.given_up == 4000
    assert link.delays["sdus"].sum() == link.delivered
    # 5 standard deviations.
    loss = analysis.residual_loss(CHANNEL, 5, pdus=25)
    assert abs(link.given_up - 4000 * loss) < 5 * math.sqrt(4000 * loss * (1 - loss))
    again = analysis.ideal_selective_repeat(CHANNEL, pdus=25, limit=5, sdus=4000, seed=7)
    assert (again.given_up, again.transmissions) == (link.given_up, link.transmissions)
    busy = analysis.ideal_selective_repeat(CHANNEL, pdus=25, capacity=25, frames=2000)
    assert (busy.frames, busy.transmissions) == (2000, 50000)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: analysis.Channel(1.5, 0.1), "good_to_bad: found 1.5; expected a probability"),
        (lambda: analysis.Channel(0.0, 0.0), "a chain that moves"),
        (lambda: analysis.residual_loss(CHANNEL, 0), "limit: found 0; expected a whole number"),
        (lambda: analysis.residual_loss(CHANNEL, -1), "invalid value `-1` for `limit`: expected"),
        (lambda: analysis.residual_loss(CHANNEL, 1, pdus=2**40), "` for `pdus`: expected"),
        (lambda: analysis.smallest_limit(CHANNEL, 0.0), "target: found 0; expected"),
        (
            lambda: analysis.smallest_limit(analysis.Channel(0.1, 0.0), 0.1),
            "they leave a loss of at least 1",
        ),
        (lambda: analysis.tcp_window(0.0), "loss: found 0; expected"),
        (lambda: analysis.block_code(CHANNEL, 8, 9), "k: found 9; expected"),
        (lambda: analysis.losses_among(CHANNEL, 10**6), "frames: found 1000000; expected"),
        (lambda: analysis.ideal_selective_repeat(CHANNEL, pdus=1), "one of the two"),
        (lambda: analysis.mathis(0.01, -1.0), "round_trip: found -1; expected"),
    ],
)
def test_bad_arguments_are_refused(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(lasthop.AnalysisError) as refusal:
        call()
    assert message in str(refusal.value)
    assert isinstance(refusal.value, ValueError)


@given(st.floats(), st.floats(), st.floats(), st.floats(), st.integers(), st.integers(-5, 50))
def test_any_arguments_give_a_probability_or_a_refusal(
    p: float, r: float, good: float, bad: float, pdus: int, limit: int
) -> None:
    refusal = ""
    loss = 0.0
    try:
        loss = analysis.residual_loss(analysis.Channel(p, r, good, bad), limit, pdus=pdus)
    except lasthop.AnalysisError as error:
        refusal = str(error)
    assert 0.0 <= loss <= 1.0
    of_engine = ": found " in refusal and "; expected " in refusal
    assert not refusal or of_engine or ": expected " in refusal


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = cli._main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_analyse_arq_prints_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "arq.v1.png"
    arguments = [*PAPER, "--target", "1 %", "--frame", "10 ms", "--plot", str(picture)]
    code, out, err = run([*arguments, "--format", "json"], capsys)
    assert code == 0
    assert "written to" in err
    assert picture.read_bytes().startswith(b"\x89PNG")
    printed = json.loads(out)
    assert printed["facts"]["smallest limit"] == 33
    assert printed["facts"]["limit by the eigenvalue"] == 21
    assert printed["facts"]["loss at that limit"] == pytest.approx(0.0583, abs=5e-5)
    assert {row["limit"] for row in printed["rows"]} >= {1, 21, 33}
    (ten,) = [row for row in printed["rows"] if row["limit"] == 10]
    assert ten["delay_s"] == pytest.approx(0.02850, abs=5e-6)
    code, out, _ = run([*PAPER, "--limit", "7"], capsys)
    assert code == 0
    assert "0.27525" in out


def test_analyse_arq_without_losses_has_no_energy_ratio(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run([*ARQ, "--loss-in-bad", "0", "--limit", "2"], capsys)
    assert code == 0
    assert "–" in out


@pytest.mark.slow
def test_analyse_tcp_prints_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "tcp.pdf"
    tcp = ["analyse", "tcp", "--loss", "1 %", "--loss", "0.05", "--rtt", "20 ms"]
    code, out, _ = run([*tcp, "--plot", str(picture), "--format", "csv"], capsys)
    assert code == 0
    assert picture.read_bytes().startswith(b"%PDF")
    table = pl.read_csv(out.encode())
    assert table["loss"].to_list() == [0.01, 0.05]
    assert table["padhye_simplified_bps"].to_list() == pytest.approx([4.0e6, 0.99e6], rel=0.01)
    code, out, _ = run([*tcp, "--rate", "64 kbps", "--window", "20", "--format", "json"], capsys)
    assert code == 0
    (first, _) = json.loads(out)["rows"]
    assert all(first[name] <= 64_000.0 * (1 + 1e-12) for name in first if name != "loss")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [*ARQ[:2], "--good-to-bad", "2", "--bad-to-good", "0.1"],
            "lasthop: invalid value `2` for `--good-to-bad`: expected a prob",
        ),
        (
            [*ARQ, "--limit", "0"],
            "invalid value `0` for `--limit`: expected an integer of at least 1",
        ),
        ([*ARQ, "--spacing", str(2**40)], "expected an integer from 0 to 4294967295"),
        ([*ARQ[:2], "--good-to-bad", "0", "--bad-to-good", "0"], "a chain that moves"),
        ([*ARQ, "--target", "0"], "invalid value `0` for `--target`: expected"),
        ([*ARQ, "--frame", "10"], "a duration such as"),
        (
            [*ARQ, "--plot", "x.gif"],
            "invalid value `x.gif` for `--plot`: expected a name that ends in .png",
        ),
        ([*ARQ, "--plot", "absent/x.png"], "expected a file in an existing, writable folder"),
        (
            ["analyse", "tcp", "--loss", "0", "--rtt", "1 s"],
            "invalid value `0` for `--loss`: expected",
        ),
        (
            ["analyse", "tcp", "--loss", "no", "--rtt", "1 s"],
            "invalid value `no` for `--loss`: expected",
        ),
        (
            ["analyse", "tcp", "--loss", "1 %", "--rtt", "0 s"],
            "invalid value `0` for `--rtt`: expected",
        ),
        (
            ["analyse", "tcp", "--loss", "1 %", "--rtt", "1 s", "--segment", "0 B"],
            "`0 B` for `--segment`",
        ),
        (["analyse", "fish"], "fish"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(arguments, capsys)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_losses_asked_for_stand_on_the_curves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = []
    monkeypatch.setattr(analyse, "save_picture", lambda figure, _: drawn.append(figure))
    tcp = ["analyse", "tcp", "--loss", "1e-6", "--loss", "0.9", "--rtt", "0.1 s", "--window", "20"]
    code, _, _ = run([*tcp, "--plot", str(tmp_path / "tcp.png")], capsys)
    assert code == 0
    *curves, points = drawn[0].axes[0].get_lines()
    assert list(points.get_xdata()) == [1e-6, 0.9]
    for curve in curves:
        assert curve.get_xdata()[[0, -1]] == pytest.approx([1e-6, 0.9])


def test_analyse_tcp_over_arq_prints_the_combined_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A source of 800 kbps over the chain of the notes: goodput without a limit and limit 3."""
    radio = ["--good-to-bad", "0.1", "--bad-to-good", "0.1", "--loss-in-good", "0.01"]
    radio += ["--loss-in-bad", "0.9", "--pdus", "25", "--limit", "3", "--limit", "0"]
    path = ["--loss", "1 %", "--loss", "0.1", "--rtt", "400 ms", "--rate", "800 kbps"]
    code, out, _ = run(["analyse", "tcp", *path, *radio, "--format", "json"], capsys)
    assert code == 0
    rows = json.loads(out)["rows"]
    assert [(row["wired_loss"], row["limit"]) for row in rows] == [
        (0.01, 3),
        (0.01, None),
        (0.1, 3),
        (0.1, None),
    ]
    channel = analysis.Channel(0.1, 0.1, 0.01, 0.9)
    own = analysis.tcp_over_arq(
        channel,
        [None],
        pdus=25,
        frame_s=0.01,
        capacity_per_s=100.0,
        wired_loss=0.01,
        wired_round_trip_s=0.4,
    )
    assert rows[1]["goodput_per_s"] == own["goodput_per_s"].item()
    # 8 kbit per packet: 184 kbps, from tables computed independently.
    assert 8.0 * rows[1]["goodput_per_s"] == pytest.approx(184.1, abs=0.1)
    code, _, error = run(["analyse", "tcp", *path[:-2], *radio], capsys)
    assert code == 2
    assert "`--good-to-bad` requires `--rate`" in error
