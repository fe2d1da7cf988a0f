"""The figures of an experiment's rounds since a reader last looked."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from api.services.reports.round_series import spaced, stored_series
from fedaudit.reports.charts.line_chart import Series
from models.repositories import FairnessRepository, RoundRepository
from models.tables.experiments import Experiment
from models.values import FairnessRow, RoundRow

_MAX_ATTRIBUTES = 100


@dataclass(frozen=True)
class LiveFigures:
    """The rounds above a number, and the newest of them separately."""

    series: Series
    every: int
    """With very many rounds, the series has those that are multiples of this number."""
    newest: RoundRow | None
    """The last round; None where there is none yet."""
    validated: RoundRow | None
    """The last round that was validated; None where none was."""
    fairness: Sequence[FairnessRow]
    """The gaps of each attribute, in that round."""
    from_the_start: bool
    """Whether the series begins with the first round."""


def live_figures(session: Session, experiment: Experiment, *, after: int = 0) -> LiveFigures:
    """The public figures of the rounds above `after`; counts of groups are not shown."""
    id_, project_id, done = experiment.id, experiment.project_id, experiment.rounds_done
    between = experiment.spec["training"]["stopping"]["validate_every"]
    validated = done if done == experiment.rounds_total else done - done % between
    every = spaced(done - after, between)
    rounds = RoundRepository(session, project_id)
    fairness: list[FairnessRow] = []
    if validated > after:
        found = FairnessRepository(session, project_id).after(id_, validated - 1, _MAX_ATTRIBUTES)
        fairness = [row for row in found if row.round == validated]
    return LiveFigures(
        series=stored_series(session, project_id, id_, after=after, every=every),
        every=every,
        newest=_row(rounds, id_, done) if done > after else None,
        validated=_row(rounds, id_, validated) if validated > after else None,
        fairness=fairness,
        from_the_start=after == 0,
    )


def _row(rounds: RoundRepository, experiment_id: str, number: int) -> RoundRow | None:
    found = rounds.after(experiment_id, number - 1, 1, planes=False)
    return found[0] if found else None
