"""Inpatient charges of the Centers for Medicare and Medicaid Services (Galli et al., 5.2)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.faults import invalid, listed, pointer, refuse
from fedaudit.federations.federation import Federation
from fedaudit.federations.hospital_columns import (
    CHARGES,
    drg_codes,
    known_columns,
    with_money,
    with_zip,
)
from fedaudit.federations.packing import Rows, pack
from fedaudit.federations.sensitive import read_sensitive
from fedaudit.federations.sources import read_source
from fedaudit.federations.table import read_client_key
from fedaudit.federations.table_rows import TableRows
from fedaudit.federations.tables import TableFile
from fedaudit.federations.zip_coordinates import Coordinates, joined_coordinates, own_coordinates
from fedaudit.spec.errors import FieldError
from fedaudit.spec.federation import HospitalCharges

DERIVED_CONDITIONS = (194, 690, 292, 392)
"""What a `service_index` of 0 to 3 means in a file that carries it instead of DRG codes."""
ATTRIBUTES = ("state", "region")
TARGET = "average_total_payments"
FEATURES = ("service_index", "longitude", "latitude")
_PATH = "/federation/path"
_ZIP_TABLE = "/federation/zip_table"


def load_hospital_charges(
    source: HospitalCharges, *, sensitive: Sequence[str], sources_dir: Path | None
) -> Federation:
    """Payments by condition and place, one client per provider or ZIP code.

    Reads the file as CMS publishes it (from FY2011 on), plain copies of it, and the derived file
    with `service_index` and coordinates. Features are the position of the row's condition in
    `conditions` and the coordinates; rows without coordinates are left out and counted in a
    note. Raises InvalidInputError naming field, column and row.
    """
    file = TableFile(read_source(source.path, sources_dir=sources_dir, pointer=_PATH))
    columns = known_columns(file.names, CHARGES)
    _check_columns(source, file, columns, sensitive)
    rows, service = _of_conditions(file.read(list(columns.values())), columns, source.conditions)
    if source.client_key == "zip" or source.zip_table is not None:
        rows = with_zip(rows, columns["zip"], _PATH)
    places = _places(rows, columns, source, sources_dir)
    kept = _with_coordinates(places, source)
    rows = with_money(rows.where(kept), columns[TARGET], _PATH)
    attributes, notes = read_sensitive(rows, sensitive, columns)
    left_out = int(np.count_nonzero(~kept))
    if left_out:
        notes = (f"rows without coordinates, left out: {left_out}", *notes)
    return pack(
        Rows(
            clients=read_client_key(rows, columns[source.client_key]),
            features=np.stack(
                [service[kept], places.longitude[kept], places.latitude[kept]], axis=1
            ),
            feature_names=FEATURES,
            target=rows.numbers(columns[TARGET], _PATH),
            target_name=TARGET,
            fingerprint=file.source.fingerprint,
            attributes=attributes,
            notes=notes,
        ),
        source.scale,
    )


def _check_columns(
    source: HospitalCharges, file: TableFile, columns: dict[str, str], sensitive: Sequence[str]
) -> None:
    needed = {TARGET: _PATH, source.client_key: "/federation/client_key"}
    if "service_index" not in columns:
        needed["drg"] = _PATH
    if source.zip_table is not None:
        needed["zip"] = _ZIP_TABLE
    faults = [
        FieldError(
            where,
            f"'{source.path}' has no column for {name}, spelt like one of "
            f"{listed(CHARGES[name])}; it has {listed(file.names)}",
        )
        for name, where in needed.items()
        if name not in columns
    ]
    if source.zip_table is None and not {"longitude", "latitude"} <= columns.keys():
        faults.append(
            FieldError(
                _ZIP_TABLE,
                f"'{source.path}' has no coordinates; name a table with the columns zip, "
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
    refuse(faults)


def _of_conditions(
    rows: TableRows, columns: dict[str, str], conditions: Sequence[int]
) -> tuple[TableRows, NDArray[np.float64]]:
    """The rows of the chosen conditions, and each one's position among them."""
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
    refuse(faults)
    mask = service >= 0
    return rows.where(mask), service[mask].astype(np.float64)


def _conditions(rows: TableRows, columns: dict[str, str]) -> NDArray[np.int64]:
    """Each row's DRG code."""
    if "drg" in columns:
        return drg_codes(rows, columns["drg"], _PATH)
    name = columns["service_index"]
    index = rows.numbers(name, _PATH)
    unknown = ~np.isin(index, np.arange(len(DERIVED_CONDITIONS)))
    if unknown.any():
        raise rows.fault(
            name, int(np.argmax(unknown)), _PATH, "is not 0, 1, 2 or 3", "give DRG codes instead"
        )
    return np.array(DERIVED_CONDITIONS, dtype=np.int64)[index.astype(np.int64)]


def _places(
    rows: TableRows, columns: dict[str, str], source: HospitalCharges, sources_dir: Path | None
) -> Coordinates:
    """Coordinates of each row; a ZIP table that is given goes before the file's own."""
    if source.zip_table is None:
        return own_coordinates(rows, columns, _PATH)
    zips = rows.levels(columns["zip"], _PATH)
    return joined_coordinates(zips, source.zip_table, sources_dir=sources_dir)


def _with_coordinates(places: Coordinates, source: HospitalCharges) -> NDArray[np.bool_]:
    known = places.known
    if not known.any():
        raise invalid(
            _PATH if source.zip_table is None else _ZIP_TABLE,
            "gives coordinates for none of the rows; name a table that knows their ZIP codes",
        )
    return known
