"""The tables, one module a concept; importing this package gives the whole metadata."""

from models.tables.api_keys import ApiKey
from models.tables.base import Base
from models.tables.checkpoints import Checkpoint
from models.tables.disclosures import DisclosedSet, DisclosureMemory
from models.tables.events import Event
from models.tables.experiments import Experiment, ExperimentTag
from models.tables.fairness import Fairness
from models.tables.federations import Content, Federation, NearCopy, RowSketch
from models.tables.gate_policies import GatePolicy
from models.tables.idempotency import IdempotencyKey
from models.tables.ledger import Ledger, LedgerTotals, ReleaseIntent
from models.tables.outbox import OutboxMessage
from models.tables.projects import Project
from models.tables.report_figures import ReportFigure
from models.tables.report_summaries import ReportSummary
from models.tables.reports import Report
from models.tables.reservations import FederationBudget, Reservation
from models.tables.rounds import Round
from models.tables.signing import LedgerCheckpoint, SigningKey
from models.tables.subject_sets import SubjectSet
from models.tables.sweeper_leases import SweeperLease
from models.tables.units import Unit
from models.tables.web_sessions import WebSession

__all__ = [
    "ApiKey",
    "Base",
    "Checkpoint",
    "Content",
    "DisclosedSet",
    "DisclosureMemory",
    "Event",
    "Experiment",
    "ExperimentTag",
    "Fairness",
    "Federation",
    "FederationBudget",
    "GatePolicy",
    "IdempotencyKey",
    "Ledger",
    "LedgerCheckpoint",
    "LedgerTotals",
    "NearCopy",
    "OutboxMessage",
    "Project",
    "ReleaseIntent",
    "Report",
    "ReportFigure",
    "ReportSummary",
    "Reservation",
    "Round",
    "RowSketch",
    "SigningKey",
    "SubjectSet",
    "SweeperLease",
    "Unit",
    "WebSession",
]
