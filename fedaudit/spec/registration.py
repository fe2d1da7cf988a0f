"""What a federation is registered with, what specs take from it, and where they depart from it.

A spec without `federation.target`, or without `federation.source`, leaves its columns to the
registration: no such spec was valid before, so none that was changes its meaning. One that names
them speaks for itself, and takes words alone: the labels of its columns.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from fedaudit.spec.base import SpecPart, Text
from fedaudit.spec.errors import FieldError, Refusals, error_at, pointer, validated
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import Favourable, Groups, without_label
from fedaudit.spec.federation import FileSpec
from fedaudit.spec.labels import refuse_other_columns
from fedaudit.spec.models import ArtifactStart
from fedaudit.spec.sources import Source

RegisteredSource = Annotated[FileSpec, Field(discriminator="source")]


class RegistrationFairness(Groups):
    """Whose groups are counted, and which outcome is good for them."""


class Registration(SpecPart):
    """A federation to be profiled and then named by its id."""

    name: Text
    federation: RegisteredSource
    """The file: `path` is the one below the sources folder, or the name of an uploaded one."""
    fairness: RegistrationFairness = RegistrationFairness()

    def faults(self) -> Refusals:
        return refuse_other_columns(
            self.federation.labels,
            sensitive=self.fairness.sensitive,
            target=self.federation.traits.target_name,
        )


def parse_registration(value: object) -> Registration:
    """The registration of a file below the sources folder.

    Raises InvalidInputError naming the fields.
    """
    if _federation_of(value).get("id") is not None:
        raise error_at("/federation/id", "is given by the service; name the file by `path`")
    return validated(Registration, value)


def parse_uploaded(value: object, *, file_name: str) -> Registration:
    """The registration that goes with an uploaded file; its `path` is then the file's name.

    Raises InvalidInputError naming the fields.
    """
    federation = _federation_of(value)
    for field in ("path", "id"):
        if federation.get(field) is not None:
            message = "the data comes with the upload; leave it out"
            raise error_at(f"/federation/{field}", message)
    if isinstance(value, Mapping) and federation:
        value = {**value, "federation": {**federation, "path": file_name, "id": None}}
    return validated(Registration, value)


def _federation_of(value: object) -> Mapping[str, object]:
    federation = value.get("federation") if isinstance(value, Mapping) else None
    return federation if isinstance(federation, Mapping) else {}


_PLACE = frozenset({"path", "id"})
_CLIENTS = frozenset({"client_key", "partition"})
_WORDS = "labels"
EVERY_NUMBER = "*"


def federation_id_of(value: Any) -> str | None:
    """The id of the federation that the document of a spec names."""
    found = _federation_of(value).get("id")
    return found if isinstance(found, str) else None


def waits_for_registration(value: Any) -> bool:
    """Whether the document of a spec is complete only with the registration that it names."""
    if federation_id_of(value) is None:
        return False
    federation = value["federation"]
    return "source" not in federation or (
        federation["source"] == "table" and "target" not in federation
    )


def with_registration(value: Any, registration: Mapping[str, Any]) -> Any:
    """The document of a spec, with what it leaves to the registration filled in.

    Whatever the spec says stays as it is. A document that is no spec is given back for validation
    to refuse.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("federation"), Mapping):
        return value
    asked, known = dict(value["federation"]), registration["federation"]
    fairness = value.get("fairness", {})
    if not isinstance(fairness, Mapping) or asked.get("source", known["source"]) != known["source"]:
        return value
    filled = dict(value)
    if "source" not in asked or ("target" in known and "target" not in asked):
        fairness = _with_groups(fairness, registration["fairness"])
        asked = _with_columns(asked, known)
        filled["fairness"] = fairness
    rule = fairness.get("favourable")
    registered = registration.get("fairness", {}).get("favourable")
    if isinstance(rule, Mapping) and isinstance(registered, Mapping) and "label" not in rule:
        # The same rule is called what the registration calls it.
        rule = {**rule, "label": registered.get("label")}
        if rule == registered:
            filled["fairness"] = {**fairness, "favourable": rule}
    if _WORDS not in asked and (labels := _labels(asked, fairness, known)):
        asked[_WORDS] = labels
    return {**filled, "federation": asked}


def _with_columns(asked: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    taken = {name: given for name, given in known.items() if name not in {*_PLACE, _WORDS}}
    if _CLIENTS & asked.keys():
        taken = {name: given for name, given in taken.items() if name not in _CLIENTS}
    if "target" in asked and asked["target"] != known.get("target"):
        for name in ("positive", "missing_target"):
            taken.pop(name, None)
    if isinstance(asked.get("features"), list) and taken.get("scale"):
        named = [one.get("name") if isinstance(one, Mapping) else one for one in asked["features"]]
        named += [EVERY_NUMBER, asked.get("target", known.get("target"))]
        taken["scale"] = {name: by for name, by in taken["scale"].items() if name in named}
    return {**taken, **asked}


def _with_groups(asked: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes, edges, sizes and the rule; edges and rules of attributes that are not looked at
    are left behind."""
    taken = dict(known)
    sensitive = asked.get("sensitive", taken.get("sensitive", []))
    if isinstance(sensitive, list):
        for field in ("edges", "groups", "exclude"):
            own = taken.get(field, {})
            taken[field] = {name: values for name, values in own.items() if name in sensitive}
        rule = taken.get("favourable")
        rules = rule if isinstance(rule, list) else []
        spoken_of = {name for one in rules for name in one.get("group", {})}
        if not sensitive or not spoken_of <= set(map(str, sensitive)):
            taken.pop("favourable", None)
    return {**taken, **asked}


def _labels(
    asked: Mapping[str, Any], fairness: Mapping[str, Any], known: Mapping[str, Any]
) -> dict[str, Any]:
    """The labels of columns that a report of this spec shows."""
    sensitive = fairness.get("sensitive", [])
    shown = [asked.get("target", "average_total_payments"), "y"]
    if isinstance(sensitive, list):
        shown += sensitive
    return {column: words for column, words in known.get(_WORDS, {}).items() if column in shown}


_OF_THE_EXPERIMENT = frozenset(
    {"path", "id", "validation_fraction", "validation_unit", "scoring", "labels"}
)
"""What each experiment chooses for itself, whatever the registration says, and what decides
nothing."""
CHOSEN_PARAMETERS = (
    "starts from parameters that were chosen, which can be made to distinguish single rows by the "
    "model's losses"
)
MINIMUMS = ("minimum_group_size", "minimum_group_clients")
KNOWN_COINS = (
    "draws coins and budgets from the seed and a record's cells, so that the answer can be made to "
    "depend on whether one known record is there"
)
COUNTED_ROWS = (
    "is above that which the data were registered with: whether attacks fit would say how many "
    "rows are held out"
)
COMMON_THRESHOLDS = tuple(tenth / 10 for tenth in range(1, 10))
"""Those that reports of audits show beside the one asked for."""
FREE_THRESHOLD = (
    "is no tenth from 0.1 to 0.9: two reports at thresholds close to each other would disclose the "
    "few people between them"
)
_REMEDY = (
    "this API key lacks the scope federations:read, so it may use the data as they were "
    "registered only: take what the registration has, or ask someone whose key has that scope"
)


def departures(
    spec: ExperimentSpec, registration: Registration, *, known_groups: Collection[str]
) -> list[FieldError]:
    """Every field by which the spec looks at the file otherwise than the registration does.

    Columns, categories, edges, scales and rules that a spec is free to choose can each be chosen so
    that the answer depends on one cell. Bound to the registration, which was checked against the
    data once, the answer no longer depends on them. `known_groups`: the groups that the profile
    shows; no other can be the reference. The messages quote neither data nor registration.
    """
    return [
        FieldError(where, f"{what}; {_REMEDY}", of_spec=True)
        for where, what in (
            *source_departures(spec.federation, registration.federation),
            *_of_labels(spec, registration),
            *group_departures(spec.fairness, registration),
            *_of_the_rest(spec, registration.fairness, known_groups),
        )
    ]


def source_departures(asked: Source, registered: Source) -> Iterator[tuple[str, str]]:
    """The fields of a source that decide which rows and columns there are, and differ: the pointer
    and what is wrong."""
    if type(asked) is not type(registered):
        yield "/federation/source", "is not the source that the data were registered with"
        return
    for name in type(asked).model_fields:
        if name not in _OF_THE_EXPERIMENT and getattr(asked, name) != getattr(registered, name):
            yield pointer("federation", name), "differs from what the data were registered with"


def group_departures(asked: Groups, registration: Registration) -> Iterator[tuple[str, str]]:
    """The fields of `fairness` that differ, other than the reference: the pointer and what is
    wrong."""
    registered = registration.fairness
    for place, name in enumerate(asked.sensitive):
        if name not in registered.sensitive:
            where = pointer("fairness", "sensitive", place)
            yield where, "is not registered as a sensitive attribute"
        elif asked.edges.get(name) != registered.edges.get(name):
            where = pointer("fairness", "edges", name)
            yield where, "differs from the edges that the data were registered with"
        for field in ("groups", "exclude"):
            if getattr(asked, field).get(name) != getattr(registered, field).get(name):
                where = pointer("fairness", field, name)
                yield where, "differs from what the data were registered with"
    if without_label(asked.favourable) not in (None, without_label(registered.favourable)):
        yield "/fairness/favourable", "differs from the rule that the data were registered with"
    for name in MINIMUMS:
        if getattr(asked, name) < getattr(registered, name):
            yield pointer("fairness", name), "is below that which the data were registered with"


def _of_labels(spec: ExperimentSpec, registration: Registration) -> Iterator[tuple[str, str]]:
    """Other words than the registration's, which would say of the data what their owner did not."""
    registered = registration.federation.labels
    for column, words in spec.federation.labels.items():
        if words != registered.get(column):
            where = pointer("federation", "labels", column)
            yield where, "differs from the labels that the data were registered with"
    known = set(_rule_labels(registration.fairness.favourable))
    if not set(_rule_labels(spec.fairness.favourable)) <= known:
        yield ("/fairness/favourable", "is labelled otherwise than the data were registered with")


def _rule_labels(favourable: Favourable | None) -> Iterator[tuple[str, str]]:
    """Each rule that has a label, and what it is called."""
    rules = favourable if isinstance(favourable, list) else [favourable]
    for rule in rules:
        if rule is not None and rule.label is not None:
            yield rule.model_dump_json(exclude={"label"}), rule.label


def _of_the_rest(
    spec: ExperimentSpec, registered: Groups, known_groups: Collection[str]
) -> Iterator[tuple[str, str]]:
    group = spec.fairness.reference_group
    if group is not None and group not in known_groups:
        yield "/fairness/reference_group", "is not a group that the federation's profile shows"
    if spec.privacy.draws_by_record:
        yield "/privacy/mechanism", KNOWN_COINS
    for name in MINIMUMS if any(one.tells_of_people for one in spec.attacks) else ():
        if getattr(spec.fairness, name) > getattr(registered, name):
            yield pointer("fairness", name), COUNTED_ROWS
    if isinstance(spec.model.start, ArtifactStart):
        yield "/model/start", CHOSEN_PARAMETERS
    if is_free_threshold(spec.decision.threshold):
        yield "/decision/threshold", FREE_THRESHOLD


def is_free_threshold(threshold: float | str | None) -> bool:
    """Whether a threshold of scores is a number other than those that everybody may ask for."""
    return isinstance(threshold, float) and threshold not in COMMON_THRESHOLDS
