"""Round figures."""

from collections.abc import Sequence

from models.records import RoundRow
from models.repositories.base import ExperimentPartRepository
from models.tables.rounds import Round


class RoundRepository(ExperimentPartRepository):
    """One row a round."""

    def insert(self, experiment_id: str, project_id: str, rows: Sequence[RoundRow]) -> None:
        """Adds a block of rounds; inside a fenced transaction."""
        owner = {"experiment_id": experiment_id, "project_id": project_id}
        # `vars` rather than `asdict`, which would copy every value.
        self._insert(Round, [{**owner, **vars(row)} for row in rows])

    def after(self, experiment_id: str, round_: int = 0, limit: int = 1000) -> list[RoundRow]:
        """Rounds above `round_`, in order."""
        rows = self._all(
            self._select(Round, experiment_id)
            .where(Round.round > round_)
            .order_by(Round.round)
            .limit(limit)
        )
        names = RoundRow.__dataclass_fields__
        return [RoundRow(**{name: getattr(row, name) for name in names}) for row in rows]
