"""The profile of a table: that of its outline, and what only its cells show."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fedaudit.federations.errors import error_at
from fedaudit.federations.federation import Federation
from fedaudit.federations.levels import MAX_CLASSES, number_in
from fedaudit.federations.profiles.giveaways import RowSample, giveaways
from fedaudit.federations.profiles.profile import profile
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.table.columns import Columns, FeatureColumn
from fedaudit.federations.table.features import CheckedFeatures, Features, GatheredRows, with_gaps
from fedaudit.federations.table.partition import dealt_note
from fedaudit.spec.fairness import Groups, Rule
from fedaudit.spec.table import Dirichlet, Iid, Shards, Table

MAX_CLIENTS = 1_000_000
_MAX_WHOLE_NUMBERS = 100
_ROWS_PER_WHOLE_NUMBER = 10
_TWO = 2
_SAMPLED_AT_ONCE = 2**16
_TARGET = "/federation/target"
_BY_SEED = "how many rows a client gets depends on the experiment's seed"


def is_classified(source: Table, table: TableFile, fairness: Groups) -> bool:
    """Whether a profile treats the target as classes; for a training run its model decides.

    Numbers are treated as classes if there are two of them, or few whole ones that repeat often,
    unless a rule bounds them. Raises InvalidInputError where the column cannot be read.
    """
    favourable = fairness.favourable
    rules = [favourable] if isinstance(favourable, Rule) else favourable or []
    if source.positive is not None or source.target in source.labels:
        return True
    if any(rule.lists_values for rule in rules):
        return True
    rows, values = 0, set[str]()
    for part in table.batches([source.target]):
        cells = with_gaps(part, {source.target: _TARGET}, source.missing_values)
        found, codes = cells.encoded(source.target, _TARGET)
        values.update(value for value in found if value)
        rows += len(codes)
        if len(values) > MAX_CLASSES:
            return False
    numbers = [number_in(value) for value in values]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        # A wrong cell among numbers that a rule bounds: the others are measurements.
        return not (rules and known)
    few = len(known) <= min(_MAX_WHOLE_NUMBERS, rows // _ROWS_PER_WHOLE_NUMBER)
    return len(known) <= _TWO or (few and all(number.is_integer() for number in known))


def profiled_source(source: Table) -> Table:
    """The source as it is profiled: by no statistics of the data, and rows that a seed deals out
    unevenly dealt out evenly."""
    partition = source.partition
    if isinstance(partition, Dirichlet | Shards):
        partition = Iid(method="iid", clients=partition.clients)
    return source.model_copy(update={"standardise": None, "partition": partition})


class ProfiledFeatures(CheckedFeatures):
    """Checked, and looked at for gaps and for columns that give the outcome away."""

    def __init__(self, source: Table, columns: Columns) -> None:
        super().__init__(source, columns)
        self.missing: dict[str, int] = {}
        """Empty cells of each feature that has some."""
        self._sample = RowSample([source.target, *(one.name for one in columns.features)])

    def features(self, gathered: GatheredRows) -> Features:
        """See `check_features`."""
        found = super().features(gathered)
        filled = {
            column.name: count.filled
            for column, count in zip(self._columns.features, self.counts, strict=True)
        }
        self.missing = {**gathered.missing, **{name: n for name, n in filled.items() if n}}
        for start in range(0, len(gathered.rows), _SAMPLED_AT_ONCE):
            self._sample.add(gathered.rows.part(start, _SAMPLED_AT_ONCE))
        return found

    def warnings(self, *, classes: bool) -> Iterator[dict[str, str]]:
        """One of each feature that may be the outcome; only readers of the data see profiles."""
        target = self._source.target
        asked = [
            one for one in self._columns.features if not self._source.is_leak_reviewed(one.name)
        ]
        known = giveaways(self._sample, target, _names(asked), classes=classes)
        for one in asked:
            if one.name in known:
                message = (
                    f"{one.name!r} alone predicts {target!r} almost without error: where it is the "
                    "outcome in other words, or known only after it, leave it out of `features`; "
                    "otherwise list it under `leak_reviewed`"
                )
                yield {"pointer": one.where, "message": message}


def _names(columns: Sequence[FeatureColumn]) -> list[str]:
    return [column.name for column in columns]


def table_figures(
    source: Table, fairness: Groups, federation: Federation, read: ProfiledFeatures
) -> dict[str, Any]:
    """Sizes and names as JSON; small groups are suppressed. `federation`: the outline of the
    `profiled_source`. Raises InvalidInputError where there are too many clients, or a rule does not
    fit."""
    if federation.clients > MAX_CLIENTS:
        raise error_at(
            "/federation/client_key",
            f"there are {federation.clients} clients, and {MAX_CLIENTS} are allowed; name another "
            "column",
        )
    figures = profile(federation, fairness)
    figures["warnings"] += read.warnings(classes=bool(federation.classes))
    without_group = {
        one.name: int(np.count_nonzero(one.codes < 0)) for one in federation.attributes
    }
    figures["missing"] = {**read.missing, **{name: n for name, n in without_group.items() if n}}
    if source.dealt is None:
        return figures
    dealt = dealt_note(profiled_source(source).dealt or source.dealt)
    by_each = f"rows are dealt to clients by each experiment ({source.dealt.method})"
    figures["notes"] = [by_each if note == dealt else note for note in figures["notes"]]
    for attribute in figures["attributes"].values():
        attribute["of"] = "record"
    if not isinstance(source.dealt, Iid):
        figures["rows_per_client"] = dict.fromkeys(("minimum", "median", "maximum"))
        figures["reasons"]["rows_per_client"] = _BY_SEED
    return figures
