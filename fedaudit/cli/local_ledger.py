"""The ledger of a run in this process: the service keeps the same in its database."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.accounts import Account
from fedaudit.ledger.chain import genesis, ledger_hash, link
from fedaudit.ledger.encoding import EntryEncoder
from fedaudit.ledger.entries import RELEASED, LedgerEntry
from fedaudit.ledger.lines import ledger_lines
from fedaudit.privacy.events import Observer
from fedaudit.training.records import Outcome, RoundRecord


@dataclass(frozen=True)
class LocalLedger:
    """What every subject spent in every round."""

    experiment_id: str
    account: Account
    entries: tuple[LedgerEntry, ...]

    @classmethod
    def from_records(
        cls, records: Sequence[RoundRecord], *, experiment_id: str, account: Account
    ) -> "LocalLedger":
        """The ledger that the rounds of a run leave: an entry for each round and observer."""
        paid = {
            observer: np.zeros(len(account.subjects), dtype=np.int32)
            for observer in account.observers
        }
        entries = [entry for record in records for entry in _entries(record, account, paid)]
        return cls(experiment_id, account, tuple(entries))

    @cached_property
    def digests(self) -> tuple[bytes, ...]:
        """The digest of each entry."""
        encoder = EntryEncoder(self.account.subjects)
        return tuple(encoder.digest(entry) for entry in self.entries)

    @property
    def hash(self) -> str:
        """The ledger hash."""
        return ledger_hash(
            (entry.round, entry.release, entry.subject_kind, entry.observer, digest)
            for entry, digest in zip(self.entries, self.digests, strict=True)
        )

    @property
    def chain_head(self) -> str:
        """The last link of the hash chain, in hexadecimal."""
        head = genesis(self.experiment_id)
        for entry, digest in zip(self.entries, self.digests, strict=True):
            head = link(head, digest, entry.clusters)
        return head.hex()

    @cached_property
    def compositions(self) -> dict[Observer, NDArray[np.int32]]:
        """Before each observer, how often each subject was charged: [subjects]."""
        totals = {
            observer: np.zeros(len(self.account.subjects), dtype=np.int32)
            for observer in self.account.observers
        }
        for observer, paid in totals.items():
            for entry in self.entries:
                if entry.observer == observer:
                    paid[entry.subjects] = entry.releases
        return totals

    def releases(self) -> NDArray[np.int32]:
        """How often each subject released something, before the first observer: [subjects]."""
        return self.compositions[self.account.observers[0]]

    def refused(self) -> NDArray[np.int32]:
        """How often each subject was refused, before the first observer: [subjects]."""
        refused = np.zeros(len(self.account.subjects), dtype=np.int32)
        for entry in self.entries:
            if entry.observer == self.account.observers[0]:
                refused[entry.subjects[entry.outcomes == Outcome.REFUSED]] += 1
        return refused

    def count(self, outcome: Outcome) -> int:
        """How many (round, subject) pairs ended so."""
        return sum(
            int(np.count_nonzero(entry.outcomes == outcome))
            for entry in self.entries
            if entry.observer == self.account.observers[0]
        )

    def last_clusters(self) -> NDArray[np.int16]:
        """The cluster of each subject's last released upload, -1 for none: [subjects]."""
        clusters = np.full(len(self.account.subjects), -1, dtype=np.int16)
        for entry in self.entries:
            released = entry.outcomes == RELEASED
            clusters[entry.subjects[released]] = entry.clusters[released]
        return clusters

    def lines(self) -> Iterator[dict[str, Any]]:
        """One line per round, observer and subject, as the service's privacy ledger gives them."""
        for entry in self.entries:
            yield from ledger_lines(entry, self.account.subjects)


def _entries(
    record: RoundRecord, account: Account, paid: dict[Observer, NDArray[np.int32]]
) -> Iterator[LedgerEntry]:
    """A round's entries, one before each observer; moves on what everybody has paid."""
    for observer in account.observers:
        releases = record.compositions.get(observer, record.releases)
        before = paid[observer][record.subjects]
        # Whoever was drawn has an entry; where observers see different things, whoever paid more.
        mine = releases > before if record.compositions else np.ones(len(before), dtype=np.bool_)
        who = record.subjects[mine]
        paid[observer][who] = releases[mine]
        yield account.entry(
            observer,
            round_=record.round,
            release=record.release,
            subjects=who,
            outcomes=record.outcomes[mine],
            radii=record.radii[mine],
            releases=releases[mine],
            clusters=record.clusters[mine],
        )
