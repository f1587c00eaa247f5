"""Evaluation suites and the command `lasthop evaluate`."""

import json
import math
from copy import copy
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import lasthop
from lasthop import commands as cli
from lasthop.evaluating.observation import Observation, states
from lasthop.evaluating.results import Point, Results
from lasthop.evaluating.suite import Prepared, Suite, prepare, sender, suites
from lasthop.evaluating.verdicts import judge, observe
from lasthop.running.replications import run_points
from lasthop.showing.evaluation import markdown, pages

SUITES = sorted(suites())


def goodputs(mine: list[float], theirs: list[float]) -> tuple[Prepared, Results]:
    """The family `disruption` with a given goodput in each replication, equal at all points."""
    prepared = prepare(
        suites()["wireless"].only(["disruption"]), [sender("bbr3")], [sender("cubic")]
    )
    n = len(mine)
    point = np.repeat(np.arange(len(prepared.points), dtype=np.uint32), n)
    own = set(prepared.cells["disruption", "bbr3"])
    values = [mine if index in own else theirs for index in range(len(prepared.points))]
    return prepared, Results(
        scenario={},
        points=[Point(label, "00") for label in prepared.labels],
        metrics=["flow.candidate.goodput_bps"],
        point=point,
        replication=np.tile(np.arange(n, dtype=np.uint64), len(prepared.points)),
        values=np.concatenate(values)[:, None],
        seed=1,
    )


@pytest.mark.parametrize(
    ("mine", "verdict"),
    [
        ([50.0, 52.0, 48.0, 51.0, 49.0], "fail"),
        ([95.0, 97.0, 93.0, 96.0, 94.0], "pass"),
        ([50.0, 130.0, 60.0, 140.0, 70.0], "open"),
    ],
)
def test_a_bound_on_the_ratio_is_decided_by_a_paired_test(mine: list[float], verdict: str) -> None:
    evaluation = judge(*goodputs(mine, [100.0, 101.0, 99.0, 100.0, 100.0]))
    criterion = next(one for one in evaluation.prepared.suite.criteria if one.bound)
    cells = evaluation.of("bbr3", criterion)
    assert [one.verdict for one in cells] == [verdict] * 3
    assert evaluation.verdict("bbr3", criterion) == verdict
    assert evaluation.failed == (verdict == "fail")
    assert cells[0].ratio == pytest.approx(np.mean(mine) / 100.0)


def test_the_test_of_a_bound_is_the_paired_t_test_with_holms_correction() -> None:
    from scipy import stats

    mine, theirs = [80.0, 95.0, 70.0, 88.0], [100.0, 99.0, 97.0, 103.0]
    evaluation = judge(*goodputs(mine, theirs))
    criterion = next(one for one in evaluation.prepared.suite.criteria if one.bound)
    expected = stats.ttest_1samp(
        np.array(mine) - 0.9 * np.array(theirs), 0.0, alternative="less"
    ).pvalue
    # Three equal p-values: each is multiplied by 3.
    for one in evaluation.of("bbr3", criterion):
        assert one.p_fail == pytest.approx(min(3.0 * expected, 1.0))


def test_a_baseline_of_zero_gives_values_instead_of_ratios() -> None:
    evaluation = judge(*goodputs([50.0, 52.0], [0.0, 0.0]))
    row = next(line for line in markdown(evaluation).splitlines() if "≥ 0.9 × baseline" in line)
    assert row.split("|")[4].strip() == "pass, 51 ± 13 bps (cubic: 0)"
    # With an upper bound, such a point is worse than any with a ratio.
    upper = next(replace(one.criterion, at_least=None, at_most=0.9) for one in evaluation.cells)
    cells = [replace(one, criterion=upper, verdict="fail") for one in evaluation.cells]
    cells[1:] = [replace(one, ratio=2.0, reference=one.value) for one in cells[1:]]
    suite = copy(evaluation.prepared.suite)
    suite.criteria = [upper]
    prepared = replace(evaluation.prepared, suite=suite)
    changed = replace(evaluation, prepared=prepared, cells=cells)
    assert "| fail, 51 ± 13 bps (cubic: 0) |" in markdown(changed)


def test_equal_replications_decide_without_a_spread() -> None:
    evaluation = judge(*goodputs([50.0, 50.0], [100.0, 100.0]))
    assert {one.verdict for one in evaluation.cells if one.criterion.bound} == {"fail"}


@pytest.mark.parametrize(
    ("mine", "verdict"),
    [([0.95, 0.96, 0.94], "pass"), ([0.5, 0.51, 0.49], "fail"), ([0.5, 1.0, 0.99], "open")],
)
def test_an_absolute_bound_does_not_depend_on_the_baseline(mine: list[float], verdict: str) -> None:
    suite = suites()["bbr"].only(["aggregation"])
    prepared = prepare(suite, [sender("bbr3")], [sender("cubic")])
    (criterion,) = suite.criteria
    assert criterion.bound == "≥ 93 %"
    for theirs in (0.1, 0.99):
        results = Results(
            scenario={},
            points=[Point(label, "00") for label in prepared.labels],
            metrics=[criterion.metric],
            point=np.repeat(np.arange(2, dtype=np.uint32), 3),
            replication=np.tile(np.arange(3, dtype=np.uint64), 2),
            values=np.array([[theirs]] * 3 + [[one] for one in mine]),
            seed=1,
        )
        assert judge(prepared, results).verdict("bbr3", criterion) == verdict


def test_bbr_version_3_restores_its_state_after_a_spurious_timeout() -> None:
    """Example test case 19 of the BBR draft; without undo, nothing is taken back."""
    suite = suites()["bbr"].only(["timeout"])
    restored = suite.criteria[0]
    prepared = prepare(suite, [sender("bbr3"), sender("cubic@rfc")], [sender("cubic")])
    results = run_points(prepared.points, replications=2, seed=1, parameters=prepared.labels)
    evaluation = judge(prepared, results)
    assert evaluation.verdict("bbr3", restored) == "pass"
    assert evaluation.verdict("cubic@rfc", restored) == "fail"


PHASES = pl.DataFrame(
    [
        (0.0, "phase_startup", None),
        (0.0, "max_bw_bps", 1e6),
        (1.0, "max_bw_bps", 8e6),
        (1.0, "phase_drain", None),
        (1.25, "phase_probe_down", None),
        (2.0, "max_bw_bps", 9e6),
        (3.0, "phase_probe_up", None),
        (4.0, "phase_probe_down", None),
    ],
    schema={"time_s": pl.Float64, "event": pl.String, "value": pl.Float64},
    orient="row",
)


@pytest.mark.parametrize(
    ("observation", "expected", "unit"),
    [
        (Observation(phases="^startup drain"), 1.0, ""),
        (Observation(phases="probe_up probe_cruise"), 0.0, ""),
        (Observation(state="max_bw_bps", at="drain"), 8e6, "bps"),
        (Observation(state="max_bw_bps", at="probe_down", occurrence=2), 9e6, "bps"),
        (Observation(lasts="drain"), 0.25, "s"),
        (Observation(lasts="probe_down", occurrence=2), math.nan, "s"),
        (Observation(state="max_bw_bps", at="probe_rtt"), math.nan, "bps"),
    ],
)
def test_an_observation_is_a_value_of_the_phases(
    observation: Observation, expected: float, unit: str
) -> None:
    assert observation.value(PHASES) == pytest.approx(expected, nan_ok=True)
    assert observation.unit == unit
    assert observation.about


def test_a_sender_without_phases_has_no_observations() -> None:
    empty = PHASES.filter(pl.col("event") == "max_bw_bps")
    assert math.isnan(Observation(phases="startup").value(empty))


def test_the_path_changes_when_a_phase_begins() -> None:
    family = suites()["bbr"].families["drain"]
    scenario = family.of(sender("bbr3"))
    (_, first), (at, rate) = scenario.to_dict()["link"]["path"]["rate"]["at"]
    assert (first, rate) == ("10 Mbps", "9 Mbps")
    begins = states(scenario, "candidate", 1, 0).filter(event="phase_drain")["time_s"][0]
    assert at == f"{round(begins * 1e9)} ns"
    # CUBIC has no such phase.
    assert family.of(sender("cubic")).to_dict()["link"]["path"]["rate"] == "10 Mbps"


def test_the_application_pauses_in_the_round_of_refill() -> None:
    """Example test case 22 of the BBR draft."""
    scenario = suites()["bbr"].families["refill"].of(sender("bbr3"))
    events = lasthop.trace(scenario, seed=1).frame.filter(entity="flow.candidate")
    begins, ends = (
        events.filter(event=f"phase_probe_{phase}")["time_s"][0] for phase in ("refill", "up")
    )
    times = events.filter(event="segment_sent")["time_s"]
    near = times.filter(times.is_between(begins - 0.2, ends + 0.2))
    pause = near.diff().arg_max()
    assert pause is not None
    assert begins <= near[pause - 1] < near[pause] <= ends
    assert near[pause] - near[pause - 1] > 0.02


BBR_PHASES = ["phases", "limited", "limited-loss", "pauses", "drain", "down", "up", "refill"]


@pytest.mark.slow
def test_bbr_version_3_passes_the_cases_of_the_draft_that_concern_phases() -> None:
    prepared = prepare(suites()["bbr"].only(BBR_PHASES), [sender("bbr3")], [sender("cubic")])
    observed = observe(prepared, seed=1, replications=2)
    empty = Results(
        scenario={},
        points=[Point(label, "00") for label in prepared.labels],
        metrics=["flow.candidate.goodput_bps"],
        point=np.zeros(1, dtype=np.uint32),
        replication=np.zeros(1, dtype=np.uint64),
        values=np.zeros((1, 1)),
        seed=1,
    )
    evaluation = judge(prepared, empty, observed)
    verdicts = {one.id: evaluation.verdict("bbr3", one) for one in prepared.suite.criteria}
    assert set(verdicts.values()) == {"pass"}, verdicts


def test_an_algorithm_without_the_phases_of_bbr_fails_their_criteria() -> None:
    suite = suites()["bbr"].only(["phases"])
    prepared = prepare(suite, [sender("reno")], [sender("cubic")])
    observed = observe(prepared, seed=1, replications=2)
    values = {name: list(found) for (name, _), found in observed.items()}
    assert values["1-phases"] == [0.0, 0.0]
    assert "10-least" not in values


def test_every_link_protocol_is_run_over_each_loss_burstiness_and_delay() -> None:
    families = {
        key: one.scenario.to_dict()
        for key, one in suites()["wireless"].families.items()
        if key.startswith("recovery")
    }
    losses = set()
    for tables in families.values():
        errors = tables["link"]["radio"]["errors"]
        if errors["kind"] == "uniform":
            losses.add(("single", errors["loss"]))
        else:
            bad = (1 - errors["stay_good"]) / (2 - errors["stay_good"] - errors["stay_bad"])
            losses.add(("bursts", f"{100 * bad:.2g} %"))
        protocols = tables["sweep"]["link.radio.protocol"]
        assert len(protocols) == 9
        assert tables["sweep"]["link.radio.delay"] == ["5 ms", "25 ms"]
    assert losses == {(kind, loss) for kind in ("single", "bursts") for loss in ("1 %", "10 %")}


@pytest.mark.parametrize("key", SUITES)
def test_a_suite_is_consistent(key: str) -> None:
    suite = suites()[key]
    assert suite.not_tested
    assert {one.family for one in suite.criteria} == set(suite.families)
    assert len({one.id for one in suite.criteria}) == len(suite.criteria)
    own, base = ("codel", "drop-tail") if suite.subject == "queue" else ("reno", "cubic")
    prepared = prepare(suite, [suite.tested(own)], [suite.tested(base)])
    assert not prepared.refused
    for one in suite.criteria:
        if one.bound:
            assert one.source
            assert one.refuted_by
        for index in () if one.observed else prepared.cells[one.family, own]:
            known = prepared.points[index].metrics()
            assert any(fnmatchcase(name, one.metric) for name in known), one.id
    for key_, family in suite.families.items():
        for mine, other in zip(prepared.cells[key_, own], prepared.cells[key_, base], strict=True):
            assert prepared.points[mine].hash != prepared.points[other].hash
        places = family.scenario.to_dict()["link" if suite.subject == "queue" else "flow"]
        assert set(family.candidates) <= set(places)


@pytest.mark.slow
def test_a_quick_run_has_a_value_for_every_criterion() -> None:
    suite = suites()["wireless"]
    quick = replace_durations(suite)
    prepared = prepare(quick, [sender("bbr3")], [sender("cubic")])
    results = run_points(prepared.points, replications=2, seed=1, parameters=prepared.labels)
    evaluation = judge(prepared, results)
    for one in suite.criteria:
        cells = evaluation.of("bbr3", one)
        # In 3 s, some links deliver no packet of the probe.
        assert 0.8 * len(prepared.names[one.family]) <= len(cells), one.id
        assert len(cells) == len(prepared.names[one.family]) or "latency" in one.id, one.id
        assert all(math.isfinite(cell.value.mean) for cell in cells), one.id
    printed = markdown(evaluation)
    assert "| loss-goodput | Random loss | ≥ 0.9 × baseline |" in printed
    found = pages(evaluation, "lasthop evaluate bbr3")
    assert set(found) == {"index", "bbr3"}
    for text in found.values():
        assert 'href="index.html"' in text
        assert 'href="bbr3.html"' in text
        assert text.count("data:image/svg+xml") == len(suite.families)
        assert "http://" not in text.replace("http://www.w3.org", "")


def replace_durations(suite: Suite) -> Suite:
    """A copy of a suite whose runs take 3 s of simulated time."""
    part = suite.only(list(suite.families))
    part.families = {
        key: replace(one, scenario=one.scenario.with_({"run.duration": "3 s"}))
        for key, one in part.families.items()
    }
    return part


@pytest.mark.slow
def test_bbr_version_1_fails_where_the_rfc_says_that_it_failed() -> None:
    """RFC 9743, section 5.1.3: several flows of BBR version 1 in queues below 1.5 BDP."""
    suite = suites()["rfc9743"].only(["loss"])
    prepared = prepare(suite, [sender("bbr"), sender("reno")], [sender("cubic")])
    results = run_points(prepared.points, replications=3, seed=1, parameters=prepared.labels)
    evaluation = judge(prepared, results)
    (criterion,) = suite.criteria
    assert [one.verdict for one in evaluation.of("bbr", criterion)][:2] == ["fail"] * 2
    assert evaluation.verdict("reno", criterion) != "fail"


def test_a_sender_that_a_family_refuses_is_not_run_there() -> None:
    prepared = prepare(
        suites()["wireless"].only(["proxy", "outage"]), [sender("quic")], [sender("cubic")]
    )
    assert set(prepared.refused) == {("proxy", "quic")}
    assert ("outage", "quic") in prepared.cells


def test_senders_are_written_as_variant_profile_and_quic() -> None:
    assert sender("cubic").transport == {"kind": "tcp", "variant": "cubic", "profile": "linux"}
    assert sender("sack@ns-2").transport["profile"] == "ns-2"
    assert sender("quic").transport == {"kind": "quic"}
    assert sender("quic:newreno").transport["variant"] == "newreno"


WORDS = ["evaluate", "reno", "--against", "bbr3", "--family", "outage", "--replications", "2"]


def test_the_command_resumes_and_prints_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*WORDS, "--store", str(tmp_path / "store"), "--format", "json"]
    assert cli._main(words) == 0
    first = capsys.readouterr().out
    runs = lasthop.Campaign(tmp_path / "store").runs()
    assert cli._main(words) == 0
    assert capsys.readouterr().out == first
    assert len(lasthop.Campaign(tmp_path / "store").runs()) == len(runs)
    found = json.loads(first)
    assert found["suite"] == {"key": "wireless", "version": 2}
    assert {one["id"] for one in found["criteria"]} == {"outage-duration"}
    assert found["criteria"][0]["rerun"].endswith("--against bbr3 --family outage")


def test_a_failed_criterion_gives_exit_code_5_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", "reno", "--against", "bbr3", "--family", "proxy", "--replications", "4"]
    assert cli._main([*words, "--out", str(tmp_path)]) == 5
    printed = capsys.readouterr()
    assert "reno fails proxy-goodput at no-agent: " in printed.err
    assert set(printed.out.split()) == {str(tmp_path / "index.html"), str(tmp_path / "reno.html")}


def test_a_failed_value_has_the_unit_of_its_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", "reno@rfc", "--suite", "bbr", "--family", "aggregation"]
    assert cli._main([*words, "--replications", "2", "--out", str(tmp_path)]) == 5
    assert "at single point: 63.52 %, expected ≥ 93 %" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate"], "missing `SENDER...`: expected "),
        (["evaluate", "cubik"], 'found "cubik"'),
        (["evaluate", "quic@rfc"], "expected `quic`, as QUIC has no profiles"),
        (["evaluate", "cubic", "--against", "own.py"], "expected FILE.py:CLASS"),
        (["evaluate", "cubic", "--suite", "wirless"], "did you mean `wireless`?"),
        (["evaluate", "cubic", "--family", "los"], "did you mean `loss`?"),
        (["evaluate", "cubic", "--replications", "1"], "expected an integer of at least 2"),
    ],
    ids=str,
)
def test_invalid_input_is_one_error(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli._main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_dry_run_counts_points_of_senders_and_baselines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli._main([*WORDS, "--dry-run", "--format", "json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    # Three points of the family for the sender and for the baseline.
    assert planned["points"] == 6
    assert planned["missing"] == 12
    assert not list(tmp_path.iterdir())


def test_suites_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._main(["list", "suites"]) == 0
    printed = capsys.readouterr().out
    for key in SUITES:
        assert f" {key} " in printed
