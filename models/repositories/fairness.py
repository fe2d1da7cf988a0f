"""Fairness figures and counts."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import tuple_

from models.repositories.base import ExperimentPartRepository
from models.tables.fairness import Fairness
from models.values import FairnessRow


class FairnessRepository(ExperimentPartRepository):
    """One row a round and attribute. Counts are confidential: the caller checks the scope."""

    def insert(self, experiment_id: str, project_id: str, rows: Sequence[FairnessRow]) -> None:
        """Adds a block of rounds; inside a fenced transaction."""
        owner = {"experiment_id": experiment_id, "project_id": project_id}
        self._insert(Fairness, [{**owner, **vars(row)} for row in rows])

    def after(
        self,
        experiment_id: str,
        round_: int = 0,
        limit: int = 1000,
        *,
        attribute: str | None = None,
        after_attribute: str | None = None,
        every: int = 1,
        among: Sequence[int] | None = None,
        counts: bool = True,
    ) -> list[FairnessRow]:
        """Rows above `round_`, or above (`round_`, `after_attribute`), by round and attribute.

        With `attribute`, that attribute alone; with `every`, only rounds that it divides; with
        `among`, only those. Without `counts`, which can be long, they are None.
        """
        statement = self._select(Fairness, experiment_id)
        if after_attribute is None:
            statement = statement.where(Fairness.round > round_)
        else:
            position = tuple_(Fairness.round, Fairness.attribute)
            statement = statement.where(position > (round_, after_attribute))
        if attribute is not None:
            statement = statement.where(Fairness.attribute == attribute)
        if every > 1:
            statement = statement.where(Fairness.round % every == 0)
        if among is not None:
            statement = statement.where(Fairness.round.in_(among))
        columns: list[Any] = [Fairness.round, Fairness.attribute, Fairness.figures]
        statement = statement.order_by(Fairness.round, Fairness.attribute).limit(limit)
        if counts:
            columns.append(Fairness.counts)
        found = self.session.execute(statement.with_only_columns(*columns))
        return [FairnessRow(**{"counts": None, **row._mapping}) for row in found]

    def last(self, experiment_id: str, attribute: str, *, rounds: int) -> list[FairnessRow]:
        """The attribute's last rows, at most so many, by round."""
        statement = self._select(Fairness, experiment_id).where(Fairness.attribute == attribute)
        rows = self._all(statement.order_by(Fairness.round.desc()).limit(rounds))
        return [
            FairnessRow(
                round=row.round, attribute=row.attribute, figures=row.figures, counts=row.counts
            )
            for row in reversed(rows)
        ]
