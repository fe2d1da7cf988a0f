"""One experiment while a worker runs it: what is known of it between flushes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import Federation
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
    cell: Cell
    training: NDArray[np.int32]
    """Indices of the training clients."""
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

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Sensitive attribute -> its groups, in the order of the counts."""
        return {attribute.name: attribute.values for attribute in self.federation.attributes}
