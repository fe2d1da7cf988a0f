"""Reports in lists, their gates and keys, and audits of predictions."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from api.http.problems import ProblemFault
from api.schemas.base import Body, FigureFilters, Page, Parameters, Reasons, UtcTime, with_bounds
from api.schemas.experiment_tables import CheckedReport
from api.schemas.experiments import Status
from api.schemas.people import ActorBody, NewestSignOff, SignOffFilter
from fedaudit.privacy.accounting.privacy_events import GuaranteeKind, Observer
from fedaudit.privacy.guarantees.guarantee import GuaranteeLabel
from fedaudit.reports.comparison.fronts import ComparedGuarantee
from fedaudit.reports.figures import FIGURES, LargestGap
from fedaudit.reports.report import GateSection
from fedaudit.reports.sections.part import Answer, GateOutcome
from fedaudit.spec.audits import AuditSpec
from fedaudit.spec.base import Text, stands_for
from fedaudit.spec.errors import refuse_at
from fedaudit.spec.gates import FairnessFigure, Gate
from models.repositories.reports import SORT_KEYS
from models.values import AuditStatus


class ListedExperiment(BaseModel):
    """The experiment that a report is about."""

    id: str
    name: str
    status: Status
    created_at: datetime
    finished_at: datetime | None
    created_by: ActorBody | None
    """Who submitted it; null where that was before it was recorded."""
    tags: list[str]
    federation_id: str


class ListedFigure(BaseModel):
    """One figure of a report. A value of null has its reason."""

    figure: str
    attribute: str | None
    observer: str | None
    """Before whom an epsilon holds; null for the largest of all observers."""
    delta: float | None
    adjacency: str | None
    value: float | None
    reason: str | None


class ReportBody(BaseModel):
    """A report in a list; `href` leads to the whole of it."""

    experiment: ListedExperiment
    answer: Answer | None = None
    """Whether the model may be released; null where the report is one of an earlier version."""
    verdict: str | None
    degenerate: bool | None = None
    """Whether the model decides nothing, so that its gaps and its accuracy mean nothing; null where
    it is not shown to be better than a constant prediction, or the report is an earlier one."""
    guarantee: ComparedGuarantee | None
    gate_outcome: str | None
    sign_off: NewestSignOff | None
    """Null where no one has signed the report off."""
    largest_gap: LargestGap | None
    figures: list[ListedFigure]
    report_hash: str
    href: str
    reasons: Reasons


class ReportPage(Page[ReportBody]):
    """Some reports."""


@with_bounds
class ReportParameters(FigureFilters):
    """Filters that must all hold; a report whose figure is null is outside every bound.

    A bound on a fairness figure is one on `attribute`, or on every attribute of a report where none
    is named; a bound on an epsilon is on what `observer` sees, or on the largest of all.
    """

    FIGURES, SORT_KEYS = FIGURES, (*SORT_KEYS, *FIGURES)

    search: Annotated[
        Text | None, Field(description="A part of the experiment's name, whatever the case.")
    ] = None
    person: Annotated[
        Text | None, Field(description="Who submitted it, by the name that the key had then.")
    ] = None
    guarantee: GuaranteeKind | None = None
    label: Annotated[
        GuaranteeLabel | None,
        Field(description="As `guarantee`, but with how far a proof reaches."),
    ] = None
    in_force: Annotated[
        bool | None,
        Field(description="Only reports whose guarantee is in force: its noise was secret."),
    ] = None
    unit: Literal["client", "record"] | None = None
    sign_off: Annotated[
        SignOffFilter | None,
        Field(description="The decision of the newest sign-off; `none`: there is none."),
    ] = None
    gate_outcome: GateOutcome | None = None
    attribute: Annotated[
        Text | None, Field(description="Only reports that measure this sensitive attribute.")
    ] = None
    observer: Annotated[
        Observer | None, Field(description="Only reports that count an epsilon against it.")
    ] = None
    finished_after: UtcTime | None = None
    finished_before: UtcTime | None = None


class ComparisonParameters(Parameters):
    """Which reports are put side by side, and what their fronts weigh."""

    experiment_id: Annotated[
        list[Text],
        Field(
            min_length=2,
            max_length=50,
            description="Repeat it for each experiment.",
            json_schema_extra={"uniqueItems": True},
        ),
    ]
    fairness: Annotated[
        FairnessFigure | None,
        Field(
            description="The fairness figure of the Pareto fronts; unless given, the first of "
            "equalized odds, demographic parity and the loss gap that has a value."
        ),
    ] = None
    utility: Annotated[
        Literal["validation_loss", "accuracy"] | None,
        Field(
            description="The utility figure of the Pareto fronts; unless given, the accuracy where "
            "all have one, else the validation loss."
        ),
    ] = None

    @field_validator("experiment_id")
    @classmethod
    def _distinct(cls, ids: list[str]) -> list[str]:
        if len(set(ids)) != len(ids):
            raise ValueError("names an experiment twice; name each once")
        return ids


class GatesRequest(Body):
    """Which experiment or declared ledger, and which gates."""

    experiment_id: Text | None = None
    ledger_id: Text | None = None
    """A ledger of a training elsewhere; it has no gates."""
    gates: Annotated[list[Gate], Field(max_length=100)] | None = None
    """Null takes those of the experiment's spec."""

    @model_validator(mode="after")
    def _one_subject(self) -> Self:
        if self.experiment_id is None and self.ledger_id is None:
            raise refuse_at("/experiment_id", "is required, or a ledger_id")
        if self.experiment_id is not None and self.ledger_id is not None:
            raise refuse_at("/ledger_id", "an `experiment_id` is given too; keep one of the two")
        if self.gates == []:
            raise refuse_at("/gates", "names none; leave it out to take those of the spec")
        return self


class GatesEvaluation(BaseModel):
    """The worst outcome, and that of each gate."""

    experiment_id: str | None
    ledger_id: str | None = None
    outcome: GateOutcome | None
    reason: str | None
    """Why `outcome` is null."""
    gates: list[GateSection]


class AuditBody(BaseModel):
    """One audit."""

    id: str
    name: str
    status: AuditStatus
    status_reason: str | None
    """Why an audit failed: `invalid-data`, `figures-disagree`, `worker-error` or `worker-lost`."""
    errors: list[ProblemFault]
    """What is to be mended, every fault at once."""
    spec: Annotated[dict[str, Any], stands_for(AuditSpec)]
    """What was asked for, with every default explicit."""
    spec_hash: str
    data_fingerprint: str
    gate_outcome: str | None
    """Null before there is a report, and without gates."""
    created_at: datetime
    created_by: ActorBody | None
    started_at: datetime | None
    finished_at: datetime | None


class AuditPage(Page[AuditBody]):
    """Audits, newest first."""


class AuditVerification(CheckedReport):
    """What was found when an audit's report was checked: its signature, and what follows from the
    figures that it publishes."""

    audit_id: str
    not_verified: list[str]
    """What no check can say, since the rows are not kept with the report."""


class SigningKeyBody(BaseModel):
    """One key."""

    key_id: str
    """SHA-256 of the raw public key, in hexadecimal."""
    algorithm: str
    public_key: str
    """PEM."""
    created_at: datetime
    """When the service first used it."""
    retired_at: datetime | None
    """When another key took its place; what it signed before stays signed."""
    compromised_at: datetime | None
    """Time since which others may have signed with it: what it signed proves nothing, since anyone
    who has it can state any time. Null for a key that was not reported as compromised."""
    compromised_note: str | None


class SigningKeyList(Page[SigningKeyBody]):
    """The service's keys, oldest first, on one page."""
