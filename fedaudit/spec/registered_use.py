"""What a spec asks of a registered federation beyond what that was registered with."""

from collections.abc import Collection, Iterator

from fedaudit.spec.errors import FieldError, pointer
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import Favourable, without_label
from fedaudit.spec.model.starts import ArtifactStart
from fedaudit.spec.registration import Registration
from fedaudit.spec.sources import Source

_OF_THE_EXPERIMENT = frozenset(
    {"path", "id", "validation_fraction", "validation_unit", "scoring", "labels"}
)
"""What each experiment chooses for itself, whatever the registration says, and what decides
nothing."""
CHOSEN_PARAMETERS = (
    "starts from parameters that were chosen, which can be made to tell single rows apart by the "
    "model's losses"
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
            *_of_fairness(spec, registration),
            *_of_reference(spec, known_groups),
            *_of_budgets(spec),
            *_of_start(spec),
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


def _of_fairness(spec: ExperimentSpec, registration: Registration) -> Iterator[tuple[str, str]]:
    asked, registered = spec.fairness, registration.fairness
    for place, name in enumerate(asked.sensitive):
        if name not in registered.sensitive:
            where = pointer("fairness", "sensitive", place)
            yield where, "is not registered as a sensitive attribute"
        elif asked.edges.get(name) != registered.edges.get(name):
            where = pointer("fairness", "edges", name)
            yield where, "differs from the edges that the data were registered with"
    rule = without_label(asked.favourable)
    if rule not in (None, without_label(registered.favourable)):
        yield "/fairness/favourable", "differs from the rule that the data were registered with"
    if asked.minimum_group_size < registered.minimum_group_size:
        yield (
            "/fairness/minimum_group_size",
            "lies below the size that the data were registered with",
        )
    if asked.minimum_group_clients < registered.minimum_group_clients:
        yield (
            "/fairness/minimum_group_clients",
            "lies below the number of clients that the data were registered with",
        )


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


def _of_reference(spec: ExperimentSpec, known_groups: Collection[str]) -> Iterator[tuple[str, str]]:
    group = spec.fairness.reference_group
    if group is not None and group not in known_groups:
        yield "/fairness/reference_group", "is not a group that the federation's profile shows"


def _of_budgets(spec: ExperimentSpec) -> Iterator[tuple[str, str]]:
    if spec.privacy.budget_column is not None:
        yield "/privacy/budgets/column", "reads a column, and registrations have no such column"


def _of_start(spec: ExperimentSpec) -> Iterator[tuple[str, str]]:
    if isinstance(spec.model.start, ArtifactStart):
        yield "/model/start", CHOSEN_PARAMETERS
