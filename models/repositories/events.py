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
        return self.append_each(project_id, {experiment_id: events})[experiment_id]

    def append_each(
        self, project_id: str, events: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]]
    ) -> dict[str, int]:
        """The same for several experiments of a project, by id; one statement for all that get as
        many events."""
        last: dict[str, int] = {}
        for count in {len(own) for own in events.values()}:
            ids = [id_ for id_, own in events.items() if len(own) == count]
            numbered = self.session.execute(
                update(Experiment)
                .where(Experiment.id.in_(ids), Experiment.project_id == project_id)
                .values(event_sequence=Experiment.event_sequence + count)
                .returning(Experiment.id, Experiment.event_sequence),
                execution_options={"synchronize_session": False},
            )
            last |= {row.id: row.event_sequence for row in numbered}
        for id_, own in events.items():
            if id_ not in last:
                raise LookupError(f"experiment {id_}: this project has no such experiment")
            self._append(id_, project_id, own, first=last[id_] - len(own) + 1)
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
