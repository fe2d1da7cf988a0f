"""The stored rounds of an experiment, for the curves of its report's page."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.orm import Session

from fedaudit.reports.series import Series, series_of
from models.records import FairnessRow, RoundRow
from models.repositories import FairnessRepository, RoundRepository

_AT_ONCE = 1000

Row = TypeVar("Row", RoundRow, FairnessRow)


def stored_series(session: Session, project_id: str, experiment_id: str) -> Series:
    """The public figures of every round that is stored; counts of groups are not among them."""
    rounds = RoundRepository(session, project_id)
    fairness = FairnessRepository(session, project_id)

    def fairness_behind(last: FairnessRow | None) -> list[FairnessRow]:
        if last is None:
            return fairness.after(experiment_id, limit=_AT_ONCE)
        return fairness.after(experiment_id, last.round, _AT_ONCE, after_attribute=last.attribute)

    def rounds_behind(last: RoundRow | None) -> list[RoundRow]:
        return rounds.after(experiment_id, 0 if last is None else last.round, _AT_ONCE)

    return series_of(_all(rounds_behind), _all(fairness_behind))


def _all(behind: Callable[[Row | None], list[Row]]) -> list[Row]:
    """Page after page."""
    found: list[Row] = []
    while page := behind(found[-1] if found else None):
        found += page
        if len(page) < _AT_ONCE:
            break
    return found
