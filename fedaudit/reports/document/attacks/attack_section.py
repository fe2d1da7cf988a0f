"""What the section of every attack has in common."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from fedaudit.privacy.lower_bounds.e_values import EvidenceBasis


class Alarm(BaseModel):
    """Evidence against a claim of the report: the mechanism or its accounting is wrong."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    claim: str
    """What was claimed, with unit, observer and figure."""
    evidence: str
    """What was measured, with its significance."""


class AttackSection(BaseModel):
    """One attack in a report: what an officer reads first, then the figures of its kind."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    status: Literal["done", "not-done"]
    reason: str | None
    """Why it could not be done; None where it was."""
    statement: str
    """What was tried, what came of it and what that does not show, in plain words."""
    capabilities: list[str]
    """What the attacker knows and may do, a sentence each."""
    alarm: Alarm | None = None
    alarm_level: Annotated[float, Field(ge=0, le=1)] | None = None
    """The chance of an alarm were the claim true, at most; None where no claim was tested. With an
    `e_value` that of any alarm of the run, however often it is attacked; the levels of earlier
    reports, which have none, add up."""
    e_value: Annotated[float, Field(ge=0)] | None = None
    """Evidence against the claim: at most 1 on average where it holds."""
    e_basis: EvidenceBasis | None = None
    evidence: Annotated[float, Field(ge=0)] | None = None
    """Of all attacks on the run up to this one (`run_evidence`)."""
