"""The ledger of one experiment while it is being written: totals, chain and newest clusters."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.accounts import Account
from fedaudit.ledger.chain import link
from fedaudit.ledger.encoding import EntryEncoder
from fedaudit.ledger.entries import RELEASED, LedgerEntry
from fedaudit.privacy.events import Observer
from fedaudit.privacy.inputs import MechanismInputs
from models.records import LedgerRow
from workers.spending import Spending

_NO_COMPOSITIONS: Mapping[Observer, NDArray[np.int32]] = {}


class LedgerBook:
    """Turns rounds into ledger rows, in the order of (round, release, observer)."""

    def __init__(
        self,
        *,
        account: Account,
        spendings: Sequence[Spending],
        head: bytes,
        entries: int,
        last_round: int,
    ) -> None:
        """`spendings`: before each of the account's observers.

        `head`: the link of the newest row, or the experiment's genesis. `entries`: how many rows
        there are. `last_round`: that of the newest, 0 without any.
        """
        self.account = account
        self.spendings = tuple(spendings)
        self.head = head
        self.entries = entries
        self.last_round = last_round
        self.clusters = np.full(len(account.subjects), -1, dtype=np.int16)
        """The cluster of each client's newest upload, -1 for none."""
        self._encoder = EntryEncoder(account.subjects)

    @property
    def inputs(self) -> MechanismInputs:
        """The mechanism of every row."""
        return self.account.inputs

    @property
    def spending(self) -> Spending:
        """Before the first observer: whoever takes part in a round pays before it."""
        return self.spendings[0]

    @property
    def totals(self) -> NDArray[np.int32]:
        """Everybody's releases, observer after observer: what `put_totals` stores."""
        return np.concatenate([spending.releases for spending in self.spendings])

    @property
    def compositions(self) -> Mapping[Observer, NDArray[np.int32]]:
        """How often everybody has paid before each observer: [subjects]."""
        return {
            observer: spending.releases
            for observer, spending in zip(self.account.observers, self.spendings, strict=True)
        }

    def epsilon_most(self) -> float | None:
        """The largest epsilon that anyone can have spent so far; None without an epsilon.

        Every round counts before every observer: how often the busiest client really took part
        would tell, round by round, when it was drawn.
        """
        most = max(spending.most for spending in self.spendings)
        return self.account.largest([most] * len(self.spendings))

    def enter(
        self,
        *,
        round_: int,
        release: int,
        subjects: NDArray[np.int32],
        outcomes: NDArray[np.uint8],
        radii: NDArray[np.float64],
        clusters: NDArray[np.int16],
        compositions: Mapping[Observer, NDArray[np.int32]] = _NO_COMPOSITIONS,
        interrupted: bool = False,
    ) -> list[LedgerRow]:
        """The rows of a round, one before each observer; moves totals and chain on.

        `compositions`: where a subject does not pay before every observer in every round, how often
        it has paid by now, as `subjects`.
        """
        self.place(subjects, outcomes, clusters)
        rows = []
        for observer, spending in zip(self.account.observers, self.spendings, strict=True):
            paying = np.ones(len(subjects), dtype=np.bool_)
            if observer in compositions:
                paying = compositions[observer] > spending.releases[subjects]
            who = subjects[paying]
            spending.book(who, outcomes[paying])
            entry = self.account.entry(
                observer,
                round_=round_,
                release=release,
                subjects=who,
                outcomes=outcomes[paying],
                radii=radii[paying],
                releases=spending.releases[who],
                clusters=clusters[paying],
                interrupted=interrupted,
            )
            rows.append(self._row(entry))
        return rows

    def enter_interrupted(
        self, *, round_: int, release: int, subjects: NDArray[np.int32]
    ) -> list[LedgerRow]:
        """The rows of a round whose noise may have left the worker and whose results were lost."""
        count = len(subjects)
        return self.enter(
            round_=round_,
            release=release,
            subjects=subjects,
            outcomes=np.full(count, RELEASED, dtype=np.uint8),
            radii=np.full(self.inputs.radii_shape(count), np.nan),
            clusters=np.full(count, -1, dtype=np.int16),
            interrupted=True,
        )

    def place(
        self,
        subjects: NDArray[np.int32],
        outcomes: NDArray[np.integer],
        clusters: NDArray[np.int16],
    ) -> None:
        """Note which cluster each upload went into."""
        placed = (outcomes == RELEASED) & (clusters >= 0)
        self.clusters[subjects[placed]] = clusters[placed]

    def _row(self, entry: LedgerEntry) -> LedgerRow:
        digest = self._encoder.digest(entry)
        self.head = link(self.head, digest, entry.clusters)
        self.entries += 1
        self.last_round = entry.round
        return LedgerRow(
            round=entry.round,
            release=entry.release,
            subject_kind=entry.subject_kind,
            observer=entry.observer,
            subjects=entry.subjects,
            outcomes=entry.outcomes,
            radii=entry.radii.ravel(),
            releases=entry.releases,
            clusters=entry.clusters,
            epsilons=entry.epsilons,
            inputs=self.account.inputs.as_dict(),
            digest=digest,
            link=self.head,
            interrupted=entry.interrupted,
        )
