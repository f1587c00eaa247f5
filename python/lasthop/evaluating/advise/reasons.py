"""What comes of a race in words: reasons, and what the model does not cover."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lasthop.evaluating.advise.advice import Standing
from lasthop.evaluating.advise.intervals import Interval
from lasthop.evaluating.advise.wants import Wants

__all__ = ["reasons", "told_in_units", "warnings"]


def reasons(
    choice: Standing | None, standings: Sequence[Standing], wants: Wants, within: float
) -> list[str]:
    """Why this one: what it does, how near others may come, what rules out the rest."""
    told: list[str] = []
    alive = [one for one in standings if not one.ruled_out]
    if choice is not None:
        first = wants.objectives[0]
        parts = "; ".join(told_in_units(name, choice.metrics[name]) for name in wants.metrics)
        told.append(f"{choice.candidate.name}: {parts}")
        unsure = [
            one.candidate.name
            for one in alive
            if choice.is_sure and not one.is_sure and one.value > choice.value
        ]
        if unsure:
            told.append(
                "better on average, but not certain to keep all constraints: " + ", ".join(unsure)
            )
        near = [one for one in alive if one is not choice and one.is_sure]
        if near:
            names = ", ".join(one.candidate.name for one in near[:5])
            more = f" and {len(near) - 5} more" if len(near) > 5 else ""
            told.append(f"not told apart from it in {first.word}: {names}{more}")
        if np.isfinite(within):
            told.append(
                f"none is better in {first.word} by more than {100 * within:.2g} %, for certain"
            )
    if len(wants.objectives) == 1 and choice is not None:
        behind = [
            one.candidate.name
            for one in alive
            if one is not choice and not one.is_sure and one.value < choice.value
        ]
        if behind:
            told.append(
                f"behind in {wants.objectives[0].word}, and not certain to keep all constraints: "
                + ", ".join(behind)
            )
    for constraint in wants.constraints:
        out = [
            one.candidate.name
            for one in standings
            if one.ruled_out.startswith(f"breaks {constraint.word}: {constraint.metric} ")
        ]
        if out:
            told.append(f"{constraint.word} ({constraint.metric}) rules out: {', '.join(out)}")
    beaten = sum(bool(one.ruled_out) and "better" in one.ruled_out for one in standings)
    if beaten:
        told.append(f"{beaten} others are worse in every objective, for certain")
    return told


def warnings(choice: Standing | None, wants: Wants, errors: str) -> list[str]:
    """What the model does not cover; `errors` is the kind of the link's error process."""
    told = []
    if choice is None:
        told.append("no candidate keeps all constraints; the least broken are at the top")
    elif wants.constraints and not choice.is_sure:
        told.append(
            f"whether {choice.candidate.name} keeps all constraints is not certain at "
            f"{choice.replications} replications"
        )
    if errors in ("uniform", "gilbert-elliott", "markov-chain", "trace", "listed"):
        told.append(
            f"errors of kind {errors} do not depend on the length of frames: rlc-am, which "
            "cuts packets up, and small acknowledgments lose as many frames as packets do"
        )
    if errors in ("gilbert-elliott", "markov-chain", "trace", "listed"):
        told.append(
            f"errors of kind {errors} step by frames, not in time: waiting does not help a "
            "protocol to outlast a bad period"
        )
    if choice is not None:
        bare = {name.rpartition(".")[2] for name in wants.metrics}
        if "residual_loss" in bare and all(
            np.isclose(choice.metrics[name].mean, 0.0)
            for name in wants.metrics
            if name.endswith("residual_loss")
        ):
            told.append(
                "no packet was lost for good in any replication: that bounds the share only to "
                f"about 3 in {choice.replications} replications' packets"
            )
    return told


def told_in_units(metric: str, interval: Interval) -> str:
    """A metric with its interval, in the unit that reads best."""
    from lasthop.evaluating.metric import metric_unit
    from lasthop.showing.figures.style import scaled

    ends = [interval.mean, interval.low, interval.high]
    unit = scaled(metric_unit(metric), [value for value in ends if np.isfinite(value)])
    mean, low, high = (value / unit.per for value in ends)
    name = f" {unit.name}" if unit.name else ""
    return f"{metric} {mean:.3g}{name} [{max(low, 0.0):.3g}, {high:.3g}]"
