"""Conditions on a finished experiment, evaluated on demand, and kept under names."""

from datetime import datetime
from typing import Annotated, Self

from pydantic import BaseModel, Field, model_validator

from api.schemas.actors import ActorBody
from api.schemas.base import Body
from fedaudit.reports.document.document import GateSection, Outcome
from fedaudit.spec.base import Text
from fedaudit.spec.errors import refuse_at
from fedaudit.spec.gates import Gate
from fedaudit.spec.policies import Description, PolicyGates, PolicyName
from models.tables.gate_policies import GatePolicy


class GatesRequest(Body):
    """Which experiment or declared ledger, and which gates."""

    experiment_id: Text | None = None
    ledger_id: Text | None = None
    """A ledger of a training elsewhere; it has no gates of its own."""
    gates: Annotated[list[Gate], Field(max_length=100)] | None = None
    """Null, where no policy is named either, takes those of the experiment's spec."""
    policy: PolicyName | None = None
    """The name of a stored policy, whose gates are taken as they now are."""

    @model_validator(mode="after")
    def _gates_or_policy(self) -> Self:
        if self.gates is not None and self.policy is not None:
            raise refuse_at("/policy", "`gates` are given too; keep one of the two")
        return self

    @model_validator(mode="after")
    def _one_subject(self) -> Self:
        if self.experiment_id is None and self.ledger_id is None:
            raise refuse_at("/experiment_id", "is required, or a ledger_id")
        if self.experiment_id is not None and self.ledger_id is not None:
            raise refuse_at("/ledger_id", "an `experiment_id` is given too; keep one of the two")
        return self


class GatesEvaluation(BaseModel):
    """The worst outcome, and that of each gate."""

    experiment_id: str | None
    ledger_id: str | None = None
    policy: str | None
    """Null where the gates were given, or are those of the spec."""
    outcome: Outcome | None
    reason: str | None
    """Why `outcome` is null."""
    gates: list[GateSection]


class PolicyRequest(Body):
    """A policy to be stored."""

    name: PolicyName | None = None
    """That of the address, where it is given."""
    description: Description = ""
    gates: PolicyGates


class PolicyBody(BaseModel):
    """A stored policy."""

    name: str
    description: str
    gates: list[Gate]
    created_at: datetime
    updated_at: datetime
    created_by: ActorBody | None
    """Who stored it first; null where that was before it was recorded."""
    updated_by: ActorBody | None
    """Whose gates these are; null as with `created_by`."""

    @classmethod
    def of(cls, row: GatePolicy) -> Self:
        """The body of a stored policy."""
        return cls.model_validate({name: getattr(row, name) for name in cls.model_fields})


class PolicyPage(BaseModel):
    """Some policies, by name."""

    items: list[PolicyBody]
    next_cursor: str | None
