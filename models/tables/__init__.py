"""The tables, one module a concept; importing this package gives the whole metadata."""

from models.tables.accounts import (
    ApiKey,
    AuditEntry,
    AuditHead,
    GatePolicy,
    IdempotencyKey,
    Project,
    RequestMinute,
    SettingChange,
    WebSession,
)
from models.tables.base import Base
from models.tables.declared_ledgers import (
    DeclaredCheckpoint,
    DeclaredEntry,
    DeclaredLedger,
    DeclaredReport,
    DeclaredReservation,
    DeclaredRoundRow,
    DeclaredTally,
)
from models.tables.experiments import (
    Checkpoint,
    Event,
    Experiment,
    ExperimentTag,
    SubjectSet,
    Sweep,
    SweepCell,
    Unit,
)
from models.tables.federations import (
    Artifact,
    Content,
    ErasedLedger,
    Erasure,
    ExpiredFile,
    Federation,
    NearCopy,
    PendingUpload,
    RowSketch,
)
from models.tables.ledger import (
    ClientRounds,
    Fairness,
    Ledger,
    LedgerCheckpoint,
    LedgerTotals,
    ReleaseIntent,
    Round,
    SigningKey,
)
from models.tables.operations import OutboxMessage, SweeperLease, WebhookDelivery, WebhookEndpoint
from models.tables.reports import (
    DisclosedSet,
    DisclosureAnchor,
    DisclosureMemory,
    LaterAttacks,
    PredictionAudit,
    Report,
    ReportFigure,
    ReportSummary,
    SignOff,
)
from models.tables.reservations import FederationBudget, Reservation
