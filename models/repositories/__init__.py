"""All SQL: statements within the caller's transaction, grouped by what they are about.

Rows are locked in one order, so that no two transactions wait for each other: units, declared
ledgers, sweeps, federations, contents, artifacts, experiments, webhook endpoints, ends of audit
logs, projects; of one kind by their keys, federations and contents by the fingerprint; logs of runs
last. A reservation may be locked anywhere: who does so has its unit or declared ledger.
"""

from models.repositories.accounts import (
    ApiKeyRepository,
    IdempotencyRepository,
    ProjectRepository,
    ProjectUsageRepository,
    WebSessionRepository,
)
from models.repositories.audit_log import AuditLogRepository, UnsignedAuditRepository
from models.repositories.audits import AuditRepository, LaterAttacksRepository
from models.repositories.base import gathered_writes
from models.repositories.budgets.budgets import Budgets
from models.repositories.declared_ledgers import DeclaredLedgerRepository, DeclaredPartRepository
from models.repositories.disclosures import DisclosureRepository, NearCopyRepository
from models.repositories.erasures import ErasingRepository, ErasureRepository
from models.repositories.experiment_parts import (
    CheckpointRepository,
    EventRepository,
    FairnessRepository,
    RoundRepository,
    SubjectSetRepository,
)
from models.repositories.experiments import ExperimentRepository
from models.repositories.federations import FederationRepository
from models.repositories.files import (
    ArtifactRepository,
    ExpiredFileRepository,
    OldFileRepository,
    PendingUploadRepository,
    UploadRepository,
)
from models.repositories.ledger import LedgerRepository
from models.repositories.reports import ReportListRepository, ReportRepository
from models.repositories.service import ServiceStateRepository, SweeperLeaseRepository, fail_task
from models.repositories.signing import (
    LedgerCheckpointRepository,
    RunLogRepository,
    SigningKeyRepository,
    SignOffRepository,
)
from models.repositories.sweeps import SweepRepository
from models.repositories.units import UnitRepository, UnitStackRepository
from models.repositories.webhooks import (
    AnnouncementRepository,
    WebhookDeliveryRepository,
    WebhookEndpointRepository,
    WebhookQueueRepository,
)
