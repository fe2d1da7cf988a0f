"""Inpatient charges of the Centers for Medicare and Medicaid Services (Galli et al., 5.2)."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.errors import error_at, listed, pointer, raise_errors
from fedaudit.federations.federation import Federation
from fedaudit.federations.groups.sensitive import read_sensitive
from fedaudit.federations.hospital.hospital_columns import (
    CHARGES,
    drg_codes,
    known_columns,
    with_money,
    with_zip,
)
from fedaudit.federations.hospital.zip_coordinates import (
    Coordinates,
    joined_coordinates,
    own_coordinates,
)
from fedaudit.federations.packing import Rows, pack
from fedaudit.federations.reading.source_files import Files, SourceFile, open_path, open_source
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.scaling import EVERY_NUMBER, as_float32, check_scales, scaled
from fedaudit.federations.source_kind import FileKind, LoadRequest
from fedaudit.federations.table.row_hashes import smallest_row_hashes
from fedaudit.federations.table.table_federation import read_client_key
from fedaudit.spec.errors import FieldError
from fedaudit.spec.federation import HospitalCharges

DERIVED_CONDITIONS = (194, 690, 292, 392)
"""The meaning of a `service_index` of 0 to 3 in a file that has it instead of DRG codes."""
ATTRIBUTES = ("state", "region")
TARGET = "average_total_payments"
FEATURES = ("service_index", "longitude", "latitude")
_ZIP_TABLE = "/federation/zip_table"


class HospitalChargesKind(FileKind):
    """Inpatient charges by condition and place."""

    def __init__(self, source: HospitalCharges) -> None:
        self._source = source

    def load(self, asked: LoadRequest) -> Federation:
        """The same data for every seed. Raises InvalidInputError."""
        return load_hospital_charges(
            self._source, sensitive=asked.fairness.sensitive, files=asked.files
        )

    def row_hashes(
        self, *, files: Files, keep: int, progress: Callable[[], None]
    ) -> NDArray[np.int64]:
        """Of all columns of the charges."""
        with open_source(self._source, files=files) as file:
            return smallest_row_hashes(file, header=True, keep=keep, progress=progress)


def load_hospital_charges(
    source: HospitalCharges, *, sensitive: Sequence[str], files: Files
) -> Federation:
    """Payments by condition and place, one client per provider or ZIP code.

    Reads the file as CMS publishes it (from FY2011 on), plain copies of it, and the derived file
    with `service_index` and coordinates. Features are the index of the row's condition in
    `conditions` and the coordinates; rows without coordinates are left out and counted in a note.
    Raises InvalidInputError naming field, column and row.
    """
    with open_source(source, files=files) as file:
        return _load(source, file, sensitive, files)


def _load(
    source: HospitalCharges, file: SourceFile, sensitive: Sequence[str], files: Files
) -> Federation:
    table = TableFile(file)
    columns = known_columns(table.names, CHARGES)
    _check_columns(source, table, columns, sensitive)
    check_scales(source.scale, features=FEATURES, one_hot=(), target=TARGET, classes=False)
    rows, service = _select_conditions(
        table.read(list(columns.values())), columns, source.conditions
    )
    if source.client_key == "zip" or source.zip_table is not None:
        rows = with_zip(rows, columns["zip"], file.pointer)
    places = _places(rows, columns, source, files)
    kept = _with_coordinates(places, source, file)
    rows = with_money(rows.where(kept), columns[TARGET], file.pointer)
    attributes, notes = read_sensitive(rows, sensitive, columns)
    left_out = int(np.count_nonzero(~kept))
    if left_out:
        notes = (f"rows without coordinates, left out: {left_out}", *notes)
    return pack(
        Rows(
            clients=read_client_key(rows, columns[source.client_key]),
            features=_scaled(source, service[kept], places.longitude[kept], places.latitude[kept]),
            feature_names=FEATURES,
            target=rows.numbers(columns[TARGET], file.pointer),
            target_name=TARGET,
            target_scale=source.scale.get(TARGET, 1.0),
            fingerprint=file.fingerprint,
            attributes=attributes,
            notes=notes,
            row_numbers=rows.row_numbers,
        )
    )


def _scaled(source: HospitalCharges, *columns: NDArray[np.float64]) -> NDArray[np.float32]:
    """FEATURES by their scales, float32 [rows, features]."""
    every = source.scale.get(EVERY_NUMBER, 1.0)
    parts = [
        as_float32(scaled(values, source.scale.get(name, every))[0], name)
        for name, values in zip(FEATURES, columns, strict=True)
    ]
    return np.stack(parts, axis=1)


def _check_columns(
    source: HospitalCharges, table: TableFile, columns: dict[str, str], sensitive: Sequence[str]
) -> None:
    file = table.source
    needed = {TARGET: file.pointer, source.client_key: "/federation/client_key"}
    if "service_index" not in columns:
        needed["drg"] = file.pointer
    if source.zip_table is not None:
        needed["zip"] = _ZIP_TABLE
    faults = [
        FieldError(
            where,
            f"'{file.label}' has no column for {name}, spelt like one of "
            f"{listed(CHARGES[name])}; it has {listed(table.names)}",
        )
        for name, where in needed.items()
        if name not in columns
    ]
    if source.zip_table is None and not {"longitude", "latitude"} <= columns.keys():
        faults.append(
            FieldError(
                _ZIP_TABLE,
                f"'{file.label}' has no coordinates; name a table with the columns zip, "
                "longitude and latitude",
            )
        )
    known = [name for name in ATTRIBUTES if name in columns]
    faults += [
        FieldError(
            pointer("fairness", "sensitive", place),
            f"the hospital charges have no attribute {name!r}; they have {listed(known)}",
        )
        for place, name in enumerate(sensitive)
        if name not in known
    ]
    raise_errors(faults)


def _select_conditions(
    rows: TableRows, columns: dict[str, str], conditions: Sequence[int]
) -> tuple[TableRows, NDArray[np.float64]]:
    """The rows of the chosen conditions, and the index of each row's condition among them."""
    codes = _conditions(rows, columns)
    service = np.full(len(rows), -1, dtype=np.int64)
    faults: list[FieldError] = []
    for index, condition in enumerate(conditions):
        chosen = codes == condition
        service[chosen] = index
        if not chosen.any():
            faults.append(
                FieldError(
                    pointer("federation", "conditions", index),
                    f"no row has DRG {condition}; take it off the list or correct it",
                )
            )
    raise_errors(faults)
    mask = service >= 0
    return rows.where(mask), service[mask].astype(np.float64)


def _conditions(rows: TableRows, columns: dict[str, str]) -> NDArray[np.int64]:
    """Each row's DRG code."""
    where = rows.source.pointer
    if "drg" in columns:
        return drg_codes(rows, columns["drg"], where)
    name = columns["service_index"]
    index = rows.numbers(name, where)
    unknown = ~np.isin(index, np.arange(len(DERIVED_CONDITIONS)))
    if unknown.any():
        raise rows.fault(
            name, int(np.argmax(unknown)), where, "is not 0, 1, 2 or 3", "give DRG codes instead"
        )
    return np.array(DERIVED_CONDITIONS, dtype=np.int64)[index.astype(np.int64)]


def _places(
    rows: TableRows, columns: dict[str, str], source: HospitalCharges, files: Files
) -> Coordinates:
    """Coordinates of each row; a given ZIP table takes precedence over the file's own."""
    where = rows.source.pointer
    if source.zip_table is None:
        return own_coordinates(rows, columns, where)
    zips = rows.levels(columns["zip"], where)
    with open_path(source.zip_table, files=files, pointer=_ZIP_TABLE) as table:
        return joined_coordinates(zips, table)


def _with_coordinates(
    places: Coordinates, source: HospitalCharges, file: SourceFile
) -> NDArray[np.bool_]:
    known = places.known
    if not known.any():
        raise error_at(
            file.pointer if source.zip_table is None else _ZIP_TABLE,
            "gives coordinates for none of the rows; name a table that knows their ZIP codes",
        )
    return known
