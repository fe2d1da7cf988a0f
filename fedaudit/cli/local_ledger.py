"""The ledger of a run in this process: the service keeps the same in its database."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.chain import genesis, ledger_hash, link
from fedaudit.ledger.encoding import EntryEncoder
from fedaudit.ledger.entries import RELEASED, LedgerEntry, MechanismInputs
from fedaudit.ledger.lines import ledger_lines
from fedaudit.training.records import Outcome, RoundRecord

_SUBJECT_KIND = "client"
_OBSERVER = "server"


@dataclass(frozen=True)
class LocalLedger:
    """What every client spent in every round."""

    experiment_id: str
    client_names: tuple[str, ...]
    entries: tuple[LedgerEntry, ...]

    @classmethod
    def from_records(
        cls,
        records: Sequence[RoundRecord],
        *,
        experiment_id: str,
        client_names: tuple[str, ...],
        inputs: MechanismInputs,
    ) -> "LocalLedger":
        """The ledger that the rounds of a run leave."""
        entries = (
            LedgerEntry(
                round=record.round,
                release=record.release,
                subject_kind=_SUBJECT_KIND,
                observer=_OBSERVER,
                inputs=inputs,
                subjects=record.subjects,
                outcomes=record.outcomes,
                radii=record.radii,
                releases=record.releases,
                clusters=record.clusters,
            )
            for record in records
        )
        return cls(experiment_id, client_names, tuple(entries))

    @cached_property
    def digests(self) -> tuple[bytes, ...]:
        """The digest of each entry."""
        encoder = EntryEncoder(self.client_names)
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
        for digest in self.digests:
            head = link(head, digest)
        return head.hex()

    def releases(self) -> NDArray[np.int32]:
        """How often each client released an upload: [clients]."""
        totals = np.zeros(len(self.client_names), dtype=np.int32)
        for entry in self.entries:
            totals[entry.subjects] = entry.releases
        return totals

    def count(self, outcome: Outcome) -> int:
        """How many (round, client) pairs ended so."""
        return sum(int(np.count_nonzero(entry.outcomes == outcome)) for entry in self.entries)

    def last_clusters(self) -> NDArray[np.int16]:
        """The cluster of each client's last released upload, -1 for none: [clients]."""
        clusters = np.full(len(self.client_names), -1, dtype=np.int16)
        for entry in self.entries:
            released = entry.outcomes == RELEASED
            clusters[entry.subjects[released]] = entry.clusters[released]
        return clusters

    def lines(self) -> Iterator[dict[str, Any]]:
        """One line per round and client, as the service's privacy ledger gives them."""
        for entry in self.entries:
            yield from ledger_lines(entry, self.client_names)
