"""What goes into repositories and comes out of them, where that is not a plain row: ids, times,
names that callers see (scopes, actions of the audit log, webhook events), and values of parts."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, Literal, TypeVar, get_args

import uuid_utils

from fedaudit.stored import CostFigure, IndexedFigure, LeakageTerms

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def new_id() -> str:
    """A fresh UUIDv7 in its 36-character form, so that sorting by id is sorting by the time of
    creation; ids made by one process increase."""
    return str(uuid_utils.uuid7())


def is_id(text: str) -> bool:
    """Whether a text has the form of an id; only such a text is looked up."""
    return _ID.fullmatch(text) is not None


def utc_now() -> datetime:
    """This process's clock, for times that nothing is decided by."""
    return datetime.now(UTC)


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


Item = TypeVar("Item")
Cursor = tuple[Any, ...]
"""The sort values of a page's last item: what the next page begins after."""
Bound = tuple[str, Literal["lte", "gte"], float]
"""A final figure's column, the side, and the bound itself, which is included."""

BudgetsAcross = Literal["service", "project"]
"""Whose spending a budget counts: every project's with the content, or, of data that were made up,
one project's."""
FederationStatus = Literal["profiling", "ready", "rejected", "deleted", "erased"]
"""`deleted`: without its file. `erased`: without any data of its people."""
FileKind = Literal["artifact", "attack-files", "model", "record-table"]
"""Parameters that were brought, what attacks found, trained hypotheses, and what each record spent.
"""
GoneReason = Literal["expired", "erased"]
Simulation = Literal["allowed", "forbidden"]
"""Whether a federation admits runs whose noise is drawn from the experiment's seed."""
UnitKind = Literal["run", "profile", "audit", "attacks"]
"""An experiment, or a stack of experiments of one shape; a federation to be read and described; an
audit of predictions; attacks on an experiment that has ended."""
AuditStatus = Literal["queued", "running", "succeeded", "failed"]
LaterAttacksStatus = Literal["queued", "running", "cancelling", "cancelled", "succeeded", "failed"]
"""`succeeded`: each was tried; what became of it is in its section. `failed`: none was tried."""


@dataclass(frozen=True)
class WaitingUnit:
    """A unit that could run now."""

    unit_id: str
    project_id: str
    kind: UnitKind
    running: int
    """How many units of its project run."""


@dataclass(frozen=True)
class Page(Generic[Item]):
    """Some items of a list; `next_cursor` is None on the last page."""

    items: list[Item]
    next_cursor: Cursor | None


@dataclass(frozen=True, kw_only=True)
class NewFile:
    """A data file that is registered; `storage_key` is None for one below the sources folder."""

    fingerprint: str
    registration: Mapping[str, Any]
    file_name: str
    size_bytes: int
    storage_key: str | None

    @property
    def named(self) -> dict[str, str]:
        """What the registration calls it."""
        source = self.registration["federation"]["source"]
        return {"name": self.registration["name"], "source": source}


Gap = Literal[
    "unbounded",
    "other-figure",
    "other-terms",
    "other-adjacency",
    "other-observer",
    "other-unit",
    "other-clients",
    "unproven",
    "unowned",
    "simulated",
    "profile",
]


@dataclass(frozen=True)
class Uncounted:
    """Runs on a federation's data that one of its budgets cannot count, and why."""

    mechanism: str
    runs: int
    why: Gap


@dataclass(frozen=True)
class Budget:
    """One budget of a federation; `total` is None without a bound."""

    book: str
    figure: CostFigure
    delta: float | None
    adjacency: str | None
    observer: str | None
    total: float | None
    reserved: float
    spent: float
    unit: str | None = None
    """Whom an epsilon is about, `client` or `record`; None for any other figure."""
    uncounted: tuple[Uncounted, ...] = ()
    """What ran, or is to run, in the same book and is not in these figures."""
    terms: LeakageTerms | None = None
    """Terms of leakage; None for a total that was set before radius and clip were recorded."""
    unit_key: str | None = None
    """How the counted clients are distinguished; None if nothing was counted or this was not
    recorded."""
    for_clients: str = ""
    """The key of the clients that it is for; '' where it names none, and counts whose cost most."""
    own_total: float | None = None
    """What this project has set."""
    owner_total: float | None = None
    """What the owner of the content has set, if there is one."""
    across: BudgetsAcross = "service"
    """Whose spending is counted."""
    is_owner: bool = True
    """Whether no other project's totals hold for this one."""
    others_reserved: float = 0.0
    """Other projects' part of `reserved`; an epsilon is that of those projects alone."""
    others_spent: float = 0.0
    """Other projects' part of `spent`, as with `others_reserved`."""
    declared: float = 0.0
    """The part of `spent` that trainers elsewhere declared, unobserved; for an epsilon, theirs
    alone."""

    @property
    def remaining(self) -> float | None:
        """What is left to reserve, never below zero; None without a bound."""
        return None if self.total is None else max(0.0, self.total - self.reserved - self.spent)


@dataclass(frozen=True)
class StoredSet:
    """A set of rows as it is stored."""

    fingerprint: str
    numbering: str
    digest: str
    favourable_digest: str
    bits: bytes
    favourable_bits: bytes


@dataclass(frozen=True, kw_only=True)
class ReportIndex:
    """What a stored report is found by, and what a list shows of it."""

    guarantee_kind: str
    in_force: bool
    unit: str
    summary: Mapping[str, Any]
    figures: Sequence[IndexedFigure]


@dataclass(frozen=True, kw_only=True)
class ListedReport:
    """A report in a list, without its document; `summary` is None where that cannot be read."""

    experiment_id: str
    name: str
    status: str
    federation_id: str
    gate_outcome: str | None
    created_at: datetime
    finished_at: datetime | None
    created_by: Mapping[str, Any] | None
    tags: Sequence[str]
    report_hash: str
    summary: Mapping[str, Any] | None
    sorted_by: float | None = None
    """The figure that the list is sorted by."""
