"""Fitting of all models to a record, and selection of the best one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lasthop.evaluating.fit.checks import Check, checks, warnings
from lasthop.evaluating.fit.estimate import Fitted, estimate, with_intervals
from lasthop.evaluating.fit.models import MODELS
from lasthop.evaluating.fit.readers import read
from lasthop.evaluating.fit.records import FitError, Record
from lasthop.scenarios.arguments import unknown

__all__ = ["Fit", "fit"]


@dataclass(frozen=True, slots=True)
class Fit:
    """Result of a fit.

    Attributes:
        record: The record.
        fitted: Fitted models in order of BIC; only the first one has intervals.
        skipped: Other models, with reasons.
        checks: Goodness-of-fit tests of the first model.
        warnings: Limitations of the estimates.
    """

    record: Record
    fitted: tuple[Fitted, ...]
    skipped: tuple[tuple[str, str], ...]
    checks: tuple[Check, ...]
    warnings: tuple[str, ...]

    @property
    def best(self) -> Fitted:
        """The model with the smallest BIC."""
        return self.fitted[0]

    @property
    def errors(self) -> str:
        """Line for a scenario."""
        return f"errors = {self.best.errors}"

    def model(self, name: str) -> Fitted:
        """Returns a fitted model, given its name.

        Raises:
            FitError: If it was not fitted.
        """
        for one in self.fitted:
            if one.model.name == name:
                return one
        known = ", ".join(one.model.name for one in self.fitted)
        raise FitError(f"invalid value `{name}` for `model`: expected {known}")

    def to_dict(self) -> dict[str, Any]:
        """Returns the object that `lasthop fit --format json` prints."""
        return {
            "source": self.record.source,
            "frames": int(self.record.lost.size),
            "losses": int(self.record.lost.sum()),
            "bursts": int(self.record.bursts.size),
            "notes": list(self.record.notes),
            "models": [
                {
                    "name": one.model.name,
                    "log_likelihood": one.log_likelihood,
                    "aic": one.aic,
                    "bic": one.bic,
                    "errors": one.errors,
                    "estimates": [
                        {
                            "name": each.name,
                            "unit": each.unit,
                            "value": float(each.value),
                            "low": float(each.low) if np.isfinite(each.low) else None,
                            "high": float(each.high) if np.isfinite(each.high) else None,
                        }
                        for each in one.estimates
                    ],
                }
                for one in self.fitted
            ],
            "skipped": [{"name": name, "reason": reason} for name, reason in self.skipped],
            "checks": [
                {"name": one.name, "p_value": one.p_value, "detail": one.detail}
                for one in self.checks
            ],
            "warnings": list(self.warnings),
            "errors": self.errors,
        }


def fit(
    log: Record | str | Path | Sequence[bool] | NDArray[np.bool_],
    *,
    models: Sequence[str] | None = None,
    frame_bits: float | None = None,
    rate_bps: float | None = None,
    **reading: str | None,
) -> Fit:
    """Fits error models to a record of losses per frame.

    Args:
        log: A record, the name of a file (see `lasthop.fit.readers`), or a mask of lost frames.
        models: Names of the models to fit; None: all applicable ones.
        frame_bits: Length of all frames in bits, if the record has no lengths.
        rate_bps: Rate in bit/s, if the record has no frame durations.
        reading: Arguments of `lasthop.fit.read`.

    Raises:
        FitError: If the file is not a record, if all or no frames were lost, or if there is no such
            model.
        OSError: If the file cannot be read.
    """
    if isinstance(log, (str, Path)):
        record = read(log, **reading)
    elif isinstance(log, Record):
        record = log
    else:
        record = Record(np.asarray(log, dtype=bool))
    record = record.timed(frame_bits, rate_bps)
    losses = int(record.lost.sum())
    if losses in (0, record.lost.size):
        which = "no loss" if losses == 0 else "no arrival"
        bound = (
            f"; the loss rate is below {3.0 / record.lost.size:.2g} (95 %)" if not losses else ""
        )
        remedy = (
            "; name the column of the losses with `column`"
            if any(note.startswith("ignored column") for note in record.notes)
            else ""
        )
        raise FitError(
            f"{record.source or 'record'}: {which} among {record.lost.size} frames: expected lost "
            f"and received frames{bound}{''.join(f'; {note}' for note in record.notes)}{remedy}"
        )
    known = {model.name: model for model in MODELS}
    for name in models or ():
        if name not in known:
            raise FitError(unknown("model", name, known))
    fitted, skipped = [], []
    for model in MODELS:
        reason = model.applies(record)
        if models is not None and model.name not in models:
            continue
        if reason:
            skipped.append((model.name, reason))
        else:
            fitted.append(estimate(model, record))
    if not fitted:
        raise FitError(f"cannot fit model `{skipped[0][0]}`: it {skipped[0][1]}")
    fitted.sort(key=lambda one: one.bic)
    fitted[0] = with_intervals(fitted[0], record)
    chains = [one for one in fitted if one.model.name != "two-state"]
    chain = chains[0] if chains else estimate(known["gilbert-elliott"], record)
    tests = checks(record, fitted[0], chain)
    notes = warnings(
        record, fitted[0], tests, has_sizes_in_model=fitted[0].model.name == "two-state"
    )
    return Fit(record, tuple(fitted), tuple(skipped), tests, notes)
