"""One experiment while a worker runs it: what is known of it between flushes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from fedaudit.federations.federation import Federation
from fedaudit.ledger.checkpoints import Checkpoint
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.training.cell import Cell
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
