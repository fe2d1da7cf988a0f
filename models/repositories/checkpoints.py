"""Checkpoints: the newest state of each run."""

from datetime import timedelta

from sqlalchemy import delete, select

from models.clock import seconds_from_now
from models.repositories.base import ExperimentPartRepository
from models.tables.checkpoints import Checkpoint
from models.tables.experiments import Experiment


class CheckpointRepository(ExperimentPartRepository):
    """One checkpoint an experiment."""

    def put(self, experiment_id: str, project_id: str, *, round: int, data: bytes) -> None:  # noqa: A002
        """Overwrites the checkpoint; inside a fenced transaction."""
        owner = {"experiment_id": experiment_id, "project_id": project_id}
        self._put(Checkpoint, {**owner, "round": round, "data": data})

    def get(self, experiment_id: str) -> Checkpoint | None:
        """The newest checkpoint, None before the first flush."""
        return self._one(self._select(Checkpoint, experiment_id))

    def delete(self, experiment_id: str) -> None:
        """Removes the checkpoint of a run that has ended."""
        self._execute(delete(Checkpoint).where(Checkpoint.experiment_id == experiment_id))

    def forget_ended(self, older_than: timedelta, *, limit: int) -> int:
        """Removes those that runs left which ended so long ago without their worker; returns how
        many. Such a run is never taken up again."""
        ended = (
            select(Checkpoint.experiment_id)
            .join(Experiment, Experiment.id == Checkpoint.experiment_id)
            .where(
                Experiment.status.in_(("cancelled", "succeeded", "failed")),
                Experiment.finished_at < seconds_from_now(-older_than.total_seconds()),
            )
            .limit(limit)
        )
        return self._execute(delete(Checkpoint).where(Checkpoint.experiment_id.in_(ended)))
