"""All SQL: statements within the caller's transaction, grouped by what they are about."""

from models.repositories.api_keys import ApiKeyRepository
from models.repositories.attacks.later_attacks import LaterAttacksRepository
from models.repositories.audit_log.audit_entries import AuditLogRepository, UnsignedAuditRepository
from models.repositories.audits.audits import AuditRepository
from models.repositories.base import gathered_writes
from models.repositories.budget_gaps import BudgetGapRepository
from models.repositories.budgets import BudgetRepository
from models.repositories.checkpoints import CheckpointRepository
from models.repositories.contents.disclosures import DisclosureRepository
from models.repositories.contents.near_copies import NearCopyRepository
from models.repositories.declared_ledgers import (
    DeclaredEntryRepository,
    DeclaredLedgerRepository,
    DeclaredPartRepository,
)
from models.repositories.epsilon_budgets import EpsilonBudgetRepository
from models.repositories.events import EventRepository
from models.repositories.experiments import ExperimentRepository
from models.repositories.fairness import FairnessRepository
from models.repositories.federations import FederationRepository
from models.repositories.gate_policies import GatePolicyRepository
from models.repositories.idempotency import IdempotencyRepository
from models.repositories.ledger import LedgerRepository
from models.repositories.lifecycle.erasing import ErasingRepository
from models.repositories.lifecycle.erasures import ErasureRepository
from models.repositories.lifecycle.expired_files import ExpiredFileRepository, OldFileRepository
from models.repositories.lifecycle.gone_contents import GoneContentRepository
from models.repositories.operations.service_state import ServiceStateRepository
from models.repositories.outbox import OutboxRepository
from models.repositories.people.setting_changes import SettingChangeRepository
from models.repositories.people.sign_offs import SignOffRepository
from models.repositories.projects import ProjectRepository
from models.repositories.quotas.project_usage import ProjectUsageRepository
from models.repositories.recovery import fail_unit
from models.repositories.reports import ReportListRepository, ReportRepository
from models.repositories.rounds import RoundRepository
from models.repositories.signing import LedgerCheckpointRepository, SigningKeyRepository
from models.repositories.subject_sets import SubjectSetRepository
from models.repositories.sweeper_leases import SweeperLeaseRepository
from models.repositories.sweeps.sweeps import SweepRepository
from models.repositories.sweeps.unit_stacks import UnitStackRepository
from models.repositories.units import UnitRepository
from models.repositories.uploads.artifacts import ArtifactRepository
from models.repositories.uploads.pending_uploads import (
    ExpiredUploadRepository,
    PendingUploadRepository,
)
from models.repositories.web_sessions import WebSessionRepository
from models.repositories.webhooks.announcements import AnnouncementRepository
from models.repositories.webhooks.low_budgets import LowBudgetRepository
from models.repositories.webhooks.webhook_deliveries import (
    WebhookDeliveryRepository,
    WebhookQueueRepository,
)
from models.repositories.webhooks.webhook_endpoints import WebhookEndpointRepository

__all__ = [
    "AnnouncementRepository",
    "ApiKeyRepository",
    "ArtifactRepository",
    "AuditLogRepository",
    "AuditRepository",
    "BudgetGapRepository",
    "BudgetRepository",
    "CheckpointRepository",
    "DeclaredEntryRepository",
    "DeclaredLedgerRepository",
    "DeclaredPartRepository",
    "DisclosureRepository",
    "EpsilonBudgetRepository",
    "ErasingRepository",
    "ErasureRepository",
    "EventRepository",
    "ExperimentRepository",
    "ExpiredFileRepository",
    "ExpiredUploadRepository",
    "FairnessRepository",
    "FederationRepository",
    "GatePolicyRepository",
    "GoneContentRepository",
    "IdempotencyRepository",
    "LaterAttacksRepository",
    "LedgerCheckpointRepository",
    "LedgerRepository",
    "LowBudgetRepository",
    "NearCopyRepository",
    "OldFileRepository",
    "OutboxRepository",
    "PendingUploadRepository",
    "ProjectRepository",
    "ProjectUsageRepository",
    "ReportListRepository",
    "ReportRepository",
    "RoundRepository",
    "ServiceStateRepository",
    "SettingChangeRepository",
    "SignOffRepository",
    "SigningKeyRepository",
    "SubjectSetRepository",
    "SweepRepository",
    "SweeperLeaseRepository",
    "UnitRepository",
    "UnitStackRepository",
    "UnsignedAuditRepository",
    "WebSessionRepository",
    "WebhookDeliveryRepository",
    "WebhookEndpointRepository",
    "WebhookQueueRepository",
    "fail_unit",
    "gathered_writes",
]
