"""The content of a registered table, found in one pass, in memory for clients and groups only."""

from collections.abc import Callable
from typing import Any, assert_never

import numpy as np

from fedaudit.fairness.disclosure import DisclosureRule, size_rule
from fedaudit.federations.errors import error_at
from fedaudit.federations.memory import memory_fault
from fedaudit.federations.profiles.profile import NUMERIC_TARGET
from fedaudit.federations.profiles.profile_figures import (
    Warnings,
    attribute_figures,
    class_figures,
    spread,
)
from fedaudit.federations.reading.data_room import DataRoom
from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.scaling import check_scales
from fedaudit.federations.table.columns import Columns, find_columns
from fedaudit.federations.table.joined_columns import prepared_rows
from fedaudit.federations.table.table_pass import TablePass
from fedaudit.federations.table.target_pass import TargetFound
from fedaudit.spec.fairness import Groups
from fedaudit.spec.table import Dealt, Dirichlet, Iid, Shards, Table

_MAX_NAMED_CLASSES = 100
_ALWAYS_NAMED_CLASSES = 20
_ROWS_PER_NAMED_CLASS = 10
_BY_SEED = "how many rows a client gets depends on the experiment's seed"


def profile_table(
    source: Table,
    file: SourceFile,
    fairness: Groups,
    *,
    progress: Callable[[], None],
    room: DataRoom,
) -> dict[str, Any]:
    """Sizes and names as JSON; small groups are suppressed.

    `progress` is called after every batch of rows, `room` is what a run may take. Raises
    InvalidInputError with the same message as loading the data.
    """
    table = TableFile(file, header=source.header)
    columns = find_columns(source, table.names, fairness.sensitive)
    check_scales(
        source.scale,
        features=[column.name for column in columns.features if not column.one_hot],
        one_hot=[column.name for column in columns.features if column.one_hot],
        target=columns.target,
        classes=source.positive is not None,
    )
    found = TablePass(source, columns, fairness)
    for rows in table.batches(list(columns.fields)):
        found.add(prepared_rows(rows, columns, source))
        progress()
    profile = _figures(found, source, columns, file, size_rule(fairness))
    profile["warnings"] += _size_warnings(found.rows, columns, room)
    return profile


def _figures(
    found: TablePass,
    source: Table,
    columns: Columns,
    file: SourceFile,
    rule: DisclosureRule,
) -> dict[str, Any]:
    found.required.check_rows_left(found.rows)
    _check_rows_left(found)
    clients = _clients(found, source)
    target, counts = found.attributes(file)
    balance, warnings, reasons = _balance(target, source.target, rule)
    attributes: dict[str, Any] = {}
    for attribute in counts:
        attributes[attribute.name], small = attribute_figures(attribute, rule)
        warnings += small
    features = [name for column in columns.features for name in column.names]
    if clients["rows_per_client"]["minimum"] is None:
        reasons["rows_per_client"] = _BY_SEED
    return {
        "rows": found.rows,
        **clients,
        "features": features,
        "target": source.target,
        "classes": [] if "classes" in reasons else list(target.classes),
        "class_balance": balance,
        "missing": found.missing,
        "attributes": attributes,
        "warnings": warnings,
        "notes": _notes(found, source),
        "reasons": reasons,
    }


def _check_rows_left(found: TablePass) -> None:
    if not found.rows:
        raise error_at(
            "/federation/features",
            "every row has an empty cell in a feature whose rule is `drop-row`; leave that column "
            "out, or fill its gaps with `constant`",
        )


def _clients(found: TablePass, source: Table) -> dict[str, Any]:
    """`clients` and `rows_per_client`."""
    if found.clients is not None:
        rows = found.clients.rows()
        if len(rows) < 2:
            raise error_at(
                found.clients.where,
                "every row belongs to one client; a federation needs at least two, so name a "
                "column that identifies clients",
            )
        return {"clients": len(rows), "rows_per_client": spread(rows)}
    if source.dealt is None:
        raise ValueError("a table without a client key is partitioned")
    return _dealt(source.dealt, found.rows)


def _dealt(partition: Dealt, rows: int) -> dict[str, Any]:
    clients = partition.clients
    if clients > rows:
        raise error_at(
            "/federation/partition/clients",
            f"{clients} clients are more than the {rows} rows; ask for fewer",
        )
    match partition:
        case Iid():
            even = np.full(clients, rows // clients)
            even[: rows % clients] += 1
            return {"clients": clients, "rows_per_client": spread(even)}
        case Dirichlet() | Shards():
            unknown = dict.fromkeys(("minimum", "median", "maximum"))
            return {"clients": clients, "rows_per_client": unknown}
        case _:
            assert_never(partition)


def _balance(
    target: TargetFound, name: str, rule: DisclosureRule
) -> tuple[dict[str, int | None] | None, Warnings, dict[str, str]]:
    """Rows per class if there are classes, else the reason.

    If classes are many relative to their rows, they are not even named: they may be measurements
    that were not recognised as numbers because of one non-numeric cell.
    """
    if not target.classes:
        return None, [], {"class_balance": NUMERIC_TARGET}
    most = max(_ALWAYS_NAMED_CLASSES, int(target.rows.sum()) // _ROWS_PER_NAMED_CLASS)
    if len(target.classes) > min(most, _MAX_NAMED_CLASSES):
        why = f"there are {len(target.classes)} classes, too many to be named"
        return None, [], {"classes": why, "class_balance": why}
    balance, warnings = class_figures(name, target.classes, target.rows, rule)
    return balance, warnings, {}


def _size_warnings(rows: int, columns: Columns, room: DataRoom) -> Warnings:
    """A warning where an experiment would be refused, as it needs more memory than is allowed."""
    fault = memory_fault(
        rows=rows,
        features=columns.width,
        attributes=len(columns.sensitive),
        allowed=room.memory_bytes,
    )
    if fault is None:
        return []
    return [{"pointer": one.pointer, "message": one.message} for one in fault.errors]


def _notes(found: TablePass, source: Table) -> list[str]:
    notes = list(found.required.notes)
    if found.left_out:
        notes.append(f"rows with an empty cell that leaves them out: {found.left_out}")
    if found.clients is None and source.partition is not None:
        notes.append(f"rows are dealt to clients by each experiment ({source.partition.method})")
    elif found.clients is not None and found.clients.without_rows:
        notes.append(f"clients without a row, left out: {found.clients.without_rows}")
    return notes
