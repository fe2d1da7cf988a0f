"""All SQL: statements within the caller's transaction, grouped by what they are about."""

from models.repositories.api_keys import ApiKeyRepository
from models.repositories.budget_gaps import BudgetGapRepository
from models.repositories.budgets import BudgetRepository
from models.repositories.checkpoints import CheckpointRepository
from models.repositories.contents.disclosures import DisclosureRepository
from models.repositories.contents.near_copies import NearCopyRepository
from models.repositories.epsilon_budgets import EpsilonBudgetRepository
from models.repositories.events import EventRepository
from models.repositories.experiments import ExperimentRepository
from models.repositories.fairness import FairnessRepository
from models.repositories.federations import FederationRepository
from models.repositories.gate_policies import GatePolicyRepository
from models.repositories.idempotency import IdempotencyRepository
from models.repositories.ledger import LedgerRepository
from models.repositories.outbox import OutboxRepository
from models.repositories.projects import ProjectRepository
from models.repositories.recovery import fail_unit
from models.repositories.reports import ReportListRepository, ReportRepository
from models.repositories.rounds import RoundRepository
from models.repositories.signing import LedgerCheckpointRepository, SigningKeyRepository
from models.repositories.subject_sets import SubjectSetRepository
from models.repositories.sweeper_leases import SweeperLeaseRepository
from models.repositories.units import UnitRepository
from models.repositories.web_sessions import WebSessionRepository

__all__ = [
    "ApiKeyRepository",
    "BudgetGapRepository",
    "BudgetRepository",
    "CheckpointRepository",
    "DisclosureRepository",
    "EpsilonBudgetRepository",
    "EventRepository",
    "ExperimentRepository",
    "FairnessRepository",
    "FederationRepository",
    "GatePolicyRepository",
    "IdempotencyRepository",
    "LedgerCheckpointRepository",
    "LedgerRepository",
    "NearCopyRepository",
    "OutboxRepository",
    "ProjectRepository",
    "ReportListRepository",
    "ReportRepository",
    "RoundRepository",
    "SigningKeyRepository",
    "SubjectSetRepository",
    "SweeperLeaseRepository",
    "UnitRepository",
    "WebSessionRepository",
    "fail_unit",
]
