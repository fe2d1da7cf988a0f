"""Attacks on an experiment as callers see them."""

from pydantic import BaseModel

from fedaudit.reports.document.attacks.reported_attack import ReportedAttack


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
