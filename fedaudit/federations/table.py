"""Any CSV or Parquet file with a client key, numeric features and a target."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.classes import class_levels
from fedaudit.federations.faults import invalid, listed, pointer, refuse
from fedaudit.federations.federation import Federation
from fedaudit.federations.levels import Levels
from fedaudit.federations.packing import Rows, pack
from fedaudit.federations.sensitive import read_sensitive
from fedaudit.federations.sources import read_source
from fedaudit.federations.table_rows import TableRows
from fedaudit.federations.tables import TableFile
from fedaudit.spec.errors import FieldError
from fedaudit.spec.federation import Table

_FEATURES = "/federation/features"


def load_table(
    source: Table, *, sensitive: Sequence[str], classification: bool, sources_dir: Path | None
) -> Federation:
    """The federation in a table: rows grouped by the client key.

    `classification` makes classes of the target's distinct values; otherwise it is a number.
    Text cells are trimmed; an empty cell of a sensitive attribute is a missing value, an empty
    cell anywhere else an error. Raises InvalidInputError naming field, column and row.
    """
    file = TableFile(read_source(source.path, sources_dir=sources_dir, pointer="/federation/path"))
    _check_columns(source, file.names, sensitive)
    features = _feature_fields(source, file.names, sensitive)
    rows = file.read([source.client_key, source.target, *sensitive, *features])
    clients = read_client_key(rows, source.client_key)
    attributes, notes = read_sensitive(rows, sensitive)
    target, classes = _target(rows, source, classification=classification)
    return pack(
        Rows(
            clients=clients,
            features=_features(rows, features),
            feature_names=tuple(features),
            target=target,
            target_name=source.target,
            fingerprint=rows.source.fingerprint,
            classes=classes,
            attributes=attributes,
            notes=notes,
        ),
        source.scale,
    )


def read_client_key(rows: TableRows, name: str) -> Levels:
    """The clients of the rows. Raises InvalidInputError where a row names none."""
    where = "/federation/client_key"
    clients = rows.levels(name, where)
    if clients.missing:
        position = int(np.argmax(clients.codes < 0))
        raise rows.fault(name, position, where, "is empty", "say which client the row belongs to")
    return clients


def _check_columns(source: Table, names: Sequence[str], sensitive: Sequence[str]) -> None:
    named = {
        "/federation/client_key": source.client_key,
        "/federation/target": source.target,
        **{pointer("federation", "drop", place): name for place, name in enumerate(source.drop)},
        **{pointer("fairness", "sensitive", place): name for place, name in enumerate(sensitive)},
    }
    if source.features != "all":
        named |= {f"{_FEATURES}/{place}": name for place, name in enumerate(source.features)}
    columns = listed(list(names))
    faults = [
        FieldError(where, f"the file has no column {name!r}; it has {columns}")
        for where, name in named.items()
        if name not in names
    ]
    if source.target == source.client_key:
        faults.append(FieldError("/federation/target", "is the client key; name another column"))
    faults += [
        FieldError(where, f"{name!r} is the target; name another column")
        for where, name in named.items()
        if name == source.target and where.startswith("/fairness/")
    ]
    faults += [
        FieldError(where, f"{name!r} is needed as the client key or target; do not drop it")
        for where, name in named.items()
        if name in (source.client_key, source.target) and where.startswith("/federation/drop/")
    ]
    refuse(faults)


def _feature_fields(
    source: Table, names: Sequence[str], sensitive: Sequence[str]
) -> dict[str, str]:
    """Feature columns, and the field of the spec that chose each."""
    if source.features == "all":
        other = {source.client_key, source.target, *source.drop, *sensitive}
        chosen = {name: _FEATURES for name in names if name not in other}
        if not chosen:
            raise invalid(
                _FEATURES,
                "no column is left as a feature beside the client key, the target, the sensitive "
                "attributes and those dropped; name the features",
            )
        return chosen
    faults: list[FieldError] = []
    fields: dict[str, str] = {}
    for place, name in enumerate(source.features):
        where = f"{_FEATURES}/{place}"
        if name in (source.target, source.client_key):
            role = "target" if name == source.target else "client key"
            faults.append(FieldError(where, f"{name!r} is the {role}; leave it out of `features`"))
        if name in source.drop:
            faults.append(
                FieldError(where, f"{name!r} is under `drop` too; keep it in one of them")
            )
        if name in fields:
            faults.append(FieldError(where, f"{name!r} is named twice; name it once"))
        fields[name] = where
    refuse(faults)
    return fields


def _features(rows: TableRows, fields: dict[str, str]) -> NDArray[np.float64]:
    values = np.empty((len(rows), len(fields)), dtype=np.float64)
    for place, (name, where) in enumerate(fields.items()):
        values[:, place] = rows.numbers(name, where)
    return values


def _target(
    rows: TableRows, source: Table, *, classification: bool
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """The target [rows], and its classes where it has some."""
    if classification:
        levels = class_levels(rows, source.target, positive=source.positive)
        return levels.codes.astype(np.float64), levels.values
    if source.positive is not None:
        raise invalid(
            "/federation/positive",
            "a target that is a number has no positive class; leave it out, or train with "
            "`cross-entropy`",
        )
    return rows.numbers(source.target, "/federation/target"), ()
