"""Data in a table: its columns, and clients for rows that name none."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from fedaudit.spec.base import UPLOADED, InForm, SpecPart, Text
from fedaudit.spec.errors import Refusals, refuse, refuse_at
from fedaudit.spec.labels import repeated_labels
from fedaudit.spec.sources import CentredRange, FileSource, Range, Scales, SourceTraits, Statistics

TABLE_FORMATS = "CSV or Parquet"
"""What a table may be, in words."""
Clients = Annotated[int, Field(ge=2, le=1_000_000)]
_STANDARDISED: dict[Statistics, str | None] = {
    "none": None,
    "of each client": (
        "Features were standardised by means and deviations of the data, taken without noise, of "
        "each client by itself: no guarantee for records covers what these reveal."
    ),
    "of all clients": (
        "Features were standardised by means and deviations of the data, taken without noise: no "
        "guarantee covers what these reveal, nor any model that was trained on them."
    ),
}
_DEALT = (
    "The clients were made up: the partition dealt rows to them by the seed, and none of them is a "
    "person or an institution. A guarantee for a client is one for the rows that happened to be "
    "dealt to it, and whose rows lie with several clients is protected less."
)
Encoding = Literal["one-hot", "ordinal"]
Missing = Literal["reject", "drop-row", "constant"]
_DROPS_ROWS: dict[Missing, bool] = {"reject": False, "drop-row": True, "constant": False}
MissingRequired = Literal["reject", "drop-row"]
_REQUIRED = Field(exclude_if=lambda rule: rule == "reject")
"""Specs came before such a field: the default is left out of what is hashed."""


class Feature(SpecPart):
    """One feature column, and what becomes of its values."""

    name: Text
    kind: Literal["numeric", "categorical"] = "numeric"
    categories: Annotated[list[Text], Field(min_length=1, max_length=1000)] | None = None
    """Values of a categorical feature, declared and public; any other value is an error."""
    encoding: Encoding = "one-hot"
    """A column per category, or the category's position in the list."""
    missing: Missing = "reject"
    """What an empty cell means: an error, a row to leave out, or the value of `fill`."""
    fill: float | Text | None = None

    def faults(self) -> Refusals:
        if (self.kind == "categorical") != (self.categories is not None):
            yield refuse("`categories` go with the kind `categorical`: give both, or neither")
        if self.categories and len(set(self.categories)) != len(self.categories):
            yield refuse("`categories` names a value twice")
        if (self.missing == "constant") != (self.fill is not None):
            yield refuse("`fill` is given with `missing: constant`, and only then")
        if self.categories and self.fill is not None and self.fill not in self.categories:
            yield refuse("`fill` must be one of `categories`")
        if self.kind == "numeric" and isinstance(self.fill, str):
            yield refuse("`fill` of a numeric feature must be a number")


class OneHot(SpecPart):
    """Columns of 0 and 1 that are one attribute: each the members of one group."""

    columns: Annotated[dict[Text, Text], Field(min_length=1, max_length=1000)]
    """The name of each column's group."""
    none: Text | None = None
    """The group of rows in which no column is set; null leaves them without a group."""

    def faults(self) -> Refusals:
        groups = [*self.columns.values(), *([] if self.none is None else [self.none])]
        if repeated := repeated_labels(groups):
            yield refuse(f"two groups would be called {sorted(repeated)[0]!r}; rename one")
        if len(groups) < 2:
            yield refuse("makes one group only; join two columns, or name the rest by `none`")


class Iid(SpecPart):
    """Rows are dealt to clients at random, as evenly as they go."""

    method: Literal["iid"]
    clients: Clients


class Dirichlet(SpecPart):
    """Each class is dealt to the clients in shares drawn from a Dirichlet distribution."""

    method: Literal["dirichlet"]
    clients: Clients
    alpha: Annotated[float, Field(ge=1e-6, le=1e6)]
    """Small values give clients few classes each, large ones nearly equal shares. A client that
    gets no row is left out."""


class Shards(SpecPart):
    """Rows are sorted by target and cut into shards, of which every client gets some."""

    method: Literal["shards"]
    clients: Clients
    shards_per_client: Annotated[int, Field(ge=1, le=1000)] = 2


class ByColumn(SpecPart):
    """A client per value of a column; the same as naming it as the client key."""

    method: Literal["column"]
    column: Text


Standardise = Literal["global", "client", "ranges"]
_OVER_ROWS: dict[Standardise, Statistics] = {
    "global": "of all clients",
    "client": "of each client",
    "ranges": "none",
}


def centred(scales: Scales, standardise: Standardise | None) -> Scales:
    """The scales, of which `ranges` brings the ends of each range to -2 and 2."""
    if standardise != "ranges":
        return scales
    return {
        name: CentredRange(low=one.low, high=one.high) if isinstance(one, Range) else one
        for name, one in scales.items()
    }


Dealt = Iid | Dirichlet | Shards
"""The partitions that deal rows out by the experiment's seed."""
Partition = Annotated[Dealt | ByColumn, Field(discriminator="method")]


def drops_rows(rule: Missing) -> bool:
    """Whether a row is left out where a cell is empty that has this rule."""
    return _DROPS_ROWS[rule]


Features = Annotated[
    Annotated[Literal["all"], Tag("[all]")]
    | Annotated[
        Annotated[
            list[
                Annotated[
                    Annotated[Text, Tag("[name]")] | Annotated[Feature, Tag("[feature]")],
                    Discriminator(lambda one: "[name]" if isinstance(one, str) else "[feature]"),
                ]
            ],
            Field(min_length=1, max_length=10_000),
        ],
        Tag("[columns]"),
    ],
    Discriminator(lambda all_: "[columns]" if isinstance(all_, list) else "[all]"),
]


class Table(FileSource):
    """Any table with features and a target."""

    source: Literal["table"]
    header: bool = True
    """Whether a CSV file's first line names its columns; else they are column_1, column_2, ..."""
    client_key: Text | None = None
    """The column that says which client a row belongs to."""
    partition: Partition | None = None
    """How clients are made where no column names them; drawn with the experiment's seed."""
    target: Text
    features: Features = "all"
    """Columns, or all but the client key, the target, the sensitive attributes and those under
    `drop`."""
    drop: Annotated[list[Text], Field(max_length=10_000)] = []
    leak_reviewed: Annotated[
        list[Text], Field(max_length=10_000, exclude_if=lambda columns: not columns)
    ] = []
    """Features of which somebody made sure that they are neither the outcome in other words nor
    known only after it; "*" for all. Profiles then no longer warn of them, and with all features
    listed a report takes an accuracy above 0.99 for what it is."""
    missing_client: Annotated[MissingRequired, _REQUIRED] = "reject"
    """What a row with an empty client key means: an error, or a row to leave out."""
    missing_target: Annotated[MissingRequired, _REQUIRED] = "reject"
    """What a row with an empty target means: an error, or a row to leave out."""
    join: Annotated[
        dict[Text, OneHot], Field(max_length=20, exclude_if=lambda joined: not joined)
    ] = {}
    """Attributes that several columns of 0 and 1 hold together, to be named under
    `fairness.sensitive`; these columns are no features unless `features` names them. Specs came
    before this field: where it is empty it is left out of what is hashed."""
    positive: Text | None = None
    """The value of a two-class target that counts as the positive class."""
    missing_values: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=20)] = [
        ""
    ]
    """Texts that mean an empty cell; the empty text always does."""
    scale: Scales = {}
    """Public constants per column, never taken from the data: a divisor, the range {low, high},
    whose ends become 0 and 1 (values outside are brought to its ends), or {mean, deviation}, which
    become 0 and 1. The target takes no range. "*" means every numeric feature that is not
    named."""
    standardise: Annotated[
        Standardise | None,
        InForm(
            "Standardise features",
            hint="Training learns fastest from numbers around 0. client: by each client's own rows,"
            " where clients are protected. ranges: by declared ranges. global: without privacy.",
            words={"": "as registered", **{how: how for how in ("client", "ranges", "global")}},
            only=(UPLOADED,),
        ),
    ] = None
    """Bring numeric features, once scaled, to mean 0 and deviation 1 over the rows of all training
    clients or within each client: this looks at the data, without noise. `global` goes with no
    mechanism, `client` with those whose unit is the client. `ranges` looks at no data: the ends of
    a feature's declared range {low, high} become -2 and 2, and other features stay as scaled."""

    def faults(self) -> Refusals:
        yield from super().faults()
        if (self.client_key is None) == (self.partition is None):
            yield refuse_at(
                "/federation/client_key",
                "name the column that identifies clients, or say under `partition` how rows are "
                "dealt to clients; one of the two",
            )

    @property
    def dealt(self) -> Dealt | None:
        """How the seed deals rows to clients; None where a column names the client."""
        return None if isinstance(self.partition, ByColumn) else self.partition

    @property
    def traits(self) -> SourceTraits:
        by_client = self.holds_out_rows and self._statistics == "of each client"
        over_training = by_client or self._statistics == "of all clients"
        return SourceTraits(
            draws_data=self.dealt is not None or over_training,
            client_key=self.key_column,
            made_up=False,
            target_name=self.target,
            target="either",
            cuts_attributes=True,
            training_columns=frozenset({self.target, *self.named_features}),
            files=self.paths,
            statistics=self._statistics,
            finds_classes=True,
            data_limits=(
                *filter(None, [_STANDARDISED[self._statistics]]),
                *(() if self.dealt is None else (_DEALT,)),
            ),
        )

    def is_leak_reviewed(self, *features: str) -> bool:
        """Whether somebody made sure that none of the features is the outcome."""
        return "*" in self.leak_reviewed or set(features) <= set(self.leak_reviewed)

    @property
    def answers_leak(self) -> bool:
        """Whether somebody made sure of every feature."""
        return bool(self.leak_reviewed) and self.is_leak_reviewed(*(self.named_features or "*"))

    @property
    def named_features(self) -> frozenset[str]:
        """The features that the spec names; none where it takes all columns."""
        features = () if self.features == "all" else self.features
        return frozenset(one if isinstance(one, str) else one.name for one in features)

    @property
    def key_column(self) -> str | None:
        """The column that names the client; None where the seed deals rows to clients."""
        return self.partition.column if isinstance(self.partition, ByColumn) else self.client_key

    @property
    def _statistics(self) -> Statistics:
        return "none" if self.standardise is None else _OVER_ROWS[self.standardise]
