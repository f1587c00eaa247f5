"""A study's record: sentences that it does not test, and what was known when it chose."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lasthop.studies.claims import Claim
from lasthop.studies.verdicts import Verdict

__all__ = ["Choice", "Untested", "original_tally"]


@dataclass(frozen=True, slots=True)
class Untested:
    """A sentence of the paper that no claim tests.

    Attributes:
        where: Where the paper has it.
        text: The sentence, shortened.
        reason: Why it is not tested.
    """

    where: str
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of the study, for its provenance log.

    Attributes:
        choice: What was chosen, or which claims were worded.
        known: Published numbers and own results that were known then.
    """

    choice: str
    known: str


def original_tally(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Counts verdicts under the original wordings of claims, most favourable first.

    A claim that was never reworded counts as it is.
    """
    words = [_original(one) for one in verdicts if not one.claim.addition]
    order = ("reproduced", "in part", "undecided", "contradicted")
    return {word: words.count(word) for word in order if word in words}


def _original(one: Verdict) -> str:
    claim: Claim = one.claim
    if claim.reworded is None:
        return one.verdict
    # A verdict may be followed by its condition in parentheses.
    return claim.reworded.verdict.partition(" (")[0]
