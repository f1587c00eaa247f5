"""Campaigns: stored results, reuse and recomputation, output of the command."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lasthop
from conftest import SMALL
from lasthop import _lasthop
from lasthop.running.campaign import Campaign, CampaignError, ledger, store
from stored import GOODPUT, VARIANT, Counter, command, parts, same, spans

# Stored results.


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_a_campaign_gives_what_a_plain_run_gives(small: Path, tmp_path: Path, jobs: int) -> None:
    results = Campaign(tmp_path / "c").run(small, replications=20, jobs=jobs)
    assert same(results, lasthop.run(small, replications=20))


def test_what_is_there_is_not_run_again(small: Path, tmp_path: Path) -> None:
    kept = Campaign(tmp_path / "c")
    first = kept.run(small, replications=5)
    before = parts(kept.folder)
    count = Counter()
    assert same(kept.run(small, replications=5, progress=count), first)
    assert count.total == 0
    assert parts(kept.folder) == before


def test_further_replications_and_points_run_only_what_is_missing(tmp_path: Path) -> None:
    kept, count = Campaign(tmp_path / "c"), Counter()
    scenario = lasthop.Scenario.from_toml(SMALL)
    kept.run(scenario, replications=5, progress=count)
    assert count.total == 10
    kept.run(scenario, replications=8, progress=count)
    assert count.total == 6
    wider = scenario.sweep({VARIANT: ["reno", "sack", "newreno"]})
    results = kept.run(wider, replications=8, progress=count)
    assert count.total == 8
    assert same(results, lasthop.run(wider, replications=8))
    fewer = kept.run(wider, replications=3, progress=count)
    assert count.total == 0
    assert same(fewer, lasthop.run(wider, replications=3))


def test_another_seed_is_other_work(small: Path, tmp_path: Path) -> None:
    kept, count = Campaign(tmp_path / "c"), Counter()
    kept.run(small, seed=1)
    assert same(kept.run(small, seed=2, progress=count), lasthop.run(small, seed=2))
    assert count.total == 8
    assert same(kept.results(small, seed=1), lasthop.run(small, seed=1))


def test_scenarios_with_other_metrics_share_a_folder(tmp_path: Path) -> None:
    kept = Campaign(tmp_path / "c")
    scenario = lasthop.Scenario.from_toml(SMALL)
    other = lasthop.Scenario.from_toml(SMALL.replace("transfer", "upload"))
    kept.run(scenario, replications=3)
    results = kept.run(other, replications=3)
    assert same(results, lasthop.run(other, replications=3))
    assert same(kept.results(scenario), lasthop.run(scenario, replications=3))
    frame = kept.frame("flow.*.goodput_bps").collect()
    assert frame.height == 12
    assert frame[GOODPUT].null_count() == 6
    assert frame["flow.upload.goodput_bps"].null_count() == 6


def test_two_values_that_mean_the_same_are_run_once(tmp_path: Path) -> None:
    scenario = lasthop.Scenario.from_toml(SMALL).with_({VARIANT: "reno"})
    scenario = scenario.sweep({"link.wireless.delay": ["50 ms", "0.05 s"]})
    kept, count = Campaign(tmp_path / "c"), Counter()
    results = kept.run(scenario, replications=4, progress=count)
    assert count.total == 4
    assert same(results, lasthop.run(scenario, replications=4))


def test_extend_adds_replications_where_they_are_asked_for(small: Path, tmp_path: Path) -> None:
    kept = Campaign(tmp_path / "c")
    assert same(kept.extend(small, 3), lasthop.run(small, replications=3))
    results = kept.extend(small, [0, 2])
    plain = lasthop.run(small, replications=5)
    assert np.isnan(results.samples(GOODPUT, 0)).sum() == 2
    assert results.samples(GOODPUT, 1).tobytes() == plain.samples(GOODPUT, 1).tobytes()
    with pytest.raises(
        ValueError, match="invalid length 3 of `further`: expected 2, one number per"
    ):
        kept.extend(small, [1, 1, 1])


def test_precision_is_reached_at_the_looks_of_a_plain_run(small: Path, tmp_path: Path) -> None:
    kept = Campaign(tmp_path / "c")
    kept.run(small, replications=15)
    plain = lasthop.run(small, until={GOODPUT: "8%"})
    results = kept.run(small, until={GOODPUT: "8%"})
    assert same(results, plain)
    assert results.stopped == plain.stopped


def test_frame_and_query_say_where_rows_come_from(small: Path, tmp_path: Path) -> None:
    kept = Campaign(tmp_path / "c")
    results = kept.run(small)
    frame = kept.frame(GOODPUT).sort("point", "replication").collect()
    assert frame.columns[:7] == [
        "run",
        "point",
        "scenario_hash",
        "seed",
        "replication",
        "engine_version",
        "cost_s",
    ]
    assert frame[VARIANT].to_list() == ["reno"] * 4 + ["sack"] * 4
    assert frame[GOODPUT].to_list() == [*results.samples(GOODPUT, 0), *results.samples(GOODPUT, 1)]
    assert (frame["cost_s"] > 0.0).all()
    assert set(frame["scenario_hash"]) == {point.scenario_hash for point in results.points}
    asked = kept.query(f'SELECT count("{GOODPUT}") AS n FROM results WHERE "{VARIANT}" = \'sack\'')
    assert asked["n"].to_list() == [4]


def test_runs_remember_what_was_asked_for(tmp_path: Path) -> None:
    kept = Campaign(tmp_path / "c")
    scenario = lasthop.Scenario.from_toml(SMALL)
    kept.run(scenario)
    kept.run(scenario.with_({VARIANT: "sack"}))
    kept.run(scenario, replications=6)
    newest, oldest = kept.runs()[-1], kept.runs()[0]
    assert (newest.id, newest.state, list(newest.replications)) == (1, "complete", [6, 6])
    assert oldest.scenario["flow"]["transfer"]["transport"]["variant"] == "sack"
    assert same(kept.results(), lasthop.run(scenario, replications=6))
    sack = scenario.with_({VARIANT: "sack"})
    assert same(kept.results(run=2), lasthop.run(sack, replications=6))
    with pytest.raises(CampaignError, match="invalid value `9` for `run`: expected 2, 1"):
        kept.results(run=9)


def test_the_last_run_is_the_last_whatever_the_clock_says(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Campaign(tmp_path / "c")
    kept.run(small)
    monkeypatch.setattr(ledger, "_now", lambda: "1970-01-01T00:00:00.000000+00:00")
    other = lasthop.load(small).with_({"link.wireless.delay": "20 ms"})
    kept.run(other)
    assert same(kept.results(), lasthop.run(other))
    kept.run(small)
    assert [run.id for run in kept.runs()] == [2, 1]


def test_points_are_kept_with_all_that_is_needed_to_run_them_again(
    small: Path, tmp_path: Path
) -> None:
    kept = Campaign(tmp_path / "c")
    results = kept.run(small)
    with store.Store(kept.folder).ledger.read() as ledger:
        texts = [row[0] for row in ledger.execute("SELECT scenario FROM point ORDER BY id")]
    again = [lasthop.run(lasthop.Scenario(json.loads(text)), seed=1) for text in texts]
    assert np.concatenate([one.values for one in again]).tobytes() == results.values.tobytes()


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=8),
    st.integers(0, 50),
)
def test_gaps_are_what_is_missing(done: list[tuple[int, int]], count: int) -> None:
    there = {number for first, length in done for number in range(first, first + length)}
    gaps = store.missing(done, count)
    found = [number for first, length in gaps for number in range(first, first + length)]
    assert found == sorted(set(range(count)) - there)


@pytest.mark.slow
def test_many_parts_become_few(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "FAN", 4)
    kept = Campaign(tmp_path / "c")
    for count in range(1, 40):
        kept.run(small, replications=count)
    # 39 in base 4 is 213: two parts of level 2, one of level 1, three of level 0, none superseded.
    assert len(parts(kept.folder)) == 6
    assert spans(kept.folder)
    assert sum(count for _, _, count in spans(kept.folder)) == 78
    assert same(kept.results(), lasthop.run(small, replications=39))


# The command line.


@pytest.mark.slow
def test_dry_run_says_what_would_be_run_and_runs_nothing(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    run = ("run", small, "--store", folder)
    asked = command(*run, "--dry-run", "--format", "json")
    plan = json.loads(asked.stdout)
    assert (plan["points"], plan["replications"], plan["stored"], plan["missing"]) == (2, 8, 0, 8)
    assert plan["source"] == "measured in a pilot of 2 of 2 points"
    assert plan["cost_s"] > 0.0
    assert not folder.exists()
    printed = command(*run, "--format", "json")
    assert printed.stdout == command("run", small, "--format", "json").stdout
    plan = json.loads(command(*run, "--dry-run", "--format", "json", "--replications", "10").stdout)
    assert (plan["replications"], plan["stored"], plan["missing"]) == (20, 8, 12)
    assert plan["source"] == "measured in this campaign"
    assert "12" in command(*run, "--dry-run", "--replications", "10").stdout
    fresh = json.loads(command("run", small, "--dry-run", "--format", "json").stdout)
    assert (fresh["replications"], fresh["stored"], fresh["missing"]) == (8, 0, 8)
    assert fresh["source"] == "measured in a pilot of 2 of 2 points"
    refused = command("run", small, "--accept-version")
    assert refused.returncode == 2
    assert "`--accept-version` requires `--store DIR`" in refused.stderr


def test_more_threads_than_cores_or_replications_make_nothing_faster(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Campaign(tmp_path / "c")
    kept.run(small, replications=20)
    monkeypatch.setattr(_lasthop, "cores", lambda: 4)
    plan = kept.plan(small, replications=1000, jobs=99)
    assert plan.cost_s is not None
    assert plan.duration_s == plan.cost_s / 4.0
    assert kept.plan(small, replications=1000).jobs == 4
    # One replication is missing, which a single core computes.
    one = kept.plan(lasthop.load(small).with_({VARIANT: "sack"}), replications=21)
    assert one.missing == 1
    assert one.duration_s == one.cost_s


def test_a_pilot_does_not_judge_a_point_by_its_first_replication(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first replication of each point takes ten times as long as the others.
    point, cost = np.repeat([0, 1], 10).astype(np.uint32), np.full(20, 0.1)
    cost[[0, 10]] = 1.0

    class Fake:
        def __init__(self, points: object, work: Sequence[tuple[int, int, int, float]], **_: int):
            self.batches = [SimpleNamespace(point=point, cost_s=cost)]
            assert [count for _, _, count, _ in work] == [40, 40]

        def next(self, wait_s: float) -> object:
            return self.batches.pop() if self.batches else None

        def stop(self) -> None:
            pass

    monkeypatch.setattr(_lasthop, "Stream", Fake)
    plan = Campaign(tmp_path / "c").plan(small, replications=40)
    assert plan.source == "measured in a pilot of 2 of 2 points"
    assert plan.cost_s == pytest.approx(80 * 0.19)


def test_cores_are_those_of_this_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from lasthop import _lasthop; print(_lasthop.cores())"],
        preexec_fn=lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1\n"


@pytest.mark.slow
def test_a_study_runs_through_a_campaign_and_is_extended(tmp_path: Path) -> None:
    study = ("reproduce", "multilayer", "Table I", "--format", "json")
    stored = ("--store", tmp_path / "c")
    first = command(*study, *stored, "--replications", "2")
    assert first.returncode == 0
    assert first.stdout == command(*study, "--replications", "2").stdout
    again = command(*study, *stored, "--replications", "3")
    assert again.stdout == command(*study, "--replications", "3").stdout
    plan = json.loads(command(*study, *stored, "--replications", "4", "--dry-run").stdout)
    assert plan["stored"] == 3 * plan["points"]
    assert plan["missing"] == plan["points"]
    frame = Campaign(tmp_path / "c").frame("flow.*.goodput_bps").collect()
    assert frame.height == plan["stored"]
    assert isinstance(frame, pl.DataFrame)
