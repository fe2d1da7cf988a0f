"""The section `plane`: a run of two parameters as the server saw it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.checks import Check, check, same, value_at
from fedaudit.reports.ledger_totals import LedgerTotals, RunEvidence
from fedaudit.reports.sections.part import Part
from fedaudit.reports.sections.section import Section, handed_over, no_limits
from fedaudit.spec.experiment import ExperimentSpec

Point = tuple[float, float]
Points = list[Point]


class PlaneRound(Part):
    """A round of a model of two parameters, as the server saw it. Synthetic data only."""

    round: int
    hypotheses: Points
    uploads: Points
    """At most 100 of the released uploads, evenly spaced over the clients that took part."""
    clusters: list[int]


class PathPoint(Part):
    """Where the hypotheses stood after a round; before the first, in round 0."""

    round: int
    hypotheses: Points


class Plane(PlaneRound):
    """The best round in the plane of its two parameters (Galli et al., Figure 1)."""

    parameters: tuple[str, str]
    path: list[PathPoint]
    """Up to 50 earlier rounds, evenly spaced, including the start."""
    first: PlaneRound | None
    """The first validated round, where it is not the best."""
    truth: Points
    """The parameters that generated the data, one row per distribution."""
    reasons: dict[str, str]


NOT_VALIDATED = "no round was validated, so there is no best one"
NOT_KEPT = "the best round was stored without it, or one of its hypotheses is not finite"
_MAX_EARLIER = 50
_IS_FIRST = "the best round is the first that was validated"


def rounds_to_draw(validated: Sequence[int], *, best_round: int) -> list[int]:
    """Which rounds with points the section needs, ascending: the best round and earlier ones.
    `validated` is ascending. Where there are many earlier rounds, as many as fit on the path beside
    the start are chosen, evenly spaced and including the first. Empty without the best round."""
    if best_round not in validated:
        return []
    earlier = [number for number in validated if number < best_round]
    most = _MAX_EARLIER - 1
    if len(earlier) > most:
        places = np.linspace(0, len(earlier) - 1, most).round().astype(int)
        earlier = [earlier[place] for place in places.tolist()]
    return [*earlier, best_round]


def build_parameter_plot(
    rounds: Mapping[int, Mapping[str, Any]],
    *,
    best_round: int,
    start: NDArray[np.float32],
    truth: NDArray[np.float64],
    parameters: tuple[str, str],
) -> Plane:
    """The section from the rounds of `rounds_to_draw`, by number, as they were stored. `start` [k,
    2]: the hypotheses that training began with; `truth` [distributions, 2]. Raises KeyError without
    the best round."""
    earlier = sorted(number for number in rounds if number < best_round)
    first = _round(earlier[0], rounds[earlier[0]]) if earlier else None
    path = [PathPoint(round=0, hypotheses=_points(start))]
    path += [PathPoint(round=number, hypotheses=rounds[number]["hypotheses"]) for number in earlier]
    return Plane(
        **_round(best_round, rounds[best_round]).model_dump(),
        parameters=parameters,
        path=path,
        first=first,
        truth=_points(truth),
        reasons={} if first is not None else {"first": _IS_FIRST},
    )


def _round(number: int, stored: Mapping[str, Any]) -> PlaneRound:
    return PlaneRound(round=number, **stored)


def _points(values: NDArray[np.floating]) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in values]


def _clusters_agree(clusters: Any, totals: LedgerTotals) -> bool:
    """Where there are more uploads than are shown, the shown ones must be among the round's."""
    found = totals.best_clusters.tolist()
    if not isinstance(clusters, list):
        return False
    if len(clusters) == len(found):
        return same(clusters, found)
    return 0 < len(clusters) < len(found) and set(map(str, clusters)) <= set(map(str, found))


def plane_checks(
    spec: ExperimentSpec | None, report: Mapping[str, Any], totals: LedgerTotals
) -> Iterator[Check]:
    """Whether the plane has the ledger's clusters; nothing of a mechanism without them."""
    clusters = value_at(report, "plane", "clusters")
    if clusters is None or spec is None or mechanism_of(spec).cost_kind == "epsilon":
        return
    yield check(
        "report.plane",
        _clusters_agree(clusters, totals),
        good="the plane shows the best round's uploads in the clusters of the ledger",
        bad="the clusters of the plane are not those of the ledger's best round",
    )


PLANE = Section[Any, RunEvidence](
    "plane",
    handed_over("plane"),
    lambda found: plane_checks(found.spec, found.report, found.totals),
    no_limits,
)
