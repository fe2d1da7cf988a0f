"""What the report of a declared ledger is made from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.declared import Declared
from fedaudit.privacy.accounting.privacy_events import event_from_dict
from fedaudit.privacy.declared.figures import Drawn
from fedaudit.privacy.declared.histories import Charge, Histories, Tally
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


class StoredTally(Protocol):
    """How often one charge was made, as it is stored."""

    charge: Any
    rounds: Any
    counts: Any


class StoredReservation(Protocol):
    """What was reserved for one round, as it is stored."""

    round: Any
    replaced: Any
    state: Any
    expires_at: Any


def stored_histories(names: Sequence[str], tallies: Iterable[StoredTally]) -> Histories:
    """The histories that these tallies hold, in the order of first appearance."""
    return Histories(names, map(_tally, tallies))


def stored_drawn(names: Sequence[str] | None, counts: Iterable[int] | None) -> Drawn:
    """Who was drawn, as it is stored: nothing before anybody was."""
    return Drawn(names, () if counts is None else counts)


def stored_material(
    ledger_id: str,
    terms: Mapping[str, Any],
    *,
    histories: Histories,
    drawn: Drawn,
    rounds: Sequence[Declared],
    reservations: Sequence[StoredReservation],
    first_declaration: int | None,
    least_group_size: int,
    entries: int,
    ledger_hash: str,
    chain_head: bytes,
    now: datetime,
    key_id: str | None,
    witness: str | None,
) -> DeclaredMaterial:
    """All that was stored of a ledger, read in one transaction.

    `first_declaration`: the first round of which the chain holds what was declared beside its
    entries.
    """
    newest = next((one for one in reversed(rounds) if one.groups), None)
    last = rounds[-1].round if rounds else 0
    unanswered = sum(
        one.replaced + bool(one.state == "open" and (one.expires_at <= now or one.round < last))
        for one in reservations
    )
    return DeclaredMaterial(
        ledger_id=ledger_id,
        terms=LedgerTerms.model_validate(terms),
        histories=histories,
        drawn=drawn,
        rounds=[
            RoundFact(
                round=one.round,
                event=one.event,
                participants=one.participants,
                failures=one.failures,
                reserved=one.reserved == "reserved",
                refused=one.reserved == "refused",
                declared_at=one.declared_at.isoformat(),
            )
            for one in rounds
        ],
        groups={} if newest is None else newest.groups,
        groups_round=None if newest is None else newest.round,
        unanswered_reservations=unanswered,
        least_group_size=least_group_size,
        uncovered_rounds=sum(
            first_declaration is None or one.round < first_declaration for one in rounds
        ),
        witness=witness,
        ledger_hash=ledger_hash,
        chain_head=chain_head.hex(),
        entries=entries,
        key_id=key_id,
    )


def _tally(row: StoredTally) -> Tally:
    event = event_from_dict(row.charge["event"])
    charge = Charge(event, everyone=row.charge["everyone"], clip=row.charge["clip"])
    counts: NDArray[np.int64] = np.asarray(row.counts, dtype=np.int64)
    return Tally(charge, row.rounds, counts)
