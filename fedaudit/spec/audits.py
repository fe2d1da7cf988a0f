"""An audit of predictions alone: a table with truth, prediction and groups."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from fedaudit.spec.base import MAX_INTEGER, SpecPart, Text
from fedaudit.spec.disclosure import (
    POLICY,
    DisclosureFloor,
    DisclosurePolicy,
    below,
    departure,
    floor_faults,
    spec_faults,
)
from fedaudit.spec.errors import (
    FieldError,
    InvalidInputError,
    Refusals,
    field_errors,
    refuse_at,
    validated,
)
from fedaudit.spec.experiment import ExperimentSpec, document_hash
from fedaudit.spec.fairness import (
    DEFAULT_GROUP_CLIENTS,
    WHERE_USED,
    Combinations,
    CountRounding,
    Edges,
    Fairness,
    Favourable,
    Intervals,
    JoinedGroups,
    Label,
    LeftOutGroups,
)
from fedaudit.spec.gates import Gate
from fedaudit.spec.labels import CodeLabels, refuse_other_columns
from fedaudit.spec.registration import (
    FREE_THRESHOLD,
    Registration,
    group_departures,
    is_free_threshold,
)
from fedaudit.spec.sources import FederationId, FilePath, check_one_place
from fedaudit.spec.table import Table

_Favourable = Favourable | Label | list[Label]


def _as_rule(favourable: Any) -> Any:
    """One value, or a list of values, is short for the rule that lists them."""
    if isinstance(favourable, str | int | float) and not isinstance(favourable, bool):
        return {"op": "in", "value": [favourable]}
    if isinstance(favourable, list) and not any(isinstance(one, Mapping) for one in favourable):
        return {"op": "in", "value": favourable}
    return favourable


class AuditSpec(SpecPart):
    """Which columns of which table are compared, and by which groups."""

    audit_version: Literal[1] = 1
    name: Text
    path: FilePath | None = None
    """Below the service's sources folder."""
    id: FederationId | None = None
    """A federation that was uploaded or registered."""
    truth: Text
    """The column with the outcome that came about."""
    prediction: Text | None = None
    """The column with the outcome that was predicted, in the same values."""
    score: Text | None = None
    """Or the column with a score of the favourable outcome: predicted from `threshold` up."""
    threshold: float | None = None
    sensitive: Annotated[list[Text], Field(min_length=1, max_length=20)]
    edges: Edges = {}
    """Where a numeric attribute is cut into groups."""
    groups: Annotated[JoinedGroups, WHERE_USED] = {}
    """For each attribute: the name of a group, and the values that are compared as that group."""
    exclude: Annotated[LeftOutGroups, WHERE_USED] = {}
    """For each attribute: values whose rows no figure counts."""
    favourable: Annotated[Favourable, BeforeValidator(_as_rule, json_schema_input_type=_Favourable)]
    """A value of the truth, a list of them, or a rule as in specs."""
    client_key: Text | None = None
    """The column that says whose a row is; without it every row counts as a different client's."""
    minimum_group_size: Annotated[int, Field(ge=1, le=1_000_000)] = 30
    minimum_group_clients: Annotated[int, Field(ge=1, le=1_000_000)] = DEFAULT_GROUP_CLIENTS
    """Counted where `client_key` is given."""
    intersections: Combinations = []
    reference_group: Text | None = None
    intervals: Intervals | None = Intervals()
    rounding: CountRounding | None = None
    """Random rounding of the counts; null publishes what follows from them as they are."""
    missing: Literal["reject", "drop-row"] = "reject"
    """What a row without truth, prediction, score or client means: a fault, or a row that is left
    out and counted."""
    labels: CodeLabels = {}
    """For each column: words for the codes of groups and outcomes."""
    gates: Annotated[list[Gate], Field(max_length=100)] = []
    seed: Annotated[int, Field(ge=0, le=MAX_INTEGER)] = 0
    """Seed of the intervals and nulls."""

    def faults(self) -> Refusals:
        yield from check_one_place("/path", self.path, self.id)
        if (self.prediction is None) == (self.score is None):
            given = "both are given" if self.prediction else "neither is given"
            yield refuse_at(
                "/prediction",
                "name the column of the `prediction`, or that of a `score` with a `threshold`; "
                f"{given}",
            )
        if (self.score is None) != (self.threshold is None):
            yield refuse_at("/threshold", "goes with `score`: give both, or leave both out")
        if self.predicted_by == self.truth:
            field = "/prediction" if self.prediction else "/score"
            yield refuse_at(
                field,
                f"is the column {self.truth!r}, as the truth is; a prediction compared with "
                "itself is always right",
            )
        taken = {self.truth: "truth", self.predicted_by: self.prediction_role}
        for place, name in enumerate(self.sensitive):
            if name in taken:
                yield refuse_at(
                    f"/sensitive/{place}",
                    f"{name!r} is the {taken[name]}; groups are made by another column",
                )
        if self.client_key in taken:
            yield refuse_at(
                "/client_key",
                f"{self.client_key!r} is the {taken[self.client_key]}; name the column that says "
                "whose a row is",
            )
        yield from refuse_other_columns(self.labels, sensitive=self.sensitive, target=self.truth)

    @property
    def predicted_by(self) -> str:
        """The column of the prediction, or of the score."""
        return self.prediction or self.score or ""

    @property
    def prediction_role(self) -> Literal["prediction", "score"]:
        """The field that names it."""
        return "score" if self.prediction is None else "prediction"

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Each column that is read, and the pointer of the field that names it."""
        named = [(self.truth, "/truth"), (self.predicted_by, f"/{self.prediction_role}")]
        if self.client_key is not None:
            named.append((self.client_key, "/client_key"))
        named += [(name, f"/sensitive/{place}") for place, name in enumerate(self.sensitive)]
        return tuple(named)

    @cached_property
    def fairness(self) -> Fairness:
        """The same in the form of experiments; without a client key no clients are counted. Raises
        InvalidInputError where fields contradict each other."""
        shared = Fairness.model_fields.keys() & AuditSpec.model_fields.keys()
        asked = {name: getattr(self, name) for name in shared}
        if self.client_key is None:
            asked["minimum_group_clients"] = 1
        try:
            return Fairness.model_validate(asked)
        except ValidationError as error:
            raise InvalidInputError(field_errors(error, {})) from None

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical form, every default explicit, in hexadecimal."""
        return document_hash(self.model_dump(mode="json"))


def is_audit(value: object) -> bool:
    """Whether a decoded JSON value is meant as an audit, rather than a run's spec or a ledger's
    terms; it need not be valid."""
    return isinstance(value, dict) and "truth" in value and "federation" not in value


def parse_audit(value: object) -> AuditSpec:
    """The audit in a decoded JSON value. Raises InvalidInputError naming the fields."""
    try:
        spec = validated(AuditSpec, value)
        measuring_spec(spec)
    except InvalidInputError as error:
        raise InvalidInputError(in_audit(error.errors)) from None
    return spec


def in_audit(faults: Iterable[FieldError]) -> list[FieldError]:
    """Faults whose pointers are those of an experiment, in the fields of an audit."""
    return [replace(fault, pointer=_pointer(fault.pointer)) for fault in faults]


def _pointer(where: str) -> str:
    if where.startswith("/federation/target"):
        return "/truth"
    for prefix in ("/fairness", "/federation"):
        if where.startswith(f"{prefix}/"):
            return where.removeprefix(prefix)
    return where


def measuring_spec(audit: AuditSpec) -> ExperimentSpec:
    """The spec for code that reads groups, favourable outcomes and disclosure. Only its columns,
    fairness and seed mean anything: it trains nothing, and its model, training and privacy are
    never shown. Raises InvalidInputError where the audit contradicts itself."""
    clients: dict[str, Any] = {"client_key": audit.client_key}
    if audit.client_key is None:
        clients = {"partition": {"method": "iid", "clients": 2}}
    return validated(
        ExperimentSpec,
        {
            "name": audit.name,
            "seed": audit.seed,
            "federation": {
                "source": "table",
                "path": audit.path,
                "id": audit.id,
                "target": audit.truth,
                "features": [audit.predicted_by],
                "labels": audit.labels,
                **clients,
            },
            "model": {"kind": "logistic"},
            "training": {
                "loss": "cross-entropy",
                "hypotheses": 1,
                "rounds": 1,
                "cohort": {"sampling": "fixed", "clients": 1},
                "local": {"epochs": 1, "step_size": 0.1},
            },
            "privacy": {"mechanism": "none"},
            "fairness": audit.fairness,
            "gates": audit.gates,
        },
    )


_KEY = (
    "this API key lacks the scope federations:read, so it may audit the data as they were "
    "registered only: take what the registration has, or ask someone whose key has that scope"
)


def policy_faults(
    policy: DisclosurePolicy, audit: AuditSpec, *, registration: Registration | None
) -> list[FieldError]:
    """Every field in which an audit departs from a federation's policy. `registration`: that of the
    federation, None where it is not registered."""
    groups = policy.model_copy(update={"split": None, "source": None})
    found = in_audit(spec_faults(groups, measuring_spec(audit), registration=registration))
    # Without clients there is no telling whose rows a group's are; what fails for want of them is
    # said once, at the key.
    found = [fault for fault in found if fault.pointer != "/minimum_group_clients"]
    found += clients_faults(policy.minimum_group_clients or 1, audit, who=POLICY)
    if policy.edges is not None and is_free_threshold(audit.threshold):
        found.append(departure("/threshold", f"{FREE_THRESHOLD}; {POLICY} fixes edges"))
    if policy.split is not None:
        found.append(
            departure(
                "/path" if audit.id is None else "/id",
                f"{POLICY} fixes which people are held out, and an audit compares all rows of a "
                "file; audit a file with these people alone",
            )
        )
    if policy.source is not None:
        found += [
            departure(where, f"{what}, and {POLICY} demands that")
            for where, what in _column_departures(audit, registration)
        ]
    return found


def floor_faults_of_audit(floor: DisclosureFloor, audit: AuditSpec) -> list[FieldError]:
    """The minimums of an audit that are below the floor of the service."""
    sizes = in_audit(floor_faults(DisclosureFloor(floor.minimum_group_size), audit.fairness))
    return [*sizes, *clients_faults(floor.minimum_group_clients, audit, who="this service")]


def clients_faults(least: int, audit: AuditSpec, *, who: str) -> Iterator[FieldError]:
    """That groups are of so many clients at least, and that these can be counted."""
    if least > 1 and audit.client_key is None:
        yield departure(
            "/client_key",
            f"is required: {who} shows groups of {least} clients or more, and without the "
            "column that names clients they cannot be counted",
        )
    else:
        asked = audit.minimum_group_clients
        yield from below("/minimum_group_clients", asked, least, who=f"{who} allows")


def registered_use_faults(audit: AuditSpec, registration: Registration) -> list[FieldError]:
    """Every field in which an audit reads a file differently from its registration, for callers who
    may not read federations: each of the columns and rules that they may choose could make the
    answer depend on one cell. The messages quote no data."""
    return [
        departure(where, f"{what}; {_KEY}")
        for departures in (_column_departures, _group_departures)
        for where, what in departures(audit, registration)
    ]


def _column_departures(
    audit: AuditSpec, registration: Registration | None
) -> Iterator[tuple[str, str]]:
    if registration is None or not isinstance(registration.federation, Table):
        yield ("/path" if audit.id is None else "/id"), "the data are not registered as a table"
        return
    source = registration.federation
    if audit.truth != source.target:
        yield "/truth", "is not the target that the data were registered with"
    # By what a model trains on, an audit would count rare values within large groups.
    if source.named_features != {audit.predicted_by}:
        what = "is not the only feature that the data were registered with, as predictions are"
        yield f"/{audit.prediction_role}", what
    if source.client_key is not None and audit.client_key != source.client_key:
        yield "/client_key", "is not the client key that the data were registered with"
    if source.client_key is None and audit.client_key is not None:
        yield "/client_key", "is given, and the data were registered without one"


def _group_departures(audit: AuditSpec, registration: Registration) -> Iterator[tuple[str, str]]:
    asked = audit.fairness
    if audit.client_key is None:  # groups of clients are not counted, whatever the audit names
        asked = asked.model_copy(update={"minimum_group_clients": audit.minimum_group_clients})
    for where, what in group_departures(asked, registration):
        yield _pointer(where), what
    if is_free_threshold(audit.threshold):
        yield "/threshold", FREE_THRESHOLD
    if audit.reference_group is not None:
        yield "/reference_group", "names a group, which may be a value of the data"
    if any(
        words != registration.federation.labels.get(name) for name, words in audit.labels.items()
    ):
        yield "/labels", "differ from those that the data were registered with"
