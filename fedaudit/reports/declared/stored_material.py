"""From the stored rows of a declared ledger to what its report is made from."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.declared import Declared
from fedaudit.privacy.accounting.privacy_events import event_from_dict
from fedaudit.privacy.declared.figures import Drawn
from fedaudit.privacy.declared.histories import Charge, Histories, Tally
from fedaudit.reports.declared.declared_material import DeclaredMaterial, RoundFact
from fedaudit.spec.declared_ledgers import LedgerTerms


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
