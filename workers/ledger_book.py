"""The ledger of one experiment while it is being written: totals, chain and newest clusters."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.chain import link
from fedaudit.ledger.encoding import EntryEncoder
from fedaudit.ledger.entries import RELEASED, LedgerEntry
from fedaudit.privacy.inputs import MechanismInputs
from models.records import LedgerRow
from workers.spending import Spending

SUBJECT_KIND, OBSERVER = "client", "server"


class LedgerBook:
    """Turns rounds into ledger rows, in the order of (round, release)."""

    def __init__(
        self,
        *,
        inputs: MechanismInputs,
        encoder: EntryEncoder,
        spending: Spending,
        head: bytes,
    ) -> None:
        """`head`: the link of the newest row, or the experiment's genesis."""
        self.inputs = inputs
        self.spending = spending
        self.head = head
        self.clusters = np.full(len(spending.releases), -1, dtype=np.int16)
        """The cluster of each client's newest upload, -1 for none."""
        self._encoder = encoder

    def enter(
        self,
        *,
        round_: int,
        release: int,
        subjects: NDArray[np.int32],
        outcomes: NDArray[np.uint8],
        radii: NDArray[np.float64],
        clusters: NDArray[np.int16],
        interrupted: bool = False,
    ) -> LedgerRow:
        """The row of a round; moves totals and chain on."""
        self.spending.book(subjects, outcomes)
        self.place(subjects, outcomes, clusters)
        entry = LedgerEntry(
            round=round_,
            release=release,
            subject_kind=SUBJECT_KIND,
            observer=OBSERVER,
            inputs=self.inputs,
            subjects=subjects,
            outcomes=outcomes,
            radii=radii,
            releases=self.spending.releases[subjects],
            clusters=clusters,
            interrupted=interrupted,
        )
        digest = self._encoder.digest(entry)
        self.head = link(self.head, digest)
        return LedgerRow(
            round=round_,
            release=release,
            subject_kind=SUBJECT_KIND,
            observer=OBSERVER,
            subjects=subjects,
            outcomes=outcomes,
            radii=radii,
            releases=entry.releases,
            clusters=clusters,
            inputs=self.inputs.as_dict(),
            digest=digest,
            link=self.head,
            interrupted=interrupted,
        )

    def enter_interrupted(
        self, *, round_: int, release: int, subjects: NDArray[np.int32]
    ) -> LedgerRow:
        """The row of a round whose noise may have left the worker and whose results were lost."""
        clients = len(subjects)
        return self.enter(
            round_=round_,
            release=release,
            subjects=subjects,
            outcomes=np.full(clients, RELEASED, dtype=np.uint8),
            radii=np.full(clients, np.nan),
            clusters=np.full(clients, -1, dtype=np.int16),
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
