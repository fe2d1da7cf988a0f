"""The section `plane` of the report: a run of two parameters as the server saw it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.reports.document.hypotheses_document import PathPoint, Plane, PlaneRound

NOT_VALIDATED = "no round was validated, so there is no best one"
NOT_KEPT = "the best round was stored without it, or one of its hypotheses is not finite"
_MAX_EARLIER = 50
_IS_FIRST = "the best round is the first that was validated"


def rounds_to_draw(validated: Sequence[int], *, best_round: int) -> list[int]:
    """Which rounds with points the section needs, ascending: the best round and earlier ones.

    `validated` is ascending. Where there are many earlier rounds, as many as fit on the path beside
    the start are chosen, evenly spaced and including the first. Empty without the best round.
    """
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
    """The section from the rounds of `rounds_to_draw`, by number, as they were stored.

    `start` [k, 2]: the hypotheses that training began with; `truth` [distributions, 2]. Raises
    KeyError without the best round.
    """
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
