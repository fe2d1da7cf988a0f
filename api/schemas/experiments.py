"""Experiments and sweeps, attacks on them, and the parameters that they start from."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field

from api.schemas.base import Body, FigureFilters, Page, Parameters, Reasons, with_bounds
from api.schemas.people import ActorBody, SignedEnvelope
from fedaudit.privacy.planning.cost_projection import NO_EPSILON, NO_LEAKAGE
from fedaudit.reports.report import Basis
from fedaudit.reports.sections.attacks import ReportedAttack
from fedaudit.reports.sections.part import Answer
from fedaudit.spec.attacks import AttackSpec
from fedaudit.spec.base import stands_for
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.metrics import ROUND_METRICS
from fedaudit.spec.sweeps import SweepSpec
from fedaudit.sweeps.sweep_costs import SweepCosts, SweepFacts
from fedaudit.sweeps.sweep_table import SweepRow
from models.repositories.experiments import FIGURES, SORT_KEYS
from models.tables.experiments import Experiment
from models.values import ENDED, LaterAttacksStatus

Status = Literal["queued", "running", "cancelling", "cancelled", "succeeded", "failed"]


class Progress(BaseModel):
    """Rounds done, of the most that there can be."""

    round: int
    rounds: int


class ExperimentEvent(BaseModel):
    """One event of the stream, as lines of text of these names."""

    id: str
    """Counts from 1 within the experiment: send it as `Last-Event-ID` to go on behind it."""
    event: Literal["status.changed", "round.completed", "gate.evaluated", "alarm.raised"]
    data: Annotated[str, Field(json_schema_extra={"contentMediaType": "application/json"})]
    """An object in JSON. Beside `at`, the time: `status` and `status_reason`; a round's `round`,
    losses and costs; a gate as reports have it; or an attack's `position` and `kind`."""


class Figures(BaseModel):
    """The final figures by which experiments are found; the report explains them."""

    leakage_max: float | None
    leakage_median: float | None
    log_ratio_max: float | None
    epsilon_max: float | None
    delta: float | None
    validation_loss: float | None
    accuracy: float | None
    demographic_parity_difference: float | None
    equalized_odds_difference: float | None
    equal_opportunity_difference: float | None
    reasons: Reasons


class ExperimentBody(BaseModel):
    """One experiment."""

    id: str
    name: str
    status: Status
    status_reason: str | None
    status_detail: str | None
    federation_id: str
    spec: Annotated[dict[str, Any], stands_for(ExperimentSpec)]
    spec_hash: str
    tags: list[str]
    progress: Progress
    figures: Figures
    gate_outcome: str | None
    """Null before its end, and where its spec has no gates."""
    alarms: int | None
    """How many attacks found evidence against its guarantee; null where none was asked for, and
    before its end."""
    answer: Answer | None
    """Whether its model may be released, with reasons in a few words; null before its end and
    without a report."""
    retry_of: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    created_by: ActorBody | None
    """Who submitted it, or retried another one; null where that was before it was recorded."""
    cancel_requested_at: datetime | None
    cancelled_by: ActorBody | None
    """Who asked first for its end; null as with `created_by`, and where no one did."""

    @classmethod
    def of(cls, row: Experiment, *, status_detail: str | None, **more: Any) -> Self:
        """The body of a stored experiment; `status_detail` is what its reader may see of that."""
        same = {name: getattr(row, name) for name in _AS_STORED} | more
        same["status_detail"], same["figures"] = status_detail, _figures(row)
        same["tags"] = sorted(set(row.spec["tags"]))
        same["progress"] = {"round": row.rounds_done, "rounds": row.rounds_total}
        return cls.model_validate(same)


_AS_STORED = tuple(name for name in ExperimentBody.model_fields if hasattr(Experiment, name))


class SubmittedBody(ExperimentBody):
    """An experiment that was accepted."""

    warnings: list[str]
    """Such as a budget for release that does not count it."""


class ExperimentPage(Page[ExperimentBody]):
    """Some experiments."""


class ProjectedEpsilon(BaseModel):
    """What a run may cost against one observer."""

    observer: str
    delta: float
    adjacency: str
    value: float
    """The figure of the client, or record, that pays most."""
    expected: float = 0.0
    """The mean over clients, where that is less; left out otherwise."""
    unit: str = "client"
    """Unit of what fairness figures may reveal; left out otherwise."""


class ProjectionBody(BaseModel):
    """What an experiment would cost if every round ran."""

    leakage_worst_case: float | None
    leakage_expected: float | None
    log_ratio_worst_case: float | None
    """The theorem's own sum, between any two datasets of a client that choose alike: what a leakage
    says nothing about, because its radius is free."""
    epsilon: list[Annotated[dict[str, Any], stands_for(ProjectedEpsilon)]]
    budget_ends_in_round: int | None
    noise_multiplier: float | None
    """The spec's value, or one that is calibrated from public numbers."""
    fairness_epsilon: Annotated[dict[str, Any], stands_for(ProjectedEpsilon)] | None
    """Observer, delta, adjacency, unit and value of what the fairness figures may reveal of the
    people held out; null without `fairness.noise`."""
    reasons: Reasons


class BudgetRoom(BaseModel):
    """Whether the federation's budgets have room for the experiment just now."""

    has_room: bool
    detail: str | None
    """Why a submission would be refused."""


class ValidationBody(BaseModel):
    """A spec that could be run, with every default explicit; nothing was stored."""

    spec: Annotated[dict[str, Any], stands_for(ExperimentSpec)]
    spec_hash: str
    parameters: int
    """n, the number of the model's parameters."""
    clients: int
    training_clients: int
    projection: ProjectionBody
    budget: BudgetRoom
    warnings: list[str]
    """What a submission would be accepted with all the same."""


_TRIAL = "Check the spec and its data, and answer with the projected cost; store nothing."


class SubmissionParameters(Parameters):
    """How a submission is meant."""

    validate_only: Annotated[bool, Field(description=_TRIAL)] = False


@with_bounds
class ExperimentParameters(FigureFilters):
    """Filters that must all hold; an experiment whose figure is null is outside every bound."""

    FIGURES, SORT_KEYS = FIGURES, tuple(SORT_KEYS)

    status: Status | None = None
    alarm: Annotated[bool | None, Field(description="Whether some attack raised an alarm.")] = None


_FIGURES = tuple(name for name in Figures.model_fields if name != "reasons")
_LEAKAGE = {"leakage_max", "leakage_median", "log_ratio_max"}
_SEVERAL = "it has several sensitive attributes: GET /v1/reports has the figures of each"


def _figures(row: Experiment) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in _FIGURES}
    if row.status == "succeeded":
        reason = "the report says why, in `reasons` of its section"
    elif row.status in ENDED:
        reason = f"the experiment was ended as {row.status}, without a report"
    else:
        reason = "the experiment has not ended"
    reasons = {name: reason for name, value in values.items() if value is None}
    if values["epsilon_max"] is not None:
        reasons |= dict.fromkeys(reasons.keys() & _LEAKAGE, NO_LEAKAGE)
    elif values["leakage_max"] is not None:
        reasons |= dict.fromkeys(reasons.keys() & {"epsilon_max", "delta"}, NO_EPSILON)
    if row.status == "succeeded" and len(row.attributes) > 1:
        reasons |= dict.fromkeys(reasons.keys() & set(ROUND_METRICS), _SEVERAL)
    return {**values, "reasons": reasons}


class AttacksRequest(Body):
    """Attacks on an experiment that has succeeded."""

    attacks: Annotated[list[AttackSpec], Field(min_length=1, max_length=20)]
    """Attacks in the form that a spec has them."""


class AttackFileBody(BaseModel):
    """A confidential file of an attack."""

    name: str
    size_bytes: int
    href: str


class AttackBody(BaseModel):
    """One attack: its section of the report, and its files."""

    position: int
    """Position in the spec, from 0."""
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
    """Counts from 1 within the experiment."""
    status: LaterAttacksStatus
    """`succeeded`: each was tried, and its section says what became of it; `failed`: none was."""
    status_reason: str | None
    """`invalid-data`, `not-repeated`, `no-model`, `ledger-altered`, `worker-error`, `worker-lost`
    or `cancelled-by-caller`."""
    status_detail: str | None
    asked: list[dict[str, Any]]
    """What was asked for, with every default explicit."""
    report_hash: str
    """Hash of the report that they are about."""
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
    envelope: SignedEnvelope | None
    """What was found, signed (DSSE), naming the statement before it, or the report."""


class LaterAttacksList(BaseModel):
    """Every request for attacks on the experiment, oldest first, whatever became of it."""

    items: list[LaterAttacksBody]


class TensorBody(BaseModel):
    """One tensor of the file."""

    name: str
    shape: list[int]


class ArtifactBody(BaseModel):
    """A file of parameters, in safetensors."""

    id: str
    """The SHA-256 of its content, by which a spec names it in `model.start.artifact`."""
    size_bytes: int
    hypotheses: int
    """Number of hypotheses whose parameters it has."""
    parameters: int
    """Number of parameters of each hypothesis."""
    tensors: list[TensorBody]


class ArtifactUser(BaseModel):
    """An experiment that starts from a file of parameters."""

    id: str
    name: str
    status: str


class ListedArtifact(BaseModel):
    """A file of parameters in the project's list."""

    id: str
    """The SHA-256 of its content."""
    name: str | None
    """The name that its sender gave it."""
    size_bytes: int
    hypotheses: int
    parameters: int
    created_at: datetime
    created_by: ActorBody | None
    uses: int
    """How many experiments start from it."""
    used_by: list[ArtifactUser]
    """The newest of them, at most 20."""


class ArtifactPage(Page[ListedArtifact]):
    """Some files of parameters."""


class SweepProgress(BaseModel):
    """How far a sweep is."""

    cells: int
    ended: int
    """Cells that have ended, in whatever way."""
    statuses: dict[str, int]
    """Cells by status."""
    rounds: int
    rounds_total: int
    """The most rounds that all cells together can have."""


class SweepCellBody(BaseModel):
    """One cell: the newest try of it."""

    position: int
    experiment_id: str
    values: dict[str, Any]
    """Values that distinguish it from the others, keyed by field."""
    status: Status
    status_reason: str | None
    gate_outcome: str | None
    progress: Progress


class ListedSweepBody(BaseModel):
    """A sweep in a list."""

    id: str
    name: str
    status: Status
    """`running` from the first cell that runs to the last that ends; `succeeded` where some cell
    did."""
    progress: SweepProgress
    created_at: datetime
    created_by: ActorBody


class SweepBody(ListedSweepBody):
    """A sweep and its cells."""

    asked: Annotated[dict[str, Any], stands_for(SweepSpec)]
    """The request: base, grid, zip and repeats."""
    costs: SweepCosts
    """Costs of all cells together: what each may spend while it runs, and what it spent once it has
    ended. They cover choosing the best of them."""
    facts: SweepFacts
    """What the costs are worth: under the noise `simulation` they protect no one."""
    cells: list[SweepCellBody]


class SubmittedSweepBody(SweepBody):
    """A sweep that was accepted."""

    warnings: list[str]


class SweepTableBody(BaseModel):
    """A row for each combination, over its seeds."""

    figures: list[str]
    """Names of the figures; those of an attribute are name[attribute]."""
    rows: list[SweepRow]
    front_figures: list[str]
    """Figures that every row has, and whose means decide which rows are on the front."""
    notes: list[str]


class SweepPage(Page[ListedSweepBody]):
    """Some sweeps."""


class SweepValidationBody(BaseModel):
    """A sweep that could be run; nothing was stored."""

    cells: int
    costs: SweepCosts | None
    """Null where a budget has no room, as `detail` says."""
    facts: SweepFacts
    """What the costs are worth: under the noise `simulation` they protect no one."""
    has_room: bool
    """Whether the budgets have room for the whole sweep just now."""
    detail: str | None
    """Why a submission would be refused."""
    warnings: list[str]
