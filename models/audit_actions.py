"""What the audit log tells of."""

from typing import Literal, get_args

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
    "gate-policy.set",
    "gate-policy.deleted",
    "report.signed-off",
    "webhook.created",
    "webhook.changed",
    "webhook.secret-rotated",
    "webhook.deleted",
    "webhook.secrets-encrypted",
    "signing-key.compromised",
    "ledger.opened",
    "ledger.exported",
    "audit.queued",
    "sweep.submitted",
    "sweep.cancelled",
    "sweep.retried",
]
AuditOrigin = Literal["api", "command-line", "sweeper"]
"""By which way it was done: with a key over HTTP or the pages, on the database itself, or by the
service of its own accord."""

AUDIT_ACTIONS: tuple[str, ...] = get_args(AuditAction)
