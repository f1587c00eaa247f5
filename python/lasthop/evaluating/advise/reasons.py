"""Explanation of the result of a race, and limitations of the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lasthop.evaluating.advise.advice import Standing
from lasthop.evaluating.advise.intervals import Interval
from lasthop.evaluating.advise.objectives import Objectives

__all__ = ["in_units", "reasons", "warnings"]


def reasons(
    choice: Standing | None, standings: Sequence[Standing], wants: Objectives, within: float
) -> list[str]:
    """Returns the explanation: metrics of the choice, close candidates, eliminated ones."""
    lines: list[str] = []
    alive = [one for one in standings if not one.ruled_out]
    if choice is not None:
        first = wants.objectives[0]
        parts = "; ".join(in_units(name, choice.metrics[name]) for name in wants.metrics)
        lines.append(f"{choice.candidate.name}: {parts}")
        unsure = [
            one.candidate.name
            for one in alive
            if choice.is_sure and not one.is_sure and one.value > choice.value
        ]
        if unsure:
            lines.append("better on average, but may violate a constraint: " + ", ".join(unsure))
        near = [one for one in alive if one is not choice and one.is_sure]
        if near:
            names = ", ".join(one.candidate.name for one in near[:5])
            more = f" and {len(near) - 5} more" if len(near) > 5 else ""
            lines.append(f"not statistically distinguishable in {first.word}: {names}{more}")
        if np.isfinite(within):
            lines.append(
                f"none is better in {first.word} by more than {100 * within:.2g} % "
                "(95 % confidence)"
            )
    if len(wants.objectives) == 1 and choice is not None:
        behind = [
            one.candidate.name
            for one in alive
            if one is not choice and not one.is_sure and one.value < choice.value
        ]
        if behind:
            lines.append(
                f"worse in {wants.objectives[0].word}, and may violate a constraint: "
                + ", ".join(behind)
            )
    for constraint in wants.constraints:
        out = [
            one.candidate.name
            for one in standings
            if one.ruled_out.startswith(f"violates {constraint.word}: {constraint.metric} ")
        ]
        if out:
            lines.append(f"{constraint.word} ({constraint.metric}) eliminates: {', '.join(out)}")
    beaten = sum(bool(one.ruled_out) and "better" in one.ruled_out for one in standings)
    if beaten:
        lines.append(f"{beaten} others are worse in every objective (95 % confidence)")
    return lines


def warnings(choice: Standing | None, wants: Objectives, errors: str) -> list[str]:
    """Returns limitations of the model; `errors` is the kind of the link's error model."""
    lines = []
    if choice is None:
        lines.append(
            "every candidate violates a constraint; the smallest violations are at the top"
        )
    elif wants.constraints and not choice.is_sure:
        lines.append(
            f"{choice.candidate.name} may violate a constraint: inconclusive after "
            f"{choice.replications} replications"
        )
    if errors in ("uniform", "gilbert-elliott", "markov-chain", "trace", "listed"):
        lines.append(
            f"errors of kind {errors} do not depend on the frame length: short frames, such as "
            "segments of rlc-am and ACKs, are lost as often as full packets"
        )
    if errors in ("gilbert-elliott", "markov-chain", "trace", "listed"):
        lines.append(
            f"errors of kind {errors} change state per frame, not in time: a protocol cannot "
            "outlast a bad period by waiting"
        )
    if choice is not None:
        bare = {name.rpartition(".")[2] for name in wants.metrics}
        if "residual_loss" in bare and all(
            np.isclose(choice.metrics[name].mean, 0.0)
            for name in wants.metrics
            if name.endswith("residual_loss")
        ):
            lines.append(
                "no residual loss occurred: this bounds the rate only to about 3 losses in the "
                f"packets of {choice.replications} replications"
            )
    return lines


def in_units(metric: str, interval: Interval) -> str:
    """Returns a metric with its interval in a suitable unit."""
    from lasthop.evaluating.cells import rounded
    from lasthop.evaluating.metric import metric_unit
    from lasthop.showing.figures.style import scaled

    ends = [interval.mean, interval.low, interval.high]
    unit = scaled(metric_unit(metric), [value for value in ends if np.isfinite(value)])
    mean, low, high = (value / unit.per for value in ends)
    name = f" {unit.name}" if unit.name else ""
    return f"{metric} {rounded(mean)}{name} [{rounded(max(low, 0.0))}, {rounded(high)}]"
