"""Rounds one by one: what the columns of a stretch state of each."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Floats, Ints, Ints16, Ints32
from fedaudit.privacy.accounting.privacy_events import Observer
from fedaudit.training.base.rounds import PlayedRounds, RoundColumns

_OF_SUBJECTS = ("subjects", "outcomes", "radii", "releases", "chosen", "clusters")


@dataclass(frozen=True)
class RoundRecord:
    """One round of one experiment; its fields are as in `RoundColumns`, None for NaN."""

    round: int
    release: int
    subjects: Ints32
    outcomes: NDArray[np.uint8]
    radii: Floats
    releases: Ints32
    chosen: Ints16
    clusters: Ints16
    selection_loss: float | None
    validation_loss: float | None
    accuracy: float | None
    cluster_sizes: tuple[int, ...]
    separation: float | None
    collapsed: bool
    fairness: dict[str, Ints]
    """Attribute -> [groups, 4]."""
    compositions: Mapping[Observer, Ints32] = field(default_factory=dict)


def records_of(played: PlayedRounds) -> list[RoundRecord]:
    """The records of rounds, in their order."""
    return [_record(span, at) for span in played.spans for at in range(len(span))]


def _record(columns: RoundColumns, at: int) -> RoundRecord:
    place, separation = int(columns.place[at]), float(columns.separation[at])
    return RoundRecord(
        **{name: getattr(columns, name)[at] for name in _OF_SUBJECTS},
        round=int(columns.round[at]),
        release=int(columns.release[at]),
        selection_loss=_at(columns.selection_losses, place),
        validation_loss=_at(columns.validation_losses, place),
        accuracy=_at(columns.accuracies, place),
        cluster_sizes=tuple(columns.cluster_sizes[at].tolist()),
        separation=separation if math.isfinite(separation) else None,
        collapsed=bool(columns.collapsed[at]),
        fairness={name: counts[place] for name, counts in columns.counts.items() if place >= 0},
        compositions={observer: counts[at] for observer, counts in columns.compositions.items()},
    )


def _at(values: Floats | None, place: int) -> float | None:
    return None if values is None or place < 0 else float(values[place])
