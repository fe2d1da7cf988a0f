"""How the features of a table are read: to be kept, or only to be checked."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import is_large, no_cells
from fedaudit.federations.levels import Levels
from fedaudit.federations.mapped.array_files import FEATURES, new_array
from fedaudit.federations.packing import client_order
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.table.columns import Columns
from fedaudit.federations.table.features import (
    CellCounts,
    Features,
    Laid,
    check_features,
    feature_notes,
    read_features,
)
from fedaudit.federations.table.standardise import Standardiser
from fedaudit.spec.table import Table


@dataclass(frozen=True, eq=False)
class GatheredRows:
    """All rows that are kept of a table, once their clients are known."""

    rows: TableRows
    clients: Levels
    standardise: Standardiser | None
    folder: Path
    """For what memory should not hold."""
    progress: Callable[[], None]


class FeatureReading(ABC):
    """The features of one table, from its parts to all of its rows."""

    is_outline: bool = True
    """Whether the values are left out."""
    in_memory: int | None = None
    """Bytes of gathered columns that may be in memory; None for the default."""

    def __init__(self, source: Table, columns: Columns) -> None:
        self._source = source
        self._columns = columns

    @property
    def read(self) -> Columns:
        """The columns that are read of the file."""
        return self._columns

    def part(self, rows: TableRows) -> TableRows:
        """What is gathered of some rows that are kept. Raises InvalidInputError."""
        return rows

    @abstractmethod
    def features(self, gathered: GatheredRows) -> tuple[Features, NDArray[np.int64] | None]:
        """The features, and `client_order` where they lie in it already.

        Raises InvalidInputError naming column and row.
        """

    def _is_large(self, rows: int) -> bool:
        return is_large(rows=rows, features=self._columns.width)

    def _outline(
        self, gathered: GatheredRows, notes: tuple[str, ...]
    ) -> tuple[Features, NDArray[np.int64]]:
        rows = len(gathered.rows)
        names = tuple(name for column in self._columns.features for name in column.names)
        values = no_cells(rows=rows, features=len(names))
        return Features(values, names, notes), client_order(gathered.clients)


class KeptFeatures(FeatureReading):
    """As a run needs them: in memory, or laid out in a file where they are large."""

    is_outline = False

    def features(self, gathered: GatheredRows) -> tuple[Features, NDArray[np.int64] | None]:
        """See `read_features`."""
        laid = self._laid(gathered)
        found = read_features(
            gathered.rows,
            self._columns.features,
            scales=self._source.scale,
            standardise=gathered.standardise,
            laid=laid,
            progress=gathered.progress,
        )
        return found, None if laid is None else client_order(gathered.clients)

    def _laid(self, gathered: GatheredRows) -> Laid | None:
        """A file for features that are too large for memory; None for others."""
        rows = len(gathered.rows)
        if not self._is_large(rows):
            return None
        place = np.empty(rows, dtype=np.int64)
        place[client_order(gathered.clients)] = np.arange(rows)
        return Laid(new_array(gathered.folder, FEATURES, (rows, self._columns.width)), place)


class CheckedFeatures(FeatureReading):
    """Column by column, or in the parts in which they would be laid out: what is wrong is told in
    the words, and in the order, of `KeptFeatures`."""

    in_memory = 16 * 2**20

    def features(self, gathered: GatheredRows) -> tuple[Features, NDArray[np.int64] | None]:
        """See `check_features`."""
        columns, standardise = self._columns.features, gathered.standardise
        counts = [CellCounts() for _ in columns]
        check_features(
            gathered.rows,
            columns,
            scales=self._source.scale,
            counts=counts,
            whole=standardise is not None or not self._is_large(len(gathered.rows)),
            progress=gathered.progress,
        )
        return self._outline(gathered, feature_notes(columns, counts, standardise))
