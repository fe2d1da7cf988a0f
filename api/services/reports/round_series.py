"""The stored rounds of an experiment, for the curves of its report's page."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from fedaudit.reports.charts.line_chart import Series, series_of
from models.repositories import FairnessRepository, RoundRepository
from models.tables.experiments import Experiment
from models.values import FairnessRow, RoundRow

MAX_ROUNDS = 2000
"""Rounds read for a series: a page is requested again and again."""
_AT_ONCE = 1000

Row = TypeVar("Row", RoundRow, FairnessRow)


def report_series(session: Session, experiment: Experiment) -> Series:
    """The public figures of an experiment's rounds; of very many, so many as a page can draw.

    These are the first, the last and those between that a number divides.
    """
    done = experiment.rounds_done
    every = spaced(done, experiment.spec["training"]["stopping"]["validate_every"])
    among = None if every == 1 else [1, *range(every, done, every), done]
    return stored_series(session, experiment.project_id, experiment.id, every=every, among=among)


def spaced(rounds: int, between: int) -> int:
    """A multiple of the interval between validations, so that validated rounds are not left out."""
    if rounds <= MAX_ROUNDS:
        return 1
    return between * -(-rounds // (MAX_ROUNDS * between))


def stored_series(
    session: Session,
    project_id: str,
    experiment_id: str,
    *,
    after: int = 0,
    every: int = 1,
    among: Sequence[int] | None = None,
) -> Series:
    """The public figures of the stored rounds above `after`: those of `among`, or multiples of
    `every`.

    Counts of groups are not among them.
    """
    chosen: dict[str, Any] = {"every": every} if among is None else {"among": among}
    rounds = RoundRepository(session, project_id)
    fairness = FairnessRepository(session, project_id)

    def fairness_behind(last: FairnessRow | None) -> list[FairnessRow]:
        if last is None:
            return fairness.after(experiment_id, after, _AT_ONCE, counts=False, **chosen)
        place = {"after_attribute": last.attribute, "counts": False, **chosen}
        return fairness.after(experiment_id, last.round, _AT_ONCE, **place)

    def rounds_behind(last: RoundRow | None) -> list[RoundRow]:
        begin = after if last is None else last.round
        return rounds.after(experiment_id, begin, _AT_ONCE, planes=False, **chosen)

    return series_of(_all(rounds_behind), _all(fairness_behind), every=every)


def _all(behind: Callable[[Row | None], list[Row]]) -> list[Row]:
    """The rounds, page after page."""
    found: list[Row] = []
    while page := behind(found[-1] if found else None):
        found += page
        if len(page) < _AT_ONCE:
            break
    return found
