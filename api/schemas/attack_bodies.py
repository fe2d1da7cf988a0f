"""Attacks on an experiment as callers see them."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

from api.schemas.actors import ActorBody
from api.schemas.base import Body
from fedaudit.reports.document.attacks.reported_attack import ReportedAttack
from fedaudit.reports.later.later_statement import Basis
from fedaudit.spec.attacks.attack_spec import AttackSpec
from models.values import LaterAttacksStatus


class AttacksRequest(Body):
    """Attacks on an experiment that has succeeded."""

    attacks: Annotated[list[AttackSpec], Field(min_length=1, max_length=20)]
    """As in a spec."""


class AttackFileBody(BaseModel):
    """A confidential file of an attack."""

    name: str
    size_bytes: int
    href: str


class AttackBody(BaseModel):
    """One attack: its section of the report, and its files."""

    position: int
    """In the spec, from 0."""
    section: ReportedAttack
    files: list[AttackFileBody]
    files_reason: str | None
    """Why there are none."""


class AttackList(BaseModel):
    """The attacks of an experiment's report, in their order."""

    items: list[AttackBody]


class LaterAttacksBody(BaseModel):
    """Attacks that were asked for after the report was signed."""

    id: str
    experiment_id: str
    number: int
    """From 1, within the experiment."""
    status: LaterAttacksStatus
    """`succeeded`: each was tried, and its section says what became of it; `failed`: none was."""
    status_reason: str | None
    """`invalid-data`, `not-repeated`, `no-model`, `ledger-altered`, `worker-error`, `worker-lost`
    or `cancelled-by-caller`."""
    status_detail: str | None
    asked: list[dict[str, Any]]
    """With every default explicit."""
    report_hash: str
    """Of the report that they are about."""
    ledger_hash: str
    basis: Basis | None
    """What was attacked: the run, repeated to the same ledger; its stored hypotheses; or runs
    beside it alone, by today's code. Null until the end, and where nothing was tried."""
    items: list[AttackBody]
    """What each found; empty until the end, and where nothing was tried."""
    alarms: int | None
    created_at: datetime
    created_by: ActorBody
    started_at: datetime | None
    finished_at: datetime | None
    cancelled_by: ActorBody | None
    envelope: dict[str, Any] | None
    """What was found, signed (DSSE), naming the statement before it, or the report."""


class LaterAttacksList(BaseModel):
    """Every request for attacks on the experiment, oldest first, whatever became of it."""

    items: list[LaterAttacksBody]
