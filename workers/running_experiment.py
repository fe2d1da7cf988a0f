"""One experiment while a worker runs it: the run, and its identity in the database."""

from dataclasses import dataclass

from fedaudit.ledger.chain import salt_hash
from fedaudit.ledger.statements import Checkpoint
from fedaudit.runs.run import Run


@dataclass
class RunningExperiment:
    """A run that is stored under a project."""

    run: Run
    project_id: str
    spec_hash: str
    subjects_hash: str
    witness: str
    """Of what is signed of its ledger: DATABASE where that began with rows that no verified
    signature of a worker covers, else WORKER."""
    checkpoint: bytes | None = None
    """The trainer's state when the worker resumed it."""

    @property
    def id(self) -> str:
        """Its id."""
        return self.run.experiment_id

    def ledger_checkpoint(self, status: str) -> Checkpoint:
        """The state of its ledger, to be signed."""
        ledger = self.run.ledger
        return Checkpoint(
            experiment_id=self.id,
            status=status,
            entries=ledger.entries,
            last_round=ledger.last_round,
            chain_head=ledger.head.hex(),
            spec_hash=self.spec_hash,
            subjects_hash=self.subjects_hash,
            witness=self.witness,
            salt_hash=None if ledger.salt is None else salt_hash(ledger.salt),
        )
