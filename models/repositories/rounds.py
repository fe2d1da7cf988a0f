"""Round figures."""

from collections.abc import Mapping, Sequence
from typing import Any

from models.repositories.base import ExperimentPartRepository
from models.tables.rounds import Round
from models.values import RoundRow


class RoundRepository(ExperimentPartRepository):
    """One row a round."""

    def insert(self, experiment_id: str, project_id: str, rows: Sequence[RoundRow]) -> None:
        """Adds a block of rounds; inside a fenced transaction."""
        owner = {"experiment_id": experiment_id, "project_id": project_id}
        # `vars` rather than `asdict`, which would copy every value.
        self._insert(Round, [{**owner, **vars(row)} for row in rows])

    def after(
        self,
        experiment_id: str,
        round_: int = 0,
        limit: int = 1000,
        *,
        planes: bool = True,
        every: int = 1,
        among: Sequence[int] | None = None,
    ) -> list[RoundRow]:
        """Rounds above `round_`, in order; without their planes, which can be long, if asked.

        With `every`, only those that it divides; with `among`, only those.
        """
        statement = self._select(Round, experiment_id).where(Round.round > round_)
        if every > 1:
            statement = statement.where(Round.round % every == 0)
        if among is not None:
            statement = statement.where(Round.round.in_(among))
        names = [name for name in RoundRow.__dataclass_fields__ if planes or name != "plane"]
        columns: list[Any] = [getattr(Round, name) for name in names]
        chosen = statement.with_only_columns(*columns).order_by(Round.round).limit(limit)
        found = self.session.execute(chosen)
        return [RoundRow(**row._mapping) for row in found]

    def drawn_rounds(self, experiment_id: str, *, up_to: int) -> list[int]:
        """Which rounds up to that one have a plane, ascending."""
        statement = self._select(Round, experiment_id).with_only_columns(Round.round)
        drawn = statement.where(Round.round <= up_to, Round.plane.is_not(None))
        return list(self.session.scalars(drawn.order_by(Round.round)))

    def planes(self, experiment_id: str, rounds: Sequence[int]) -> dict[int, Mapping[str, Any]]:
        """The planes of some rounds, by round; those that have none are left out."""
        statement = self._select(Round, experiment_id).with_only_columns(Round.round, Round.plane)
        found = self.session.execute(statement.where(Round.round.in_(rounds)))
        return {round_: plane for round_, plane in found if plane is not None}
