"""Reinforcement-learning environments."""

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import lasthop

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402

import lasthop.gym as env_module  # noqa: E402
from lasthop.gym import Env, VectorEnv  # noqa: E402

TEXT = """
name = "t"
[link.air]
between = ["server", "client"]
rate = "10 Mbps"
delay = "20 ms"
queue = "40 packets"
[flow.f]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "cubic", profile = "rfc" }
app = { kind = "file", size = "3 MB" }
"""


def scenario(**keys: object) -> lasthop.Scenario:
    return lasthop.Scenario.from_toml(TEXT).with_(keys)


def episode(
    env: Env, action: float, seed: int
) -> tuple[list[np.ndarray[Any, Any]], dict[str, Any]]:
    seen = [env.reset(seed=seed)[0]]
    done = False
    info: dict[str, Any] = {}
    while not done:
        observation, _, terminated, truncated, info = env.step(np.array([action]))
        seen.append(observation)
        done = terminated or truncated
    return seen, info


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"control": "rate"},
        {"relative": False, "reward": "aurora"},
        {"control": "rate", "relative": False, "max_steps": 3},
    ],
)
def test_gymnasiums_checker_passes(options: dict[str, Any]) -> None:
    env = Env(scenario(), **options)
    with warnings.catch_warnings():
        # Values of actions in SI units are not symmetric around 0.
        warnings.filterwarnings("ignore", message=".*symmetric and normalized.*")
        warnings.filterwarnings(
            "ignore", message=".*not within the observation space.*", append=True
        )
        check_env(env, skip_render_check=True)
    for seed in range(3):
        for observation in episode(env, float(vars(env.action_space)["high"][0]), seed)[0]:
            assert env.observation_space.contains(observation), observation


@pytest.mark.parametrize("loss", ["0 %", "1 %"])
@pytest.mark.parametrize("profile", ["rfc", "linux"])
def test_the_windows_of_cubic_give_its_bytes(profile: str, loss: str) -> None:
    keys = {
        "flow.f.transport.profile": profile,
        "link.air.errors": {"kind": "uniform", "loss": loss},
    }
    one = scenario(**keys)
    expected = lasthop.run(one, replications=1, seed=5)
    trace = lasthop.trace(one, seed=5).frame
    own = trace.filter(pl.col("entity") == "flow.f", pl.col("event") == "cwnd")
    times = [round(time * 1e9) for time in own["time_s"]]
    windows = own["value"].to_list()
    env = Env(one, relative=False)
    env.reset(seed=5)
    done, now = False, 0
    # The window of an event is set a nanosecond before it.
    for start, end, window in zip(times, [*times[1:], 10**12], windows, strict=True):
        env.interval_ns = max(end - 1, 1) - now
        if env.interval_ns <= 0:
            continue
        now = max(end - 1, 1)
        assert not done, start
        _, _, done, _, info = env.step(np.array([max(window, 1.0)]))
    assert done
    for name in ("goodput_bps", "duration_s", "segments_sent", "retransmissions", "timeouts"):
        metric = f"flow.f.{name}"
        assert info["metrics"][metric] == expected.samples(metric, 0)[0], metric


@pytest.mark.parametrize("interval", ["1 ms", "37 ms", "1 s"])
def test_steps_do_not_change_a_run(interval: str) -> None:
    one = scenario(**{"link.air.errors": {"kind": "uniform", "loss": "1 %"}})
    by_steps = episode(Env(one, relative=False, interval=interval), 30.0, seed=2)[1]["metrics"]
    at_once = episode(Env(one, relative=False, interval="1000 s"), 30.0, seed=2)[1]["metrics"]
    assert {key: value for key, value in by_steps.items() if value == value} == {
        key: value for key, value in at_once.items() if value == value
    }


def test_observations_are_those_of_the_path() -> None:
    one = scenario(**{"flow.f.transport.delayed_ack": "off"})
    env = Env(one, relative=False, interval="500 ms")
    env.reset(seed=1)
    # Half of the bandwidth-delay product, without a queue.
    for _ in range(2):
        _, _, _, _, info = env.step(np.array([17.0]))
    seen = info["interval"]
    assert seen.throughput_bps == pytest.approx(17 * 1460 * 8 / 0.0412, rel=0.03)
    assert seen.rtt_s == pytest.approx(0.0412, rel=0.02)
    assert seen.rtt_ratio == pytest.approx(1, abs=0.05)
    assert seen.loss == 0
    assert (seen.window, seen.losses, seen.timeouts) == (17, 0, 0)
    for window in (30.0, 45.0, 60.0, 60.0):
        _, _, _, _, info = env.step(np.array([window]))
    seen = info["interval"]
    assert seen.throughput_bps == pytest.approx(10e6 * 1460 / 1500, rel=0.03)
    assert seen.rtt_ratio > 1.5


def test_a_rate_is_the_sending_rate() -> None:
    env = Env(scenario(), control="rate", relative=False, interval="500 ms")
    env.reset(seed=1)
    for _ in range(3):
        _, _, _, _, info = env.step(np.array([4e6]))
    assert info["interval"].send_rate_bps == pytest.approx(4e6, rel=0.03)


def test_seeds_and_replications() -> None:
    env = Env(scenario(**{"link.air.errors": {"kind": "uniform", "loss": "2 %"}}))

    def end(seed: int | None) -> float:
        env.reset(seed=seed)
        info: dict[str, Any] = {}
        while "metrics" not in info:
            *_, info = env.step(np.array([0.0]))
        return float(info["metrics"]["flow.f.duration_s"])

    first, second = end(3), end(None)
    assert first != second
    assert (end(3), end(None)) == (first, second)
    assert end(4) != first


def test_the_vector_environment_has_the_episodes_of_single_ones() -> None:
    one = scenario(
        **{"link.air.errors": {"kind": "uniform", "loss": "1 %"}, "flow.f.app.size": "500 kB"}
    )
    for jobs in (1, 2):
        envs = VectorEnv(one, 3, jobs=jobs)
        assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
        observations, _ = envs.reset(seed=7)
        singles = [episode(Env(one), 0.0, 7 + index)[0] for index in range(3)]
        for step in range(max(map(len, singles)) + 2):
            for index, single in enumerate(singles):
                if step < len(single):
                    np.testing.assert_array_equal(observations[index], single[step])
                elif step == len(single):
                    # The next episode.
                    assert observations[index][0] == 0
            observations, *_ = envs.step(np.zeros((3, 1), np.float32))
            assert envs.observation_space.contains(observations)


@pytest.mark.parametrize("reward", ["log-power", "aurora", lambda seen: seen.rtt_s - seen.loss])
@pytest.mark.parametrize("control", ["window", "rate"])
def test_arrays_have_the_numbers_of_single_environments(control: Any, reward: Any) -> None:
    one = scenario(**{"link.air.errors": {"kind": "uniform", "loss": "2 %"}})
    options: dict[str, Any] = {"control": control, "reward": reward, "max_steps": 12}
    envs = VectorEnv(one, 3, **options)
    envs.reset(seed=4)
    singles = [Env(one, **options) for _ in range(3)]
    for index, env in enumerate(singles):
        env.reset(seed=4 + index)
    for step in range(12):
        actions = np.array([[0.3], [0.0], [-0.3]]) * (1 if step % 2 else -0.9)
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        for index, env in enumerate(singles):
            seen, value, ended, cut, info = env.step(actions[index])
            np.testing.assert_array_equal(observations[index], seen)
            assert infos["interval"][index] == info["interval"]
            assert infos["interval"].rtt_ratio[index] == info["interval"].rtt_ratio
            assert rewards[index] == pytest.approx(value, rel=1e-12)
            assert (terminated[index], truncated[index]) == (ended, cut)
    assert truncated.all()
    assert len({one.rate_bps or one.window for one in infos["interval"]}) == 3
    # The next episodes begin: no interval.
    *_, infos = envs.step(actions)
    assert not infos["_interval"].any()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"flow": "g"}, "which does not exist; expected a flow over TCP, of f"),
        ({"control": "size"}, "invalid value `size` for `control`"),
        ({"interval": "0 s"}, "invalid value `0 s` for `interval`"),
        ({"interval": "fast"}, "fast"),
        ({"reward": "none"}, "invalid value `none` for `reward`"),
        ({"max_steps": 0}, "invalid value `0` for `max_steps`"),
    ],
)
def test_arguments_are_checked(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match="f") as caught:
        Env(scenario(), **options)
    assert reason in str(caught.value)


def test_two_flows_need_a_name() -> None:
    two = lasthop.Scenario({**scenario().to_dict()})
    tables = two.to_dict()
    tables["flow"]["g"] = tables["flow"]["f"]
    with pytest.raises(ValueError, match="one of f, g"):
        Env(lasthop.Scenario(tables))
    env = Env(lasthop.Scenario(tables), flow="g")
    assert "flow.f.goodput_bps" in episode(env, 0.0, 1)[1]["metrics"]


def test_without_gymnasium_the_error_names_the_command() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import lasthop.gym"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'lasthop[gym]'" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_the_example_trains(tmp_path: Path) -> None:
    folder = Path(__file__).parents[1] / "examples" / "congestion-control"
    code = "import train; train.evaluate(train.train(seconds=3))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "policy: " in done.stdout
    assert env_module.OBSERVATIONS
