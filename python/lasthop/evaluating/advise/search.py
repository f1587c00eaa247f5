"""Parameter search by Optuna, on separate replications.

The search uses another master seed than the race: the best trial, which may be best by chance, is
then evaluated on new replications like every other candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lasthop.evaluating.advise.space import Range
from lasthop.scenarios.arguments import ArgumentError

__all__ = ["search"]


def search(
    ranges: Sequence[Range],
    value: Callable[[dict[str, Any]], float | None],
    trials: int,
    seed: int,
) -> dict[str, Any] | None:
    """Returns the best settings; None if no trial gave a number.

    Args:
        ranges: Parameters to search.
        value: Value of a setting, where higher is better; None if the engine refuses it.
        trials: Number of trials.
        seed: Seed of the sampler.
    """
    try:
        import optuna
    except ImportError:
        raise ArgumentError(
            "needs Optuna: run `pip install 'lasthop[advise]'` or use `--trials 0`"
        ) from None

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=max(trials // 3, 3))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    best: tuple[float, dict[str, Any]] | None = None
    for _ in range(trials):
        trial = study.ask()
        settings = {one.key: _suggested(trial, one) for one in ranges}
        found = value(settings)
        if found is None or not np.isfinite(found):
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        study.tell(trial, found)
        if best is None or found > best[0]:
            best = (found, settings)
    return None if best is None else best[1]


def _suggested(trial: Any, one: Range) -> int | str:
    is_log = one.low > 0.0
    if one.unit == "ms":
        return f"{trial.suggest_float(one.key, one.low, one.high, log=is_log):.4g} ms"
    number = trial.suggest_int(one.key, int(one.low), int(one.high), log=is_log)
    return f"{number} {one.unit}" if one.unit else int(number)
