"""The fields of the form for an experiment, as the spec declares them."""

from dataclasses import dataclass
from typing import Literal
from functools import cache
from typing import Any, get_args
from fedaudit.spec.errors import FieldError
from fedaudit.spec.model.layers import LayerSpec
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any, Literal, get_args, get_origin
from pydantic.fields import FieldInfo
from fedaudit.spec.base import SpecPart
from fedaudit.spec.in_form import InForm
from fedaudit.spec.methods.method_kinds import DEFAULT_METHOD, method_parts
from fedaudit.spec.privacy import mechanism_parts
from fedaudit.privacy.mechanisms import registry as mechanisms
from fedaudit.spec.fairness import DEFAULT_GROUP_CLIENTS
from fedaudit.spec.gate_figures import PLAIN_FIGURES
from fedaudit.spec.gates import GateOp
from fedaudit.spec.metrics import FAIRNESS_FIGURES
from functools import cache

Kind = Literal[
    "text", "number", "numbers", "vectors", "words", "sets", "choice", "switch", "layers"
]
Choices = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Field:
    """A field; its name in the form is the JSON pointer of the spec's field.

    `numbers` and `words` are lists with commas; `vectors` lists of numbers, and `sets` words with
    `+`, between semicolons; `layers` a layer a line.
    """

    pointer: str
    label: str
    kind: Kind = "number"
    initial: str = ""
    """What the form begins with; a switch is on where it is not empty."""
    hint: str = ""
    choices: Choices = ()
    only: tuple[str, ...] = ()
    """Choices made elsewhere in the form for which the field counts; empty where it always does."""

    @property
    def id(self) -> str:
        """The element's id."""
        return f"field{self.pointer.replace('/', '-')}"


@dataclass(frozen=True)
class Section:
    """Fields under one heading."""

    name: str
    title: str
    fields: tuple[Field, ...]


def number(typed: str) -> int | float | str:
    """The whole number or the number that the text stands for, else the text itself."""
    for kind in (int, float):
        try:
            return kind(typed)
        except ValueError:
            continue
    return typed


POINTER = "/model/layers"
_KIND = "kind"


def layers_of(typed: str) -> list[dict[str, Any]]:
    """The layers that the lines come to; lines without a word count for nothing.

    Nothing is refused here: the spec names a kind that it does not have, a number that is missing,
    and one too many.
    """
    return [_layer(line.replace(",", " ").split()) for line in typed.splitlines() if line.strip()]


def usage() -> str:
    """Every kind with the names of its numbers; those in brackets may be left out."""
    return "; ".join(" ".join((name, *words)) for name, words in _usages().items())


def fault_of_layer(fault: FieldError, typed: str) -> FieldError:
    """The fault in the words of the lines: which layer, which of its numbers, how it is written."""
    start, _, within = fault.pointer.partition(f"{POINTER}/")
    place, _, name = within.partition("/")
    layers = layers_of(typed)
    if start or not place.isdigit() or int(place) >= len(layers):
        return fault
    kind = str(layers[int(place)][_KIND])
    where = f"layer {int(place) + 1} (`{kind}`)"
    if name and name != _KIND:
        where += f", {name}"
    message = f"{where}: {fault.message}"
    if name and kind in _usages():
        message += f"; write `{' '.join((kind, *_usages()[kind]))}`"
    return FieldError(fault.pointer, message, of_spec=fault.of_spec)


def _layer(words: list[str]) -> dict[str, Any]:
    kind, *numbers = words
    names = [word.strip("[]").casefold() for word in _usages().get(kind, ())]
    # A number too many goes on under its own name, which no layer has.
    names += numbers[len(names) :]
    return {_KIND: kind, **dict(zip(names, map(number, numbers), strict=False))}


@cache
def _usages() -> dict[str, tuple[str, ...]]:
    """Kind -> the names of its numbers, in the order of the spec's fields."""
    found = {}
    for part in get_args(get_args(LayerSpec)[0]):
        fields = {name: one for name, one in part.model_fields.items() if name != _KIND}
        words = (
            name.upper() if one.is_required() else f"[{name.upper()}]"
            for name, one in fields.items()
        )
        numbers = tuple(words)
        for kind in get_args(part.model_fields[_KIND].annotation):
            found[kind] = numbers
    return found


def part_fields(parts: Sequence[type[SpecPart]], *, where: str, tag: str) -> tuple[Field, ...]:
    """Each field of the parts at `where` once, in their order; those of every part last.

    A field is shown for the parts that have it, by the literals of their field `tag`. Raises
    ValueError where two parts describe the field of one name differently.
    """
    found: dict[str, Field] = {}
    for part in parts:
        for one in _fields_of(part, where):
            known = found.setdefault(one.pointer, one)
            if replace(known, only=()) != replace(one, only=()):
                raise ValueError(f"{one.pointer} stands in the form in two ways; agree on one")
            found[one.pointer] = replace(known, only=(*known.only, *_names(part, tag)))
    shown = found.values()
    every = sum(len(_names(part, tag)) for part in parts)
    return (
        *(one for one in shown if len(one.only) < every),
        *(replace(one, only=()) for one in shown if len(one.only) == every),
    )


def _names(part: type[SpecPart], tag: str) -> tuple[str, ...]:
    """The literal of the field by which parts are told apart."""
    names: tuple[str, ...] = get_args(part.model_fields[tag].annotation)
    return names


def _fields_of(part: type[SpecPart], where: str) -> Iterator[Field]:
    for name, info in part.model_fields.items():
        pointer, kinds = f"{where}/{name}", _kinds(info.annotation)
        for described in info.metadata:
            if isinstance(described, InForm):
                yield _field(pointer, info, described)
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, SpecPart):
                yield from _fields_of(kind, pointer)


def _field(pointer: str, info: FieldInfo, described: InForm) -> Field:
    kind, choices = _kind_of(info.annotation)
    return Field(pointer, described.label, kind, described.initial, described.hint, choices)


def _kind_of(annotation: Any) -> tuple[Kind, Choices]:
    """A switch, a choice between the words of a literal, or else a number."""
    kinds = _kinds(annotation)
    if kinds == [bool]:
        return "switch", ()
    if len(kinds) == 1 and get_origin(kinds[0]) is Literal:
        words = [str(word) for word in get_args(kinds[0])]
        return "choice", tuple((word, word) for word in words)
    return "number", ()


def _kinds(annotation: Any) -> list[Any]:
    """The members of a union but None; of anything else, the thing itself."""
    members = get_args(annotation) if get_origin(annotation) not in (None, Literal) else ()
    return [one for one in members or (annotation,) if one is not NoneType]


METHOD = "/training/method/kind"
_WORDS = {
    "hypotheses": "hypotheses: clients choose among k models",
    "fine-tuning": "fine-tuning: of these, each client makes its own",
    "ditto": "ditto: a common model, and each client's own near it",
    "q-ffl": "q-ffl: large losses count for more",
    "local-only": "local-only: nothing is sent",
}


def method_fields() -> tuple[Field, ...]:
    """The choice, and each field once; see `part_fields`."""
    fields = part_fields(method_parts(), where="/training/method", tag="kind")
    names = [one for field in method_parts() for one in field.names()]
    choice = Field(
        METHOD,
        "Method",
        "choice",
        DEFAULT_METHOD.kind,
        "Models of their own are scored on rows that they were not made from: for these choose "
        "how held-out rows are split, under Data.",
        tuple((name, _WORDS.get(name, name)) for name in names),
    )
    return (choice, *fields)


def privacy_fields() -> tuple[Field, ...]:
    """Each field once; see `part_fields`."""
    return part_fields(mechanism_parts(), where="/privacy", tag="mechanism")


UPLOADED = "uploaded"
"""Stands for whichever registered federation is chosen."""
SYNTHETIC = (
    ("synthetic-groups", "synthetic-groups: a majority and a minority that differ by a shift"),
    ("synthetic-linear", "synthetic-linear: linear data around several parameter vectors"),
)
SCORING = "/federation/scoring/method"
CHOOSERS = (
    "/federation/source",
    SCORING,
    "/model/kind",
    METHOD,
    "/training/cohort/sampling",
    "/privacy/mechanism",
)
"""Fields on whose choice it depends which others count; so it does on WHOSE_GROUPS."""
SOURCE, MECHANISM = "/federation/source", "/privacy/mechanism"
WHOSE_GROUPS = "groups"
"""Whether the groups are those of the source, or (`own`) those in the form's own fields."""

MECHANISMS = tuple(
    (facts.name, facts.name, facts.description)
    for facts in (mechanism.facts for mechanism in mechanisms.MECHANISMS)
)
"""Value, name, and what it does."""


_OF_RECORDS = tuple(
    mechanism.facts.name for mechanism in mechanisms.MECHANISMS if mechanism.facts.unit == "record"
)


EXPERIMENT = Section(
    "experiment",
    "Experiment",
    (
        Field("/name", "Name", "text", "groups-k2"),
        Field("/seed", "Seed", initial="1", hint="A whole number; 0 is one too."),
        Field(
            "/repeats",
            "Seeds to train",
            hint="This one and the next ones, for the spread of every figure. Each costs what one "
            "costs. Empty: this one.",
        ),
        Field("/tags", "Tags", "words", hint="With commas between them."),
    ),
)
FEDERATION = Section(
    "federation",
    "Data",
    (
        Field(
            "/federation/clients_per_group",
            "Clients of each group",
            "numbers",
            "800, 200",
            "A majority and a minority.",
            only=("synthetic-groups",),
        ),
        Field("/federation/clients", "Clients", initial="200", only=("synthetic-linear",)),
        Field(
            "/federation/rows_per_client",
            "Rows of each client",
            initial="10",
            only=("synthetic-groups", "synthetic-linear"),
        ),
        Field(
            "/federation/shift",
            "Shift",
            initial="15",
            hint="Of the second group's target.",
            only=("synthetic-groups",),
        ),
        Field(
            "/federation/independent_attribute",
            "Groups at random",
            "switch",
            hint="The control: groups are dealt out regardless of the data.",
            only=("synthetic-groups",),
        ),
        Field(
            "/federation/thetas",
            "Parameter vectors",
            "vectors",
            "5, 6; 4, -4.5",
            "Numbers with commas, vectors with semicolons.",
            only=("synthetic-linear",),
        ),
        Field(
            "/federation/validation_fraction",
            "Held-out share",
            hint="Of the clients, for validation. Empty: as registered, or half of synthetic ones.",
        ),
        Field(
            SCORING,
            "Held-out rows",
            "choice",
            choices=(
                ("", "as registered, or leave-one-out"),
                ("leave-one-out", "leave-one-out: a client's other rows choose for each"),
                ("split", "split: some choose or tune, the others are scored"),
            ),
        ),
        Field(
            "/federation/scoring/fraction", "Share that is scored", initial="0.5", only=("split",)
        ),
    ),
)
MODEL = Section(
    "model",
    "Model",
    (
        Field(
            "/model/kind",
            "Kind",
            "choice",
            "linear",
            choices=(
                ("linear", "linear"),
                ("logistic", "logistic"),
                ("mlp", "mlp"),
                ("cnn-femnist", "cnn-femnist"),
                ("layers", "layers: put together below"),
            ),
        ),
        Field(
            "/model/hidden",
            "Hidden layers",
            "numbers",
            "16",
            "Units of each, with commas.",
            only=("mlp",),
        ),
        Field(
            "/model/intercept",
            "With an intercept",
            "switch",
            "on",
            only=("linear", "logistic", "mlp"),
        ),
        Field(
            LAYERS,
            "Layers",
            "layers",
            "dense 16\nrelu",
            f"One a line, first to last: {usage()}. The layer with the outputs is added behind.",
            only=("layers",),
        ),
        Field(
            "/model/input",
            "Images",
            "numbers",
            hint="Height, width and channels, for convolutions and pooling. Empty: rows.",
            only=("layers",),
        ),
        Field(
            "/model/start",
            "Start",
            "choice",
            choices=(
                ("", "as suits the model"),
                ("zeros", "zeros"),
                ("normal", "standard normal"),
                ("uniform", "uniform, small"),
            ),
            hint="What training starts from. Zeros leave several hypotheses alike.",
        ),
        Field(
            "/training/loss",
            "Loss",
            "choice",
            "rmse",
            choices=(("rmse", "rmse"), ("mse", "mse"), ("cross-entropy", "cross-entropy")),
        ),
    ),
)
TRAINING = Section(
    "training",
    "Training",
    (
        *method_fields(),
        Field(
            "/training/hypotheses",
            "Hypotheses (k)",
            initial="2",
            hint="Models that clients choose from. 1 is one model for everybody.",
        ),
        Field("/training/rounds", "Rounds at most (T)", initial="200"),
        Field(
            "/training/cohort/sampling",
            "Clients of a round",
            "choice",
            "fixed",
            choices=(("fixed", "fixed number"), ("poisson", "poisson coins")),
            hint="Coins go with gaussian-central and record-personalised.",
        ),
        Field("/training/cohort/clients", "Clients drawn (U)", initial="70", only=("fixed",)),
        Field(
            "/training/cohort/rate",
            "Chance of each client",
            initial="0.1",
            hint="1: everyone in every round.",
            only=("poisson",),
        ),
        Field("/training/local/epochs", "Local epochs (E)", hint="Empty: 1, or steps instead."),
        Field(
            "/training/local/steps",
            "Local steps",
            hint="Instead of epochs; record-personalised needs them.",
        ),
        Field("/training/local/batch_size", "Batch size", hint="Empty: a client's whole data."),
        Field("/training/local/step_size", "Step size", initial="0.1"),
        Field(
            "/training/local/optimiser",
            "Optimiser",
            "choice",
            "sgd",
            choices=(("sgd", "sgd"), ("adam", "adam"), ("rmsprop", "rmsprop")),
            only=_OF_RECORDS,
        ),
        Field(
            "/training/clustering/method",
            "Clustering",
            "choice",
            "k-means",
            choices=(("k-means", "k-means"), ("reported", "reported")),
            hint="k-means: the server clusters uploads. reported: clients say what they chose.",
        ),
        Field(
            "/training/stopping/patience",
            "Patience",
            initial="30",
            hint="Validations in a row without a lower loss. Empty: all rounds are played.",
        ),
    ),
)
PRIVACY = Section("privacy", "Privacy", privacy_fields())
GROUPS = Section(
    "groups",
    "Groups",
    (
        Field(
            "/fairness/minimum_group_size",
            "Smallest group shown",
            initial="30",
            hint="Groups with fewer scored rows are suppressed.",
        ),
        Field(
            "/fairness/minimum_group_clients",
            "Fewest clients of a group",
            initial=str(DEFAULT_GROUP_CLIENTS),
            hint="Groups whose scored rows are of fewer clients are suppressed.",
        ),
        Field(
            "/fairness/sensitive",
            "Sensitive attributes",
            "words",
            hint="With commas between them.",
            only=("own",),
        ),
        Field(
            "/fairness/intersections",
            "Combinations of them",
            "sets",
            hint="As in sex + race; semicolons between several.",
            only=("own",),
        ),
    ),
)
SECTIONS = (EXPERIMENT, FEDERATION, MODEL, TRAINING, PRIVACY, GROUPS)

RULES = "/fairness/favourable"
RULE_ROWS = 3
RULE_OPS = (("ge", "at least"), ("le", "at most"), ("in", "one of"))

GATES = "/gates"
GATE_ROWS = 4
GATE_FIGURES: tuple[str, ...] = (*PLAIN_FIGURES, *FAIRNESS_FIGURES)
GATE_OPS: tuple[tuple[GateOp, str], ...] = (("le", "at most"), ("ge", "at least"))

SUGGESTED_GROUPS: dict[str, dict[str, object]] = {
    "synthetic-groups": {
        "sensitive": ["group"],
        "favourable": [
            {"group": {"group": "g1"}, "op": "ge", "value": 0},
            {"group": {"group": "g2"}, "op": "le", "value": 15},
        ],
    },
    "synthetic-linear": {},
}
"""The groups of synthetic data, by source; those of a federation come with its registration."""


NAME = "experiment_choices.css"

_ALWAYS = {fields.UPLOADED: 'option[data-kind="uploaded"]', "own": 'input[value="own"]'}
"""Choices whose elements are found in another way, or that no field of a section names."""


@cache
def choice_rules() -> str:
    """CSS: hidden unless the choice is made."""
    chosen = dict(_ALWAYS)
    mechanisms = {name for name, _, _ in fields.MECHANISMS}
    for section in fields.SECTIONS:
        for one in section.fields:
            for choice in one.only:
                element = "input" if choice in mechanisms else "option"
                chosen.setdefault(choice, f'{element}[value="{choice}"]')
    rules = ",\n".join(
        f"  .spec-form:has({element}:checked) .for-{choice}" for choice, element in chosen.items()
    )
    return (
        "@supports selector(:has(*)) {\n"
        "  .only, .only-note { display: none; }\n"
        f"{rules} {{ display: block; }}\n"
        "}\n"
    )
