"""Ledger entries of rounds that ran elsewhere, as their trainer declared them.

They have the form of any other entry. `guarantee` and `noise` are `declared`: nobody here saw the
noise. A round whose participants are secret is charged to the one subject that stands for all, of
the kind `population`; any other one to whoever was asked. Those who failed stand in an entry of
their own, release 1 and `interrupted`: charged, and without a result.
"""

import json

import numpy as np
import rfc8785
from numpy.typing import NDArray

from fedaudit.ledger.entries import LedgerEntry, Outcome
from fedaudit.privacy.accounting.mechanism_parameters import DECLARED, MechanismParameters
from fedaudit.privacy.accounting.privacy_events import (
    Composed,
    LaplaceL2,
    NonPrivate,
    event_from_dict,
)
from fedaudit.privacy.declared.declared_releases import Charge
from fedaudit.privacy.declared.histories import Histories, distinct, renyi_epsilons
from fedaudit.spec.declared.ledger_terms import LedgerTerms

_EVERYONE = np.zeros(1, dtype=np.int32)
_ACCOUNTANT = "rdp"
"""Of entries, whatever the ledger's: an upper bound that is known after every round."""


def declared_inputs(terms: LedgerTerms, charge: Charge, *, steps: int) -> MechanismParameters:
    """The parameters of the entries of one round."""
    event = charge.event
    composed = event if steps == 1 else Composed(event, steps)
    return MechanismParameters(
        mechanism="none" if isinstance(event, NonPrivate) else terms.mechanism,
        n=event.n if isinstance(event, LaplaceL2) else 0,
        noise_multiplier=event.noise_multiplier if isinstance(event, LaplaceL2) else None,
        radius=event.radius if isinstance(event, LaplaceL2) else None,
        radius_floor=None,
        clip=charge.clip,
        noise=DECLARED,
        guarantee="none" if isinstance(event, NonPrivate) else DECLARED,
        event=rfc8785.dumps(composed.as_dict()).decode() if terms.counts_epsilon else None,
        delta=terms.delta if terms.counts_epsilon else None,
        adjacency=terms.adjacency if terms.counts_epsilon else None,
        accountant=_ACCOUNTANT if terms.counts_epsilon else None,
    )


def declared_entries(
    terms: LedgerTerms,
    histories: Histories,
    charge: Charge,
    *,
    round_: int,
    steps: int,
    participants: NDArray[np.int32],
    failures: NDArray[np.int32],
    releases: NDArray[np.int32],
) -> list[LedgerEntry]:
    """The entries of a round that `histories` have been charged for.

    `releases` [subjects]: the entries that charged each of them so far, these not included; counted
    on here.
    """
    inputs = declared_inputs(terms, charge, steps=steps)
    parts = [("population", 0, _EVERYONE)] if charge.everyone else [("client", 0, participants)]
    if len(failures) and not charge.everyone:
        parts.append(("client", 1, failures))
    entries = []
    for kind, release, subjects in parts:
        releases[subjects] += 1
        failed = release == 1
        entries.append(
            LedgerEntry(
                round=round_,
                release=release,
                subject_kind=kind,
                observer=terms.observer,
                inputs=inputs,
                subjects=subjects,
                outcomes=np.full(len(subjects), Outcome.RELEASED, dtype=np.uint8),
                radii=_radii(inputs, len(subjects), failed=failed),
                releases=releases[subjects],
                clusters=np.full(len(subjects), -1, dtype=np.int16),
                interrupted=failed,
                epsilons=_epsilons(terms, histories, subjects),
            )
        )
    return entries


def _radii(inputs: MechanismParameters, subjects: int, *, failed: bool) -> NDArray[np.float64]:
    known = inputs.radius is not None and not failed
    return np.full(subjects, inputs.radius if known else np.nan, dtype=np.float64)


def _epsilons(
    terms: LedgerTerms, histories: Histories, subjects: NDArray[np.int32]
) -> NDArray[np.float64] | None:
    """What each subject has spent in all, once for each distinct history; NaN without a bound."""
    if not terms.counts_epsilon or terms.adjacency is None or terms.delta is None:
        return None
    rows, which = distinct(histories.of(subjects))
    found = renyi_epsilons(rows, histories.charges, adjacency=terms.adjacency, delta=terms.delta)
    return np.where(np.isinf(found), np.nan, found)[which]


def charge_of_entry(entry: LedgerEntry) -> tuple[Charge, int]:
    """What an entry charges, and how often it is composed. Raises ValueError where it names no
    event that is known, KeyError or TypeError where that is malformed."""
    inputs, everyone = entry.inputs, entry.subject_kind == "population"
    if inputs.event is None:
        if inputs.noise_multiplier is None:
            return Charge(NonPrivate(), everyone), 1
        event = LaplaceL2(inputs.n, inputs.noise_multiplier, inputs.radius)
        return Charge(event, everyone, clip=inputs.clip), 1
    found = event_from_dict(json.loads(inputs.event))
    if isinstance(found, Composed):
        single, count = found.flattened()
        return Charge(single, everyone), count
    return Charge(found, everyone), 1
