"""Which columns of a table a spec uses, and in which role."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from fedaudit.spec.errors import FieldError, error_at, no_column, pointer, raise_errors
from fedaudit.spec.labels import as_read
from fedaudit.spec.table import Encoding, Feature, OneHot, Table

_FEATURES = "/federation/features"
_TARGET = "/federation/target"
BUDGETS = "/privacy/budgets/column"
_IS_ONE_HOT: dict[Encoding, bool] = {"one-hot": True, "ordinal": False}


@dataclass(frozen=True)
class FeatureColumn:
    """A feature, and the field of the spec that chose it."""

    feature: Feature
    where: str

    @property
    def name(self) -> str:
        """The column of the file."""
        return self.feature.name

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories of a categorical feature; empty for a numeric one."""
        return tuple(self.feature.categories or ())

    @property
    def one_hot(self) -> bool:
        """Whether it becomes one column of 0 and 1 per category."""
        return bool(self.categories) and _IS_ONE_HOT[self.feature.encoding]

    @property
    def names(self) -> tuple[str, ...]:
        """The encoded features."""
        if self.one_hot:
            return tuple(f"{self.name}={category}" for category in self.categories)
        return (self.name,)


@dataclass(frozen=True)
class ClientKey:
    """The column that identifies clients, and the field of the spec that names it."""

    name: str
    where: str


@dataclass(frozen=True)
class Columns:
    """The columns that are read from a table."""

    client_key: ClientKey | None
    """None where clients are made by dealing out rows."""
    target: str
    sensitive: tuple[str, ...]
    features: tuple[FeatureColumn, ...]
    budgets: str | None = None
    """The column with every row's privacy budget."""
    joined: Mapping[str, OneHot] = field(default_factory=dict)
    """Those of the sensitive attributes that several columns hold together."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features after encoding."""
        return tuple(name for column in self.features for name in column.names)

    @property
    def width(self) -> int:
        """How many they are."""
        return len(self.feature_names)

    @property
    def fields(self) -> dict[str, str]:
        """Every column of the file that is needed, and the field of the spec that names it."""
        named = {column.name: column.where for column in self.features}
        for place, name in enumerate(self.sensitive):
            if name in self.joined:
                for column in self.joined[name].columns:
                    where = pointer("federation", "join", name, "columns", column)
                    named.setdefault(column, where)
            else:
                named.setdefault(name, pointer("fairness", "sensitive", place))
        named[self.target] = _TARGET
        if self.client_key is not None:
            named[self.client_key.name] = self.client_key.where
        if self.budgets is not None:
            named.setdefault(self.budgets, BUDGETS)
        return named

    @property
    def trained_on(self) -> dict[str, str]:
        """What training sees of a row, and the field of the spec that names each column."""
        own = {*(column.name for column in self.features), self.target, self.budgets}
        return {name: where for name, where in self.fields.items() if name in own}


def find_columns(
    source: Table, names: Sequence[str], sensitive: Sequence[str], *, budgets: str | None = None
) -> Columns:
    """The columns that a spec uses among the `names` of a file.

    `budgets`: the column of the rows' privacy budgets, which is not a feature. Raises
    InvalidInputError listing every field that names a column wrongly.
    """
    key, field_name = None, "partition/column" if source.partition else "client_key"
    if source.key_column is not None:
        key = ClientKey(source.key_column, f"/federation/{field_name}")
    _check_named(source, key, names, sensitive, budgets)
    if source.features == "all":
        features = _all_others(source, names, {*sensitive, budgets})
    else:
        features = _chosen(source.features, source)
    return Columns(
        key,
        source.target,
        tuple(sensitive),
        tuple(features),
        budgets,
        {name: source.join[name] for name in sensitive if name in source.join},
    )


def _check_named(
    source: Table,
    key: ClientKey | None,
    names: Sequence[str],
    sensitive: Sequence[str],
    budgets: str | None,
) -> None:
    dropped = {pointer("federation", "drop", place): name for place, name in enumerate(source.drop)}
    attributes = {
        pointer("fairness", "sensitive", place): name
        for place, name in enumerate(sensitive)
        if name not in source.join
    }
    reviewed = {
        pointer("federation", "leak_reviewed", place): name
        for place, name in enumerate(source.leak_reviewed)
        if name != "*"
    }
    joined = {
        pointer("federation", "join", name, "columns", column): column
        for name, one in source.join.items()
        for column in one.columns
    }
    named = {} if key is None else {key.where: key.name}
    named |= {_TARGET: source.target, **dropped, **attributes, **joined, **reviewed}
    if budgets is not None:
        named[BUDGETS] = budgets
    if source.features != "all":
        named |= {f"{_FEATURES}/{place}": _name(item) for place, item in enumerate(source.features)}
    known = set(names)
    faults = [
        FieldError(
            where, no_column(name, names) + ("" if source.header else " (`header` is false)")
        )
        for where, name in named.items()
        if name not in known
    ]
    faults += [
        FieldError(
            pointer("federation", "join", name),
            f"the file has a column {name!r} already; join under another name",
        )
        for name in source.join
        if as_read(name) in map(as_read, names)
    ]
    if source.target == source.key_column:
        faults.append(FieldError(_TARGET, "is the client key; name another column"))
    faults += [
        FieldError(where, f"{name!r} is the target; name another column")
        for where, name in {**attributes, **joined}.items()
        if name == source.target
    ]
    faults += [
        FieldError(where, f"{name!r} is needed as the client key or target; do not drop it")
        for where, name in dropped.items()
        if name in (source.key_column, source.target)
    ]
    raise_errors(faults)


def _name(item: str | Feature) -> str:
    return item if isinstance(item, str) else item.name


def _all_others(
    source: Table, names: Sequence[str], kept_out: Collection[str | None]
) -> list[FeatureColumn]:
    joined = {column for one in source.join.values() for column in one.columns}
    other = {source.target, source.key_column, *source.drop, *joined, *kept_out}
    # Not validated: a file's own names may be longer than a spec would allow.
    chosen = [
        FeatureColumn(Feature.model_construct(name=name), _FEATURES)
        for name in names
        if name not in other
    ]
    if not chosen:
        raise error_at(
            _FEATURES,
            "no column is left as a feature beside the client key, the target, the sensitive "
            "attributes and those dropped; name the features",
        )
    return chosen


def _chosen(features: Sequence[str | Feature], source: Table) -> list[FeatureColumn]:
    faults: list[FieldError] = []
    columns: list[FeatureColumn] = []
    seen, dropped = set[str](), set(source.drop)
    for place, item in enumerate(features):
        where, name = f"{_FEATURES}/{place}", _name(item)
        column = FeatureColumn(Feature(name=item) if isinstance(item, str) else item, where)
        problems = {
            "the target; leave it out of `features`": name == source.target,
            "the client key; leave it out of `features`": name == source.key_column,
            "under `drop` too; keep it in one of them": name in dropped,
            "named twice; name it once": not seen.isdisjoint((name, *column.names)),
        }
        faults += [
            FieldError(where, f"{name!r} is {one}") for one, is_so in problems.items() if is_so
        ]
        seen.update((name, *column.names))
        columns.append(column)
    raise_errors(faults)
    return columns
