"""Tables as a kind of source: loaded whole, profiled as a stream."""

from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import Federation
from fedaudit.federations.mapped.map_folder import WORTH_A_MAP
from fedaudit.federations.reading.source_files import Files, open_source
from fedaudit.federations.source_kind import FileKind, LoadRequest, check_fingerprint
from fedaudit.federations.table.fault_search import every_fault
from fedaudit.federations.table.mapped_table import map_folder, mapped_table
from fedaudit.federations.table.row_hashes import smallest_row_hashes
from fedaudit.federations.table.table_index import write_index
from fedaudit.federations.table.table_outline import outlined_table
from fedaudit.federations.table.table_profile import profile_table
from fedaudit.spec.fairness import Groups
from fedaudit.spec.table import Table


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
