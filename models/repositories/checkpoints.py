"""Checkpoints: the newest state of each run."""

from sqlalchemy import delete

from models.repositories.base import ExperimentPartRepository
from models.tables.checkpoints import Checkpoint


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
