"""Rows of the figures of runs, the same in a database, in a bundle, and of a run in this process.

`models` imports this module, so it imports arrays alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Floats, Ints16, Ints32


class Key(NamedTuple):
    """What no two entries of a ledger have in common, and they are ordered by; the parts of one
    that was tampered with may have other types."""

    round: int
    release: int
    subject_kind: str
    observer: str


KeyedDigest = tuple[int, int, str, str, bytes]
"""The key of an entry and its digest: what the ledger hash takes in of it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LedgerRow:
    """One packed ledger row: parallel arrays over the round's m subjects. The lines of a bundle
    have its fields in this order. `inputs` has the keys mechanism, n, noise_multiplier, radius
    (None: adaptive), radius_floor, clip, noise and guarantee; and event, delta, adjacency and
    accountant, which with `epsilons` are None, or missing, where the cost is not an epsilon with a
    delta. With `components`, a list of {name, n}, there are as many radii for each subject, side by
    side."""

    round: int
    release: int
    subject_kind: str
    observer: str
    interrupted: bool = False
    inputs: Mapping[str, Any]
    subjects: Ints32
    outcomes: NDArray[np.integer[Any]]
    radii: Floats
    releases: Ints32
    clusters: Ints16
    epsilons: Floats | None = None
    digest: bytes
    link: bytes
    declaration: bytes | None = None
    """Keyed hash of what a declared round declared beside its entries."""

    @property
    def key(self) -> Key:
        """The key of its entry."""
        return Key(self.round, self.release, self.subject_kind, self.observer)

    @property
    def keyed_digest(self) -> KeyedDigest:
        """What the ledger hash takes in of it."""
        return *self.key, self.digest


@dataclass(frozen=True, kw_only=True)
class RoundRow:
    """One round's figures. Each that is None has its reason in `reasons`."""

    round: int
    selection_loss: float | None = None
    validation_loss: float | None = None
    accuracy: float | None = None
    cluster_sizes: Sequence[int] = ()
    """Uploads in each cluster; empty where the sample of clients is secret."""
    separation: float | None = None
    collapsed: bool = False
    leakage_median: float | None = None
    leakage_max: float | None = None
    epsilon_max: float | None = None
    demographic_parity_difference: float | None = None
    equalized_odds_difference: float | None = None
    equal_opportunity_difference: float | None = None
    leakage_by_cluster: Sequence[Mapping[str, Any]] | None = None
    """Objects of cluster, clients, leakage_median and leakage_max."""
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FairnessRow:
    """One sensitive attribute's figures in one round that was validated."""

    round: int
    attribute: str
    figures: Sequence[Mapping[str, Any]]
    """Objects of metric, value and reason."""
    counts: Any
    """[groups, 4], as in RoundRecord; [0, 4] where no outcome is favourable. Confidential."""


CostFigure = Literal["leakage", "log_ratio", "epsilon"]
"""What a budget counts: n/nu by the paper's convention, the theorem's own sum, or an epsilon."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReservedCost:
    """The cost of one run in one figure: reserved while it may go on, spent once it has ended."""

    experiment_id: str
    federation_id: str
    """The fingerprint of its data where there is no service."""
    figure: CostFigure
    observer: str = ""
    terms: str
    """The adjacency of an epsilon; radius and clip of a leakage."""
    unit: str | None
    unit_key: str
    delta: float = 0.0
    amount: float
    curve: Floats | None = None
    """Renyi divergences of an epsilon."""
    enlarged: bool = False
    """Whether the curve is of more than the epsilon in `amount` was computed for."""


@dataclass(frozen=True, kw_only=True)
class IndexedFigure:
    """A figure by which a report is found; `attribute` and `observer` are empty for neither."""

    figure: str
    attribute: str = ""
    observer: str = ""
    delta: float | None = None
    adjacency: str | None = None
    value: float | None
    reason: str | None
