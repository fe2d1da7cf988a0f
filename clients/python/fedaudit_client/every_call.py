"""The calls of every domain, for both clients: one that is added here is added to both."""

from fedaudit_client.attacks import AttackCalls
from fedaudit_client.audit_log import AuditLogCalls
from fedaudit_client.audits import AuditCalls
from fedaudit_client.experiment_tables import TableCalls
from fedaudit_client.experiments import ExperimentCalls
from fedaudit_client.federations import FederationCalls
from fedaudit_client.gates import GateCalls
from fedaudit_client.keys import KeyCalls
from fedaudit_client.ledgers import LedgerCalls
from fedaudit_client.reports import ReportCalls
from fedaudit_client.sign_offs import SignOffCalls
from fedaudit_client.sweeps import SweepCalls
from fedaudit_client.trained_models import ModelCalls
from fedaudit_client.webhooks import WebhookCalls


class EveryCall(
    ExperimentCalls,
    SweepCalls,
    TableCalls,
    ReportCalls,
    GateCalls,
    FederationCalls,
    KeyCalls,
    LedgerCalls,
    ModelCalls,
    SignOffCalls,
    WebhookCalls,
    AttackCalls,
    AuditCalls,
    AuditLogCalls,
):
    """Whatever can be asked of the service."""
