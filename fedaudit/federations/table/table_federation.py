"""A CSV or Parquet file with features and a target, as a federation, perhaps laid out on disk.

An outline is the same without the cells of its features, for a plan: they are checked column by
column, gathered on disk, so that it takes memory for the rows alone.
"""

import errno
import hashlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.errors import error_at
from fedaudit.federations.federation import Federation, memory_fault
from fedaudit.federations.groups import read_sensitive
from fedaudit.federations.levels import Levels
from fedaudit.federations.mapped import (
    WORTH_A_MAP,
    MapFolder,
    making_folder,
    read_federation,
    write_federation,
)
from fedaudit.federations.packing import Rows, check_clients, pack
from fedaudit.federations.reading.source_files import DataRoom, SourceFile, open_source
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows, class_levels, gathered_rows
from fedaudit.federations.record_keys import smallest_row_hashes, table_record_keys
from fedaudit.federations.source_kind import FileKind, LoadRequest, check_fingerprint
from fedaudit.federations.table.columns import BUDGETS, Columns, find_columns
from fedaudit.federations.table.features import (
    CheckedFeatures,
    FeatureReading,
    GatheredRows,
    KeptFeatures,
    check_table_scales,
    standardiser,
)
from fedaudit.federations.table.kept_rows import KeptRows, every_fault
from fedaudit.federations.table.partition import WHERE as PARTITION
from fedaudit.federations.table.partition import deal_rows
from fedaudit.federations.table.table_profile import (
    ProfiledFeatures,
    is_classified,
    profiled_source,
    table_figures,
)
from fedaudit.spec.sources import Centre, Range
from fedaudit.spec.table import Table
from fedaudit.version import __version__

_TARGET = "/federation/target"
Reading = Callable[[Table, Columns], FeatureReading]
"""Makes the reading of the features of a table's columns."""


def load_table(
    source: Table,
    file: SourceFile,
    asked: LoadRequest,
    *,
    folder: Path,
    reading: Reading = KeptFeatures,
) -> Federation:
    """The federation in a table: rows grouped by the client key, or dealt to clients.

    Rows are left out for a missing client, target or feature first, then dealt to clients by the
    seed. Text cells are trimmed; an empty cell of a sensitive attribute is a missing value, one of
    the client key or the target an error unless the spec leaves such rows out. Columns that memory
    should not hold, and large features, lie in files of `folder`, mapped. Raises InvalidInputError
    naming field, column and row of every fault that the rows show; OSError where the disk is full.
    """
    with every_fault(source, file, asked, numbers=not asked.classification):
        return _read_table(source, file, asked, folder=folder, reading=reading)


def _read_table(
    source: Table, file: SourceFile, asked: LoadRequest, *, folder: Path, reading: Reading
) -> Federation:
    """As `load_table`, up to the first fault."""
    table = TableFile(file, header=source.header)
    columns = find_columns(source, table.names, asked.fairness.sensitive, budgets=asked.budgets)
    check_table_scales(source, columns, classes=asked.classification)
    if source.positive is not None and not asked.classification:
        raise error_at(
            "/federation/positive",
            "a target that is a number has no positive class; leave it out, or train with "
            "`cross-entropy`",
        )
    _check_memory(asked, columns, table.rows or 0, more=False)
    features_read = reading(source, columns)
    used = KeptRows(source, columns)
    parts = used.parts(table, partial(_check_memory, asked, columns))
    rows = gathered_rows(parts, folder, in_memory=features_read.in_memory)
    target, classes = _target(rows, source, classification=asked.classification)
    if source.dealt is None:
        clients, dealt = _named_clients(columns, rows, used)
    else:
        clients, dealt = deal_rows(source.dealt, target, classes=len(classes), seed=asked.seed)
    where = PARTITION if columns.client_key is None else columns.client_key.where
    check_clients(clients, where=where)
    row_keys = table_record_keys(rows, columns.trained_on, clients) if asked.keyed else None
    attributes, missing = read_sensitive(rows, asked.fairness.sensitive, edges=asked.fairness.edges)
    standardise = (
        None
        if source.standardise is None or source.standardise == "ranges"
        else standardiser(
            source.standardise, clients, source=source, seed=asked.seed, keys=row_keys
        )
    )
    features = features_read.features(
        GatheredRows(rows, used.missing, clients, standardise, folder, asked.progress)
    )
    return pack(
        Rows(
            clients=clients,
            features=features.values,
            feature_names=columns.feature_names,
            target=target,
            target_name=source.target,
            target_scale=_target_scale(source),
            fingerprint=file.fingerprint,
            classes=classes,
            attributes=attributes,
            notes=(*used.notes, *dealt, *missing, *features.notes),
            record_budgets=None if asked.budgets is None else _budgets(rows, asked.budgets),
            row_numbers=rows.row_numbers,
            record_keys=row_keys,
            order=features.order,
            is_outline=features_read.is_outline,
        ),
        where=where,
    )


def _check_memory(asked: LoadRequest, columns: Columns, rows: int, *, more: bool = True) -> None:
    """Raises InvalidInputError where a run has no room for so many rows, or more."""
    asked.progress()
    fault = memory_fault(
        rows=rows,
        features=columns.width,
        attributes=len(columns.sensitive),
        allowed=asked.files.room.memory_bytes,
        more=more,
    )
    if fault is not None:
        raise fault


def _named_clients(
    columns: Columns, rows: TableRows, used: KeptRows
) -> tuple[Levels, tuple[str, ...]]:
    """The client of each row, and a note on those without a row.

    Raises InvalidInputError for a key that is different in every row.
    """
    key = columns.client_key
    if key is None:
        raise ValueError("a table without a client key is partitioned")
    clients = rows.levels(key.name, key.where)
    seen = used.clients_seen(len(clients.values))
    if seen == used.rows > 1:
        raise error_at(
            key.where,
            f"{key.name!r} is different in every one of the {seen} rows, so each client would "
            "have one row; name the column that identifies clients, or deal rows to clients by "
            "`partition`",
        )
    empty = seen - len(clients.values)
    return clients, (f"clients without a row, left out: {empty}",) * bool(empty)


def _target(
    rows: TableRows, source: Table, *, classification: bool
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """The target [rows], and its classes if it has any."""
    if classification:
        levels = class_levels(rows, source.target, positive=source.positive)
        return levels.codes.astype(np.float64), levels.values
    return rows.numbers(source.target, _TARGET), ()


def _budgets(rows: TableRows, name: str) -> NDArray[np.float64]:
    """The privacy budget of each row. Raises InvalidInputError for the first invalid one."""
    found = rows.numbers(name, BUDGETS)
    problem = "is no budget: it is not above 0"
    remedy = "give every record a positive epsilon, or take out records that may not be used"
    rows.refuse(found <= 0, name, BUDGETS, problem, remedy)
    return found


def _target_scale(source: Table) -> float:
    scale = source.scale.get(source.target, 1.0)
    if isinstance(scale, Range | Centre):
        raise ValueError("the scale of a target is a divisor")
    return scale


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DECIDE_NO_ROW = {"path", "id", "labels", "scoring"}
_DECIDE_WITH_SEED = {"validation_fraction", "validation_unit"}
"""Fields that say who is held out: the data depend on it where they depend on the seed."""


def mapped_table(source: Table, file: SourceFile, asked: LoadRequest) -> Federation:
    """The federation in a table, mapped where it was laid out before.

    Laid out anew where it was not, or where the file's content changed; a small file is read.
    Raises InvalidInputError.
    """
    try:
        maps = map_folder(asked.files.room)
        if maps is None or file.size < WORTH_A_MAP:
            with _making(asked.files.room) as folder:
                federation = load_table(source, file, asked, folder=folder)
                if not federation.is_large:
                    return federation
                write_federation(federation, folder)
                return read_federation(folder) or federation
        key = map_key(source, asked)
        found = maps.find(maps.fingerprint(file, asked.progress), key)
        if found is not None:
            return found
        with maps.making() as folder:
            federation = load_table(source, file, asked, folder=folder)
            file.check_unchanged()
            return maps.keep(federation, folder, key)
    except OSError as error:
        if error.errno in _FULL:
            raise file.fault(
                "takes more room than is left on the disk where the service lays out data; name "
                "fewer features, or free some of it (FEDAUDIT_MAX_MAPPED_BYTES bounds what is kept "
                "there)"
            ) from None
        raise


def map_folder(room: DataRoom) -> MapFolder | None:
    """Where data are laid out; None where nothing is kept, or nothing can be written."""
    if room.maps_dir is None:
        return None
    maps = MapFolder(room.maps_dir, room.maps_bytes)
    return maps if maps.is_usable else None


def _making(room: DataRoom) -> AbstractContextManager[Path]:
    """A folder for one reading. Below the maps where there are some: there what a killed process
    left is removed."""
    maps = map_folder(room)
    return making_folder(None if maps is None else maps.folder)


def map_key(source: Table, asked: LoadRequest) -> str:
    """A digest of all that the data depend on beside the file, and of what read it."""
    seeded = source.traits.draws_data
    left_out = _DECIDE_NO_ROW | (set() if seeded else _DECIDE_WITH_SEED)
    told = [
        __version__,
        "numbers before cuts",
        source.model_dump(mode="json", exclude=left_out),
        asked.fairness.sensitive,
        asked.fairness.edges,
        asked.classification,
        asked.seed if seeded else None,
        asked.budgets,
        asked.keyed,
        source.validation_unit if asked.keyed else None,
    ]
    text = json.dumps(told, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def outlined_table(source: Table, file: SourceFile, asked: LoadRequest) -> Federation:
    """The federation in a table without its features, or mapped where it was laid out before.

    Equal to the loaded one in all else. Raises InvalidInputError with the errors of loading.
    """
    maps = map_folder(asked.files.room)
    if maps is not None and file.size >= WORTH_A_MAP:
        fingerprint = maps.fingerprint(file, asked.progress)
        mapped = maps.find(fingerprint, map_key(source, asked))
        if mapped is not None:
            return mapped
    with _making(asked.files.room) as folder:
        return load_table(source, file, asked, folder=folder, reading=CheckedFeatures)


class TableKind(FileKind[Table]):
    """A CSV or Parquet file with features and a target."""

    def load(self, asked: LoadRequest) -> Federation:
        """Rows grouped by the client key, or dealt to clients by the seed.

        Raises InvalidInputError.
        """
        with open_source(self._source, files=asked.files) as file:
            return mapped_table(self._source, file, asked)

    def outline(self, asked: LoadRequest) -> Federation:
        """Without the cells of features. Raises InvalidInputError."""
        with open_source(self._source, files=asked.files) as file:
            return outlined_table(self._source, file, asked)

    def lay_out(self, asked: LoadRequest) -> None:
        """Lay a file out to be mapped that is too long to be read by each experiment.

        Nothing where rows depend on the seed. Raises InvalidInputError.
        """
        if self._source.traits.draws_data or map_folder(asked.files.room) is None:
            return
        with open_source(self._source, files=asked.files) as file:
            if file.size >= WORTH_A_MAP:
                mapped_table(self._source, file, asked)

    def profile(self, asked: LoadRequest, fingerprint: str | None) -> dict[str, Any]:
        """That of the outline of all rows, with its gaps and the columns that give the outcome
        away."""
        source, made = profiled_source(self._source), list[ProfiledFeatures]()

        def reading(source: Table, columns: Columns) -> ProfiledFeatures:
            made.append(ProfiledFeatures(source, columns))
            return made[-1]

        with open_source(self._source, files=asked.files) as file:
            check_fingerprint(file.read_fingerprint(asked.progress), fingerprint)
            with every_fault(source, file, asked, numbers=False):
                table = TableFile(file, header=source.header)
                find_columns(source, table.names, asked.fairness.sensitive)
                classes = is_classified(source, table, asked.fairness)
            asked = replace(asked, classification=classes)
            with _making(asked.files.room) as folder:
                federation = load_table(source, file, asked, folder=folder, reading=reading)
        figures = table_figures(self._source, asked.fairness, federation, made[-1])
        figures["notes"] += [table.note] if table.note else []
        return figures

    def row_hashes(self, asked: LoadRequest, *, keep: int) -> NDArray[np.int64]:
        """Of all columns, whichever the registration names."""
        with open_source(self._source, files=asked.files) as file:
            return smallest_row_hashes(file, asked, header=self._source.header, keep=keep)
