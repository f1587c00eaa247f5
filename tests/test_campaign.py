import contextlib
import errno
import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
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
from lasthop import _lasthop, report
from lasthop.campaign import Campaign, CampaignError, campaign, database, ledger, store
from lasthop.engine import Engine, engine
from lasthop.results import Results

COMMAND = [sys.executable, "-m", "lasthop"]
GOODPUT = "flow.transfer.goodput_bps"
VARIANT = "flow.transfer.transport.variant"


def same(one: Results, other: Results) -> bool:
    """Whether two results are the same to the last bit."""
    return (
        list(one.metrics) == list(other.metrics)
        and [dict(point.parameters) for point in one.points]
        == [dict(point.parameters) for point in other.points]
        and one.point.tobytes() == other.point.tobytes()
        and one.replication.tobytes() == other.replication.tobytes()
        and one.values.tobytes() == other.values.tobytes()
        and (one.seed, one.complete) == (other.seed, other.complete)
    )


def parts(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "parts").iterdir())


def spans(folder: Path) -> list[tuple[int, int, int]]:
    """Point, first and count of all that the ledger calls done."""
    with store.Store(folder).ledger.read() as ledger:
        found: list[tuple[int, int, int]] = ledger.execute(
            "SELECT point, first, count FROM span ORDER BY point, first"
        ).fetchall()
    return found


class Counter:
    """A progress callback that remembers how much there was to do."""

    total = -1

    def __call__(self, done: int, total: int) -> None:
        self.total = total


# What is kept.


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
    with pytest.raises(ValueError, match="further: found 3 numbers; allowed: 2, one a point"):
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
    assert frame.columns[:6] == [
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
    with pytest.raises(CampaignError, match="run: found 9; allowed: 2, 1"):
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


def test_many_parts_become_few(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "FAN", 4)
    kept = Campaign(tmp_path / "c")
    for count in range(1, 40):
        kept.run(small, replications=count)
    # 39 in base 4 is 213: two parts of level 2, one of 1, three of 0, none superseded.
    assert len(parts(kept.folder)) == 6
    assert spans(kept.folder)
    assert sum(count for _, _, count in spans(kept.folder)) == 78
    assert same(kept.results(), lasthop.run(small, replications=39))


# What can go wrong.


@pytest.mark.slow
def test_killed_at_any_instant_it_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    scenario, replications = tmp_path / "small.toml", 1500
    scenario.write_text(SMALL)
    script = Path(__file__).parent / "killed_campaign.py"
    arguments = [str(scenario), str(tmp_path), str(replications), "60", "1"]
    done = subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, check=True
    )
    plain = lasthop.run(scenario, replications=replications)
    lines = done.stdout.split("\n")[:-1]
    assert sum(line.startswith("kill") for line in lines) == 60
    # Killed before anything was recorded, in the middle of a sweep, and near its end.
    held = [int(line.split()[1]) for line in lines if line.startswith("kill")]
    assert any(0 < count < 2 * replications for count in held)
    before = 0
    for line in lines:
        # What was recorded once stays recorded.
        now = int(line.split()[1]) if line.startswith("kill") else 0
        assert now >= before or line == "done"
        before = now
    for folder in range(lines.count("done") + 1):
        kept = Campaign(tmp_path / str(folder))
        assert same(kept.run(scenario, replications=replications), plain)
        covered = spans(kept.folder)
        for (point, first, count), (after, start, _) in itertools.pairwise(covered):
            assert point != after or first + count <= start
        assert sum(count for _, _, count in covered) == 2 * replications
        with store.Store(kept.folder).ledger.read() as ledger:
            entered = {row[0] for row in ledger.execute("SELECT file FROM part")}
        assert set(parts(kept.folder)) == entered


def interrupted(small: Path, folder: Path) -> tuple[int, str]:
    """Stops a long run by Ctrl-C in the middle; exit code and what it said."""
    # A shell that starts the tests in the background has the signal ignored.
    command = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from lasthop.cli import main; main()"
    )
    options = ["run", str(small), "--store", str(folder), "--replications", "10000000"]
    run = subprocess.Popen(
        [sys.executable, "-c", command, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60.0
    while not (folder / "parts").exists() or not parts(folder):
        assert time.monotonic() < deadline
        assert run.poll() is None
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=60.0)
    return run.returncode, said


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished_and_the_same_command_goes_on(
    small: Path, tmp_path: Path
) -> None:
    code, said = interrupted(small, tmp_path / "c")
    assert code == 130
    assert "interrupted" in said
    assert "the same command goes on" in said
    kept, count = Campaign(tmp_path / "c"), Counter()
    assert kept.runs()[-1].state == "interrupted"
    done = kept.results(replications=100)
    assert not done.complete
    stored = {(point, first): count for point, first, count in spans(kept.folder)}
    assert f"{sum(stored.values())} replications were finished" in said
    # The first point went first, from replication 0, without gaps but for the last few.
    results = kept.run(small, replications=100, progress=count)
    assert count.total <= 100
    assert same(results, lasthop.run(small, replications=100))


@pytest.mark.slow
def test_a_full_disk_at_any_write_leaves_a_campaign_that_goes_on(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "FAN", 4)
    plain = lasthop.run(small, replications=40)
    sync, left = os.fsync, 0

    def full(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    for writes in range(12):
        kept = Campaign(tmp_path / str(writes))
        left = writes
        failed = False
        for count in range(4, 41, 4):
            try:
                kept.run(small, replications=count)
            except OSError as error:
                failed = error.errno == errno.ENOSPC
                break
        assert failed
        assert kept.runs()[-1].state == "failed"
        left = 10**9
        assert same(kept.run(small, replications=40), plain)
        assert not [name for name in parts(kept.folder) if name.endswith(".tmp")]


def test_a_ledger_that_cannot_grow_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Campaign(tmp_path / "c")
    scenario = lasthop.Scenario.from_toml(SMALL)
    kept.run(scenario)
    connect = database.Ledger._connect

    def small_ledger(self: database.Ledger) -> sqlite3.Connection:
        connection = connect(self)
        connection.execute("PRAGMA max_page_count = 1")
        return connection

    delays = [f"{delay} ms" for delay in range(100)]
    wider = scenario.sweep({"link.wireless.delay": delays})
    with monkeypatch.context() as patch:
        patch.setattr(database.Ledger, "_connect", small_ledger)
        with pytest.raises(OSError, match=r"No space left on device.*ledger\.sqlite"):
            kept.run(wider, replications=1)
    assert same(kept.run(wider, replications=1), lasthop.run(wider, replications=1))


@pytest.mark.slow
def test_a_real_full_disk(small: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting needs privileges")
    try:
        run = [*COMMAND, "run", str(small), "--store", str(disk / "c"), "--replications"]
        filled = subprocess.run([*run, "20000"], capture_output=True, text=True, check=False)
        assert filled.returncode == 1
        assert filled.stderr.startswith(f"lasthop: {disk}")
        assert "No space left on device" in filled.stderr
        assert filled.stderr.count("\n") == 1
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        kept = Campaign(disk / "c")
        assert same(kept.run(small, replications=20_000), lasthop.run(small, replications=20_000))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_second_process_is_told_who_is_at_work(small: Path, tmp_path: Path) -> None:
    kept = Campaign(tmp_path / "c")
    kept.run(small, replications=2)
    with store.Store(kept.folder).locked():
        allowed = "one process at a time"
        with pytest.raises(CampaignError, match=rf"in use by process {os.getpid()} .*{allowed}"):
            kept.run(small, replications=3)
        told = subprocess.run(
            [*COMMAND, "run", str(small), "--store", str(kept.folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert told.returncode == 2
        assert f"in use by process {os.getpid()}" in told.stderr
        # Reading goes on.
        assert same(kept.results(), lasthop.run(small, replications=2))
    assert same(kept.run(small, replications=3), lasthop.run(small, replications=3))


def test_a_ledger_that_is_held_or_cannot_be_written_is_no_wrong_one(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "WAIT_S", 0.1)
    kept = Campaign(tmp_path / "c")
    kept.run(small, replications=2)
    with store.Store(kept.folder).ledger.read() as held:
        held.execute("SELECT * FROM run").fetchall()
        with pytest.raises(CampaignError, match=r"ledger\.sqlite: found it in use by another "):
            kept.run(small, replications=3)
    assert same(kept.run(small, replications=3), lasthop.run(small, replications=3))
    connect = database.Ledger._connect

    def read_only(self: database.Ledger) -> sqlite3.Connection:
        connection = connect(self)
        connection.execute("PRAGMA query_only = 1")
        return connection

    monkeypatch.setattr(database.Ledger, "_connect", read_only)
    with pytest.raises(CampaignError, match=r"ledger\.sqlite: attempt to write a readonly"):
        kept.run(small, replications=4)


def test_another_engine_is_refused_until_it_is_accepted(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Campaign(tmp_path / "c")
    kept.run(small, replications=2)
    monkeypatch.setattr(campaign, "engine", lambda: Engine("9.9.9", "0123456789ab"))
    refused = r"found results of lasthop .* and this is 9\.9\.9 \(build 0123456789ab\); allowed: "
    with pytest.raises(CampaignError, match=refused + ".*--accept-version"):
        kept.run(small, replications=3)
    with pytest.raises(CampaignError, match=refused + ".*--accept-version"):
        kept.plan(small, replications=3)
    accepting = Campaign(kept.folder, accept_version=True)
    assert accepting.plan(small, replications=3).missing == 2
    accepting.run(small, replications=3)
    assert kept.plan(small, replications=4).missing == 2
    results = kept.run(small, replications=4)
    frame = kept.frame().collect()
    assert frame.group_by("engine_version").len().sort("engine_version").rows() == [
        (lasthop.__version__, 4),
        ("9.9.9", 4),
    ]
    assert results.engine_version == f"{lasthop.__version__}, 9.9.9"


def test_builds_of_one_version_are_told_apart(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Campaign(tmp_path / "c", accept_version=True)
    assert kept.run(small, replications=10).engine_version == lasthop.__version__
    other = Engine(lasthop.__version__, "0123456789ab")
    monkeypatch.setattr(campaign, "engine", lambda: other)
    # The first look is at results of the first build alone.
    until = "flow.transfer.goodput_bps=0.0001%"
    results = kept.run(small, until=until, replications=10, max_replications=12)
    assert results.engine_version == f"{engine()}, {other}"
    counts = kept.frame().collect().group_by("engine_version").len().sort("len").rows()
    assert counts == [(str(other), 4), (str(engine()), 20)]
    assert str(other) in report.page(results)


def test_a_part_that_is_gone_or_cut_is_run_again(small: Path, tmp_path: Path) -> None:
    kept = Campaign(tmp_path / "c")
    for count in (2, 4, 6):
        kept.run(small, replications=count)
    first, second, _ = [kept.folder / "parts" / name for name in parts(kept.folder)]
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1])
    with pytest.raises(CampaignError, match=r"part-00000001\.parquet: found that it is gone"):
        kept.results()
    assert same(kept.run(small, replications=6), lasthop.run(small, replications=6))
    assert len(kept.notes) == 2
    assert "part-00000001.parquet is gone; its replications are run again" in kept.notes[0]


def test_folders_that_are_no_campaigns_are_left_alone(small: Path, tmp_path: Path) -> None:
    kept = Campaign(tmp_path / "c")
    with pytest.raises(CampaignError, match="found no campaign; allowed: a folder that"):
        kept.results()
    kept.run(small)
    (kept.folder / "parts" / "mine.txt").write_text("kept")
    (kept.folder / "parts" / "part-00000099.parquet").write_text("left by a process killed")
    kept.run(small)
    assert parts(kept.folder) == ["mine.txt", "part-00000001.parquet"]
    (kept.folder / "ledger.sqlite").rename(tmp_path / "ledger")
    with pytest.raises(CampaignError, match=r"parts without their ledger\.sqlite"):
        kept.run(small)
    (kept.folder / "ledger.sqlite").write_text("no database, but long enough to be one" * 99)
    with pytest.raises(CampaignError, match="a file that is no ledger of a campaign"):
        kept.run(small)
    assert "part-00000001.parquet" in parts(kept.folder)


# The command line.


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_dry_run_says_what_would_be_run_and_runs_nothing(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    run = ("run", small, "--store", folder)
    asked = command(*run, "--dry-run", "--format", "json")
    plan = json.loads(asked.stdout)
    assert (plan["points"], plan["replications"], plan["stored"], plan["missing"]) == (2, 8, 0, 8)
    assert plan["source"] == "a pilot of 2 of 2 points"
    assert plan["cost_s"] > 0.0
    assert not folder.exists()
    printed = command(*run, "--format", "json")
    assert printed.stdout == command("run", small, "--format", "json").stdout
    plan = json.loads(command(*run, "--dry-run", "--format", "json", "--replications", "10").stdout)
    assert (plan["replications"], plan["stored"], plan["missing"]) == (20, 8, 12)
    assert plan["source"] == "what was measured in this campaign"
    assert "12" in command(*run, "--dry-run", "--replications", "10").stdout
    fresh = json.loads(command("run", small, "--dry-run", "--format", "json").stdout)
    assert (fresh["replications"], fresh["stored"], fresh["missing"]) == (8, 0, 8)
    assert fresh["source"] == "a pilot of 2 of 2 points"
    refused = command("run", small, "--accept-version")
    assert refused.returncode == 2
    assert "--accept-version: found no --store; allowed: with --store DIR" in refused.stderr


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
    # One is missing, which one core computes.
    one = kept.plan(lasthop.load(small).with_({VARIANT: "sack"}), replications=21)
    assert one.missing == 1
    assert one.duration_s == one.cost_s


def test_a_pilot_does_not_judge_a_point_by_its_first_replication(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first replication of each point: ten times as long as the others.
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
    assert plan.source == "a pilot of 2 of 2 points"
    assert plan.cost_s == pytest.approx(80 * 0.19)


def test_cores_are_those_of_this_process() -> None:
    told = subprocess.run(
        [sys.executable, "-c", "from lasthop import _lasthop; print(_lasthop.cores())"],
        preexec_fn=lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "1\n"


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


# What is refused.


def test_the_database_of_another_program_is_left_as_it_was(small: Path, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as database:
        database.execute("CREATE TABLE notes (text TEXT)")
        database.commit()
    before = (tmp_path / "ledger.sqlite").read_bytes()
    with pytest.raises(CampaignError, match="found the database of another program"):
        Campaign(tmp_path).run(small)
    assert (tmp_path / "ledger.sqlite").read_bytes() == before


def test_an_emptied_ledger_does_not_cost_the_parts(small: Path, tmp_path: Path) -> None:
    Campaign(tmp_path).run(small)
    (tmp_path / "ledger.sqlite").write_bytes(b"")
    before = parts(tmp_path)
    with pytest.raises(CampaignError, match="found parts without their ledger"):
        Campaign(tmp_path).run(small)
    assert parts(tmp_path) == before


def test_a_file_in_the_place_of_a_folder_is_refused(small: Path) -> None:
    with pytest.raises(CampaignError, match="found a file; allowed: the folder of a campaign"):
        Campaign(small)
    with pytest.raises(CampaignError, match="allowed: a folder that can be written"):
        Campaign(small / "below").run(small)


@pytest.mark.parametrize("name", ["[a]", "c*", "c?", "file:", "point=1", "%41 ü"])
def test_a_folder_may_have_any_name(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(store, "FAN", 4)
    # What the name would also mean if it were a pattern.
    Campaign("cd").run(small)
    kept = Campaign(name)
    for count in range(1, 6):
        kept.run(small, replications=count)
    assert same(kept.results(), lasthop.run(small, replications=5))
    assert (tmp_path / name / "ledger.sqlite").exists()


def test_a_cut_part_is_named_to_who_reads_and_run_again(small: Path, tmp_path: Path) -> None:
    kept = Campaign(tmp_path)
    first = kept.run(small)
    part = tmp_path / "parts" / parts(tmp_path)[0]
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    with pytest.raises(CampaignError, match=f"{part.name}: found that it is damaged"):
        kept.results()
    with pytest.raises(ValueError, match=f"{part.name}: found that it is damaged"):
        lasthop.plot(tmp_path)
    assert same(kept.run(small), first)
    assert kept.notes == [f"{part} is damaged; its replications are run again"]


def test_a_flipped_bit_anywhere_is_found(small: Path, tmp_path: Path) -> None:
    Campaign(tmp_path).run(small)
    part = tmp_path / "parts" / parts(tmp_path)[0]
    whole = part.read_bytes()
    for place in range(0, len(whole), len(whole) // 50):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        part.write_bytes(flipped)
        with pytest.raises(CampaignError, match=f"{part.name}: found that it is damaged"):
            Campaign(tmp_path).results()


@pytest.mark.slow
def test_a_flipped_bit_in_the_ledger_never_gives_other_results(small: Path, tmp_path: Path) -> None:
    kept = Campaign(tmp_path)
    first = kept.run(small)
    path = tmp_path / "ledger.sqlite"
    whole = path.read_bytes()
    used = [place for place, byte in enumerate(whole) if byte]
    refused = 0
    for place in used[:: len(used) // 200]:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        try:
            assert same(Campaign(tmp_path).results(), first)
        except CampaignError:
            refused += 1
    assert refused > 150
    # The label of a point, which would put its numbers in another's place.
    place = whole.index(b'{"flow.transfer.transport.variant": "sack"}')
    path.write_bytes(whole[:place] + whole[place:].replace(b'"sack"', b'"sacc"', 1))
    with pytest.raises(CampaignError, match="found that it is damaged; allowed: what lasthop has"):
        Campaign(tmp_path).run(small)
    path.write_bytes(whole)
    assert same(Campaign(tmp_path).run(small), first)


# One writer, no replication twice.


def test_without_its_lock_there_is_still_one_writer(small: Path, tmp_path: Path) -> None:
    kept = Campaign(tmp_path)
    kept.run(small, replications=2)
    with store.Store(tmp_path).locked():
        (tmp_path / "lock").unlink()
        with pytest.raises(CampaignError, match="a process whose file lock was deleted; allowed:"):
            kept.run(small, replications=4)
    assert same(kept.run(small, replications=4), lasthop.run(small, replications=4))


def test_replications_that_two_parts_hold_are_put_right(small: Path, tmp_path: Path) -> None:
    kept = Campaign(tmp_path)
    kept.run(small, replications=2)
    kept.run(small, replications=4)
    with store.Store(tmp_path).ledger.write() as entries:
        # As two writers would have left it.
        entries.execute("DROP TRIGGER no_replication_twice")
        entries.execute("UPDATE span SET first = 0, count = 4 WHERE part = 2 AND first = 2")
    results = kept.run(small, replications=4)
    assert same(results, lasthop.run(small, replications=4))
    assert any("holds replications that another part has" in note for note in kept.notes)
    covered = spans(tmp_path)
    assert sum(count for _, _, count in covered) == 8


def test_the_ledger_refuses_replications_twice(small: Path, tmp_path: Path) -> None:
    kept = Campaign(tmp_path)
    kept.run(small, replications=4)
    with (
        pytest.raises(CampaignError, match="two parts with the same replications"),
        store.Store(tmp_path).ledger.write() as entries,
    ):
        entries.execute("INSERT INTO span SELECT part, point, seed, engine, 3, 5, 0.1 FROM span")
    assert same(kept.run(small, replications=4), lasthop.run(small, replications=4))


def test_a_complete_campaign_is_read_where_nothing_can_be_written(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Campaign(tmp_path / "c")
    first = kept.run(small, replications=4)
    opened = os.open

    def read_only(path: str | Path, flags: int, *rest: int) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY) and str(tmp_path) in str(path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return opened(path, flags, *rest)

    monkeypatch.setattr(os, "open", read_only)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert same(Campaign(tmp_path / "c").run(small, replications=4), first)
    with pytest.raises(CampaignError, match="allowed: a folder that can be written"):
        Campaign(tmp_path / "c").run(small, replications=5)
