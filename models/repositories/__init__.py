"""All SQL: statements within the caller's transaction, grouped by what they are about."""

from models.repositories.api_keys import ApiKeyRepository
from models.repositories.budgets import BudgetRepository
from models.repositories.checkpoints import CheckpointRepository
from models.repositories.epsilon_budgets import EpsilonBudgetRepository
from models.repositories.events import EventRepository
from models.repositories.experiments import ExperimentRepository
from models.repositories.fairness import FairnessRepository
from models.repositories.federations import FederationRepository
from models.repositories.idempotency import IdempotencyRepository
from models.repositories.ledger import LedgerRepository
from models.repositories.outbox import OutboxRepository
from models.repositories.projects import ProjectRepository
from models.repositories.recovery import fail_unit
from models.repositories.reports import ReportRepository
from models.repositories.rounds import RoundRepository
from models.repositories.signing import LedgerCheckpointRepository, SigningKeyRepository
from models.repositories.subject_sets import SubjectSetRepository
from models.repositories.sweeper_leases import SweeperLeaseRepository
from models.repositories.units import UnitRepository

__all__ = [
    "ApiKeyRepository",
    "BudgetRepository",
    "CheckpointRepository",
    "EpsilonBudgetRepository",
    "EventRepository",
    "ExperimentRepository",
    "FairnessRepository",
    "FederationRepository",
    "IdempotencyRepository",
    "LedgerCheckpointRepository",
    "LedgerRepository",
    "OutboxRepository",
    "ProjectRepository",
    "ReportRepository",
    "RoundRepository",
    "SigningKeyRepository",
    "SubjectSetRepository",
    "SweeperLeaseRepository",
    "UnitRepository",
    "fail_unit",
]
