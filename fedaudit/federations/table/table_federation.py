"""Any CSV or Parquet file with features and a target, as a federation."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.classes import class_levels
from fedaudit.federations.errors import error_at
from fedaudit.federations.federation import Federation
from fedaudit.federations.groups.sensitive import read_sensitive
from fedaudit.federations.levels import Levels
from fedaudit.federations.packing import Rows, check_clients, pack
from fedaudit.federations.reading.source_files import Files, SourceFile, open_source
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.scaling import check_scales
from fedaudit.federations.table.columns import BUDGETS, ClientKey, Columns, find_columns
from fedaudit.federations.table.fault_search import every_fault
from fedaudit.federations.table.features import (
    complete_rows,
    read_features,
    refuse_gaps,
)
from fedaudit.federations.table.joined_columns import prepared_rows
from fedaudit.federations.table.partition import WHERE as PARTITION
from fedaudit.federations.table.partition import deal_rows
from fedaudit.federations.table.required_cells import RequiredCells
from fedaudit.federations.table.standardise import standardiser
from fedaudit.federations.table.table_record_keys import table_record_keys
from fedaudit.spec.fairness import Groups
from fedaudit.spec.sources import Range
from fedaudit.spec.table import Table

_TARGET = "/federation/target"


def load_table(
    source: Table,
    *,
    fairness: Groups,
    classification: bool,
    seed: int,
    files: Files,
    budgets: str | None = None,
    keyed: bool = False,
) -> Federation:
    """The federation in a table: rows grouped by the client key, or dealt to clients.

    `classification` makes classes of the target's distinct values; otherwise it is a number. Rows
    are left out for a missing client, target or feature first, then dealt to clients. `seed` is
    that of the experiment. Text cells are trimmed; an empty cell of a sensitive attribute is a
    missing value, one of the client key or the target an error unless the spec leaves such rows
    out. `budgets`: the column with every row's privacy
    budget. `keyed`: whether rows get their keys. Raises InvalidInputError naming field, column and
    row of every fault that the rows show.
    """
    with open_source(source, files=files) as file:
        search = every_fault(
            source,
            file,
            fairness,
            classes=classification,
            numbers=not classification,
            budgets=budgets,
        )
        with search:
            return _load(
                source,
                file,
                fairness,
                classification=classification,
                seed=seed,
                budgets=budgets,
                keyed=keyed,
            )


def read_client_key(rows: TableRows, name: str, where: str = "/federation/client_key") -> Levels:
    """The clients of the rows. Raises InvalidInputError at `where` for a row without a client."""
    refuse_gaps(rows, name, where, remedy="say which client the row belongs to")
    return rows.levels(name, where)


def _load(
    source: Table,
    file: SourceFile,
    fairness: Groups,
    *,
    classification: bool,
    seed: int,
    budgets: str | None,
    keyed: bool,
) -> Federation:
    table = TableFile(file, header=source.header)
    columns = find_columns(source, table.names, fairness.sensitive, budgets=budgets)
    _check_fit(source, columns, classification=classification)
    rows = prepared_rows(table.read(list(columns.fields)), columns, source)
    required = RequiredCells(source, columns)
    rows = required.kept(rows)
    required.check_rows_left(len(rows))
    keys = None if columns.client_key is None else _distinguishing(rows, columns.client_key)
    kept, dropped = complete_rows(rows, columns.features)
    rows = rows.where(kept)
    target, classes = _target(rows, source, classification=classification)
    clients, dealt = _clients(source, keys, kept, target, classes, seed=seed)
    where = PARTITION if columns.client_key is None else columns.client_key.where
    check_clients(clients, where=where)
    row_keys = table_record_keys(rows, columns.trained_on, clients) if keyed else None
    attributes, missing = read_sensitive(rows, fairness.sensitive, edges=fairness.edges)
    features = read_features(
        rows,
        columns.features,
        scales=source.scale,
        standardise=None
        if source.standardise is None
        else standardiser(source.standardise, clients, source=source, seed=seed, keys=row_keys),
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
            notes=(*required.notes, *dropped, *dealt, *missing, *features.notes),
            record_budgets=None if budgets is None else _budgets(rows, budgets),
            row_numbers=rows.row_numbers,
            record_keys=row_keys,
        ),
        where=where,
    )


def _check_fit(source: Table, columns: Columns, *, classification: bool) -> None:
    check_scales(
        source.scale,
        features=[column.name for column in columns.features if not column.one_hot],
        one_hot=[column.name for column in columns.features if column.one_hot],
        target=columns.target,
        classes=classification,
    )
    if source.positive is not None and not classification:
        raise error_at(
            "/federation/positive",
            "a target that is a number has no positive class; leave it out, or train with "
            "`cross-entropy`",
        )


def _distinguishing(rows: TableRows, key: ClientKey) -> Levels:
    """The clients that the key identifies: neither only one, nor one per row."""
    clients = rows.levels(key.name, key.where)
    count = len(clients.values)
    if count == len(rows) and count > 1:
        raise error_at(
            key.where,
            f"{key.name!r} is different in every one of the {count} rows, so each client would "
            "have one row; name the column that identifies clients, or deal rows to clients by "
            "`partition`",
        )
    return clients


def _clients(
    source: Table,
    keys: Levels | None,
    kept: NDArray[np.bool_],
    target: NDArray[np.float64],
    classes: tuple[str, ...],
    *,
    seed: int,
) -> tuple[Levels, tuple[str, ...]]:
    """The client of each row that is kept, and notes on how clients were made."""
    if keys is not None:
        clients = keys.where(kept)
        empty = len(keys.values) - len(clients.values)
        return clients, (f"clients without a row, left out: {empty}",) * bool(empty)
    if source.dealt is None:
        raise ValueError("a table without a client key is partitioned")
    return deal_rows(source.dealt, target, classes=len(classes), seed=seed)


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
    if isinstance(scale, Range):
        raise ValueError("the scale of a target is a divisor")
    return scale
