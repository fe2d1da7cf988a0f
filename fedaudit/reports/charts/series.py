"""The figures of a run's rounds, for the curves on a report's page. Public figures only."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

FIGURES = (
    "selection_loss",
    "validation_loss",
    "accuracy",
    "separation",
    "leakage_median",
    "leakage_max",
    "epsilon_max",
)

Values = tuple[float | None, ...]


class RoundFigures(Protocol):
    """A round as the service stores it or as a run in this process returns it; also has FIGURES."""

    @property
    def round(self) -> int:
        """Round number, from 1."""

    @property
    def cluster_sizes(self) -> Sequence[int]:
        """Uploads in each cluster; empty where it is secret which clients were drawn."""

    @property
    def leakage_by_cluster(self) -> Sequence[Mapping[str, Any]] | None:
        """Objects with the keys cluster and leakage_max; None where the cost is not leakage."""


class GapFigures(Protocol):
    """The gaps of one attribute in one round."""

    @property
    def round(self) -> int:
        """Round number, from 1."""

    @property
    def attribute(self) -> str:
        """The sensitive attribute."""

    @property
    def figures(self) -> Sequence[Mapping[str, Any]]:
        """Objects with the keys metric and value."""


@dataclass(frozen=True)
class GapSeries:
    """The gaps of one sensitive attribute, in the rounds that were validated."""

    rounds: tuple[int, ...]
    values: Mapping[str, Values]
    """Metric -> one value per round."""


@dataclass(frozen=True)
class Series:
    """The figures of every round, in ascending order; None where a round lacks the figure."""

    rounds: tuple[int, ...] = ()
    figures: Mapping[str, Values] = field(default_factory=dict)
    """One of FIGURES -> one value per round."""
    cluster_sizes: tuple[tuple[int, ...], ...] = ()
    """One value per round."""
    cluster_leakage: Mapping[int, Values] = field(default_factory=dict)
    """By cluster, the largest leakage of a client whose newest upload is in it, one per round."""
    gaps: Mapping[str, GapSeries] = field(default_factory=dict)
    """By sensitive attribute."""
    every: int = 1
    """With very many rounds there are the first, the last, and those that this number divides."""


def series_of(
    rounds: Sequence[RoundFigures], gaps: Sequence[GapFigures], *, every: int = 1
) -> Series:
    """The series of rounds and gaps, both in the order of their rounds."""
    attributes = dict.fromkeys(one.attribute for one in gaps)
    return Series(
        rounds=tuple(one.round for one in rounds),
        figures={name: tuple(_finite(getattr(one, name)) for one in rounds) for name in FIGURES},
        cluster_sizes=tuple(tuple(one.cluster_sizes) for one in rounds),
        cluster_leakage=_by_cluster(rounds),
        gaps={
            attribute: _gaps([one for one in gaps if one.attribute == attribute])
            for attribute in attributes
        },
        every=every,
    )


def _by_cluster(rounds: Sequence[RoundFigures]) -> dict[int, Values]:
    found = [
        {part["cluster"]: part["leakage_max"] for part in one.leakage_by_cluster or ()}
        for one in rounds
    ]
    clusters = sorted({cluster for of_round in found for cluster in of_round})
    return {
        cluster: tuple(_finite(of_round.get(cluster)) for of_round in found) for cluster in clusters
    }


def _gaps(rows: Sequence[GapFigures]) -> GapSeries:
    found = [{figure["metric"]: figure["value"] for figure in row.figures} for row in rows]
    metrics = dict.fromkeys(metric for values in found for metric in values)
    return GapSeries(
        rounds=tuple(row.round for row in rows),
        values={
            metric: tuple(_finite(values.get(metric)) for values in found) for metric in metrics
        },
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
