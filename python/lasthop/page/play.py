"""Comparison of alternatives, with estimates that are updated continuously.

Replications run in rounds of a fraction of a second, each on all free cores. All alternatives run
the same replications, so that they have the same channel and are compared in pairs. After every
round, the page receives new estimates. Work for outdated settings is aborted within some 10 ms.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from lasthop import _lasthop
from lasthop.evaluating import statistics
from lasthop.evaluating.statistics import Floats
from lasthop.page.cores import Cores
from lasthop.page.inside import delays, trace_most
from lasthop.page.question import Alternative, Question, Refused

__all__ = ["FIRST", "MOST", "Samples", "answer", "run_round"]

FIRST = 2
"""Replications of the first round: as few as have an interval."""

MOST = 200
"""Maximum number of replications per page."""

ROUND_S = 0.12
"""Time that a round should take."""

LONGEST_S = 10.0
"""Maximum time for the first replications."""

BUDGET_S = 30.0
"""Processor time for one position of the sliders."""

TRACED = 60_000
"""Events from which delays of packets are read."""


@dataclass
class Samples:
    """Results so far.

    Attributes:
        metrics: Names of the metrics.
        values: By alternative, shape (replications, metrics).
        cost_s: Processor time of all.
    """

    metrics: list[str] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)
    cost_s: float = 0.0

    @property
    def count(self) -> int:
        """Replications of each alternative."""
        return len(self.values[0]) if self.values else 0

    def estimates(self) -> list[dict[str, list[float | None]]]:
        """By alternative: of each metric that applies, mean, half-width, replications."""
        return [
            {
                name: [_number(one.mean), _number(one.ci95), one.n]
                for name, one in zip(self.metrics, map(statistics.interval, values.T), strict=True)
                if one.n > 0
            }
            for values in self.values
        ]

    def differences(self) -> list[dict[str, list[float | None]]]:
        """By alternative after the first: of each metric that both have, the paired difference.

        Alternative minus first one: mean, half-width of its 95 % interval, p-value.
        """
        found = []
        for values in self.values[1:]:
            own = {}
            for column, name in enumerate(self.metrics):
                gap = statistics.difference(values[:, column], self.values[0][:, column])
                if gap.n > 0:
                    own[name] = [_number(gap.mean), _number(gap.ci95), _number(gap.p_value)]
            found.append(own)
        return found


async def answer(question: Question, cores: Cores) -> AsyncGenerator[dict[str, Any], None]:
    """Yields answers to a request with increasing precision.

    Closing the iterator aborts the running work.

    Yields:
        `estimate` after each round and `delay` once for each alternative; the last one says in
        `done` why it is the last.

    Raises:
        Refused: If one replication takes longer than `LONGEST_S`.
        lasthop.RunError: If a replication cannot be finished.
    """
    points = [one.point() for one in question.alternatives]
    samples = Samples()
    stopped = threading.Event()
    count, reason = FIRST, ""
    try:
        while not reason:
            more = partial(run_round, points, samples, count, question.seed, stopped=stopped)
            message = await cores.compute(more, most=cores.total, stopped=stopped)
            reason = _reason(samples)
            yield {"event": "estimate", "done": reason, **message}
            if samples.count == FIRST:
                for number, one in enumerate(question.alternatives):
                    read = partial(_delays, one, number, samples, question.seed)
                    found = await cores.compute(read)
                    yield {"event": "delay", "alternative": number, **found}
            each = max(samples.cost_s / samples.count, 1e-6)
            # At most double the total, so that the intervals shrink visibly.
            count = max(1, min(int(ROUND_S * cores.total / each), samples.count))
            count = min(count, MOST - samples.count)
    finally:
        stopped.set()


def _reason(samples: Samples) -> str:
    if samples.count >= MOST:
        return f"{MOST} replications"
    if samples.cost_s > BUDGET_S:
        return f"{BUDGET_S:.0f} s of computing"
    return ""


def run_round(
    points: Sequence[_lasthop.Point],
    samples: Samples,
    count: int,
    seed: int,
    jobs: int,
    stopped: threading.Event | None = None,
    *,
    first_replication: int = 0,
) -> dict[str, Any]:
    """Runs more replications of every point.

    Args:
        points: The points to run.
        samples: Results so far, to which the new ones are added.
        count: Further replications per point.
        seed: Master seed.
        jobs: Threads.
        stopped: Aborts the round once set.
        first_replication: Number of the first replication of all.

    Returns:
        The message to the page with all results so far.

    Raises:
        Refused: If it takes longer than `LONGEST_S`.
    """
    first = first_replication + samples.count
    work = [(index, first, count, -1.0) for index in range(len(points))]
    started = time.monotonic()
    stream = _lasthop.Stream(list(points), work, seed=seed, jobs=jobs)
    rows = []
    while (batch := stream.next(0.01)) is not None:
        if batch.rows:
            rows.append(batch)
            samples.cost_s += float(np.frombuffer(batch.cost_s, dtype=np.float64).sum())
        if stopped is not None and stopped.is_set():
            stream.stop()
            return {}
        if time.monotonic() - started > LONGEST_S:
            stream.stop()
            raise Refused(
                f"a replication takes more than {LONGEST_S:.0f} s: expected shorter "
                "ones (a smaller file, a shorter run), or lasthop run"
            )
    metrics = stream.metrics
    point = np.concatenate([np.frombuffer(one.point, dtype=np.uint32) for one in rows])
    number = np.concatenate([np.frombuffer(one.replication, dtype=np.uint64) for one in rows])
    values = np.concatenate(
        [np.frombuffer(one.values, dtype=np.float64).reshape(-1, len(metrics)) for one in rows]
    )
    order = np.lexsort((number, point))
    more = values[order].reshape(len(points), count, len(metrics))
    samples.metrics = metrics
    samples.values = (
        [np.concatenate([old, new]) for old, new in zip(samples.values, more, strict=True)]
        if samples.values
        else list(more)
    )
    return {
        "n": samples.count,
        "cost_s": samples.cost_s,
        "estimates": samples.estimates(),
        "differences": samples.differences(),
    }


def _delays(
    alternative: Alternative, number: int, samples: Samples, seed: int, _cores: int
) -> Mapping[str, Any]:
    """Quantiles of the delay of each flow's data in replication 0, or its beginning."""
    row = dict(zip(samples.metrics, samples.values[number][0].tolist(), strict=True))
    found, ended = trace_most(alternative.scenario, row, seed=seed, replication=0, most=TRACED)
    flows = {}
    for flow, samples_s in delays(found).items():
        levels = np.linspace(0.0, 1.0, 101)
        flows[flow] = {
            "n": len(samples_s),
            "quantiles_s": np.quantile(samples_s, levels).tolist(),
            "mean_s": float(samples_s.mean()),
        }
    return {"flows": flows, "until_s": ended}


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
