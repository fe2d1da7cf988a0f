"""Events of an experiment, in one unbroken sequence."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import update

from models.clock import utc_now
from models.repositories.base import ExperimentPartRepository
from models.tables.events import Event
from models.tables.experiments import Experiment


class EventRepository(ExperimentPartRepository):
    """Appended by whoever changes an experiment, in the transaction that changes it."""

    def append(
        self, experiment_id: str, project_id: str, events: Sequence[tuple[str, Mapping[str, Any]]]
    ) -> int:
        """Appends (type, data) pairs; returns the number of the last event.

        Writers of one experiment wait for each other here, so numbers have no gaps and become
        visible in order. Raises LookupError where the project has no such experiment.
        """
        last = self.session.execute(
            update(Experiment)
            .where(Experiment.id == experiment_id, Experiment.project_id == project_id)
            .values(event_sequence=Experiment.event_sequence + len(events))
            .returning(Experiment.event_sequence),
            execution_options={"synchronize_session": False},
        ).scalar_one_or_none()
        if last is None:
            raise LookupError(f"experiment {experiment_id}: this project has no such experiment")
        self._append(experiment_id, project_id, events, first=last - len(events) + 1)
        return last

    def begin(
        self, experiment_id: str, project_id: str, event: tuple[str, Mapping[str, Any]]
    ) -> None:
        """The first event of an experiment that is being stored, as number 1."""
        self._append(experiment_id, project_id, [event], first=1)

    def _append(
        self,
        experiment_id: str,
        project_id: str,
        events: Sequence[tuple[str, Mapping[str, Any]]],
        *,
        first: int,
    ) -> None:
        now = utc_now()
        self._insert(
            Event,
            [
                {
                    "experiment_id": experiment_id,
                    "sequence": sequence,
                    "project_id": project_id,
                    "type": type_,
                    "data": dict(data),
                    "created_at": now,
                }
                for sequence, (type_, data) in enumerate(events, start=first)
            ],
        )

    def of_type(self, experiment_id: str, *types: str) -> list[Event]:
        """Its events of these types, in order."""
        mine = self._select(Event, experiment_id).where(Event.type.in_(types))
        return self._all(mine.order_by(Event.sequence))

    def after(self, experiment_id: str, sequence: int = 0, limit: int = 100) -> list[Event]:
        """Events numbered above `sequence`, in order."""
        return self._all(
            self._select(Event, experiment_id)
            .where(Event.sequence > sequence)
            .order_by(Event.sequence)
            .limit(limit)
        )
