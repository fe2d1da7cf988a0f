"""Whether a report's statements about its hypotheses follow from its ledger.

The ledger holds no models: distances and positions of uploads are taken from the report, and what
must follow from them is checked against radii and clusters of the best round.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.leakage import MAX_LISTED, clipped_reach
from fedaudit.reports.document.checks import Check, check, same, value_at
from fedaudit.reports.sections.between_hypotheses_section import (
    Rates,
    pair_figures,
    rates_of,
    why_no_pairs,
)
from fedaudit.reports.verification.recompute import LedgerTotals
from fedaudit.spec.experiment import ExperimentSpec

_MAX_VALUE = 1e300
_ROUNDING = 1e-9
_OF_ONE_NOISE = ("epsilon", "epsilon_median", "epsilon_max")
"""Figures that do not exist with noise layer by layer."""
_PAIRS, _PLANE = "privacy.between_hypotheses", "report.plane"


def hypotheses_checks(
    spec: ExperimentSpec,
    report: Mapping[str, Any],
    totals: LedgerTotals,
    inputs: MechanismParameters,
) -> Iterator[Check]:
    """The checks of a run without an epsilon; empty for a report that lacks both sections."""
    between = value_at(report, *_PAIRS.split("."))
    if between is not None:
        yield check(
            f"report.{_PAIRS}",
            inputs.cost_kind == "leakage" and _follow(spec, between, totals, inputs),
            good="what noise hides between hypotheses follows from their distances and the ledger",
            bad=f"{_PAIRS} does not follow from its distances, the spec and the ledger",
        )
    clusters = value_at(report, "plane", "clusters")
    if clusters is not None:
        yield check(
            _PLANE,
            _clusters_agree(clusters, totals),
            good="the plane shows the best round's uploads in the clusters of the ledger",
            bad="the clusters of the plane are not those of the ledger's best round",
        )


def _follow(
    spec: ExperimentSpec, between: Any, totals: LedgerTotals, inputs: MechanismParameters
) -> bool:
    pairs, k = value_at(between, "pairs"), spec.training.hypotheses
    if why_no_pairs(spec) is not None or not isinstance(pairs, list):
        return False
    in_all = k * (k - 1) // 2
    listed = in_all if k <= MAX_LISTED else 2
    if value_at(between, "pairs_in_all") != in_all or len(pairs) != listed:
        return False
    parts = inputs.noised_sizes
    rates = rates_of(inputs, radii=totals.best_radii)
    for pair in pairs:
        distance = value_at(pair, "distance")
        if type(distance) not in (int, float) or not 0 <= distance < _MAX_VALUE:
            return False
        if len(parts) > 1:
            if not _within_reach(pair, float(distance), rates, clip=inputs.clip):
                return False
            continue
        figures = pair_figures(np.array([float(distance)]), rates, clip=inputs.clip)
        if not same({name: value_at(pair, name) for name in figures}, figures):
            return False
    return True


def _within_reach(pair: Any, distance: float, rates: Rates | None, *, clip: float | None) -> bool:
    """Whether exponents over layers are consistent with their rates and the whole distance.

    The report does not state the layers' own distances. Whatever they are, their sum is at least
    the whole distance, and by Cauchy and Schwarz an exponent is at most the norm of the rates times
    it.
    """
    if any(value_at(pair, name) is not None for name in _OF_ONE_NOISE):
        return False
    names = ("indistinguishability_median", "indistinguishability")
    said = {name: value_at(pair, name) for name in (*names, "worst_case")}
    if rates is None:
        return all(value is None for value in said.values())
    if not all(type(said[name]) in (int, float) for name in names):
        return False
    least = rates.values.min(axis=1) * distance
    most = np.linalg.norm(rates.values, axis=1) * distance
    for name, stated in zip(names, (rates.median, rates.largest), strict=True):
        if not stated(least) * (1 - _ROUNDING) <= said[name] <= stated(most) * (1 + _ROUNDING):
            return False
    worst = None
    if rates.public and clip is not None:
        worst = said["indistinguishability"] + float(clipped_reach(rates.values, clip=clip)[0])
    return same(said["worst_case"], worst)


def _clusters_agree(clusters: Any, totals: LedgerTotals) -> bool:
    """Where there are more uploads than are shown, the shown ones must be among the round's."""
    found = totals.best_clusters.tolist()
    if not isinstance(clusters, list):
        return False
    if len(clusters) == len(found):
        return same(clusters, found)
    return 0 < len(clusters) < len(found) and set(map(str, clusters)) <= set(map(str, found))
