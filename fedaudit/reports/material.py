"""What a report is made from: facts that a finished run hands over."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.privacy.events import Observer
from fedaudit.privacy.spending_plan import SpendingPlan
from fedaudit.spec.experiment import ExperimentSpec


@dataclass(frozen=True)
class FederationFacts:
    """What a report says about the data."""

    fingerprint: str
    """SHA-256 of the raw data, in hexadecimal."""
    clients: int
    training_clients: int
    rows: int
    notes: tuple[str, ...] = ()
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values of each sensitive attribute, in the order of the counts."""


@dataclass(frozen=True)
class FinalFigures:
    """What training ended with, of the best hypotheses."""

    stopped_by: str
    rounds: int
    best_round: int
    selection_loss: float | None
    validation_loss: float | None
    accuracy: float | None
    fairness: Mapping[str, NDArray[np.int64]]
    """Per attribute, counts of each validation client: [validation clients, groups, 4]."""
    single_row_clients: int = 0
    """Validation clients with one row, scored with the largest hypothesis."""
    collapsed_rounds: int = 0


@dataclass(frozen=True)
class ReportMaterial:
    """Everything that `assemble` needs."""

    experiment_id: str
    name: str
    status: str
    spec: ExperimentSpec
    n: int
    """Released parameters."""
    federation: FederationFacts
    releases: NDArray[np.int32]
    """How often each of the ledger's subjects released something: [subjects]. Clients, but for the
    mechanisms whose plan has others."""
    refusals: int
    withheld: int
    result: FinalFigures
    ledger_hash: str
    chain_head: str
    """Hexadecimal."""
    entries: int
    """How many ledger entries there are."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """code_version, libraries, device, backend, started_at, finished_at; times in ISO 8601."""
    clusters: NDArray[np.int16] | None = None
    """[clients]: the cluster of each client's last upload, -1 for none; None where unknown."""
    plan: SpendingPlan | None = None
    """For mechanisms that are counted as an epsilon with a delta; None for the others."""
    compositions: Mapping[Observer, ArrayLike] = field(default_factory=dict)
    """With a plan, before each of its observers: how much was composed, one number for all of the
    ledger's subjects or one each, [subjects]."""
    key_id: str | None = None
    """The key that the report is about to be signed with; None where it will not be."""
