"""Look up what a path names, within the caller's project."""

from sqlalchemy.orm import Session

from api.http.problems import ProblemError, not_found
from api.shared.security import Caller
from models.identifiers import is_id
from models.repositories import (
    ExperimentRepository,
    FederationRepository,
    GatePolicyRepository,
    LaterAttacksRepository,
    ReportRepository,
    WebhookEndpointRepository,
)
from models.tables.accounts import GatePolicy
from models.tables.experiments import Experiment
from models.tables.federations import Federation
from models.tables.operations import WebhookEndpoint
from models.tables.reports import LaterAttacks, Report


def find_experiment(session: Session, caller: Caller, experiment_id: str) -> Experiment:
    """Raises ProblemError where the caller's project has no such experiment."""
    found = None
    if is_id(experiment_id):
        found = ExperimentRepository(session, caller.project_id).get(experiment_id)
    if found is None:
        raise not_found("experiment")
    return found


def find_federation(session: Session, caller: Caller, federation_id: str) -> Federation:
    """Raises ProblemError where the caller's project has no such federation."""
    found = None
    if is_id(federation_id):
        found = FederationRepository(session, caller.project_id).get(federation_id)
    if found is None:
        raise not_found("federation")
    return found


def find_report(session: Session, caller: Caller, experiment_id: str) -> Report:
    """Raises ProblemError where there is no such experiment, or it has no report."""
    experiment = find_experiment(session, caller, experiment_id)
    report = ReportRepository(session, caller.project_id).get(experiment_id)
    if report is None:
        raise ProblemError(
            404, "not-found", f"the experiment has no report: it is {experiment.status}"
        )
    return report


def find_later_attacks(
    session: Session, caller: Caller, experiment_id: str, later_id: str
) -> LaterAttacks:
    """Raises ProblemError where the experiment of the caller's project has no such attacks."""
    experiment = find_experiment(session, caller, experiment_id)
    found = None
    if is_id(later_id):
        found = LaterAttacksRepository(session, caller.project_id).get(later_id)
    if found is None or found.experiment_id != experiment.id:
        raise not_found("request for attacks")
    return found


def find_gate_policy(session: Session, caller: Caller, name: str) -> GatePolicy:
    """Raises ProblemError where the caller's project has no such policy."""
    found = GatePolicyRepository(session, caller.project_id).get(name)
    if found is None:
        raise not_found("gate policy")
    return found


def find_webhook(
    session: Session, caller: Caller, webhook_id: str, *, lock: bool = False
) -> WebhookEndpoint:
    """Raises ProblemError where the caller's project has no such webhook.

    `lock`: nobody else changes it until the transaction ends.
    """
    found = None
    if is_id(webhook_id):
        endpoints = WebhookEndpointRepository(session, caller.project_id)
        found = endpoints.lock(webhook_id) if lock else endpoints.get(webhook_id)
    if found is None:
        raise not_found("webhook")
    return found
