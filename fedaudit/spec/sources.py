"""What every source of clients' data has in common, and answers for the rest of the project."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Literal, assert_never

from pydantic import AfterValidator, Discriminator, Field, Tag

from fedaudit.spec.base import UPLOADED, InForm, SpecPart, Text
from fedaudit.spec.errors import Refusals, refuse, refuse_at
from fedaudit.spec.labels import CodeLabels

TargetKind = Literal["number", "class", "either"]
"""What the target of a source is; `either` where the loss decides."""
Statistics = Literal["none", "of each client", "of all clients"]
"""Over whose rows a source computes numbers, without noise, that change features."""


def moves_others(statistics: Statistics, *, by_record: bool) -> bool:
    """Whether one unit, a record or else a client, changes the features of other units."""
    match statistics:
        case "none":
            return False
        case "of each client":
            return by_record
        case "of all clients":
            return True
        case _:
            assert_never(statistics)


@dataclass(frozen=True, kw_only=True)
class SourceTraits:
    """The answers of one source. What its privacy rests on has no default: mypy names each source
    that does not answer it."""

    draws_data: bool
    """Whether the loaded data depend on the experiment's seed."""
    client_key: str | None
    """The column or array that says whose a row is; None where the data name no client."""
    made_up: bool
    """Whether the data are drawn from a distribution, and describe no real person."""
    target_name: str
    """What the target is called."""
    target: TargetKind
    images: bool = False
    """Whether rows are images."""
    attributes: frozenset[str] | None = None
    """The only sensitive attributes that it can have; None where the data name them."""
    cuts_attributes: bool = False
    """Whether a numeric attribute may be cut into groups by `fairness.edges`."""
    training_columns: frozenset[str] | None = None
    """The named features and the target; None where the data have no columns of the caller's, so
    that no further column can be named."""
    files: tuple[str, ...]
    """Every path below the sources folder that is read."""
    statistics: Statistics
    """Whose rows decide how features are scaled, beyond a row's own cells."""
    finds_classes: bool = False
    """Whether the classes of a classifier are the values that the data have, and not declared."""
    data_limits: tuple[str, ...] = ()
    """Sentences for a report's limits: what loading reveals without protection."""
    fairness_limits: tuple[str, ...] = ()
    """Sentences for a report's limits: what explains gaps between groups."""

    @property
    def deals_rows(self) -> bool:
        """Whether the seed deals rows to clients by their place, so that one more deals all
        anew."""
        return self.client_key is None and not self.made_up


ValidationFraction = Annotated[
    float,
    Field(gt=0, lt=1),
    InForm(
        "Held-out share",
        hint="Of the clients, for validation. Empty: as registered, or half of synthetic ones.",
    ),
]


def _below_the_sources(path: str) -> str:
    """The path, if it is relative and does not lead upwards. Raises ValueError."""
    parts = path.replace("\\", "/").split("/")
    if path.startswith(("/", "\\", "~")) or "://" in path or ":" in parts[0]:
        raise ValueError("must be a relative path below the service's sources folder")
    if ".." in parts:
        raise ValueError("must not contain '..'")
    return path


FilePath = Annotated[
    str,
    Field(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+$"),
    AfterValidator(_below_the_sources),
]
FederationId = Annotated[
    str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", max_length=36)
]


class LeaveOneOut(SpecPart):
    """Each row is scored by the hypothesis that fits the client's other rows best."""

    method: Literal["leave-one-out"]


class RowSplit(SpecPart):
    """Some rows of a client are scored by the hypothesis that fits its other rows best."""

    method: Literal["split"]
    fraction: Annotated[float, Field(gt=0, lt=1), InForm("Share that is scored", "0.5")] = 0.5
    """Share of a client's rows that is scored, drawn with the experiment's seed."""


ValidationUnit = Literal["client", "record"]
_HOLDS_OUT_ROWS: dict[ValidationUnit, bool] = {"client": False, "record": True}
Scoring = Annotated[LeaveOneOut | RowSplit, Field(discriminator="method")]


class Source(SpecPart):
    """What is held out, and how it is scored."""

    validation_fraction: ValidationFraction = 0.3
    """Share held out for validation, drawn with the seed of the experiment: of the clients, or the
    chance of every row."""
    validation_unit: Annotated[
        ValidationUnit,
        InForm(
            "Held out",
            words={
                "": "as registered",
                "client": "whole clients",
                "record": "rows of every client: all train, and the last round is released",
            },
            only=(UPLOADED,),
        ),
    ] = "client"
    """What is held out: whole clients, or rows of every client, all of which then train. Beside a
    mechanism that protects clients, held-out rows then decide nothing of what is released."""
    scoring: Annotated[
        Scoring,
        InForm(
            "Held-out rows",
            words={
                "": "as registered, or leave-one-out",
                "leave-one-out": "leave-one-out: a client's other rows choose for each",
                "split": "split: some choose or tune, the others are scored",
            },
        ),
    ] = LeaveOneOut(method="leave-one-out")
    """How a hypothesis is chosen for a held-out client without the rows that it is scored on."""
    # Specs came before this field: where it is empty it is left out of what is hashed.
    labels: Annotated[CodeLabels, Field(exclude_if=lambda labels: not labels)] = {}
    """For each column: words for the codes of groups and of the target's classes, as in reports.
    They change neither rows nor figures."""

    @property
    def holds_out_rows(self) -> bool:
        """Whether rows of every client are held out, and not whole clients."""
        return _HOLDS_OUT_ROWS[self.validation_unit]

    @property
    @abstractmethod
    def traits(self) -> SourceTraits:
        """What the rest of the project asks of this source."""


class FileSource(Source):
    """A file below the service's sources folder, or one that was uploaded."""

    path: FilePath | None = None
    """Below the service's sources folder."""
    id: FederationId | None = None
    """An uploaded federation, as `POST /v1/federations` answered."""

    @property
    def paths(self) -> tuple[str, ...]:
        """`path`, where the data lie below the sources folder."""
        return () if self.path is None else (self.path,)

    def faults(self) -> Refusals:
        return check_one_place("/federation/path", self.path, self.id)


def check_one_place(where: str, path: str | None, id: str | None) -> Refusals:
    """An error at `where` unless the data are named once."""
    if (path is None) == (id is None):
        given = "both are given" if path else "neither is given"
        yield refuse_at(
            where,
            "name the data by `path` (below the sources folder) or by `id` (of an uploaded "
            f"federation); {given}",
        )


class Range(SpecPart):
    """A declared public range: values are brought to 0 at `low` and 1 at `high`."""

    low: float
    high: float

    def faults(self) -> Refusals:
        if not 0 < self.high - self.low < math.inf:
            yield refuse("`high` must lie above `low`, by a finite amount")


class CentredRange(Range):
    """A declared range whose ends become -2 and 2, by `standardise: ranges`."""


class Centre(SpecPart):
    """A declared public mean and deviation: they are brought to 0 and 1."""

    mean: float
    deviation: Annotated[float, Field(gt=0)]


def _kind_of_scale(scale: object) -> str:
    if isinstance(scale, Centre) or (isinstance(scale, dict) and {"mean", "deviation"} & {*scale}):
        return "[centre]"
    return "[range]" if isinstance(scale, dict | Range) else "[divisor]"


Divisor = Annotated[float, Field(gt=0)]
Scale = Annotated[
    Annotated[Divisor, Tag("[divisor]")]
    | Annotated[Range, Tag("[range]")]
    | Annotated[Centre, Tag("[centre]")],
    Discriminator(_kind_of_scale),
]
Scales = dict[Text, Scale]
