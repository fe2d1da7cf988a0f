"""Between whom, and by which outcome, fairness is measured, and how its counts are protected."""

from collections import Counter
from itertools import pairwise
from typing import Annotated, Any, Literal, assert_never

from pydantic import BeforeValidator, Discriminator, Field, Tag

from fedaudit.spec.base import MAX_INTEGER, InForm, SpecPart, Text, is_stored
from fedaudit.spec.errors import Refusals, pointer, refuse, refuse_at
from fedaudit.spec.labels import LabelText, as_read
from fedaudit.spec.sources import Source
from fedaudit.spec.training import Training

HeldOutUnit = Literal["client", "record"]
_ROWS = "/fairness/noise/max_rows_per_client"
OFTEN_RIGHT = 2.94
"""The largest exponent, of two decimals, at which a guess between two datasets that are equally
likely is right in at most 95 % of cases, at a small delta: the most at which noise on counts
replaces suppression. At 10, nearly every count is exact."""


class _CountNoise(SpecPart):
    """What both mechanisms have in common."""

    epsilon: Annotated[float, Field(ge=1e-3, le=100)]
    """What all fairness figures of the report may reveal of one held-out client or record; more
    than 2.94 is refused for secret noise, and stored runs may have it."""
    unit: HeldOutUnit
    """Whom it protects: a validation client with all its rows, or a single held-out record."""
    max_rows_per_client: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """How many rows of a client count towards an attribute, with the unit `client`; they are drawn,
    whatever they contain."""
    rounds: Annotated[bool, Field(exclude_if=lambda rounds: not rounds)] = False
    """Retired: stored runs published the gaps of validated rounds with noise too."""

    def faults(self) -> Refusals:
        match self.unit:
            case "client":
                if self.max_rows_per_client is None:
                    yield refuse_at(
                        _ROWS,
                        "is required with the unit `client`: without a bound on a client's rows no "
                        "noise hides them; give the number of rows of which most clients have less",
                    )
            case "record":
                if self.max_rows_per_client is not None:
                    yield refuse_at(_ROWS, "goes with the unit `client`; leave it out")
            case _:
                assert_never(self.unit)


class DiscreteLaplaceCounts(_CountNoise):
    """Integer noise of the discrete Laplace distribution: epsilon without a delta."""

    mechanism: Literal["discrete-laplace"]


class GaussianCounts(_CountNoise):
    """Integer noise of the discrete Gaussian distribution."""

    mechanism: Literal["gaussian"]
    delta: Annotated[float, Field(ge=1e-15, le=0.1)]


CountNoise = Annotated[DiscreteLaplaceCounts | GaussianCounts, Field(discriminator="mechanism")]


class CountRounding(SpecPart):
    """Counts rounded up or down at random to a multiple of `base`, without bias; 1 leaves them."""

    base: Annotated[int, Field(ge=1, le=1000)] = 5


DEFAULT_GROUP_CLIENTS = 2
_LATER = Field(exclude_if=lambda value: value is None)
"""Specs came before such a field: null is left out of what is hashed."""

Label = float | Annotated[int, Field(ge=-MAX_INTEGER, le=MAX_INTEGER)] | Text
RuleOp = Literal["ge", "le", "in"]


class Rule(SpecPart):
    """An outcome is favourable where it compares so with a value in the target's own units."""

    op: RuleOp
    value: Label | Annotated[list[Label], Field(min_length=1, max_length=1000)]
    label: Annotated[LabelText | None, _LATER] = None
    """The outcome in the user's words, as `not re-arrested`; reports say it beside the rule."""

    def faults(self) -> Refusals:
        match self.op:
            case "in":
                if not isinstance(self.value, list):
                    yield refuse("`in` takes a list of values")
            case "ge" | "le":
                if not isinstance(self.value, int | float):
                    yield refuse(f"`{self.op}` takes a number")
            case _:
                assert_never(self.op)


class GroupRule(Rule):
    """A rule for the rows of one group."""

    group: Annotated[dict[Text, Text], Field(min_length=1, max_length=1)]
    """One attribute and its value."""


Favourable = Annotated[
    Annotated[Rule, Tag("[rule]")]
    | Annotated[Annotated[list[GroupRule], Field(min_length=1, max_length=1000)], Tag("[rules]")],
    Discriminator(lambda rule: "[rules]" if isinstance(rule, list) else "[rule]"),
]


def without_label(favourable: Favourable | None) -> Favourable | None:
    """What is counted, whatever it is called: equal for rules that differ in their labels alone."""
    if isinstance(favourable, list):
        return [rule.model_copy(update={"label": None}) for rule in favourable]
    return None if favourable is None else favourable.model_copy(update={"label": None})


class Intervals(SpecPart):
    """Uncertainty of the gaps (`fedaudit.fairness.intervals`). `method` and `samples` belong to
    earlier reports, which redrew clients: they are read and hashed, and change nothing."""

    method: Literal["bootstrap-clients"] = "bootstrap-clients"
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    samples: Annotated[int, Field(ge=100, le=100_000)] = 1000


def _codes_as_text(values: Any) -> Any:
    """YAML takes the code in `[9]` for a number, which is a value of a column all the same."""
    if not isinstance(values, list):
        return values
    return [str(one) if type(one) in (int, float) else one for one in values]


GroupValues = Annotated[
    list[Text], Field(min_length=1, max_length=1000), BeforeValidator(_codes_as_text)
]
"""Values of an attribute, as reports call its groups."""
JoinedGroups = dict[Text, Annotated[dict[Text, GroupValues], Field(min_length=1, max_length=100)]]
LeftOutGroups = dict[Text, GroupValues]
WHERE_USED = Field(exclude_if=lambda given: not given)
"""Specs came before such a field: where it is empty it is left out of what is hashed."""


Edges = dict[Text, Annotated[list[float], Field(min_length=1, max_length=100)]]
Combinations = Annotated[
    list[Annotated[list[Text], Field(min_length=2, max_length=4)]], Field(max_length=10)
]


class Groups(SpecPart):
    """Sensitive attributes and the favourable outcome."""

    sensitive: Annotated[
        list[Text],
        Field(max_length=20),
        InForm("Sensitive attributes", hint="Commas between them. Empty: as registered."),
    ] = []
    edges: Edges = {}
    """Where a numeric attribute is cut into groups: [40, 60] gives below 40, 40 to below 60, and
    60 or more."""
    groups: Annotated[
        JoinedGroups,
        WHERE_USED,
        InForm(
            "Values joined into one group",
            hint="As in sex: {other: [divers, unknown]}. Small groups can then be shown together, "
            "and hide no large one.",
        ),
    ] = {}
    """For each attribute: the name of a group, and the values that are compared as that group, as
    {sex: {other: [divers, unknown]}}."""
    exclude: Annotated[
        LeftOutGroups,
        WHERE_USED,
        InForm(
            "Values left out of the comparison",
            hint="As in sex: [divers]. No figure counts these rows, the accuracy neither: how the "
            "model treats these people stays unknown.",
        ),
    ] = {}
    """For each attribute: values whose rows are compared with none and count in no figure, so that
    no total minus the groups gives them away. Their rows of clients that train are trained on."""
    favourable: Annotated[
        Favourable | None,
        InForm(
            "Favourable outcome",
            hint="As in {op: ge, value: 50}, in the target's own units (ge: at least, le: at "
            "most), as in {op: in, value: [A, B]}, or a list with the group of each rule. Empty: "
            "as registered, or a classifier's positive class.",
        ),
    ] = None
    """One rule for everyone, or one per group; null takes the positive class of a classifier."""
    minimum_group_size: Annotated[
        int,
        Field(ge=1, le=1_000_000),
        InForm(
            "Smallest group shown",
            hint="Groups with fewer scored rows are suppressed. Empty: as registered, or 30.",
        ),
    ] = 30
    """Groups with fewer scored rows are suppressed."""
    minimum_group_clients: Annotated[
        int,
        # Specs came before this field: where it is the default it is left out of what is hashed.
        Field(ge=1, le=1_000_000, exclude_if=lambda clients: clients == DEFAULT_GROUP_CLIENTS),
        InForm(
            "Fewest clients of a group",
            hint="Groups whose scored rows are of fewer clients are suppressed. Empty: as "
            "registered, or 2.",
        ),
    ] = DEFAULT_GROUP_CLIENTS
    """Groups whose scored rows belong to fewer clients are suppressed too: rows of one client are
    that client's figures, however many they are."""

    def faults(self) -> Refusals:
        if len(set(self.sensitive)) != len(self.sensitive):
            yield refuse_at("/fairness/sensitive", "names an attribute twice")
        for field in ("edges", "groups", "exclude"):
            for name in getattr(self, field):
                if name not in self.sensitive:
                    message = f"speaks of {name!r}, not in `sensitive`; name it there"
                    yield refuse_at(pointer("fairness", field, name), message)
        for name, edges in self.edges.items():
            if any(low >= high for low, high in pairwise(edges)):
                where = pointer("fairness", "edges", name)
                yield refuse_at(where, f"the edges of {name!r} must rise from one to the next")
        yield from self._joined_faults()
        rules = self.favourable if isinstance(self.favourable, list) else []
        attributes = {attribute for rule in rules for attribute in rule.group}
        if len(attributes) > 1:
            yield refuse_at("/fairness/favourable", "the rules must all speak of one attribute")
        elif unknown := attributes - set(self.sensitive):
            message = f"speaks of {sorted(unknown)[0]!r}, not in `sensitive`; name it there"
            yield refuse_at("/fairness/favourable", message)

    def _joined_faults(self) -> Refusals:
        """Values that are joined or left out twice."""
        for name, joined in self.groups.items():
            if name in self.edges:
                yield refuse_at(
                    pointer("fairness", "groups", name),
                    f"{name!r} is cut at `edges`; choose these so that its groups are large enough",
                )
            left = {as_read(value): "left out by `exclude`" for value in self.exclude.get(name, ())}
            for group, values in joined.items():
                where = pointer("fairness", "groups", name, group)
                if as_read(group) in left:
                    yield refuse_at(where, f"{group!r} is left out by `exclude`; use another name")
                for value in values:
                    if (before := left.get(as_read(value))) is not None:
                        yield refuse_at(where, f"{value!r} is {before} already; name it once")
                    left[as_read(value)] = f"in {group!r}"


class Fairness(Groups):
    """Between whom, and by which outcome, an experiment measures fairness."""

    intersections: Annotated[
        Combinations,
        InForm("Combinations of them", hint="As in [sex, race]; commas between several."),
    ] = []
    """Attributes of `sensitive` whose combinations are groups too, as [[sex, race]]: every
    combination of their values, also one without rows. See `combinations` for the names."""
    reference_group: Text | None = None
    intervals: Intervals | None = Intervals()
    noise: Annotated[CountNoise | None, _LATER] = None
    """Noise on the counts of held-out rows, with its own epsilon. Nothing else about these rows is
    then published; null publishes what follows from the exact or rounded counts."""
    rounding: Annotated[CountRounding | None, _LATER] = None
    """Random rounding of the counts. By default it is `{base: 5}` where `privacy.noise` is
    `release` and there is no `noise`, and null otherwise; null then is `{base: 1}`, which rounds
    nothing."""
    privacy_cost_by_group: bool = False
    """Retired: who may read the ledger sees what each client paid. True is refused."""

    def faults(self) -> Refusals:
        yield from super().faults()
        seen = [frozenset(parts) for parts in self.intersections]
        for place, parts in enumerate(self.intersections):
            where = f"/fairness/intersections/{place}"
            if unknown := [part for part in parts if part not in self.sensitive]:
                yield refuse_at(where, f"{unknown[0]!r} is not in `sensitive`; name it there too")
            if len(seen[place]) != len(parts):
                yield refuse_at(where, "an attribute is named twice; combine different ones")
            if seen[place] in seen[:place]:
                yield refuse_at(where, "the same attributes are combined above; leave one out")
        if self.noise is not None and self.rounding is not None:
            yield refuse_at(
                "/fairness/rounding",
                "counts with noise need no rounding; leave it out, or leave out `noise`",
            )
        taken = Counter([*self.sensitive, *self._joined()])
        for place, name in enumerate(self._joined()):
            if taken[name] > 1:
                yield refuse_at(
                    f"/fairness/intersections/{place}",
                    f"it would be called {name!r}, as another attribute is; rename a column",
                )

    @property
    def rounded_to(self) -> int | None:
        """The base to which counts are rounded; None where they are not."""
        if self.rounding is None or self.rounding.base == 1:
            return None
        return self.rounding.base

    @property
    def combinations(self) -> dict[str, tuple[str, ...]]:
        """Each intersection's name and the attributes it combines, in the order of the spec.

        `sex_race` combines sex and race, or `sex x race` where another attribute has that name.
        """
        return dict(zip(self._joined(), map(tuple, self.intersections), strict=True))

    @property
    def attributes(self) -> tuple[str, ...]:
        """Every attribute by which fairness is measured: the sensitive ones, then intersections."""
        return (*self.sensitive, *self.combinations)

    def _joined(self) -> list[str]:
        short = ["_".join(parts) for parts in self.intersections]
        taken = Counter([*self.sensitive, *short])
        return [
            name if taken[name] == 1 else " x ".join(parts)
            for name, parts in zip(short, self.intersections, strict=True)
        ]


_OF_FAIRNESS = {
    "sensitive",
    "edges",
    "favourable",
    "minimum_group_size",
    "intersections",
    "reference_group",
    "intervals",
}
"""What every stored spec has in `fairness`."""


def with_default_rounding(value: Any) -> Any:
    """The document of a spec, with counts rounded by default where the model is released.

    A spec that was stored before there was rounding has every other field, and stays unchanged.
    Anything that is not such a document is returned unchanged, for validation to refuse.
    """
    if not isinstance(value, dict) or not isinstance(value.get("privacy"), dict):
        return value
    fairness = value.get("fairness", {})
    if not isinstance(fairness, dict) or fairness.get("rounding") or fairness.get("noise"):
        return value
    if value["privacy"].get("noise") != "release" or not fairness.get("sensitive"):
        return value
    stored = is_stored(value) and fairness.keys() >= _OF_FAIRNESS
    if "rounding" not in fairness and stored:
        return value
    # Null is not stored, so that it must not mean anything beside its being left out.
    base = 1 if "rounding" in fairness else 5
    return {**value, "fairness": {**fairness, "rounding": {"base": base}}}


def publishes_noised_rounds(fairness: Fairness) -> bool:
    """Whether a stored run published the gaps of validated rounds from counts with noise."""
    return fairness.noise is not None and fairness.noise.rounds


def check_count_noise(
    fairness: Fairness, *, training: Training, source: Source, has_outcome: bool, by_record: bool
) -> Refusals:
    """Faults where something would escape `fairness.noise`, or nothing is counted, at their fields.
    `by_record`: whether each record has its own coin."""
    noise = fairness.noise
    if noise is None:
        return
    if not fairness.sensitive:
        yield refuse_at(
            "/fairness/sensitive", "`noise` is given, so name a sensitive attribute to count by"
        )
    if not has_outcome:
        yield refuse_at(
            "/fairness/favourable",
            "`noise` is added to counts of favourable outcomes; say which outcome is favourable",
        )
    if training.stopping.patience is not None:
        yield refuse_at(
            "/training/stopping/patience",
            "would end training by losses of the people whom fairness.noise protects, which have "
            "no noise; use null, or leave out fairness.noise",
        )
    match noise.unit:
        case "client":
            pass
        case "record":
            if training.hypotheses > 1:
                yield refuse_at(
                    "/fairness/noise/unit",
                    "with several hypotheses one record decides which of them predicts its "
                    "client's other records; use the unit `client`, or one hypothesis",
                )
            if training.method.personalises:
                yield refuse_at(
                    "/fairness/noise/unit",
                    f"with {training.method.kind} one record moves the model that predicts its "
                    "client's other records; use the unit `client`, or the method `hypotheses`",
                )
            if source.holds_out_rows and not by_record:
                yield refuse_at(
                    "/fairness/noise/unit",
                    "one record more or less changes which of its client's other rows are held "
                    "out; use the unit `client`",
                )
            if source.traits.statistics == "of each client" and not source.holds_out_rows:
                yield refuse_at(
                    "/fairness/noise/unit",
                    "with `standardise: client` one record moves the features of its client's "
                    "other records; use the unit `client`, or declare constants under `scale`",
                )
        case _:
            assert_never(noise.unit)
