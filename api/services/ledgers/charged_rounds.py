"""Declared rounds charged to a ledger as it stood: all that can be computed without its lock."""

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from api.shared.ledger_states import LedgerState
from fedaudit.ledger.declared import SECRET_BYTES, declared_entries, drawn_hash
from fedaudit.ledger.encoding import EntryEncoder
from fedaudit.ledger.entries import LedgerEntry
from fedaudit.privacy.declared.figures import clients_over
from fedaudit.privacy.declared.histories import (
    Charge,
    Histories,
    charge_of,
    distinct,
    leakages,
    over_budget,
    renyi_epsilons,
    steps_of,
)
from fedaudit.spec.declared_ledgers import DeclaredRound, LedgerTerms


@dataclass(frozen=True, eq=False)
class ChargedRound:
    """One round, and its entries with their digests."""

    declared: DeclaredRound
    content_hash: str
    over_budget: int
    """Clients whom it charged beyond their budgets."""
    drawn: str | None
    """The keyed hash of who was drawn so far, in the last round of a request that drew somebody in
    secret."""
    entries: Sequence[tuple[LedgerEntry, bytes]]


class ChargedRounds:
    """New rounds of one request, one after the other, and what the ledger comes to with them."""

    def __init__(self, before: LedgerState, fresh: Sequence[DeclaredRound]) -> None:
        self.before = before
        self.histories = before.histories.copy()
        self.drawn = before.drawn.copy()
        self.releases = before.releases.copy()
        self.encoder = before.encoder
        self.secret = before.secret or secrets.token_bytes(SECRET_BYTES)
        self.changed: set[Charge] = set()
        """The charges that these rounds made."""
        self.rounds = [self._add(one, last=one is fresh[-1]) for one in fresh]
        self.costs = largest_costs(self.terms, self.histories)

    @property
    def terms(self) -> LedgerTerms:
        """Those of the ledger."""
        return self.before.terms

    def _add(self, one: DeclaredRound, *, last: bool) -> ChargedRound:
        """The `last` of a request says who was drawn so far, so that a long request hashes them
        once."""
        charge, steps = charge_of(self.terms, one.event), steps_of(one.event)
        if charge.everyone:
            # Nobody may read from the subjects who was drawn.
            self.drawn.add([*one.participants, *one.failures])
        participants = self._enter(() if charge.everyone else one.participants)
        failures = self._enter(() if charge.everyone else one.failures)
        asked = np.concatenate([participants, failures])
        self.histories.charge(charge, asked, steps=steps)
        self.changed.add(charge)
        over = clients_over(self.terms, self.histories) if charge.everyone else self._over(asked)
        entries = declared_entries(
            self.terms,
            self.histories,
            charge,
            round_=one.round,
            steps=steps,
            participants=participants,
            failures=failures,
            releases=self.releases,
        )
        has_drawn = any(charge.everyone for charge in self.changed)
        return ChargedRound(
            declared=one,
            content_hash=content_hash(one),
            over_budget=over,
            drawn=drawn_hash(self.drawn, self.secret) if last and has_drawn else None,
            entries=[(entry, self.encoder.digest(entry)) for entry in entries],
        )

    def _enter(self, names: Sequence[str]) -> NDArray[np.int32]:
        """The places of these subjects; there are digests and counts of new ones from now on."""
        known = len(self.histories.names)
        places = self.histories.enter(names)
        if len(self.histories.names) > known:
            self.encoder = EntryEncoder(self.histories.names)
            grown = np.zeros(len(self.histories.names), dtype=np.int32)
            grown[: len(self.releases)] = self.releases
            self.releases = grown
        return places

    def _over(self, asked: NDArray[np.int32]) -> int:
        """How many of those asked have now spent more than the budget of a client."""
        rows, which = distinct(self.histories.of(asked))
        return int(over_budget(rows, self.histories.charges, self.terms)[which].sum())


def content_hash(one: DeclaredRound) -> str:
    """SHA-256 of all that a round declares; the order of names and groups does not matter."""
    value = one.model_dump(mode="json")
    value["participants"] = sorted(value["participants"])
    value["failures"] = sorted(value["failures"])
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def largest_costs(terms: LedgerTerms, histories: Histories) -> dict[str, float | None]:
    """What lists show: the largest epsilon by Renyi orders, and the largest leakage."""
    rows, charges = histories.distinct(), histories.charges
    epsilon: float | None = None
    leakage: float | None = None
    if terms.counts_epsilon and terms.adjacency is not None and terms.delta is not None:
        found = renyi_epsilons(rows, charges, adjacency=terms.adjacency, delta=terms.delta)
        epsilon = _finite(found)
    elif terms.mechanism == "laplace-l2":
        leakage = _finite(leakages(rows, charges))
    return {"epsilon_max": epsilon, "leakage_max": leakage}


def _finite(values: NDArray[np.float64]) -> float | None:
    most = float(values.max(initial=0.0))
    return most if np.isfinite(most) else None
