"""Names that callers see: scopes, actions of the audit log, webhook events."""

from collections.abc import Collection
from typing import Literal, get_args

ProjectScope = Literal[
    "experiments:read",
    "experiments:write",
    "reports:read",
    "reports:sign",
    "ledger:read",
    "federations:read",
    "federations:write",
    "admin",
]
"""What an administrator may allow within a project."""
Scope = Literal[ProjectScope, "metrics:read"]
"""The figures of the whole service are for those who run it: only who reaches its database makes
a key that reads them (`fedaudit keys create`)."""
PROJECT_SCOPES: tuple[str, ...] = get_args(ProjectScope)
SCOPES: tuple[str, ...] = get_args(Scope)


def useless_scopes(scopes: Collection[str]) -> str | None:
    """What is missing where a scope alone opens nothing: signing needs the report that is signed.
    None where each opens something."""
    if "reports:sign" in scopes and "reports:read" not in scopes:
        return "reports:sign alone opens nothing; add reports:read, to see what is signed"
    return None


OPEN = ("queued", "running", "cancelling")
"""States of experiments, and of attacks on ended ones, that are still to end."""
ENDED = ("cancelled", "succeeded", "failed")


AuditAction = Literal[
    "key.created",
    "key.rotated",
    "key.revoked",
    "experiment.submitted",
    "experiment.retried",
    "experiment.cancelled",
    "experiment.attacked",
    "attacks.cancelled",
    "federation.registered",
    "federation.removed",
    "federation.erased",
    "federation.erased-elsewhere",
    "erasure.completed",
    "files.expired",
    "budget.set",
    "disclosure.set",
    "simulation.set",
    # Nothing enters these three any more; logs of earlier versions have them.
    "gate-policy.set",
    "gate-policy.deleted",
    "webhook.secrets-encrypted",
    "report.signed-off",
    "webhook.created",
    "webhook.changed",
    "webhook.secret-rotated",
    "webhook.deleted",
    "signing-key.compromised",
    "ledger.opened",
    "ledger.exported",
    "audit.queued",
    "sweep.submitted",
    "sweep.cancelled",
    "sweep.retried",
]
AuditOrigin = Literal["api", "command-line", "sweeper"]
"""How it was done: with a key over HTTP or the pages, on the database, or by the service itself."""


WebhookEvent = Literal[
    "experiment.finished",
    "gate.failed",
    "alarm.raised",
    "budget.low",
    "ledger.round_refused",
    "erasure.completed",
]
"""What can be subscribed to."""
WEBHOOK_EVENTS: tuple[WebhookEvent, ...] = get_args(WebhookEvent)

TEST_EVENT: Literal["webhook.test"] = "webhook.test"
"""Sent on request, whatever the subscriptions."""

DeliveryState = Literal["waiting", "sending", "delivered", "failed"]
"""`failed`: no further attempt is made unless requested."""
