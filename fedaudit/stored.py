"""Rows of the figures of runs, the same in a database, in a bundle, and of a run in this process.

`models` imports this module, so it imports arrays alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

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
    """[groups, 4], as in RoundColumns; [0, 4] where no outcome is favourable. Confidential."""


CostFigure = Literal["leakage", "log_ratio", "epsilon"]
"""What a budget counts: n/nu by the paper's convention, the theorem's own sum, or an epsilon."""


LeakageRadius = float | Literal["adaptive"]

_ADAPTIVE: Literal["adaptive"] = "adaptive"
_NO_CLIP = "none"


@dataclass(frozen=True)
class LeakageTerms:
    """One pair of a radius and a clip; a clip of None means that updates are not clipped.

    n/nu holds between uploads within the radius, which is free: the same noise has a leakage of 54
    at one radius and of a millionth of it at another. Leakages of different radii are therefore
    different figures, and a budget of one does not count the other."""

    radius: LeakageRadius
    clip: float | None

    @classmethod
    def of(cls, *, radius: float | None, clip: float | None) -> Self:
        """Return the terms of a mechanism's parameters, where a radius of None is adaptive."""
        return cls(_ADAPTIVE if radius is None else radius, clip)

    @property
    def key(self) -> str:
        """The pair in canonical words of at most 64 characters: equal numbers give equal words."""
        radius = self.radius if isinstance(self.radius, str) else repr(float(self.radius))
        clip = _NO_CLIP if self.clip is None else repr(float(self.clip))
        return f"radius={radius},clip={clip}"

    @classmethod
    def read(cls, key: str) -> Self | None:
        """The inverse of `key`; None for '', of a radius and a clip that were not
        recorded. Raises ValueError for anything else."""
        if not key:
            return None
        parts = [part.partition("=") for part in key.split(",")]
        if [name for name, _, _ in parts] != ["radius", "clip"]:
            raise ValueError(f"{key!r} names no radius and clip")
        (_, _, radius), (_, _, clip) = parts
        return cls(
            _ADAPTIVE if radius == _ADAPTIVE else float(radius),
            None if clip == _NO_CLIP else float(clip),
        )

    def __str__(self) -> str:
        radius = "an adaptive radius" if isinstance(self.radius, str) else f"radius {self.radius:g}"
        return f"{radius} {'without a clip' if self.clip is None else f'and clip {self.clip:g}'}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Cost:
    """What a run may spend of one figure, at most; of an epsilon, against one observer."""

    figure: CostFigure
    adjacency: str = ""
    """For leakage, its `LeakageTerms.key`."""
    observer: str = ""
    delta: float = 0.0
    unit_key: str = ""
    """How its units are identified; '' counts as the same as any."""
    amount: float = 0.0
    """Cost of the run by itself; an epsilon is at its own delta."""
    step: Floats | None = None
    """What one event costs: Renyi divergences of an epsilon, or one sum."""
    unit: str | None = None
    curve: Floats | None = None
    """Renyi divergences of an epsilon; the orders are the same for all runs."""
    planned: int | None = None
    """Events of the whole run."""
    proven: bool = True
    """Whether a theorem bounds it whatever the data; of leakage, a convention, it says nothing."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ReservedCost(Cost):
    """The cost of one run: reserved while it may go on, spent once it has ended."""

    experiment_id: str
    federation_id: str
    """The fingerprint of its data where there is no service."""
    enlarged: bool = False
    """Whether the curve is of more than the epsilon in `amount` was computed for."""


@dataclass(frozen=True)
class CellPlace:
    """Which cell of which sweep a run is a try of."""

    sweep_id: str
    name: str
    cells: int
    position: int
    values: Mapping[str, Any]
    facts: Mapping[str, Any]
    """Facts of all cells: `noises`, `guarantees`, `conditions` (`sweep_facts`)."""


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
