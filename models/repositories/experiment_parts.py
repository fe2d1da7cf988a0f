"""What belongs to one experiment: events, rounds, fairness, checkpoints, and its clients' names."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import bindparam, select, tuple_

from fedaudit.stored import FairnessRow, RoundRow
from models.arrays import to_json
from models.clock import seconds_from_now
from models.repositories.base import ExperimentPartRepository, Repository, table_of
from models.tables.experiments import Checkpoint, Event, Experiment, SubjectSet
from models.tables.ledger import Fairness, Round
from models.values import ENDED, utc_now

_experiments = table_of(Experiment).c
_NUMBERED = (
    table_of(Experiment)
    .update()
    .values(event_sequence=_experiments.event_sequence + bindparam("more"))
    .where(_experiments.id.in_(bindparam("ids", expanding=True)))
    .where(_experiments.project_id == bindparam("project"))
    .returning(_experiments.id, _experiments.event_sequence)
)
_ROUND, _FAIRNESS = table_of(Round).c, table_of(Fairness).c
Events = Sequence[tuple[str, Mapping[str, Any]]]
"""Pairs of type and data."""


class EventRepository(ExperimentPartRepository):
    """Appended in the transaction that changes the experiment."""

    def append(self, experiment_id: str, events: Events) -> int:
        """Appends events; returns the last one's number. Writers of one experiment wait for each
        other, so numbers have no gaps. Raises LookupError for an unknown experiment."""
        return self.append_each({experiment_id: events})[experiment_id]

    def append_each(self, events: Mapping[str, Events]) -> dict[str, int]:
        """The same for several experiments, by id; one statement for all that get as many
        events."""
        last: dict[str, int] = {}
        for count in {len(own) for own in events.values()}:
            ids = [id_ for id_, own in events.items() if len(own) == count]
            numbered = self._rows(_NUMBERED, ids=ids, project=self.project_id, more=count)
            last |= {row.id: row.event_sequence for row in numbered}
        for id_, own in events.items():
            if id_ not in last:
                raise LookupError(f"experiment {id_}: this project has no such experiment")
            self.insert(id_, own, first=last[id_] - len(own) + 1)
        return last

    def insert(self, experiment_id: str, events: Events, *, first: int) -> None:
        """Stores events under numbers that no other has, `first` and those behind it."""
        owner = self._owned(experiment_id, created_at=utc_now())
        rows = [
            {**owner, "sequence": sequence, "type": type_, "data": data}
            for sequence, (type_, data) in enumerate(events, start=first)
        ]
        self._insert(Event, rows)

    def of_type(self, experiment_id: str, *types: str) -> list[Event]:
        """Its events of these types, in order."""
        mine = self._select(Event, experiment_id).where(Event.type.in_(types))
        return self._all(mine.order_by(Event.sequence))

    def after(self, experiment_id: str, sequence: int = 0, limit: int = 100) -> list[Event]:
        """Events numbered above `sequence`, in order."""
        later = self._select(Event, experiment_id).where(Event.sequence > sequence)
        return self._all(later.order_by(Event.sequence).limit(limit))


class RoundRepository(ExperimentPartRepository):
    """One row a round."""

    def insert(self, experiment_id: str, rows: Sequence[RoundRow]) -> None:
        """Adds a block of rounds; inside a fenced transaction."""
        owner = self._owned(experiment_id)
        # `vars` rather than `asdict`, which would copy every value.
        self._insert(Round, [{**owner, **vars(row)} for row in rows])

    def after(
        self,
        experiment_id: str,
        round_: int = 0,
        limit: int = 1000,
        *,
        among: Sequence[int] | None = None,
    ) -> list[RoundRow]:
        """Rounds above `round_`, in order; only those `among`."""
        statement = self._select(Round, experiment_id, *RoundRow.__dataclass_fields__)
        statement = statement.where(_ROUND.round > round_)
        if among is not None:
            statement = statement.where(_ROUND.round.in_(among))
        found = self._rows(statement.order_by(_ROUND.round).limit(limit))
        return [RoundRow(**row._mapping) for row in found]


class FairnessRepository(ExperimentPartRepository):
    """One row a round and attribute. Counts are confidential: the caller checks the scope."""

    def insert(self, experiment_id: str, rows: Sequence[FairnessRow]) -> None:
        """Adds a block of rounds; inside a fenced transaction."""
        owner = self._owned(experiment_id)
        self._insert(Fairness, [{**owner, **vars(row)} for row in rows])

    def after(
        self,
        experiment_id: str,
        round_: int = 0,
        limit: int = 1000,
        *,
        attribute: str | None = None,
        after_attribute: str | None = None,
        among: Sequence[int] | None = None,
        counts: bool = True,
    ) -> list[FairnessRow]:
        """Rows above `round_`, or above (`round_`, `after_attribute`), by round and attribute; of
        one `attribute`, only rounds `among`. Without `counts` these are
        None."""
        names = ("round", "attribute", "figures", *(["counts"] if counts else []))
        statement = self._select(Fairness, experiment_id, *names)
        if after_attribute is None:
            statement = statement.where(_FAIRNESS.round > round_)
        else:
            position = tuple_(_FAIRNESS.round, _FAIRNESS.attribute)
            statement = statement.where(position > (round_, after_attribute))
        if attribute is not None:
            statement = statement.where(_FAIRNESS.attribute == attribute)
        if among is not None:
            statement = statement.where(_FAIRNESS.round.in_(among))
        found = self._rows(statement.order_by(_FAIRNESS.round, _FAIRNESS.attribute).limit(limit))
        return [FairnessRow(**{"counts": None, **row._mapping}) for row in found]


class CheckpointRepository(ExperimentPartRepository):
    """One checkpoint an experiment."""

    def put(self, experiment_id: str, *, round: int, data: bytes) -> None:
        """Overwrites the checkpoint; inside a fenced transaction."""
        self._put(Checkpoint, self._owned(experiment_id, round=round, data=data))

    def get(self, experiment_id: str) -> Checkpoint | None:
        """The newest checkpoint, None before the first flush."""
        return self._one(self._select(Checkpoint, experiment_id))

    def delete(self, experiment_id: str) -> None:
        """Removes the checkpoint of a run that has ended."""
        self._delete(Checkpoint, Checkpoint.experiment_id == experiment_id)

    def forget_ended(self, older_than: timedelta, *, limit: int) -> int:
        """Removes checkpoints left by runs that ended so long ago; returns how many."""
        before = Experiment.finished_at < seconds_from_now(-older_than.total_seconds())
        ended = (
            select(Checkpoint.experiment_id)
            .join(Experiment, Experiment.id == Checkpoint.experiment_id)
            .where(Experiment.status.in_(ENDED), before)
            .limit(limit)
        )
        return self._delete(Checkpoint, Checkpoint.experiment_id.in_(ended))


# Locked, so that no erasure removes it before this transaction refers to it.
_HELD = (
    select(SubjectSet.id).where(SubjectSet.id == bindparam("id")).with_for_update(key_share=True)
)


class SubjectSetRepository(Repository):
    """Sets of names, known by their content: without a project, reached by an experiment."""

    def put(self, names: Sequence[str]) -> str:
        """The id of the set with these names in this order, stored if it is new."""
        text = to_json(list(names))
        set_id = hashlib.sha256(text.encode()).hexdigest()
        while not self._rows(_HELD, id=set_id):
            if self._insert_absent(SubjectSet, {"id": set_id, "names": list(names)}):
                break
        return set_id

    def names(self, id: str) -> tuple[str, ...]:
        """The names by index. Raises LookupError where there is no such set."""
        names = self.session.scalar(select(SubjectSet.names).where(SubjectSet.id == id))
        if names is None:
            raise LookupError(f"subject set {id}: there is no such set")
        return tuple(names)
