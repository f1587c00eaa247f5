"""Runs until metrics have a target precision."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import lasthop
from lasthop import commands as cli
from lasthop.evaluating.results import Point, Results
from lasthop.running.precision import Target, extend_until, targets

GOODPUT = "flow.transfer.goodput_bps"


def fake(deviations: Sequence[float], asked: list[tuple[list[int], int, int]]) -> object:
    """A fake engine: points with mean 1 and these standard deviations."""

    def run_more(points: Sequence[int], first: int, count: int) -> Results:
        asked.append((list(points), first, count))
        values = [
            1.0 + deviations[point] * np.random.default_rng([7, point, replication]).normal()
            for point in points
            for replication in range(first, first + count)
        ]
        return Results(
            scenario={},
            points=[Point({"p": point}, str(point)) for point in points],
            metrics=["flow.a.goodput_bps"],
            point=np.repeat(np.arange(len(points), dtype=np.uint32), count),
            replication=np.tile(np.arange(first, first + count, dtype=np.uint64), len(points)),
            values=np.array(values)[:, None],
            seed=1,
        )

    return run_more


def test_points_stop_by_themselves_and_go_on_together() -> None:
    asked: list[tuple[list[int], int, int]] = []
    run_more = fake([0.01, 0.2, 5.0], asked)
    results = extend_until(3, "*.goodput_bps=5%", run_more, most=150)  # type: ignore[arg-type]
    assert asked[0] == ([0, 1, 2], 0, 20)
    assert asked[1] == ([1, 2], 20, 10)
    assert asked[-1] == ([2], 102, 48)
    assert [stop.reached for stop in results.stopped] == [True, True, False]
    counts = [np.count_nonzero(results.point == point) for point in range(3)]
    assert counts[0] == 20
    assert counts[2] == 150
    # The samples of a point equal those of a single run with that number of replications.
    whole = run_more([1], 0, counts[1])  # type: ignore[operator]
    np.testing.assert_array_equal(
        results.samples("flow.a.goodput_bps", 1)[: counts[1]], whole.values[:, 0]
    )
    mean, ci95 = results.summary().filter(point=1).select("mean", "ci95").row(0)
    assert ci95 <= 0.05 * mean
    assert (mean, ci95) == (results.stopped[1].interval.mean, results.stopped[1].interval.ci95)


def test_run_until(small: Path) -> None:
    results = lasthop.run(small, until=f"{GOODPUT}=10%", max_replications=50)
    assert all(stop.reached for stop in results.stopped)
    for point in range(2):
        own = results.samples(GOODPUT, point)
        own = own[~np.isnan(own)]
        plain = lasthop.run(small, replications=own.size)
        np.testing.assert_array_equal(own, plain.samples(GOODPUT, point)[: own.size])


def test_a_campaign_runs_until_and_goes_on_from_what_it_has(small: Path, tmp_path: Path) -> None:
    plain = lasthop.run(small, until=f"{GOODPUT}=5%", max_replications=100)
    campaign = lasthop.Campaign(tmp_path / "campaign")
    campaign.run(small, replications=25)
    kept = campaign.run(small, until=f"{GOODPUT}=5%", max_replications=100)
    assert kept.stopped == plain.stopped
    ran: list[tuple[int, int]] = []
    again = campaign.run(
        small,
        until={GOODPUT: "5%"},
        max_replications=100,
        progress=lambda done, total: ran.append((done, total)),
    )
    assert again.stopped == plain.stopped
    assert all(total == 0 for _, total in ran)
    with pytest.raises(ValueError, match="invalid list for `replications`"):
        campaign.run(small, replications=[10, 20], until=f"{GOODPUT}=5%")


def test_targets_are_read() -> None:
    assert targets("a.b=2%") == [Target("a.b", 0.02, relative=True)]
    assert targets({"a.b": 0.5, "c": "1 %"}) == [
        Target("a.b", 0.5, relative=False),
        Target("c", 0.01, relative=True),
    ]
    for wrong in ("a.b", "a.b=", "=2%", "a.b=-1%", "a.b=nan"):
        with pytest.raises(ValueError, match="` for `until`: expected METRIC=WIDTH"):
            targets(wrong)
    with pytest.raises(ValueError, match="missing `until`"):
        targets({})


def test_joined_refuses_what_does_not_belong() -> None:
    run_more = fake([0.1, 0.1], [])
    one = run_more([0, 1], 0, 10)  # type: ignore[operator]
    with pytest.raises(ValueError, match="duplicate replication"):
        one.joined(run_more([0], 9, 2), [0])  # type: ignore[operator]
    with pytest.raises(ValueError, match="invalid points of `more`"):
        one.joined(run_more([0], 10, 2), [1])  # type: ignore[operator]


def test_command_line(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--until", f"{GOODPUT}=0.1%", "--max-replications", "25", "--format", "json"]
    assert cli._main(["run", str(small), *options]) == 0
    out, err = capsys.readouterr()
    metric = json.loads(out)["points"][0]["metrics"][GOODPUT]
    assert metric["n"] == 25
    assert metric["reached"] is False
    assert "not at the target half-width" in err


def test_a_stored_run_until_goes_on_from_what_is_there(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", str(small), "--until", f"{GOODPUT}=5%", "--format", "json"]
    assert cli._main(run) == 0
    plain = capsys.readouterr().out
    for _ in range(2):
        assert cli._main([*run, "--store", str(tmp_path / "c")]) == 0
        assert capsys.readouterr().out == plain


def test_errors_of_other_origin_are_not_taken_for_bad_options(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("inside")

    monkeypatch.setattr("lasthop.commands.run.run_replications", broken)
    with pytest.raises(KeyError, match="inside"):
        cli._main(["run", str(small)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seed", str(2**63)], f"invalid value `{2**63}` for `--seed`: expected 0 to 2^63 - 1"),
        (["--until", "flow.transfer.goodputs=2%"], f"did you mean `{GOODPUT}`?"),
        (["--until", GOODPUT], "invalid value `flow.transfer.goodput_bps` for `--until`"),
        (
            ["--until", f"{GOODPUT}=2%", "--max-replications", "5"],
            "invalid value `5` for `--max-replications`",
        ),
        (["--max-replications", "5"], "`--max-replications` requires `--until`"),
    ],
)
def test_command_line_refuses(
    small: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert cli._main(["run", str(small), *options]) == 2
    assert message in capsys.readouterr().err


def test_a_dry_run_estimates_how_many_replications_precision_takes(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = "flow.transfer.goodput_bps=5%"
    dry = ["run", str(small), "--dry-run", "--until", target, "--format", "json"]
    assert cli._main(dry) == 0
    plan = json.loads(capsys.readouterr().out)
    # Estimated from the squared interval width of ten replications: within a factor of three.
    run = lasthop.run(small, until=target)
    assert run.complete
    assert len(run.point) / 3 < plan["replications"] < 3 * len(run.point)
