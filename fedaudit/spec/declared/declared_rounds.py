"""Rounds that a trainer declares, after they ran and before."""

from typing import Annotated

from pydantic import Field

from fedaudit.spec.base import SpecPart, Text
from fedaudit.spec.declared.declared_events import DeclaredEvent
from fedaudit.spec.declared.ledger_terms import MAX_SUBJECTS

MAX_ROUND = 2**31 - 1
MAX_ROUNDS_A_REQUEST = 1000
RoundNumber = Annotated[int, Field(ge=1, le=MAX_ROUND)]
Rows = Annotated[int, Field(ge=0, le=10**12)]
Names = Annotated[list[Text], Field(max_length=MAX_SUBJECTS)]


class GroupTally(SpecPart):
    """The rows of one group by truth and prediction; *positive* is the favourable outcome."""

    true_positives: Rows
    false_positives: Rows
    true_negatives: Rows
    false_negatives: Rows


GroupTallies = Annotated[
    dict[Text, Annotated[dict[Text, GroupTally], Field(min_length=1, max_length=1000)]],
    Field(max_length=20),
]


class DeclaredRound(SpecPart):
    """One round, as the trainer declares it."""

    round: RoundNumber
    event: DeclaredEvent
    participants: Names
    """Who sent an update."""
    failures: Names = []
    """Who was asked and is not among them, whatever went wrong: charged as if it had sent one."""
    groups: GroupTallies = {}
    """By sensitive attribute and group, how the model of this round predicted."""


class RoundsRequest(SpecPart):
    """Rounds in ascending order: all are taken, or none."""

    rounds: Annotated[list[DeclaredRound], Field(min_length=1, max_length=MAX_ROUNDS_A_REQUEST)]


class ReservationRequest(SpecPart):
    """What a round is about to release, and of whom."""

    event: DeclaredEvent
    participants: Annotated[Names, Field(min_length=1)]
