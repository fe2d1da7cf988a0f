"""The tables, one module a concept; importing this package gives the whole metadata."""

from models.tables.api_keys import ApiKey
from models.tables.attacks.later_attacks import LaterAttacks
from models.tables.audit_log.audit_entries import AuditEntry, AuditHead
from models.tables.audits.audits import PredictionAudit
from models.tables.base import Base
from models.tables.checkpoints import Checkpoint
from models.tables.declared_ledgers import (
    DeclaredCheckpoint,
    DeclaredEntry,
    DeclaredLedger,
    DeclaredReport,
    DeclaredReservation,
    DeclaredRoundRow,
    DeclaredTally,
)
from models.tables.disclosures import DisclosedSet, DisclosureAnchor, DisclosureMemory
from models.tables.events import Event
from models.tables.experiments import Experiment, ExperimentTag
from models.tables.fairness import Fairness
from models.tables.federations import Content, Federation, NearCopy, RowSketch
from models.tables.gate_policies import GatePolicy
from models.tables.idempotency import IdempotencyKey
from models.tables.ledger import ClientRounds, Ledger, LedgerTotals, ReleaseIntent
from models.tables.lifecycle.erasures import ErasedLedger, Erasure
from models.tables.lifecycle.expired_files import ExpiredFile
from models.tables.outbox import OutboxMessage
from models.tables.projects import Project
from models.tables.quotas.request_minutes import RequestMinute
from models.tables.report_figures import ReportFigure
from models.tables.report_summaries import ReportSummary
from models.tables.reports import Report
from models.tables.reservations import FederationBudget, Reservation
from models.tables.rounds import Round
from models.tables.setting_changes import SettingChange
from models.tables.sign_offs import SignOff
from models.tables.signing import LedgerCheckpoint, SigningKey
from models.tables.subject_sets import SubjectSet
from models.tables.sweeper_leases import SweeperLease
from models.tables.sweeps.sweeps import Sweep, SweepCell
from models.tables.units import Unit
from models.tables.uploads.artifacts import Artifact
from models.tables.uploads.pending_uploads import PendingUpload
from models.tables.web_sessions import WebSession
from models.tables.webhooks.webhook_deliveries import WebhookDelivery
from models.tables.webhooks.webhook_endpoints import WebhookEndpoint

__all__ = [
    "ApiKey",
    "Artifact",
    "AuditEntry",
    "AuditHead",
    "Base",
    "Checkpoint",
    "ClientRounds",
    "Content",
    "DeclaredCheckpoint",
    "DeclaredEntry",
    "DeclaredLedger",
    "DeclaredReport",
    "DeclaredReservation",
    "DeclaredRoundRow",
    "DeclaredTally",
    "DisclosedSet",
    "DisclosureAnchor",
    "DisclosureMemory",
    "ErasedLedger",
    "Erasure",
    "Event",
    "Experiment",
    "ExperimentTag",
    "ExpiredFile",
    "Fairness",
    "Federation",
    "FederationBudget",
    "GatePolicy",
    "IdempotencyKey",
    "LaterAttacks",
    "Ledger",
    "LedgerCheckpoint",
    "LedgerTotals",
    "NearCopy",
    "OutboxMessage",
    "PendingUpload",
    "PredictionAudit",
    "Project",
    "ReleaseIntent",
    "Report",
    "ReportFigure",
    "ReportSummary",
    "RequestMinute",
    "Reservation",
    "Round",
    "RowSketch",
    "SettingChange",
    "SignOff",
    "SigningKey",
    "SubjectSet",
    "Sweep",
    "SweepCell",
    "SweeperLease",
    "Unit",
    "WebSession",
    "WebhookDelivery",
    "WebhookEndpoint",
]
