"""Fitting error processes: readers checked by tables, estimates by known chains, and messages.

Records are sampled with fixed seeds. Each statistical test states its false-positive rate.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import dpkt  # type: ignore[import-untyped]
import numpy as np
import pytest

import lasthop
from lasthop import _lasthop, analysis, fit
from lasthop.commands import _main
from lasthop.evaluating.fit.checks import autocorrelation
from lasthop.evaluating.fit.estimate import estimate, with_intervals
from lasthop.evaluating.fit.models import MODELS, Model
from lasthop.evaluating.fit.models.base import stationary
from lasthop.evaluating.fit.models.two_state import TwoState
from lasthop.evaluating.fit.records import run_lengths

KNOWN = {model.name: model for model in MODELS}
CHAINS = {
    "uniform": [0.05],
    "simple-gilbert": [0.01, 0.25],
    "gilbert": [0.005, 0.05, 0.5],
    "gilbert-elliott": [0.005, 0.05, 0.01, 0.4],
    "three-state": [0.01, 0.3, 0.02, 0.8, 0.2, 0.7, 0.001, 0.95, 0.4],
}


def drawn(model: Model, values: list[float], frames: int, number: int = 0) -> np.ndarray:
    law, matrices = model.matrices(np.array(values))
    kinds = None
    if isinstance(model, TwoState):
        kinds = np.ascontiguousarray(model.kinds).tobytes()
    lost = _lasthop.simulate_losses(
        law.tolist(),
        matrices.ravel().tolist(),
        frames=frames,
        seed=11,
        replication=number,
        kinds=kinds,
    )
    return np.frombuffer(lost, dtype=np.uint8).astype(bool)


# Records.


def test_runs_and_gaps_are_counted() -> None:
    record = fit.Record(np.array([0, 1, 1, 0, 0, 0, 1], dtype=bool))
    assert record.bursts.tolist() == [2, 1]
    assert record.gaps.tolist() == [1, 3]
    assert record.mean_burst == 1.5
    assert run_lengths(np.ones(3, dtype=bool), of=False).size == 0


def test_idle_times_are_what_air_times_leave() -> None:
    air, start = np.array([1.0, 1.0, 2.0]), np.array([0.0, 1.5, 2.4])
    record = fit.Record(np.zeros(3, dtype=bool), 8.0 * air, air, start)
    assert record.gap_s.tolist() == [0.5, 0.0, 0.0]
    assert record.timed(None, 1.0).air_s is air
    assert fit.Record(np.zeros(2, dtype=bool)).timed(80.0, 40.0).duration_s == 4.0


@pytest.mark.parametrize(
    ("name", "text", "lost"),
    [
        ("plain.txt", "0\n1\n1\n", [0, 1, 1]),
        ("words.txt", "# recorded by hand\nok\nlost\n0\n", [0, 1, 0]),
        ("table.csv", "bytes, lost\n100, 0\n200, true\n", [0, 1]),
        ("lines.jsonl", '{"lost": false, "bytes": 100}\n\n{"lost": 1, "bytes": 9}\n', [0, 1]),
    ],
)
def test_formats_are_told_by_their_beginning(
    tmp_path: Path, name: str, text: str, lost: list[int]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    record = fit.read(path)
    assert record.lost.astype(int).tolist() == lost
    if "bytes" in text:
        assert record.bits is not None
        assert record.bits[0] == 800.0


def test_a_csv_may_say_when_and_at_what_rate(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("time_s,bytes,rate_bps,gone\n0,125,1000,1\n3,250,1000,0\n")
    record = fit.read(path, column="gone")
    assert record.lost.tolist() == [True, False]
    assert record.air_s is not None
    assert record.air_s.tolist() == [1.0, 2.0]
    assert record.gap_s.tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no frame"),
        ("0\n2\n", ":2: invalid value `2`: expected 0, ok or false"),
        ("lost,bytes\n1,x\n", ":2: bytes: invalid text: expected a number"),
        ("a,b\n1,2\n", ":2: missing `lost`: expected one of a, b; .*with `column`"),
        ('{"lost": 1}\n{"lost"\n', ":2: invalid JSON"),
        ("lost,bytes,lost\n0,1,1\n", ":1: 2 columns are named `lost`: expected unique names"),
        ('{"lost": 1, "lost": 0}\n', ":1: duplicate key 'lost'"),
        ("lost,time_s\n0,2\n1,1\n", "frame 2 starts before the previous one"),
    ],
)
def test_what_is_no_record_is_refused_with_its_place(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(fit.FitError, match=message):
        fit.read(path)


def test_frames_of_a_trace_are_read(tmp_path: Path) -> None:
    trace = lasthop.trace("examples/first.toml")
    trace.write(tmp_path)
    with pytest.raises(fit.FitError, match=r"2 directions: use `entity` .*link\.wireless\.forward"):
        fit.read(tmp_path / "frames.csv")
    record = fit.read(tmp_path / "frames.csv", entity="link.wireless.forward")
    sent = trace.transmissions.filter(entity="link.wireless.forward")
    assert record.lost.sum() == sent["arrival_s"].null_count()
    assert record.lost.size == len(sent)


def radiotap(number: int, *, retry: bool, flags: int = 0, to: int = 2, sender: int = 7) -> bytes:
    """A data frame with flags and a rate of 11 Mbps in its radiotap header."""
    header = struct.pack("<BBHIBB", 0, 0, 10, 0b110, flags, 22)
    addresses = bytes([to] + [0] * 5) + bytes([2, 0, 0, 0, 0, sender]) + bytes(6)
    return (
        header
        + bytes([0x08, 0x08 if retry else 0, 0, 0])
        + addresses
        + struct.pack("<H", number << 4)
        + bytes(76)
    )


def capture(packets: list[bytes], kind: int = 127) -> bytes:
    out = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, kind)
    for index, packet in enumerate(packets):
        out += struct.pack("<IIII", 0, 2000 * index, len(packet), len(packet)) + packet
    return out


def test_a_capture_without_its_extra_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dpkt", None)
    path = tmp_path / "air.pcap"
    path.write_bytes(capture([radiotap(1, retry=False)]))
    with pytest.raises(fit.FitError, match=r"pip install 'lasthop\[pcap\]'"):
        fit.read(path)


@pytest.mark.parametrize(
    ("keys", "mbps"),
    [
        ('standard = "802.11n"\nmcs = 5\nmax_ampdu = "0 B"', 52.0),
        ('standard = "802.11n"\nwidth = "40 MHz"\nguard_interval = "400 ns"', 150.0),
        ('standard = "802.11ac"\nmcs = 9\nwidth = "80 MHz"\nspatial_streams = 2', 780.0),
        ('standard = "802.11ax"\nmcs = 11\nguard_interval = "1600 ns"', 135.417),
        ('standard = "802.11ax"\nmcs = 5\nwidth = "80 MHz"', 288.235),
        ('standard = "802.11g"\nrate = "36 Mbps"', 36.0),
    ],
)
def test_rates_of_later_standards_are_read(tmp_path: Path, keys: str, mbps: float) -> None:
    """Rates of IEEE Std 802.11-2020, 19.5 and 21.5, and 802.11ax-2021, 27.5."""
    scenario = lasthop.Scenario.from_toml(f"""
        name = "air"
        [wlan.cell]
        access_point = "ap"
        stations = ["laptop"]
        errors = {{ kind = "uniform", loss = 0.1 }}
        control_errors = false
        {keys}
        [flow.down]
        from = "ap"
        to = "laptop"
        transport = {{ kind = "udp" }}
        app = {{ kind = "media", rate = "20 Mbps", packet = "1500 B", silence = "0 s" }}
        [run]
        duration = "0.5 s"
    """)
    path = tmp_path / "air.pcapng"
    lasthop.capture(scenario, path)
    record = fit.read(path)
    assert record.bits is not None
    assert record.air_s is not None
    assert np.allclose(record.bits / record.air_s, mbps * 1e6, rtol=1e-5)
    assert record.lost.size > 600
    assert 0.05 < record.lost.mean() < 0.15


def test_retry_bits_tell_which_copies_were_lost(tmp_path: Path) -> None:
    packets = [
        radiotap(1, retry=False),  # lost: a retransmission follows
        radiotap(1, retry=True),
        radiotap(2, retry=False),
        radiotap(3, retry=False, to=1),  # group address
        radiotap(4, retry=False, flags=0x40),  # wrong checksum
        radiotap(5, retry=True),  # its first copy was not captured
        radiotap(6, retry=False, sender=9),  # another station
    ]
    path = tmp_path / "air.pcap"
    path.write_bytes(capture(packets))
    record = fit.read(path)
    assert record.lost.astype(int).tolist() == [1, 0, 0, 1, 0]
    assert record.bits is not None
    assert record.air_s is not None
    assert record.bits[0] == 800.0
    assert record.air_s[0] == pytest.approx(800.0 / 11e6)
    assert "1 first transmissions were not captured" in " ".join(record.notes)
    assert fit.read(path, transmitter="02:00:00:00:00:09").lost.tolist() == [False]
    modern = tmp_path / "air.pcapng"
    with modern.open("wb") as file:
        interface = dpkt.pcapng.InterfaceDescriptionBlockLE(linktype=127)
        writer = dpkt.pcapng.Writer(file, idb=interface)
        for place, packet in enumerate(packets):
            writer.writepkt(packet, ts=0.002 * place)
    again = fit.read(modern)
    assert again.lost.tolist() == record.lost.tolist()
    assert again.start_s == pytest.approx(record.start_s)
    with pytest.raises(fit.FitError, match="invalid value `0` for `transmitter`: expected 02:00"):
        fit.read(path, transmitter="0")
    path.write_bytes(capture(packets, kind=105))
    with pytest.raises(fit.FitError, match="invalid link type 105: expected 127"):
        fit.read(path)
    path.write_bytes(capture(packets)[:60])
    with pytest.raises(fit.FitError, match=r"broken capture|no unicast data frame"):
        fit.read(path)


# Models and estimates.


@pytest.mark.parametrize("name", CHAINS)
def test_matrices_are_laws(name: str) -> None:
    law, matrices = KNOWN[name].matrices(np.array(CHAINS[name]))
    step = matrices.sum(axis=0)
    assert np.allclose(step.sum(axis=1), 1.0)
    assert np.allclose(law @ step, law)
    assert law.sum() == pytest.approx(1.0)


def test_the_two_state_matrices_have_the_mean_loss_of_the_closed_form() -> None:
    record = fit.Record(np.zeros(2, dtype=bool), np.full(2, 2000.0), np.full(2, 2000.0 / 64e3))
    law, matrices = TwoState(record).matrices(np.array([10.0, 0.1, 1e-6, 1e-2]))
    expected = analysis.two_state_loss(
        250, 64e3, good_s=10.0, bad_s=0.1, good_ber=1e-6, bad_ber=1e-2
    )
    assert float((law @ matrices[1]).sum()) == pytest.approx(expected, rel=1e-9)
    assert np.allclose(matrices[:2].sum(axis=(0, 2)), 1.0)


def test_the_stationary_law_of_three_states_is_the_eigenvector() -> None:
    step = np.array([[0.9, 0.06, 0.04], [0.2, 0.5, 0.3], [0.0, 0.1, 0.9]])
    assert np.allclose(stationary(step) @ step, stationary(step))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name != "simple-gilbert" else [])
        for name in CHAINS
    ],
)
def test_bic_finds_the_family_and_intervals_hold_its_parameters(name: str) -> None:
    # A single record each: a 95 % interval would fail too often, so that the intervals are doubled.
    # Total false-positive rate: below 22 intervals times 9e-5.
    found = fit.fit(drawn(KNOWN[name], CHAINS[name], 100_000))
    assert found.best.model.name == name
    for one, truth in zip(found.best.estimates, CHAINS[name], strict=False):
        assert one.low < one.value < one.high
        assert abs(one.value - truth) < 2.0 * max(one.high - one.value, one.value - one.low)
    assert not found.warnings or name == "three-state"


@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say() -> None:
    # 120 records of 20,000 frames: of 480 intervals at 95 %, at least 430 contain the true value.
    # The intervals of a record are dependent, as if there were half as many: for a binomial of 240,
    # less than 89.6 % has a probability of 3e-4.
    truth = np.array(CHAINS["simple-gilbert"])
    model = KNOWN["simple-gilbert"]
    held = []
    for number in range(120):
        record = fit.Record(drawn(model, CHAINS["simple-gilbert"], 20_000, number))
        for one, true in zip(
            with_intervals(estimate(model, record), record).estimates,
            [*truth, *model.derive(truth)],
            strict=True,
        ):
            held.append(one.low <= true <= one.high)
    assert len(held) == 480
    assert sum(held) >= 430
    assert sum(held) < 480  # the intervals are not arbitrarily wide


@pytest.mark.slow
def test_times_tell_a_channel_in_time_from_one_by_frames() -> None:
    frames = 40_000
    random = np.random.default_rng(3)
    bits = random.choice([400.0, 2000.0], frames)
    air = bits / 125e3
    start = np.r_[0.0, np.cumsum(air + random.choice([0.0, 0.2, 1.0], frames))[:-1]]
    truth = [2.0, 0.2, 1e-6, 5e-4]
    record = fit.Record(np.zeros(frames, dtype=bool), bits, air, start)
    record = fit.Record(drawn(TwoState(record), truth, frames), bits, air, start)
    found = fit.fit(record)
    assert found.best.model.name == "two-state"
    for one, true in zip(found.best.estimates, truth, strict=True):
        if one.name != "good_ber":  # few losses per million bits: its interval is wide
            assert abs(np.log(one.value / true)) < 2.0 * np.log(one.high / one.low)
    assert 'kind = "two-state", good = "' in found.errors


def test_edges_have_one_sided_intervals() -> None:
    lost = drawn(KNOWN["simple-gilbert"], CHAINS["simple-gilbert"], 20_000)
    one = fit.fit(lost, models=["gilbert-elliott"]).best
    good, bad = one.estimates[2:4]
    assert good.low == 0.0 or good.value < 0.002
    assert bad.high == 1.0 or bad.value > 0.9
    assert 0.0 < good.high < 0.02


def test_the_line_is_a_line_of_a_scenario() -> None:
    scenario = lasthop.load("examples/first.toml")
    for name, values in CHAINS.items():
        table = KNOWN[name].errors(
            dict(zip((p.name for p in KNOWN[name].parameters), values, strict=True))
        )
        scenario.with_({"link.wireless.errors": table}).points()


def test_the_engine_loses_what_the_line_says() -> None:
    # The engine's Gilbert–Elliott channel, fitted from its own trace: the file requires about 6,700
    # frames.
    scenario = lasthop.load("examples/first.toml").with_(
        {
            "link.wireless.errors": '{ kind = "gilbert-elliott", p_good_to_bad = 0.02, '
            "p_bad_to_good = 0.3, loss_good = 0.0, loss_bad = 0.8 }",
            "link.wireless.protocol": '{ kind = "selective-repeat" }',
            "link.wireless.rate": "20 Mbps",
            "flow.transfer.app.size": "8 MB",
        }
    )
    sent = lasthop.trace(scenario).transmissions.filter(entity="link.wireless.forward")
    assert len(sent) > 6000
    found = fit.fit(sent["arrival_s"].is_null().to_numpy(), models=["gilbert"]).best
    # Twice the width of 95 % intervals: false-positive rate below 3e-4.
    for one, truth in zip(found.estimates, [0.02, 0.3, 0.8], strict=False):
        assert abs(one.value - truth) < 2.0 * max(one.high - one.value, one.value - one.low)


@pytest.mark.slow
def test_the_engine_loses_what_the_line_of_three_states_says() -> None:
    # The line printed by the command, run by the engine and fitted again: 60,000 frames.
    model = KNOWN["three-state"]
    names = (each.name for each in model.parameters)
    line = model.errors(dict(zip(names, CHAINS["three-state"], strict=True)))
    scenario = lasthop.Scenario(
        {
            "name": "three states",
            "link": {
                "radio": {"between": ["a", "b"], "rate": "10 Mbps", "delay": "1 ms"},
            },
            "flow": {
                "f": {
                    "from": "a",
                    "to": "b",
                    "transport": {"kind": "udp"},
                    "app": {
                        "kind": "media",
                        "rate": "480 kbps",
                        "packet": "100 B",
                        "silence": "0 s",
                    },
                }
            },
            "run": {"duration": "100 s"},
        }
    ).with_({"link.radio.errors": line})
    sent = lasthop.trace(scenario).transmissions.filter(entity="link.radio.forward")
    assert len(sent) == 60_000
    found = fit.fit(sent["arrival_s"].is_null().to_numpy(), models=["gilbert", "three-state"])
    assert found.best.model.name == "three-state"
    # The order of the states may differ. The mean loss and the sorted losses are within twice the
    # width of 95 % intervals. False-positive rate below 4e-4.
    truth = sorted(CHAINS["three-state"][6:])
    losses = sorted(found.best.estimates[6:9], key=lambda one: one.value)
    law, matrices = model.matrices(np.array(CHAINS["three-state"]))
    mean = float(law @ matrices[1].sum(axis=1))
    for one, true in zip([*losses, found.best.estimates[9]], [*truth, mean], strict=True):
        assert abs(one.value - true) < 2.0 * max(one.high - one.value, one.value - one.low)
    assert found.errors.startswith('errors = { kind = "markov-chain", transitions = [[')


# Tests of fit and warnings.


def test_a_wrong_model_is_called_wrong_and_a_right_one_is_not() -> None:
    lost = drawn(KNOWN["gilbert-elliott"], CHAINS["gilbert-elliott"], 50_000)
    wrong = fit.fit(lost, models=["simple-gilbert"])
    assert {check.name for check in wrong.checks if check.failed} >= {
        "autocorrelation",
        "runs of arrivals",
    }
    assert any("deviate from simple-gilbert" in warning for warning in wrong.warnings)
    right = fit.fit(lost, models=["gilbert-elliott"])
    # The levels of all tests add up to 5 %; the seed is fixed.
    assert not any(check.failed for check in right.checks)


def long_bursts(random: np.random.Generator, frames: int) -> np.ndarray:
    """Bursts of Pareto length (shape 1.2, at least one frame), geometric gaps of 50 on average."""
    count = frames // 25
    bursts = ((1.0 - random.random(count)) ** (-1.0 / 1.2)).astype(np.int64)
    gaps = random.geometric(0.02, count)
    places = np.column_stack([gaps, np.minimum(bursts, frames)]).ravel()
    return np.repeat(np.arange(2 * count) % 2 == 1, places)[:frames]


def oscillating(random: np.random.Generator, frames: int) -> np.ndarray:
    """Independent losses of 5 % on average; the rate oscillates by 90 % over 2,000 frames."""
    turns = np.arange(frames) / 2000.0 + random.random()
    return random.random(frames) < 0.05 * (1.0 + 0.9 * np.sin(2.0 * np.pi * turns))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("misfit", "tests"),
    [
        (long_bursts, {"bursts of losses", "long bursts"}),
        (oscillating, {"losses over windows"}),
    ],
)
def test_lengths_and_oscillations_that_no_model_has_are_seen(
    misfit: Callable[[np.random.Generator, int], np.ndarray], tests: set[str]
) -> None:
    for seed in (1, 2, 3):
        found = fit.fit(misfit(np.random.default_rng(seed), 100_000))
        assert tests & {check.name for check in found.checks if check.failed}
        assert any(f"deviate from {found.best.model.name}" in warning for warning in found.warnings)


@pytest.mark.slow
def test_all_tests_of_a_right_model_together_reject_one_in_twenty() -> None:
    # The levels add up to 5 %: P(more than 5 of 30 at p = 0.05) = 0.3 %.
    rejected = 0
    for number in range(30):
        family = ("uniform", "simple-gilbert", "gilbert-elliott")[number % 3]
        lost = drawn(KNOWN[family], CHAINS[family], 40_000, 100 + number)
        found = fit.fit(lost, models=[family])
        rejected += any(check.failed for check in found.checks)
    assert rejected <= 5


def test_a_record_that_changes_is_called_not_stationary() -> None:
    lost = np.r_[
        drawn(KNOWN["uniform"], [0.02], 20_000, 1), drawn(KNOWN["uniform"], [0.06], 20_000, 2)
    ]
    found = fit.fit(lost, models=["uniform"])
    assert any("not stationary" in warning for warning in found.warnings)


def test_loss_against_length_is_seen() -> None:
    bits = np.tile([400.0, 8000.0], 10_000)
    lost = np.random.default_rng(5).random(20_000) < -np.expm1(-1e-5 * bits)
    found = fit.fit(fit.Record(lost, bits), models=["uniform"])
    assert any("loss depends on length" in warning for warning in found.warnings)


def test_a_short_record_is_called_short() -> None:
    lost = np.zeros(500, dtype=bool)
    lost[[20, 21, 300]] = True
    found = fit.fit(lost)
    assert any(warning.startswith("record too short: 2 loss bursts") for warning in found.warnings)


def test_autocorrelation_of_a_chain_is_its_eigenvalue_to_the_power() -> None:
    lost = drawn(KNOWN["simple-gilbert"], [0.1, 0.3], 400_000)
    # (1 - 0.1 - 0.3)^k; standard deviations of about 0.003 at 400,000 frames.
    found = autocorrelation(lost, np.array([1, 2, 4]))
    assert np.allclose(found, 0.6 ** np.array([1, 2, 4]), atol=0.02)


@pytest.mark.parametrize(
    ("lost", "message"),
    [([0, 0, 0], "no loss among 3 frames"), ([1, 1], "no arrival among 2 frames")],
)
def test_one_kind_of_frames_is_refused(lost: list[int], message: str) -> None:
    with pytest.raises(fit.FitError, match=message):
        fit.fit([bool(one) for one in lost])


# Rates.


def test_rates_of_mahimahi(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    # 12.032 Mbps, with an outage of two seconds.
    path.write_text("".join(f"{ms}\n" for ms in range(1, 30_001) if not 10_000 < ms <= 12_000))
    rates = fit.read_rates(path)
    assert rates.mean_bps == pytest.approx(12.032e6 * 28 / 30, rel=0.01)
    assert rates.deciles_bps[1] == pytest.approx(12.032e6, rel=0.01)
    assert rates.outages_s.tolist() == [pytest.approx(2.001)]
    assert any("had 1 outages" in warning for warning in rates.warnings)
    # The mean alone is not sufficient: the printed line replays the recording and is valid in a
    # scenario.
    _, _, table = rates.rate.partition("rate = ")
    scenario = lasthop.load("examples/first.toml").with_({"link.wireless.rate": table})
    assert "mahimahi" in scenario.points()[0].to_json()
    for text, message in [
        ("1\nx\n", ":2: invalid text"),
        ("5\n3\n", ":2: the time is before"),
        ("7", "10 s"),
    ]:
        path.write_text(text)
        with pytest.raises(fit.FitError, match=message):
            fit.read_rates(path)


# The command.


@pytest.mark.slow
def test_the_command_prints_a_line_and_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.txt"
    lost = drawn(KNOWN["simple-gilbert"], CHAINS["simple-gilbert"], 20_000)
    log.write_text("".join(f"{int(one)}\n" for one in lost))
    assert _main(["fit", str(log), "--plot", str(tmp_path / "fit.png")]) == 0
    out = capsys.readouterr().out
    assert 'errors = { kind = "gilbert-elliott", p_good_to_bad = 0.0' in out
    assert (tmp_path / "fit.png").stat().st_size > 10_000
    assert _main(["fit", str(log), "--format", "json", "--model", "uniform"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["frames"] == 20_000
    assert [one["name"] for one in printed["models"]] == ["uniform"]
    for arguments, message in (
        (
            [str(log), "--model", "fractal"],
            "lasthop: unknown model `fractal`: expected uniform",
        ),
        ([str(log), "--plot", "x.gif"], "lasthop: invalid value `x.gif` for `--plot`"),
        ([str(log), "--rate", "fast"], "lasthop: invalid value `fast` for `--rate`: "),
        ([str(log), "--entity", "x"], "lasthop: `--entity` requires"),
        ([str(tmp_path / "none")], "No such file"),
    ):
        assert _main(["fit", *arguments]) == 2
        assert message in capsys.readouterr().err


def test_help_names_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(["--help"]) == 0
    assert "fit" in capsys.readouterr().out
