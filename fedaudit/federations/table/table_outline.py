"""Tables as a kind of source, and without the cells of their features: what a plan needs.

An outline takes memory for the rows alone. It is made from the index of a table where its facts
leave no doubt; else from the table as a stream, of which nothing stays but who a row belongs to,
what came out and its groups. A fault is told in the words of loading the table: then, and where
records have keys, its columns are gathered on disk.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import Federation
from fedaudit.federations.mapped import WORTH_A_MAP, MapFolder, making_folder
from fedaudit.federations.reading.source_files import Files, SourceFile, open_source, open_stored
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.record_keys import smallest_row_hashes
from fedaudit.federations.source_kind import FileKind, LoadRequest, check_fingerprint
from fedaudit.federations.table.columns import Columns, FeatureColumn
from fedaudit.federations.table.features import (
    CellCounts,
    CheckedFeatures,
    FeatureReading,
    Features,
    GatheredRows,
    check_features,
    feature_notes,
    with_gaps,
)
from fedaudit.federations.table.kept_rows import ReadableTable, every_fault
from fedaudit.federations.table.table_federation import (
    load_table,
    map_folder,
    map_key,
    mapped_table,
    read_table,
)
from fedaudit.federations.table.table_index import (
    NotInIndexError,
    TableFacts,
    TableIndex,
    read_index,
    write_index,
)
from fedaudit.federations.table.table_profile import profile_table
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.fairness import Groups
from fedaudit.spec.table import Table

_COLUMNS_AT_ONCE = 32


class _DoubtError(Exception):
    """What facts about all rows do not say of those that are left."""


def outlined_table(source: Table, asked: LoadRequest) -> Federation:
    """The federation in a table without its features, or mapped where it was laid out before.

    Equal to the loaded one in all else. A file that the service keeps itself is not opened where
    its index is enough. Raises InvalidInputError with the errors of loading.
    """
    kept = _kept(source, asked)
    if kept is not None:
        with _index(source, asked, kept) as index:
            found = None if index is None else _of_index(source, index, asked)
        if found is not None:
            return found
    with open_source(source, files=asked.files) as file:
        maps = map_folder(asked.files.room)
        if file.size < WORTH_A_MAP:
            return _checked(source, file, asked, maps)
        if maps is None:
            fingerprint = file.read_fingerprint(asked.progress)
        else:
            fingerprint = maps.fingerprint(file, asked.progress)
            mapped = maps.find(fingerprint, map_key(source, asked))
            if mapped is not None:
                return mapped
        with _index(source, asked, fingerprint) as index:
            found = None
            if index is not None and kept is None:
                found = _of_index(source, index, asked)
            facts = None if index is None else index.facts
        for known in [None] if facts is None else [facts, None]:
            found = found or _streamed(source, file, asked, known)
        return found or _checked(source, file, asked, maps)


class StreamedFeatures(FeatureReading):
    """Checked as their rows come; columns that facts answer for are not read at all.

    A file that is stored column by column is read so, a few columns at a time: each takes memory
    while it is read.
    """

    in_memory = 16 * 2**20

    def __init__(
        self, source: Table, columns: Columns, table: ReadableTable, facts: TableFacts | None
    ) -> None:
        super().__init__(source, columns)
        self._table = table
        self._all_rows = None if facts is None else facts.rows
        known = {} if facts is None else _known(source, columns, facts)
        self._known = known
        self._counts = {one.name: known.get(one.name, CellCounts()) for one in columns.features}
        unknown = [one for one in columns.features if one.name not in known]
        by_columns = isinstance(table, TableFile) and table.rows is not None
        # Whether a row is left out has to be known before its other cells are looked at.
        self._first = [one for one in unknown if one.feature.drops_rows or not by_columns]
        self._later = [] if not by_columns else [one for one in unknown if one not in self._first]
        own = {*replace(columns, features=()).fields, *columns.sensitive}
        self._features_only = set(self._counts) - own

    @property
    def read(self) -> Columns:
        """Without the features that facts answer for, and those that are read by themselves."""
        return replace(self._columns, features=tuple(self._first))

    def part(self, rows: TableRows) -> TableRows:
        """The rows without columns that are features only."""
        self._check(rows, self._first)
        return rows.without(self._features_only)

    def features(self, gathered: GatheredRows) -> tuple[Features, NDArray[np.int64] | None]:
        """What was checked. Raises _DoubtError where facts count rows that were left out."""
        counted = any(one.filled for one in self._known.values())
        if counted and len(gathered.rows) != self._all_rows:
            raise _DoubtError
        for start in range(0, len(self._later), _COLUMNS_AT_ONCE):
            self._check_columns(self._later[start : start + _COLUMNS_AT_ONCE], gathered)
        counts = list(self._counts.values())
        notes = feature_notes(self._columns.features, counts, gathered.standardise)
        return self._outline(gathered, notes)

    def _check_columns(self, columns: Sequence[FeatureColumn], gathered: GatheredRows) -> None:
        """All rows of some columns but those that are left out."""
        fields = {one.name: one.where for one in columns}
        numbers = gathered.rows.row_numbers
        kept = np.zeros(int(numbers[-1]) + 1, dtype=np.bool_)
        kept[numbers] = True
        for part in self._table.batches(list(fields)):
            rows = with_gaps(part, fields, self._source.missing_values)
            at = rows.row_numbers
            mask = (at < len(kept)) & kept[np.minimum(at, len(kept) - 1)]
            self._check(rows if mask.all() else rows.where(mask), columns)
            gathered.progress()

    def _check(self, rows: TableRows, columns: Sequence[FeatureColumn]) -> None:
        counts = [self._counts[one.name] for one in columns]
        check_features(rows, columns, scales=self._source.scale, counts=counts)


def _known(source: Table, columns: Columns, facts: TableFacts) -> dict[str, CellCounts]:
    """The features whose cells need not be read, and what becomes of them."""
    found = {
        one.name: facts.columns[one.name].counts(one, source.scale)
        for one in columns.features
        if one.name in facts.columns
    }
    return {name: counts for name, counts in found.items() if counts is not None}


def _kept(source: Table, asked: LoadRequest) -> str | None:
    """The fingerprint of a file that the service keeps under the spec's id."""
    if source.id is None or asked.files.kept_content is None:
        return None
    return asked.files.kept_content(source.id)


@contextmanager
def _index(source: Table, asked: LoadRequest, fingerprint: str) -> Iterator[TableIndex | None]:
    """The index of that content, where there is one that can be of use."""
    if asked.keyed or asked.files.open_index is None:
        yield None
        return
    with asked.files.open_index(fingerprint) as place:
        if place is None:
            yield None
            return
        with open_stored(place, "index") as file:
            index = read_index(file, file.known_as(fingerprint))
            yield index if index is not None and index.facts.describe(source) else None


def _of_index(source: Table, index: TableIndex, asked: LoadRequest) -> Federation | None:
    """From the index alone; None where that is not enough."""
    return _read(source, index, index.file, asked, index.facts)


def _streamed(
    source: Table, file: SourceFile, asked: LoadRequest, facts: TableFacts | None
) -> Federation | None:
    """From the table as it is read; None where something does not fit, or takes all cells."""
    if asked.keyed:
        return None
    try:
        table = TableFile(file, header=source.header)
    except InvalidInputError:
        return None
    return _read(source, table, file, asked, facts)


def _read(
    source: Table,
    table: ReadableTable,
    file: SourceFile,
    asked: LoadRequest,
    facts: TableFacts | None,
) -> Federation | None:
    def reading(source: Table, columns: Columns) -> StreamedFeatures:
        return StreamedFeatures(source, columns, table, facts)

    maps = map_folder(asked.files.room)
    try:
        # Below the maps where there are some: there what a killed process left is removed.
        with making_folder(None if maps is None else maps.folder) as folder:
            return read_table(source, table, file, asked, folder=folder, reading=reading)
    except (InvalidInputError, NotInIndexError, _DoubtError):
        return None


def _checked(
    source: Table, file: SourceFile, asked: LoadRequest, maps: MapFolder | None
) -> Federation:
    """With the errors of loading, all of them."""
    with making_folder(None if maps is None else maps.folder) as folder:
        return load_table(source, file, asked, folder=folder, reading=CheckedFeatures)


class TableKind(FileKind):
    """A CSV or Parquet file with features and a target."""

    def __init__(self, source: Table) -> None:
        self._source = source

    def load(self, asked: LoadRequest) -> Federation:
        """Rows grouped by the client key, or dealt to clients by the seed.

        Raises InvalidInputError.
        """
        with open_source(self._source, files=asked.files) as file:
            return mapped_table(self._source, file, asked)

    def outline(self, asked: LoadRequest) -> Federation:
        """Without the cells of features. Raises InvalidInputError."""
        return outlined_table(self._source, asked)

    def write_index(self, asked: LoadRequest, place: BinaryIO) -> None:
        """Of a file that is too long to be read for each plan. Raises InvalidInputError."""
        with open_source(self._source, files=asked.files) as file:
            if file.size >= WORTH_A_MAP:
                write_index(self._source, file, asked, place)

    def lay_out(self, asked: LoadRequest) -> None:
        """Lay a file out to be mapped that is too long to be read by each experiment.

        Nothing where rows depend on the seed. Raises InvalidInputError.
        """
        if self._source.traits.draws_data or map_folder(asked.files.room) is None:
            return
        with open_source(self._source, files=asked.files) as file:
            if file.size >= WORTH_A_MAP:
                mapped_table(self._source, file, asked)

    def profile(
        self,
        fairness: Groups,
        *,
        files: Files,
        progress: Callable[[], None],
        fingerprint: str | None,
    ) -> dict[str, Any]:
        """Read as a stream, with memory for its clients and groups only."""
        with open_source(self._source, files=files) as file:
            check_fingerprint(file.read_fingerprint(progress), fingerprint)
            classes = self._source.positive is not None
            with every_fault(self._source, file, fairness, classes=classes, numbers=False):
                return profile_table(
                    self._source, file, fairness, progress=progress, room=files.room
                )

    def row_hashes(
        self, *, files: Files, keep: int, progress: Callable[[], None]
    ) -> NDArray[np.int64]:
        """Of all columns, whichever the registration names."""
        with open_source(self._source, files=files) as file:
            return smallest_row_hashes(
                file, header=self._source.header, keep=keep, progress=progress
            )
