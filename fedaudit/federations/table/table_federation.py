"""Any CSV or Parquet file with features and a target, as a federation, perhaps laid out on disk."""

import errno
import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.classes import class_levels
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
from fedaudit.federations.reading.source_files import DataRoom, SourceFile
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows, gathered_rows
from fedaudit.federations.record_keys import table_record_keys
from fedaudit.federations.source_kind import LoadRequest
from fedaudit.federations.table.columns import BUDGETS, Columns, find_columns
from fedaudit.federations.table.features import (
    FeatureReading,
    GatheredRows,
    KeptFeatures,
    check_table_scales,
    refuse_gaps,
    standardiser,
)
from fedaudit.federations.table.kept_rows import KeptRows, ReadableTable, every_fault
from fedaudit.federations.table.partition import WHERE as PARTITION
from fedaudit.federations.table.partition import deal_rows
from fedaudit.spec.errors import InvalidInputError
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
    search = every_fault(
        source,
        file,
        asked.fairness,
        classes=asked.classification,
        numbers=not asked.classification,
        budgets=asked.budgets,
    )
    with search:
        table = TableFile(file, header=source.header)
        return read_table(source, table, file, asked, folder=folder, reading=reading)


def read_client_key(rows: TableRows, name: str, where: str = "/federation/client_key") -> Levels:
    """The clients of the rows. Raises InvalidInputError at `where` for a row without a client."""
    refuse_gaps(rows, name, where, remedy="say which client the row belongs to")
    return rows.levels(name, where)


def read_table(
    source: Table,
    table: ReadableTable,
    file: SourceFile,
    asked: LoadRequest,
    *,
    folder: Path,
    reading: Reading,
) -> Federation:
    """As `load_table`, with features as `reading` has them, up to the first fault.

    `file`: whose fingerprint the data have.
    """
    columns = find_columns(source, table.names, asked.fairness.sensitive, budgets=asked.budgets)
    _check_fit(source, columns, classification=asked.classification)
    _check_memory(asked, columns, table.rows or 0, more=False)
    features_read = reading(source, columns)
    used = KeptRows(source, features_read.read)
    parts = used.parts(table, partial(_check_memory, asked, columns))
    rows = gathered_rows(map(features_read.part, parts), folder, in_memory=features_read.in_memory)
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
        if source.standardise is None
        else standardiser(
            source.standardise, clients, source=source, seed=asked.seed, keys=row_keys
        )
    )
    features, order = features_read.features(
        GatheredRows(rows, clients, standardise, folder, asked.progress)
    )
    return pack(
        Rows(
            clients=clients,
            features=features.values,
            feature_names=features.names,
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
            order=order,
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


def _check_fit(source: Table, columns: Columns, *, classification: bool) -> None:
    check_table_scales(source, columns, classes=classification)
    if source.positive is not None and not classification:
        raise error_at(
            "/federation/positive",
            "a target that is a number has no positive class; leave it out, or train with "
            "`cross-entropy`",
        )


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
    if not (found > 0).all():
        raise rows.fault(
            name,
            int(np.argmax(found <= 0)),
            BUDGETS,
            "is no budget: it is not above 0",
            "give every record a positive epsilon, or take out records that may not be used",
        )
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
            return _for_one_run(source, file, asked, None if maps is None else maps.folder)
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
            raise _full(file) from None
        raise


def map_folder(room: DataRoom) -> MapFolder | None:
    """Where data are laid out; None where nothing is kept, or nothing can be written."""
    if room.maps_dir is None:
        return None
    maps = MapFolder(room.maps_dir, room.maps_bytes)
    return maps if maps.is_usable else None


def _for_one_run(
    source: Table, file: SourceFile, asked: LoadRequest, below: Path | None
) -> Federation:
    """Read, and laid out only where it is large, without a name."""
    with making_folder(below) as folder:
        federation = load_table(source, file, asked, folder=folder)
        if not federation.is_large:
            return federation
        write_federation(federation, folder)
        return read_federation(folder) or federation


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


def _full(file: SourceFile) -> InvalidInputError:
    return file.fault(
        "takes more room than is left on the disk where the service lays out data; name fewer "
        "features, or free some of it (FEDAUDIT_MAX_MAPPED_BYTES bounds what is kept there)"
    )
