"""Federations: what is known of them, proposed, disclosed, spent and erased."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from api.http.problems import ProblemFault
from api.schemas.base import Body, Page, PageParameters, Reasons, of_row
from api.schemas.experiments import ProjectionBody
from api.schemas.people import ActorBody, SignedEnvelope
from fedaudit.ledger.statements import what_remains
from fedaudit.privacy.accounting.privacy_events import Adjacency, AnyObserver
from fedaudit.privacy.unit_key import PATTERN
from fedaudit.spec.base import Text, stands_for
from fedaudit.spec.disclosure import (
    DisclosureFloor,
    DisclosurePolicy,
    parse_disclosure_policy,
    registration_faults,
)
from fedaudit.spec.errors import refuse_at
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import Clip, Delta, Epsilon, Radius
from fedaudit.spec.registration import Registration, parse_registration
from fedaudit.spec.sources import FederationId, FilePath
from fedaudit.stored import CostFigure, LeakageRadius, LeakageTerms
from models.tables.federations import Erasure, Federation
from models.values import BudgetsAcross, FederationStatus, Simulation


class Profile(BaseModel):
    """What data look like: sizes, names, and shares of groups that are large enough."""

    rows: int
    clients: int
    rows_per_client: dict[Literal["minimum", "median", "maximum"], float] = {}
    features: list[str] = []
    target: str | None = None
    classes: list[str] = []
    class_balance: dict[str, int | None] | None = None
    missing: dict[str, int] = {}
    attributes: dict[str, dict[str, Any]] = {}
    """Rows and base rates of each sensitive attribute's groups; what is hidden is null."""
    warnings: list[ProblemFault] = []
    notes: list[str] = []
    reasons: Reasons = {}


ShownProfile = Annotated[dict[str, Any], stands_for(Profile)]
StoredRegistration = Annotated[dict[str, Any], stands_for(Registration)]


class FederationBody(BaseModel):
    """One federation: the clients' data, known by its fingerprint."""

    id: str
    name: str
    source: str
    status: FederationStatus
    fingerprint: str
    """SHA-256 of the file's content, gzip undone."""
    file_name: str | None
    size_bytes: int | None
    """Size of the file as it was sent, perhaps compressed."""
    registration: StoredRegistration | None
    """Null where no one registered it, and experiments named the file by its path."""
    reasons: Annotated[list[ProblemFault], Field(json_schema_extra={"deprecated": True})]
    """Why it was rejected: what `errors` has, under its earlier name."""
    errors: list[ProblemFault]
    """Why it was rejected, as the problem of a submission has it: each fault of the data with its
    field in the registration."""
    clients: int | None
    rows: int | None
    profile: ShownProfile | None
    """Null unless it is ready, and for keys without the scope federations:read."""
    created_at: datetime
    profiled_at: datetime | None
    simulation: Simulation
    """Whether experiments are admitted whose noise anyone can draw again from the seed."""
    disclosure: Annotated[dict[str, Any], stands_for(DisclosurePolicy)] | None
    """The fields of its disclosure policy that bind; null where each request
    decides everything."""
    deleted_at: datetime | None
    warnings: list[str]
    """What is known of its rows: that most of them are those of other registered content, whose
    budget is separate. Empty for keys without the scope federations:read."""


def shown_profile(row: Federation) -> dict[str, Any] | None:
    """A federation's profile for keys that may read federations; None where it has none. Of data
    without a registration the groups are left out: the first experiment on them named these, and
    earlier versions stored their sizes however small. So are those of data that were registered
    before their disclosure policy, and otherwise than it demands."""
    if not row.profile or row.status != "ready":
        return None
    if row.profiled_at is None:
        return _without(row.profile, "attributes")
    if row.disclosure is None or row.registration is None:
        return row.profile
    policy, asked = parse_disclosure_policy(row.disclosure), parse_registration(row.registration)
    if not registration_faults(policy, asked, registration=None):
        return row.profile
    warnings = [*row.profile.get("warnings", []), {"pointer": "", "message": _DEPARTS}]
    # The rows of each class are suppressed by the same size.
    return {**_without(row.profile, "attributes", "class_balance"), "warnings": warnings}


def _without(profile: dict[str, Any], *left_out: str) -> dict[str, Any]:
    return {name: value for name, value in profile.items() if name not in left_out}


_DEPARTS = (
    "the profile was made before the federation's disclosure policy, and otherwise than it "
    "demands, so its groups are left out; register the file again as the policy demands"
)


class SimulationSetting(Body):
    """Whether experiments on a federation may simulate their noise."""

    simulation: Simulation


class FederationParameters(PageParameters):
    """Which page of which federations."""

    status: FederationStatus | None = None


class FederationPage(Page[FederationBody]):
    """Some federations."""


class ProposalRequest(Body):
    """A table to look at: below the sources folder, or that of a federation of the project."""

    path: FilePath | None = None
    """Below the sources folder."""
    id: FederationId | None = None
    """A federation whose file is there, also one that was rejected."""
    header: bool = True
    """Whether a CSV file's first line names its columns."""
    client_key: Text | None = None
    """The column that names clients, where it is known."""
    target: Text | None = None
    """The column to be predicted, where it is known."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.path is None) == (self.id is None):
            raise refuse_at("/path", "name the file by `path` or by `id`, one of the two")
        return self


class ProposalBody(BaseModel):
    """A registration that parses as it is, for a person to read and correct."""

    registration: StoredRegistration
    guesses: dict[str, str]
    """Why a field says what it says, by its pointer into the registration."""
    candidates: dict[str, list[str]]
    """Columns that may be `client_key`, `target` or `sensitive`, the likeliest first."""
    left_out: dict[str, str]
    """Why a column is no feature."""
    codes: dict[str, list[str]]
    """Codes that need labels, keyed by column."""
    joinable: dict[str, dict[str, str]]
    """Attributes that several columns seem to hold together: each column, and its group."""
    suggested: dict[str, Any] | None = None
    """A rule to take over as `fairness.favourable`, where nothing says which outcome is good."""
    rows: int
    """How many rows were read."""
    complete: bool
    """Whether these are all."""
    yaml: str
    """The registration as YAML, with the reasons as comments."""


class SpecProposalRequest(Body):
    """What a proposed experiment may cost; at most one of `epsilon`, `leakage` and `privacy`."""

    epsilon: Epsilon | None = None
    """Left out with `leakage`: what the budgets leave, at most 2.94."""
    delta: Delta | None = None
    """Left out: by the number of clients, or of rows."""
    leakage: Annotated[float, Field(gt=0, le=1e15)] | None = None
    """Leakage of metric privacy."""
    unit: Literal["client", "record"] | None = None
    """Whom the guarantee is for; left out: clients, where a useful model is expected so."""
    privacy: Literal["none"] | None = None
    """`none` plans without any protection, to see what could be learnt."""

    @model_validator(mode="after")
    def _one_cost(self) -> Self:
        given = [self.epsilon, self.leakage, self.privacy]
        if sum(one is not None for one in given) > 1:
            raise refuse_at("", "give one of `epsilon`, `leakage` and `privacy`")
        if self.delta is not None and (self.leakage or self.privacy):
            raise refuse_at("/delta", "goes with an epsilon; leave it out")
        if self.unit == "record" and (self.leakage or self.privacy):
            raise refuse_at("/unit", "records are protected by an epsilon; give `epsilon`")
        return self


class ReasonBody(BaseModel):
    """Why a field says what it says."""

    pointer: str
    reason: str


class SpecProposalBody(BaseModel):
    """An experiment's spec, to be submitted as it is or changed."""

    spec: Annotated[dict[str, Any], stands_for(ExperimentSpec)]
    """What it leaves out follows from the registration."""
    reasons: list[ReasonBody]
    projection: ProjectionBody
    expected_useful: bool
    """Whether the model is expected to be better than a constant, by a rule of thumb; of classes
    whose share the profile does not show, if none is rare."""
    needs: str | None
    """What would make a useful model of it; null where one is expected."""


class DisclosureBody(DisclosurePolicy):
    """The policy, field by field; each request decides what is null."""

    floor: DisclosureFloor
    set_at: datetime | None
    """When it was changed last; null where no one ever set one."""


class ErasureRequest(Body):
    """An erasure to be made."""

    reference: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """What you call the request, such as its file number; the receipt shows it."""


class ErasureBody(BaseModel):
    """One erasure: what it removed, what remains, and its signed receipt."""

    federation_id: str
    number: int
    """Counts from 1: a federation that was registered anew may be erased again."""
    status: Literal["erasing", "erased"]
    """`erasing` while names and files are still being removed."""
    reference: str | None
    requested_at: datetime
    requested_by: ActorBody
    completed_at: datetime | None
    removed: dict[str, int]
    """How many of each thing, by name."""
    remains: dict[str, str]
    """What remains, and why."""
    ledgers: list[str]
    """Experiments, and ledgers of trainings elsewhere, whose clients have made-up names now."""
    files_left: int
    """Files that the storage is still to remove."""
    other_projects: int
    """Projects of this service that hold the same content, each to be erased by itself."""
    receipt: SignedEnvelope | None
    """The same as a signed envelope (DSSE), once it is done."""

    @classmethod
    def of(cls, row: Erasure) -> Self:
        """The body of a stored erasure."""
        uploaded = bool(row.removed.get("uploaded_data"))
        return of_row(
            cls,
            row,
            status="erasing" if row.completed_at is None else "erased",
            remains=what_remains(uploaded=uploaded, others=row.others),
            files_left=len(row.files),
            other_projects=row.others,
            receipt=row.envelope,
        )


_MAX_VALUE = 1e300


class UncountedRuns(BaseModel):
    """What was done with the same data and a budget's figures leave out.

    Experiments of the same book that it cannot count; and of a total for release also the
    experiments whose noise was simulated. A budget with a total has the profiles.
    """

    mechanism: str
    """The mechanism of the experiments, or of trainings elsewhere (`laplace-l2, declared`);
    `profile` for published profiles."""
    runs: int
    """How many experiments, ledgers or profiles."""
    why: str


class OthersSpending(BaseModel):
    """What other projects have of a budget's figures, without their names and experiments."""

    reserved: float
    spent: float


class BudgetBody(BaseModel):
    """One budget on a content; `total` is null where no one has set a bound.

    An epsilon is composed over experiments and not added up: `reserved` is what all that is held
    adds to what is `spent`.
    """

    book: str
    figure: CostFigure
    delta: float | None
    adjacency: str | None
    observer: str | None
    total: float | None
    reserved: float
    spent: float
    declared: float
    """The part of `spent` that trainers declared in ledgers of trainings elsewhere, which this
    service did not observe. An epsilon is that of those ledgers alone."""
    remaining: float | None
    """What remains of what this budget can count, which leaves out the runs in `uncounted`."""
    radius: LeakageRadius | None
    """Radius of leakage, which adds up over runs of the same radius and clip only: `adaptive`, or
    the distance of uploads within which n/nu holds. Null of leakage means that the total was set
    before it was recorded: such a total refuses every run until one is set anew."""
    clip: float | None
    """What updates are clipped to, for leakage; null where they are not clipped."""
    unit: str | None
    """Whom an epsilon is about, `client` or `record`; null for any other figure, and
    where nothing is counted."""
    uncounted: list[UncountedRuns]
    unit_key: str | None
    """Whose clients are counted: `client_key=COLUMN`, or `partition=HASH` for those that a seed
    dealt rows to; `row` for records. Figures about clients of another key cannot be composed with
    it. Null where nothing is counted, and of what was spent before it was recorded."""
    total_names_clients: bool
    """Whether the total is for these clients only; else it is for those that came first, and other
    clients are refused."""
    across: BudgetsAcross
    """Whether every project's spending on this content is counted, or this one's alone."""
    scope: str
    """The same in words."""
    own_total: float | None
    """What this project has set: `total` is the smaller of it and the owner's."""
    is_owner: bool
    """Whether this project may raise the total: no other project owns the content."""
    others: OthersSpending
    """Other projects' part of `reserved` and `spent`; an epsilon is of those projects alone."""
    reason: str | None
    """Why `total` and `remaining` are null."""


class BudgetList(BaseModel):
    """Every budget that was set or spent from."""

    items: list[BudgetBody]


_HAS_PARTS: dict[CostFigure, bool] = {"epsilon": True, "leakage": False, "log_ratio": False}
"""Whether a figure means something only with a delta, an adjacency and an observer."""


class BudgetSetting(Body):
    """What may be spent of one figure in one book, in all."""

    book: Literal["simulation", "release"]
    figure: CostFigure
    total: Annotated[float, Field(ge=0, le=_MAX_VALUE)] | None
    """Null removes the bound; spending is still recorded."""
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    adjacency: Adjacency | None = None
    observer: AnyObserver | None = None
    radius: Literal["adaptive"] | Radius | None = None
    """Radius that a total of leakage is for; `adaptive` unless given, as in a spec."""
    clip: Clip | None = None
    """Clip that a total of leakage is for; none unless given, as in a spec."""

    unit_key: Annotated[str, Field(pattern=PATTERN)] | None = None
    """Whose clients the total is for, worded as GET gives it; null for those that came first."""

    @model_validator(mode="after")
    def _figure_has_its_parts(self) -> Self:
        for field in ("delta", "adjacency", "observer"):
            given = getattr(self, field) is not None
            if given != _HAS_PARTS[self.figure]:
                message = (
                    f"{self.figure} is metric privacy and has none; leave it out"
                    if given
                    else "an epsilon means something only with delta (such as 1.0e-5), adjacency "
                    "(add-or-remove-one or replace-one) and observer (final_model, server, report)"
                )
                raise refuse_at(f"/{field}", message)
        for field in ("radius", "clip"):
            if self.figure != "leakage" and getattr(self, field) is not None:
                message = "only leakage is kept apart by radius and clip; leave it out"
                raise refuse_at(f"/{field}", message)
        return self

    def stored_fields(self) -> dict[str, Any]:
        """The change in the form that the repository of budgets takes."""
        values = self.model_dump()
        radius, clip = values.pop("radius"), values.pop("clip")
        if self.figure == "leakage":
            values["terms"] = LeakageTerms("adaptive" if radius is None else radius, clip)
        return values
