"""One ledger entry as tests make and change it, its columns, digest and link."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Floats
from fedaudit.ledger import encoding
from fedaudit.ledger.columns import EntryColumns, columns_of_rows
from fedaudit.ledger.encoding import EntryEncoder, placements
from fedaudit.privacy.accounting.privacy_events import MechanismParameters, layer_components
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
    return encoding.link(previous, digest, placements(clusters), declaration=declaration)


NAN = float("nan")
INPUTS = MechanismParameters(
    mechanism="laplace-l2",
    n=11,
    noise_multiplier=3.0,
    radius=None,
    radius_floor=1e-6,
    clip=None,
    noise="simulation",
    guarantee="heuristic",
)
LAYERED_INPUTS = replace(INPUTS, components=layer_components((8, 3)))
EPSILON_INPUTS = MechanismParameters(
    mechanism="gaussian-local",
    n=11,
    noise_multiplier=2.0,
    radius=None,
    radius_floor=None,
    clip=0.5,
    noise="release",
    guarantee="formal",
    event='{"kind":"gaussian","noise_multiplier":2.0}',
    delta=1e-5,
    adjacency="replace-one",
    accountant="rdp",
)
RADII = np.array([[0.5, 0.25], [NAN, NAN], [NAN, NAN]])
"""Of two layers, where one client of three released."""


def an_entry(**changes: Any) -> SingleEntry:
    """Of three clients: the first released, the second was refused, the fourth withheld."""
    fields: dict[str, Any] = {
        "round": 7,
        "subject_kind": "client",
        "observer": "server",
        "inputs": INPUTS,
        "subjects": np.array([0, 1, 3], dtype=np.int32),
        "outcomes": np.array([0, 1, 2], dtype=np.uint8),
        "radii": np.array([0.5, NAN, NAN]),
        "releases": np.array([2, 4, 0], dtype=np.int32),
        "clusters": np.array([1, -1, -1], dtype=np.int16),
    }
    return SingleEntry(**{**fields, **changes})


def an_epsilon_entry(**changes: Any) -> SingleEntry:
    """The same clients under a mechanism whose cost is an epsilon."""
    fields = {"radii": np.full(3, NAN), "epsilons": np.array([5.5, 7.25, 0.0])}
    return an_entry(**{"inputs": EPSILON_INPUTS, **fields, **changes})


def a_layered_entry(**changes: Any) -> SingleEntry:
    """The same clients with noise for each of two layers."""
    return an_entry(**{"inputs": LAYERED_INPUTS, "radii": RADII, **changes})
