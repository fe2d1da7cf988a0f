"""The stored rounds of an experiment, for the curves of its report's page."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.orm import Session

from fedaudit.reports.charts.series import Series, series_of
from models.repositories import FairnessRepository, RoundRepository
from models.values import FairnessRow, RoundRow

_AT_ONCE = 1000

Row = TypeVar("Row", RoundRow, FairnessRow)


def stored_series(
    session: Session, project_id: str, experiment_id: str, *, after: int = 0, every: int = 1
) -> Series:
    """The public figures of the stored rounds above `after`, or of the multiples of `every`.

    Counts of groups are not among them.
    """
    rounds = RoundRepository(session, project_id)
    fairness = FairnessRepository(session, project_id)

    def fairness_behind(last: FairnessRow | None) -> list[FairnessRow]:
        if last is None:
            return fairness.after(experiment_id, after, _AT_ONCE, every=every)
        return fairness.after(
            experiment_id, last.round, _AT_ONCE, after_attribute=last.attribute, every=every
        )

    def rounds_behind(last: RoundRow | None) -> list[RoundRow]:
        begin = after if last is None else last.round
        return rounds.after(experiment_id, begin, _AT_ONCE, planes=False, every=every)

    return series_of(_all(rounds_behind), _all(fairness_behind))


def _all(behind: Callable[[Row | None], list[Row]]) -> list[Row]:
    """The rounds, page after page."""
    found: list[Row] = []
    while page := behind(found[-1] if found else None):
        found += page
        if len(page) < _AT_ONCE:
            break
    return found
