"""The figures that a round leaves behind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.leakage import ClusterLeakage
from fedaudit.training.base.round_records import RoundPlot


@dataclass(frozen=True, kw_only=True)
class RoundFigures:
    """One round's figures. Each that is None has its reason in `reasons`."""

    round: int
    selection_loss: float | None
    validation_loss: float | None
    accuracy: float | None
    cluster_sizes: Sequence[int]
    separation: float | None
    collapsed: bool
    leakage_median: float | None
    leakage_max: float | None
    epsilon_max: float | None
    demographic_parity_difference: float | None
    equalized_odds_difference: float | None
    equal_opportunity_difference: float | None
    leakage_by_cluster: Sequence[ClusterLeakage] | None
    plane: RoundPlot | None
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class FairnessFigures:
    """One sensitive attribute's figures in one round that was validated."""

    round: int
    attribute: str
    figures: Sequence[Mapping[str, Any]]
    """Objects of metric, value and reason."""
    counts: NDArray[np.int64]
    """[groups, 4], as in RoundRecord; [0, 4] where no outcome is favourable. Confidential."""


def values_by_metric(figures: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The values of objects of metric, value and reason."""
    return {one["metric"]: one["value"] for one in figures}
