"""One experiment while a worker runs it: what is known of it between flushes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from fedaudit.federations.federation import Federation
from fedaudit.ledger.checkpoints import Checkpoint
from fedaudit.privacy.cluster_leakage import ClusterCounts
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.training.cell import Cell
from fedaudit.training.plane import why_no_plane
from models.records import Intent
from workers.ledger_book import LedgerBook


@dataclass
class RunningExperiment:
    """The experiment, its data, and where its ledger stands."""

    id: str
    project_id: str
    name: str
    spec_hash: str
    subjects_hash: str
    cell: Cell
    training_clients: int
    book: LedgerBook
    started_at: datetime
    by_cluster: ClusterCounts | None = None
    """Moved on with the ledger; None where the cost is no leakage."""
    rounds_done: int = 0
    checkpoint: bytes | None = None
    """Where it was when the worker took it up."""
    lost: list[Intent] = field(default_factory=list)
    """Rounds that were charged and lost with a worker, not yet in the ledger; by round."""

    @property
    def spec(self) -> ExperimentSpec:
        """What was asked for."""
        return self.cell.spec

    @property
    def federation(self) -> Federation:
        """Its data."""
        return self.cell.federation

    @property
    def secret(self) -> bool:
        """Whether its noise comes from entropy, so that no round can be played again."""
        return self.spec.privacy.noise == "release"

    @cached_property
    def why_no_plane(self) -> str | None:
        """Why its rounds cannot be drawn in a plane; None where they can."""
        return why_no_plane(self.cell)

    def ledger_checkpoint(self, status: str) -> Checkpoint:
        """Where its ledger stands, to be signed."""
        return Checkpoint(
            experiment_id=self.id,
            status=status,
            entries=self.book.entries,
            last_round=self.book.last_round,
            chain_head=self.book.head.hex(),
            spec_hash=self.spec_hash,
            subjects_hash=self.subjects_hash,
        )

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Sensitive attribute -> its groups, in the order of the counts."""
        return {attribute.name: attribute.values for attribute in self.federation.attributes}
