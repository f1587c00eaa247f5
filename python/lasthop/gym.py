"""Gymnasium environments in which an agent is the congestion control of a TCP flow.

    >>> import lasthop.gym                                            # doctest: +SKIP
    >>> env = lasthop.gym.Env("examples/first.toml", interval="50 ms")  # doctest: +SKIP
    >>> observation, info = env.reset(seed=1)                          # doctest: +SKIP

Each step sets the window or the pacing rate of the flow and advances the simulation by an interval.
Gymnasium is installed with `pip install 'lasthop[gym]'`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

try:
    import gymnasium
    from gymnasium.vector import AutoresetMode
    from gymnasium.vector.utils import batch_space
except ImportError:
    raise ImportError("needs Gymnasium: run `pip install 'lasthop[gym]'`") from None

from lasthop import _lasthop
from lasthop.scenarios.arguments import ArgumentError, invalid
from lasthop.scenarios.scenario import Scenario, load

__all__ = ["OBSERVATIONS", "REWARDS", "Env", "Interval", "VectorEnv"]

Floats = NDArray[np.float32]
Reward = Callable[["Interval"], float]

WINDOWS = (1.0, 1e6)
"""Limits of the window in segments."""

RATES = (8e3, 1e12)
"""Limits of the pacing rate in bit/s."""

LIMIT = 1e6
"""Limit of the magnitude of observations."""


@dataclass(slots=True)
class Interval:
    """Measurements of a sender in one interval.

    Attributes:
        time_s: Simulated time at its end.
        duration_s: Its duration.
        throughput_bps: Bits acknowledged in order per second.
        send_rate_bps: Bits sent per second, retransmissions included.
        throughput_segments: Segments acknowledged per second.
        loss: Segments declared lost per segment sent, at most 1.
        rtt_s: Mean of the RTT samples; that of the interval before without a sample, 0 before the
            first.
        rtt_min_s: Minimum RTT since the start; 0 before the first sample.
        rtt_gradient: Change of `rtt_s` per second.
        window: Window in segments.
        rate_bps: Pacing rate; 0 if derived from the window.
        losses: Loss signals, at most one per window of data.
        marks: Signals of congestion marks, at most one per window of data.
        timeouts: Expiries of the retransmission timer.
    """

    time_s: float
    duration_s: float
    throughput_bps: float
    send_rate_bps: float
    throughput_segments: float
    loss: float
    rtt_s: float
    rtt_min_s: float
    rtt_gradient: float
    window: float
    rate_bps: float
    losses: int
    marks: int
    timeouts: int

    @property
    def rtt_ratio(self) -> float:
        """Mean RTT divided by the minimum RTT; 1 before the first sample."""
        return self.rtt_s / self.rtt_min_s if self.rtt_min_s > 0 and self.rtt_s > 0 else 1.0

    def observation(self) -> Floats:
        """Returns the observation: see `OBSERVATIONS`."""
        values = (
            self.throughput_bps / 1e6,
            self.send_rate_bps / 1e6,
            self.loss,
            self.rtt_s,
            self.rtt_ratio,
            max(-LIMIT, min(LIMIT, self.rtt_gradient)),
            self.window,
            self.rate_bps / 1e6,
        )
        return np.array(values, dtype=np.float32)


OBSERVATIONS = (
    "throughput in Mbit/s",
    "sending rate in Mbit/s",
    "fraction of segments declared lost",
    "mean RTT in s",
    "mean RTT divided by the minimum RTT",
    "change of the mean RTT per second",
    "window in segments",
    "pacing rate in Mbit/s; 0: derived from the window",
)
"""Elements of an observation, each of the interval that ended."""


def _log_power(seen: Interval) -> float:
    return (
        math.log(max(seen.throughput_bps / 1e6, 1e-3)) - math.log(seen.rtt_ratio) - 10 * seen.loss
    )


def _aurora(seen: Interval) -> float:
    return 10 * seen.throughput_segments - 1000 * seen.rtt_s - 2000 * seen.loss


REWARDS: Mapping[str, Reward] = {"log-power": _log_power, "aurora": _aurora}
"""Rewards by name.

- `log-power`: ln(throughput in Mbit/s, at least 0.001) - ln(RTT / minimum RTT) - 10 loss.
- `aurora`: 10 throughput (segments/s) - 1000 RTT (s) - 2000 loss (Jay et al., ICML 2019).
"""


class _Sender:
    """A controlled flow of a scenario; starts replications."""

    def __init__(
        self,
        scenario: str | Path | Scenario,
        flow: str | None,
        control: Literal["window", "rate"],
        relative: bool,
        interval: str,
        reward: str | Reward,
        max_steps: int | None,
    ) -> None:
        if control not in ("window", "rate"):
            raise ArgumentError(invalid("control", control, "window or rate"))
        if isinstance(reward, str) and reward not in REWARDS:
            raise ArgumentError(invalid("reward", reward, f"{', '.join(REWARDS)}, or a function"))
        self.interval_ns = round(_lasthop.seconds(interval) * 1e9)
        if self.interval_ns < 1:
            raise ArgumentError(invalid("interval", interval, "more than 0 s"))
        if max_steps is not None and max_steps < 1:
            raise ArgumentError(invalid("max_steps", max_steps, "at least 1"))
        self.max_steps = max_steps
        own = scenario if isinstance(scenario, Scenario) else load(scenario)
        self.point = own.points()[0]
        flows: dict[str, Any] = json.loads(self.point.to_json())["flow"]
        tcp = [name for name, one in flows.items() if one["transport"]["kind"] == "tcp"]
        if flow is None and len(tcp) != 1:
            raise ArgumentError(invalid("flow", flow, f"one of {', '.join(tcp) or 'no TCP flow'}"))
        self.flow = tcp[0] if flow is None else flow
        self.is_rate, self.relative = control == "rate", relative
        self.reward: Reward = REWARDS[reward] if isinstance(reward, str) else reward
        self.controller = _lasthop.Controller(self.is_rate)
        # Checks the name of the flow.
        _lasthop.Session(self.point, self.flow, self.controller, 0, 0)
        self.start_ns = round(_lasthop.seconds(flows[self.flow]["start"]) * 1e9)
        self.mss, self.initial_window = self._sizes()
        low, high = RATES if self.is_rate else WINDOWS
        if relative:
            self.action_space: Any = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        else:
            self.action_space = gymnasium.spaces.Box(low, high, (1,), np.float64)
        lowest = np.zeros(len(OBSERVATIONS), np.float32)
        lowest[5] = -LIMIT
        self.observation_space = gymnasium.spaces.Box(lowest, np.float32(LIMIT), dtype=np.float32)
        self.seed = self.point.seed
        self.replication = -1

    def _sizes(self) -> tuple[int, float]:
        resolved = json.loads(self.point.resolved())["flows"]
        own = resolved[self.flow]["tcp"]
        return int(own["segment"]), float(own["initial_window"])

    def begin(self, seed: int | None) -> Floats:
        """Starts the next replication; a seed starts its first one."""
        if seed is not None:
            self.seed, self.replication = seed, -1
        self.replication += 1
        self.session = _lasthop.Session(
            self.point, self.flow, self.controller, self.seed, self.replication
        )
        self.window, self.rate = self.initial_window, None if not self.is_rate else 1e6
        self.steps = 0
        self.rtt_s = 0.0
        self.counters, _ = self.session.step(self.start_ns, self.window, self.rate)
        empty = Interval(
            *(self.start_ns * 1e-9, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, self.window),
            *(self.rate or 0.0, 0, 0, 0),
        )
        return empty.observation()

    def act(self, action: float) -> tuple[int, tuple[float, float | None]]:
        """Applies an action; returns the time of the end of the interval, window and rate."""
        low, high = RATES if self.is_rate else WINDOWS
        before = (self.rate or 1e6) if self.is_rate else self.window
        value = before * 2.0**action if self.relative else action
        value = min(max(value, low), high)
        if self.is_rate:
            self.rate = value
            in_flight = 2.0 * value * max(self.rtt_s, 1e-3) / (8.0 * self.mss)
            self.window = min(max(in_flight, 10.0), WINDOWS[1])
        else:
            self.window = value
        self.steps += 1
        return self.counters[0] + self.interval_ns, (self.window, self.rate)

    def seen(self, counters: _lasthop.Counters) -> Interval:
        """Returns the interval between the counters before and these."""
        now, acked, sent, segments, lost, samples, rtt_sum, _, _, losses, marks, timeouts = (
            new - old for new, old in zip(counters, self.counters, strict=True)
        )
        self.counters = counters
        duration = max(now, 1) * 1e-9
        before, gradient = self.rtt_s, 0.0
        if samples:
            self.rtt_s = rtt_sum / samples * 1e-9
            gradient = (self.rtt_s - before) / duration if before else 0.0
        return Interval(
            time_s=counters[0] * 1e-9,
            duration_s=duration,
            throughput_bps=8.0 * acked / duration,
            send_rate_bps=8.0 * sent / duration,
            throughput_segments=acked / self.mss / duration,
            loss=min(lost / segments, 1.0) if segments else float(lost > 0),
            rtt_s=self.rtt_s,
            rtt_min_s=counters[8] * 1e-9,
            rtt_gradient=gradient,
            window=self.window,
            rate_bps=self.rate or 0.0,
            losses=losses,
            marks=marks,
            timeouts=timeouts,
        )

    def outcome(
        self, counters: _lasthop.Counters, goes_on: bool
    ) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Returns observation, reward, terminated, truncated and information of a step."""
        seen = self.seen(counters)
        truncated = goes_on and self.max_steps is not None and self.steps >= self.max_steps
        info: dict[str, Any] = {"interval": seen}
        if not goes_on:
            info["metrics"] = dict(self.session.metrics())
        return seen.observation(), float(self.reward(seen)), not goes_on, truncated, info


class Env(gymnasium.Env[Floats, NDArray[Any]]):
    """A scenario in which the agent is the congestion control of one TCP flow.

    Args:
        scenario: A scenario, the path of one, or the name of a profile; its first point.
        flow: Name of the flow; may be omitted if the scenario has one TCP flow.
        control: `window`: actions set the congestion window, in segments; `rate`: they set the
            pacing rate, in bit/s, and the window is twice the rate times the RTT.
        relative: An action a in [-1, 1] multiplies window or rate by 2^a; otherwise, actions are
            values.
        interval: Duration of a step.
        reward: A name of `REWARDS`, or a function of an `Interval`.
        max_steps: Number of steps after which an episode is truncated; None: unlimited.

    An episode is a replication. It ends with the run: when the files are transferred, or after
    `run.duration`. `reset(seed=n)` starts replication 0 of seed n, further calls the next ones.
    The attribute `interval_ns` may be changed between steps.

    Observations are listed in `OBSERVATIONS`. `info["interval"]` is an `Interval`; at the end of
    the run, `info["metrics"]` has the metrics of the run.

    Raises:
        lasthop.ScenarioError: If the scenario is invalid.
        ValueError: If an argument is invalid.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        scenario: str | Path | Scenario,
        *,
        flow: str | None = None,
        control: Literal["window", "rate"] = "window",
        relative: bool = True,
        interval: str = "100 ms",
        reward: str | Reward = "log-power",
        max_steps: int | None = None,
    ) -> None:
        self._sender = _Sender(scenario, flow, control, relative, interval, reward, max_steps)
        self.action_space = self._sender.action_space
        self.observation_space = self._sender.observation_space
        self.render_mode = None

    @property
    def interval_ns(self) -> int:
        """Duration of a step in nanoseconds."""
        return self._sender.interval_ns

    @interval_ns.setter
    def interval_ns(self, value: int) -> None:
        self._sender.interval_ns = value

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Starts an episode: with a seed, replication 0 of it, otherwise the next replication."""
        super().reset(seed=seed, options=options)
        return self._sender.begin(seed), {}

    def step(self, action: NDArray[Any]) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Applies an action and advances by one interval."""
        own = self._sender
        time, (window, rate) = own.act(float(action[0]))
        return own.outcome(*own.session.step(time, window, rate))


class VectorEnv(gymnasium.vector.VectorEnv[Floats, NDArray[Any], NDArray[Any]]):
    """Several environments, which advance in one call of the engine, on several threads.

    Args:
        scenarios: A scenario for all environments, or one for each.
        num_envs: Number of environments.
        jobs: Number of threads; 0: the number of cores.
        **options: See `Env`.

    An environment whose episode has ended begins the next one at the next step, whose action it
    ignores. `reset(seed=n)` starts environment i with seed n + i.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        scenarios: str | Path | Scenario | Sequence[str | Path | Scenario],
        num_envs: int,
        *,
        jobs: int = 0,
        flow: str | None = None,
        control: Literal["window", "rate"] = "window",
        relative: bool = True,
        interval: str = "100 ms",
        reward: str | Reward = "log-power",
        max_steps: int | None = None,
    ) -> None:
        one = isinstance(scenarios, str | Path | Scenario)
        listed = [scenarios] * num_envs if one else list(scenarios)  # type: ignore[arg-type]
        if num_envs < 1 or len(listed) != num_envs:
            raise ArgumentError(
                invalid("num_envs", num_envs, f"{len(listed) or 'at least 1'}: one per scenario")
            )
        self._senders = [
            _Sender(each, flow, control, relative, interval, reward, max_steps)  # type: ignore[arg-type]
            for each in listed
        ]
        self._jobs = jobs or _lasthop.cores()
        self.num_envs = num_envs
        self.single_action_space = self._senders[0].action_space
        self.single_observation_space = self._senders[0].observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._ended = np.zeros(num_envs, bool)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Starts an episode of each environment."""
        super().reset(seed=seed, options=options)
        self._ended[:] = False
        begun = [
            own.begin(None if seed is None else seed + index)
            for index, own in enumerate(self._senders)
        ]
        return np.stack(begun), {}

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[Floats, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Applies an action to each environment and advances all by one interval."""
        observations = np.zeros((self.num_envs, len(OBSERVATIONS)), np.float32)
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), bool)
        infos: dict[str, Any] = {}
        running = [index for index in range(self.num_envs) if not self._ended[index]]
        for index in np.flatnonzero(self._ended).tolist():
            observations[index] = self._senders[index].begin(None)
        moves = [self._senders[index].act(float(actions[index, 0])) for index in running]
        outcomes = _lasthop.step_all(
            [self._senders[index].session for index in running],
            [time for time, _ in moves],
            [action for _, action in moves],
            self._jobs,
        )
        for index, (counters, goes_on) in zip(running, outcomes, strict=True):
            found = self._senders[index].outcome(counters, goes_on)
            observations[index], rewards[index], terminated[index], truncated[index], info = found
            infos = self._add_info(infos, info, index)
        self._ended = terminated | truncated
        return observations, rewards, terminated, truncated, infos
