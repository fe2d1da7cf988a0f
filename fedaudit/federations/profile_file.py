"""What a file that is registered holds, found in one pass, or why it cannot be used."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fedaudit.fairness.disclosure import DisclosureRule, size_rule
from fedaudit.federations.columns import Columns, find_columns
from fedaudit.federations.faults import invalid
from fedaudit.federations.features import with_gaps
from fedaudit.federations.hospital_charges import load_hospital_charges
from fedaudit.federations.images import load_femnist, load_images
from fedaudit.federations.packing import check_size
from fedaudit.federations.profile import NUMERIC_TARGET, profile
from fedaudit.federations.profile_figures import (
    Warnings,
    attribute_figures,
    class_figures,
    spread,
)
from fedaudit.federations.scaling import check_scales
from fedaudit.federations.sources import Files, SourceFile, open_source
from fedaudit.federations.table_pass import TablePass
from fedaudit.federations.tables import LARGEST_TABLE, TableFile
from fedaudit.federations.target_pass import TargetFound
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.federation import HospitalCharges
from fedaudit.spec.images import Images
from fedaudit.spec.registration import Registration
from fedaudit.spec.table import Iid, Partition, Table

_MOST_NAMED_CLASSES = 100
_ALWAYS_NAMED_CLASSES = 20
_ROWS_PER_NAMED_CLASS = 10
_TURNED = "images are turned by each experiment; the groups of 'rotated' are those of seed 0"
_BY_SEED = "how many rows a client gets depends on the experiment's seed"


def profile_registration(
    registration: Registration,
    *,
    files: Files,
    progress: Callable[[], None] = lambda: None,
    fingerprint: str | None = None,
) -> dict[str, Any]:
    """Sizes and names of a federation, as JSON; small groups are hidden.

    A table is read as a stream, in memory for its clients and groups alone; images and hospital
    charges are loaded. `progress` is called now and then, `fingerprint` is what the data must
    have. Raises InvalidInputError with what loading the data would say.
    """
    source, fairness = registration.federation, registration.fairness
    if isinstance(source, Table):
        with open_source(source, files=files) as file:
            _check_fingerprint(file.read_fingerprint(progress), fingerprint)
            return _profile_table(registration, source, file, progress)
    if isinstance(source, HospitalCharges):
        federation = load_hospital_charges(source, sensitive=fairness.sensitive, files=files)
    elif isinstance(source, Images):
        federation = load_images(source, fairness=fairness, seed=0, files=files)
    else:
        federation = load_femnist(source, fairness=fairness, seed=0, files=files)
    _check_fingerprint(federation.fingerprint, fingerprint)
    progress()
    figures = profile(federation, fairness)
    if not isinstance(source, HospitalCharges) and source.rotate is not None:
        figures["notes"].append(_TURNED)
    return figures


def _check_fingerprint(found: str, expected: str | None) -> None:
    if expected not in (None, found):
        raise invalid(
            "/federation/path",
            "the file is not what it was when it was registered; register it anew",
        )


def _profile_table(
    registration: Registration, source: Table, file: SourceFile, progress: Callable[[], None]
) -> dict[str, Any]:
    fairness = registration.fairness
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
        found.add(with_gaps(rows, columns.fields, source.missing_values))
        progress()
    return _figures(found, source, columns, file, size_rule(fairness))


def _figures(
    found: TablePass,
    source: Table,
    columns: Columns,
    file: SourceFile,
    rule: DisclosureRule,
) -> dict[str, Any]:
    _check_rows_left(found)
    clients = _clients(found, source)
    target, counts = found.attributes(file)
    balance, warnings, reasons = _balance(target, source.target, rule)
    attributes: dict[str, Any] = {}
    for attribute in counts:
        attributes[attribute.name], small = attribute_figures(attribute, rule)
        warnings += small
    features = [name for column in columns.features for name in column.names]
    warnings += _size_warnings(found.rows, clients, columns, len(features))
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
        raise invalid(
            "/federation/features",
            "every row has an empty cell in a feature whose rule is `drop-row`; leave that column "
            "out, or fill its gaps with `constant`",
        )


def _clients(found: TablePass, source: Table) -> dict[str, Any]:
    """`clients` and `rows_per_client`."""
    if found.clients is not None:
        rows = found.clients.rows()
        if len(rows) < 2:
            raise invalid(
                found.clients.where,
                "every row belongs to one client; a federation needs at least two, so name a "
                "column that tells clients apart",
            )
        return {"clients": len(rows), "rows_per_client": spread(rows)}
    if source.partition is None:
        raise ValueError("a table without a client key is partitioned")
    return _dealt(source.partition, found.rows)


def _dealt(partition: Partition, rows: int) -> dict[str, Any]:
    clients = getattr(partition, "clients", 0)
    if clients > rows:
        raise invalid(
            "/federation/partition/clients",
            f"{clients} clients are more than the {rows} rows; ask for fewer",
        )
    if isinstance(partition, Iid):
        even = np.full(clients, rows // clients)
        even[: rows % clients] += 1
        return {"clients": clients, "rows_per_client": spread(even)}
    unknown = dict.fromkeys(("minimum", "median", "maximum"))
    return {"clients": clients, "rows_per_client": unknown}


def _balance(
    target: TargetFound, name: str, rule: DisclosureRule
) -> tuple[dict[str, int | None] | None, Warnings, dict[str, str]]:
    """Rows per class where there are classes, else why not.

    Classes that are many for their rows are not even named: they may be measurements, which a
    cell that is no number kept from being taken for numbers.
    """
    if not target.classes:
        return None, [], {"class_balance": NUMERIC_TARGET}
    most = max(_ALWAYS_NAMED_CLASSES, int(target.rows.sum()) // _ROWS_PER_NAMED_CLASS)
    if len(target.classes) > min(most, _MOST_NAMED_CLASSES):
        why = f"there are {len(target.classes)} classes, too many to be named"
        return None, [], {"classes": why, "class_balance": why}
    balance, warnings = class_figures(name, target.classes, target.rows, rule)
    return balance, warnings, {}


def _size_warnings(rows: int, clients: dict[str, Any], columns: Columns, features: int) -> Warnings:
    """What an experiment could not load as it is: it may name fewer features."""
    cells = rows * len(columns.fields)
    if cells > LARGEST_TABLE:
        message = (
            f"{rows} rows of {len(columns.fields)} columns are {cells} cells, and an experiment "
            f"reads {LARGEST_TABLE} at most; it must name fewer features, or the file must have "
            "fewer rows"
        )
        return [{"pointer": "/federation/features", "message": message}]
    longest = clients["rows_per_client"]["maximum"]
    where = "/federation/partition" if columns.client_key is None else columns.client_key.where
    try:
        check_size(
            clients=clients["clients"],
            rows=longest or 1,
            features=features,
            where=where,
            remedy="an experiment must use fewer features, or clients of more even sizes",
        )
    except InvalidInputError as error:
        return [{"pointer": fault.pointer, "message": fault.message} for fault in error.errors]
    return []


def _notes(found: TablePass, source: Table) -> list[str]:
    notes = []
    if found.left_out:
        notes.append(f"rows with an empty cell that leaves them out: {found.left_out}")
    if found.clients is None and source.partition is not None:
        notes.append(f"rows are dealt to clients by each experiment ({source.partition.method})")
    elif found.clients is not None and found.clients.without_rows:
        notes.append(f"clients without a row, left out: {found.clients.without_rows}")
    return notes
