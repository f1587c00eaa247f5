"""Gymnasium environments in which an agent is the congestion control of a TCP flow.

    >>> import lasthop.gym                                            # doctest: +SKIP
    >>> env = lasthop.gym.Env("examples/first.toml", interval="50 ms")  # doctest: +SKIP
    >>> observation, info = env.reset(seed=1)                          # doctest: +SKIP

Each step sets the window or the pacing rate of the flow and advances the simulation by an interval.
Gymnasium is installed with `pip install 'lasthop[gym]'`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
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

__all__ = ["OBSERVATIONS", "REWARDS", "Env", "Interval", "Intervals", "VectorEnv"]

Floats = NDArray[np.float32]
Reward = Callable[["Interval"], float]

WINDOWS = _lasthop.Session.WINDOWS
"""Limits of the window in segments."""

RATES = _lasthop.Session.RATES
"""Limits of the pacing rate in bit/s."""

FIRST_RATE = _lasthop.Session.FIRST_RATE
"""First pacing rate in bit/s."""

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
        rtt_gradient: Change of `rtt_s` per second, at most 1e6 in magnitude.
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
        return np.array(_elements(self), dtype=np.float32)


class Intervals:
    """Measurements of several senders in one interval.

    `intervals[i]` is the `Interval` of sender i. Attributes have the names of those of `Interval`,
    and are arrays with an element for each sender.
    """

    def __init__(self, numbers: NDArray[np.float64]) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> Interval:
        return _interval(self.numbers[index].tolist())

    def __getattr__(self, name: str) -> NDArray[np.float64]:
        column = COLUMNS.get(name)
        if column is None:
            raise AttributeError(name)
        return self.numbers[:, column]

    @property
    def rtt_ratio(self) -> NDArray[np.float64]:
        """Mean RTT divided by the minimum RTT; 1 before the first sample."""
        known = (self.rtt_min_s > 0) & (self.rtt_s > 0)
        return np.divide(self.rtt_s, self.rtt_min_s, out=np.ones(len(self)), where=known)

    def observations(self) -> Floats:
        """Returns an observation in each row: see `OBSERVATIONS`."""
        return np.stack(_elements(self), axis=1).astype(np.float32)


COLUMNS = {field.name: index for index, field in enumerate(fields(Interval))}
"""Columns of the numbers that the engine returns."""


def _interval(numbers: Sequence[float]) -> Interval:
    return Interval(*numbers[:11], *map(int, numbers[11:]))  # type: ignore[arg-type]


def _elements(seen: Any) -> tuple[Any, ...]:
    """Returns the elements of an observation, of an `Interval` or of `Intervals`."""
    return (
        seen.throughput_bps / 1e6,
        seen.send_rate_bps / 1e6,
        seen.loss,
        seen.rtt_s,
        seen.rtt_ratio,
        seen.rtt_gradient,
        seen.window,
        seen.rate_bps / 1e6,
    )


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


def _log_power(seen: Any) -> Any:
    throughput = np.log(np.maximum(seen.throughput_bps / 1e6, 1e-3))
    return throughput - np.log(seen.rtt_ratio) - 10 * seen.loss


def _aurora(seen: Any) -> Any:
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
        self.is_rate = control == "rate"
        self.reward: Reward = REWARDS[reward] if isinstance(reward, str) else reward
        self.controller = _lasthop.Controller(self.is_rate)
        self.seed = self.point.seed
        self.replication = -1
        start = round(_lasthop.seconds(flows.get(self.flow, {}).get("start", "0 s")) * 1e9)
        self.settings: dict[str, Any] = {
            "is_rate": self.is_rate,
            "is_relative": relative,
            "segment": 1,
            "initial_window": 1.0,
            "start_ns": start,
        }
        # Checks the name of the flow.
        self._session(0, 0)
        self.settings |= self._sizes()
        low, high = RATES if self.is_rate else WINDOWS
        if relative:
            self.action_space: Any = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        else:
            self.action_space = gymnasium.spaces.Box(low, high, (1,), np.float64)
        lowest = np.zeros(len(OBSERVATIONS), np.float32)
        lowest[5] = -LIMIT
        self.observation_space = gymnasium.spaces.Box(lowest, np.float32(LIMIT), dtype=np.float32)

    def _sizes(self) -> dict[str, Any]:
        own = json.loads(self.point.resolved())["flows"][self.flow]["tcp"]
        return {"segment": own["segment"], "initial_window": own["initial_window"]}

    def _session(self, seed: int, replication: int) -> _lasthop.Session:
        return _lasthop.Session(
            self.point, self.flow, self.controller, seed, replication, self.settings
        )

    def begin(self, seed: int | None) -> Floats:
        """Starts the next replication; a seed starts its first one."""
        if seed is not None:
            self.seed, self.replication = seed, -1
        self.replication += 1
        self.session = self._session(self.seed, self.replication)
        self.steps = 0
        numbers = [0.0] * len(COLUMNS)
        numbers[COLUMNS["time_s"]] = self.settings["start_ns"] * 1e-9
        numbers[COLUMNS["window"]] = self.settings["initial_window"]
        numbers[COLUMNS["rate_bps"]] = FIRST_RATE if self.is_rate else 0.0
        return _interval(numbers).observation()

    def step(self, action: float) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Returns observation, reward, terminated, truncated and information of a step."""
        numbers, goes_on = self.session.step(action, self.interval_ns)
        self.steps += 1
        seen = _interval(numbers)
        info: dict[str, Any] = {"interval": seen}
        if not goes_on:
            info["metrics"] = dict(self.session.metrics())
        return (
            *(seen.observation(), float(self.reward(seen)), not goes_on),
            *(self.is_truncated(goes_on), info),
        )

    def is_truncated(self, goes_on: bool) -> bool:
        """Returns `True` if the episode ends here, before the run."""
        return goes_on and self.max_steps is not None and self.steps >= self.max_steps


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
        return self._sender.step(float(action[0]))


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
        for index in np.flatnonzero(self._ended).tolist():
            observations[index] = self._senders[index].begin(None)
        running = np.flatnonzero(~self._ended)
        senders = [self._senders[index] for index in running]
        numbers = np.zeros((len(running), len(COLUMNS)))
        goes_on = np.zeros(len(running), np.uint8)
        chosen = np.ascontiguousarray(actions[running, 0], np.float64)
        sessions, interval_ns = [own.session for own in senders], self._senders[0].interval_ns
        _lasthop.step_all(sessions, chosen, interval_ns, self._jobs, numbers, goes_on)
        seen = Intervals(numbers)
        observations[running] = seen.observations()
        rewards[running] = self._rewards(seen)
        terminated[running] = goes_on == 0
        for own in senders:
            own.steps += 1
        if senders and senders[0].max_steps is not None:
            truncated[running] = [
                own.is_truncated(bool(on)) for own, on in zip(senders, goes_on, strict=True)
            ]
        for index in np.flatnonzero(terminated).tolist():
            metrics = dict(self._senders[index].session.metrics())
            infos = self._add_info(infos, {"metrics": metrics}, index)
        infos["interval"], infos["_interval"] = self._intervals(numbers, running), ~self._ended
        self._ended = terminated | truncated
        return observations, rewards, terminated, truncated, infos

    def _rewards(self, seen: Intervals) -> NDArray[np.float64] | list[float]:
        reward = self._senders[0].reward
        if reward in REWARDS.values():
            return np.asarray(reward(seen))  # type: ignore[arg-type]
        return [float(reward(seen[index])) for index in range(len(seen))]

    def _intervals(self, numbers: NDArray[np.float64], running: NDArray[np.intp]) -> Intervals:
        """Returns the intervals of all environments: zeros if an episode begins."""
        if len(running) == self.num_envs:
            return Intervals(numbers)
        full = np.zeros((self.num_envs, len(COLUMNS)))
        full[running] = numbers
        return Intervals(full)
