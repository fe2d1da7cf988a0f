"""What the report of a declared ledger is made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedaudit.privacy.declared.figures import Drawn
from fedaudit.privacy.declared.histories import Histories
from fedaudit.spec.declared_ledgers import LedgerTerms


@dataclass(frozen=True, kw_only=True)
class RoundFact:
    """One declared round, without names."""

    round: int
    event: Mapping[str, Any]
    participants: int
    failures: int
    reserved: bool
    """Whether it is what was reserved."""
    refused: bool
    """Whether it asked clients whom its reservation had refused."""
    declared_at: str


@dataclass(frozen=True, kw_only=True, eq=False)
class DeclaredMaterial:
    """A ledger and its rounds, in order."""

    ledger_id: str
    terms: LedgerTerms
    histories: Histories
    drawn: Drawn
    """Who was named in rounds that charge everyone; no report or bundle shows them."""
    rounds: Sequence[RoundFact]
    groups: Mapping[str, Mapping[str, Mapping[str, int]]]
    """By attribute and group, the counts of the newest round that declared any."""
    groups_round: int | None
    unanswered_reservations: int
    least_group_size: int
    """What the service and the federation's policy allow at this moment, whatever the terms say."""
    uncovered_rounds: int
    """Rounds of which the chain holds what was charged alone: counts of groups, and who was drawn,
    were not in it yet."""
    witness: str | None
    """Of the checkpoint that is signed with the report; None without a signature."""
    ledger_hash: str
    chain_head: str
    entries: int
    key_id: str | None


def minimum_group_size(material: DeclaredMaterial) -> int:
    """Groups with fewer rows are suppressed: the stricter of the terms and what is allowed now."""
    return max(material.terms.minimum_group_size, material.least_group_size)


def gaps_of(numbers: Sequence[int]) -> tuple[list[tuple[int, int]], int]:
    """First and last of each run of numbers that is missing, and how many are in all."""
    gaps, before = [], 0
    for number in numbers:
        if number > before + 1:
            gaps.append((before + 1, number - 1))
        before = number
    return gaps, sum(last - first + 1 for first, last in gaps)
