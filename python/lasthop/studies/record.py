"""A study's record: untested sentences of the paper, and the provenance of choices."""

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
        where: Its place in the paper.
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
        choice: The choice, or the claims that were worded.
        known: Published numbers and results of this project that were known at the time.
    """

    choice: str
    known: str


def original_tally(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Counts verdicts under the original wordings of claims, most favourable first.

    A claim that was never reworded counts with its verdict.
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
