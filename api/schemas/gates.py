"""Conditions on a finished experiment, evaluated on demand."""

from typing import Annotated

from pydantic import BaseModel, Field

from api.schemas.base import Body
from fedaudit.reports.document import GateSection, Outcome
from fedaudit.spec.base import Text
from fedaudit.spec.gates import Gate


class GatesRequest(Body):
    """Which experiment, and which gates."""

    experiment_id: Text
    gates: Annotated[list[Gate], Field(max_length=100)] | None = None
    """Null takes those of the experiment's spec."""


class GatesEvaluation(BaseModel):
    """The worst outcome, and that of each gate."""

    experiment_id: str
    outcome: Outcome | None
    reason: str | None
    """Why `outcome` is null."""
    gates: list[GateSection]
