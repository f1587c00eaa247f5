"""Campaigns that are killed, truncated, damaged or in use, and folders that are not campaigns."""

import contextlib
import errno
import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lasthop
from conftest import SMALL
from lasthop.running.campaign import Campaign, CampaignError, campaign, database, store
from lasthop.running.engine import Engine, engine
from lasthop.showing import report
from stored import COMMAND, Counter, parts, same, spans

# Faults during a run.


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
    # Killed before the first record, in the middle of a sweep, and near its end.
    held = [int(line.split()[1]) for line in lines if line.startswith("kill")]
    assert any(0 < count < 2 * replications for count in held)
    before = 0
    for line in lines:
        # A recorded replication remains recorded.
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
    """Interrupts a long run by Ctrl-C; returns its exit code and its standard error."""
    # A shell that starts the tests in the background makes them ignore the signal.
    command = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from lasthop.commands import main; main()"
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
    assert "run the same command to resume" in said
    kept, count = Campaign(tmp_path / "c"), Counter()
    assert kept.runs()[-1].state == "interrupted"
    done = kept.results(replications=100)
    assert not done.complete
    stored = {(point, first): count for point, first, count in spans(kept.folder)}
    assert f"{sum(stored.values())} replications finished" in said
    # The first point was run first, from replication 0, without gaps except for the last few.
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
        assert filled.stderr.startswith(f"lasthop: cannot write `{disk}")
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
        rule = "only one process may write"
        with pytest.raises(CampaignError, match=rf"in use by process {os.getpid()} .*{rule}"):
            kept.run(small, replications=3)
        rejected = subprocess.run(
            [*COMMAND, "run", str(small), "--store", str(kept.folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert rejected.returncode == 2
        assert f"in use by process {os.getpid()}" in rejected.stderr
        # Reading is still possible.
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
        with pytest.raises(CampaignError, match=r"ledger\.sqlite: locked by another "):
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
    refused = r"has results of lasthop .* but this is 9\.9\.9 \(build 0123456789ab\); use the "
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
    # The first interim analysis uses results of the first build only.
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
    with pytest.raises(CampaignError, match=r"part-00000001\.parquet: the part is missing"):
        kept.results()
    assert same(kept.run(small, replications=6), lasthop.run(small, replications=6))
    assert len(kept.notes) == 2
    assert "part-00000001.parquet is missing; its replications are recomputed" in kept.notes[0]


def test_folders_that_are_no_campaigns_are_left_alone(small: Path, tmp_path: Path) -> None:
    kept = Campaign(tmp_path / "c")
    with pytest.raises(CampaignError, match="not a campaign: expected a folder written by"):
        kept.results()
    kept.run(small)
    (kept.folder / "parts" / "mine.txt").write_text("kept")
    (kept.folder / "parts" / "part-00000099.parquet").write_text("left by a process killed")
    kept.run(small)
    assert parts(kept.folder) == ["mine.txt", "part-00000001.parquet"]
    (kept.folder / "ledger.sqlite").rename(tmp_path / "ledger")
    with pytest.raises(CampaignError, match=r"parts without ledger\.sqlite"):
        kept.run(small)
    (kept.folder / "ledger.sqlite").write_text("no database, but long enough to be one" * 99)
    with pytest.raises(CampaignError, match="not the ledger of a campaign"):
        kept.run(small)
    assert "part-00000001.parquet" in parts(kept.folder)


# Rejected folders and files.


def test_the_database_of_another_program_is_left_as_it_was(small: Path, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as database:
        database.execute("CREATE TABLE notes (text TEXT)")
        database.commit()
    before = (tmp_path / "ledger.sqlite").read_bytes()
    with pytest.raises(CampaignError, match="database of another program"):
        Campaign(tmp_path).run(small)
    assert (tmp_path / "ledger.sqlite").read_bytes() == before


def test_an_emptied_ledger_does_not_cost_the_parts(small: Path, tmp_path: Path) -> None:
    Campaign(tmp_path).run(small)
    (tmp_path / "ledger.sqlite").write_bytes(b"")
    before = parts(tmp_path)
    with pytest.raises(CampaignError, match="parts without ledger"):
        Campaign(tmp_path).run(small)
    assert parts(tmp_path) == before


def test_a_file_in_the_place_of_a_folder_is_refused(small: Path) -> None:
    with pytest.raises(CampaignError, match="is a file: expected the folder of a campaign"):
        Campaign(small)
    with pytest.raises(CampaignError, match="expected a writable folder"):
        Campaign(small / "below").run(small)


@pytest.mark.parametrize("name", ["[a]", "c*", "c?", "file:", "point=1", "%41 ü"])
def test_a_folder_may_have_any_name(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(store, "FAN", 4)
    # A folder that would also match the name if it were a pattern.
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
    with pytest.raises(CampaignError, match=f"{part.name}: the part is damaged"):
        kept.results()
    with pytest.raises(ValueError, match=f"{part.name}: the part is damaged"):
        lasthop.plot(tmp_path)
    assert same(kept.run(small), first)
    assert kept.notes == [f"{part} is damaged; its replications are recomputed"]


def test_a_flipped_bit_anywhere_is_found(small: Path, tmp_path: Path) -> None:
    Campaign(tmp_path).run(small)
    part = tmp_path / "parts" / parts(tmp_path)[0]
    whole = part.read_bytes()
    for place in range(0, len(whole), len(whole) // 50):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        part.write_bytes(flipped)
        with pytest.raises(CampaignError, match=f"{part.name}: the part is damaged"):
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
    # The damaged label of a point, which would assign its numbers to another point.
    place = whole.index(b'{"flow.transfer.transport.variant": "sack"}')
    path.write_bytes(whole[:place] + whole[place:].replace(b'"sack"', b'"sacc"', 1))
    with pytest.raises(CampaignError, match="the ledger is damaged; restore it from a backup"):
        Campaign(tmp_path).run(small)
    path.write_bytes(whole)
    assert same(Campaign(tmp_path).run(small), first)


# A single writer, and no replication twice.


def test_without_its_lock_there_is_still_one_writer(small: Path, tmp_path: Path) -> None:
    kept = Campaign(tmp_path)
    kept.run(small, replications=2)
    with store.Store(tmp_path).locked():
        (tmp_path / "lock").unlink()
        with pytest.raises(CampaignError, match="a process whose file lock was deleted; only one"):
            kept.run(small, replications=4)
    assert same(kept.run(small, replications=4), lasthop.run(small, replications=4))


def test_replications_that_two_parts_hold_are_put_right(small: Path, tmp_path: Path) -> None:
    kept = Campaign(tmp_path)
    kept.run(small, replications=2)
    kept.run(small, replications=4)
    with store.Store(tmp_path).ledger.write() as entries:
        # The state that two concurrent writers would have left.
        entries.execute("DROP TRIGGER no_replication_twice")
        entries.execute("UPDATE span SET first = 0, count = 4 WHERE part = 2 AND first = 2")
    results = kept.run(small, replications=4)
    assert same(results, lasthop.run(small, replications=4))
    assert any("repeats replications of another part" in note for note in kept.notes)
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
    with pytest.raises(CampaignError, match="expected a writable folder"):
        Campaign(tmp_path / "c").run(small, replications=5)
