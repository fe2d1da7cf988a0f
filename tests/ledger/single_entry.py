"""One ledger entry as tests make and change it, its columns, digest and link."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Floats
from fedaudit.ledger import encoding
from fedaudit.ledger.columns import EntryColumns, columns_of_rows
from fedaudit.ledger.encoding import EntryEncoder, placed_bytes
from fedaudit.privacy.accounting.privacy_events import MechanismParameters
from fedaudit.stored import LedgerRow


@dataclass(frozen=True, kw_only=True)
class SingleEntry:
    round: int
    release: int = 0
    subject_kind: str
    observer: str
    inputs: MechanismParameters
    subjects: NDArray[np.int32]
    outcomes: NDArray[np.integer[Any]]
    radii: Floats
    releases: NDArray[np.int32]
    clusters: NDArray[np.int16]
    interrupted: bool = False
    epsilons: Floats | None = None

    def row(self, *, digest: bytes = b"", link: bytes = b"") -> LedgerRow:
        own = {**vars(self), "inputs": self.inputs.as_dict(), "radii": self.radii.ravel()}
        return LedgerRow(**own, digest=digest, link=link)

    @property
    def columns(self) -> EntryColumns:
        return EntryColumns.of_rows([self.row()], self.inputs)


def columns_of(row: LedgerRow) -> EntryColumns:
    [found] = columns_of_rows([row])
    return found


def digest_of(encoder: EntryEncoder, entry: LedgerRow | SingleEntry) -> bytes:
    columns = entry.columns if isinstance(entry, SingleEntry) else columns_of(entry)
    [digest] = encoder.digests(columns)
    return digest


def link(
    previous: bytes,
    digest: bytes,
    clusters: NDArray[np.integer[Any]],
    *,
    declaration: bytes | None = None,
) -> bytes:
    return encoding.link(previous, digest, placed_bytes(clusters), declaration=declaration)
