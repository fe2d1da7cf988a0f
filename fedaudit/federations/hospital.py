"""Inpatient charges of the Centers for Medicare and Medicaid Services (Galli et al., 5.2)."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.federations.federation import Federation
from fedaudit.federations.groups import read_sensitive
from fedaudit.federations.levels import Levels
from fedaudit.federations.mapped import EVERY_NUMBER, as_float32, check_scales, pack, scaled
from fedaudit.federations.reading.source_files import SourceFile, open_path, open_source
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows, as_numpy
from fedaudit.federations.record_keys import smallest_row_hashes
from fedaudit.federations.source_kind import LoadRequest, SourceKind
from fedaudit.federations.table.features import refuse_gaps
from fedaudit.spec.errors import FieldError, error_at, listed, pointer, raise_errors
from fedaudit.spec.federation import HospitalCharges
from fedaudit.spec.table import centred

# Our name of a column, and its spellings in the files of 2011 to 2023 and in copies of them.
CHARGES: Mapping[str, tuple[str, ...]] = {
    "provider_id": ("provider_id", "provider_ccn", "rndrng_prvdr_ccn"),
    "zip": ("zip", "provider_zip_code", "rndrng_prvdr_zip5"),
    "state": ("state", "provider_state", "rndrng_prvdr_state_abrvtn"),
    "region": ("region", "hrr", "hospital_referral_region_description",
               "hospital_referral_region_hrr_description"),
    "drg": ("drg_code", "drg_cd", "drg_definition"),
    "average_total_payments": ("average_total_payments", "avg_total_payments", "avg_tot_pymt_amt"),
    "service_index": ("service_index",),
    "longitude": ("longitude",),
    "latitude": ("latitude",),
}  # fmt: skip
ZIP_TABLE: Mapping[str, tuple[str, ...]] = {
    "zip": ("zip", "zip_code", "zipcode", "postal_code"),
    "longitude": ("longitude", "lon", "lng", "long"),
    "latitude": ("latitude", "lat"),
}

_MONEY = r"^\$?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?$"
_DRG = r"^(?P<code>\d{1,3})(?:\.0)?(?:\s*-.*)?$"
_ZIP = r"^\d{1,5}(-\d{4})?$"
_CORRECT = "correct it or leave the row out"


def known_columns(names: Sequence[str], spellings: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Our names of the columns that a file has, with the file's own names."""
    plain = {re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_"): name for name in names}
    known = {ours: [one for one in theirs if one in plain] for ours, theirs in spellings.items()}
    return {ours: plain[spelt[0]] for ours, spelt in known.items() if spelt}


def with_money(rows: TableRows, name: str, where: str) -> TableRows:
    """Amounts like "$5,777.24" as plain numbers; a cell that is not an amount is left unchanged."""
    kind = rows.columns[name].type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return rows
    text = rows.text(name, where)
    amounts = pc.replace_substring_regex(text, r"[$,]", "")
    return rows.with_column(name, pc.if_else(pc.match_substring_regex(text, _MONEY), amounts, text))


def with_zip(rows: TableRows, name: str, where: str) -> TableRows:
    """ZIP codes as five characters: leading zeros restored, the four-digit suffix removed.

    Raises InvalidInputError at `where` for a cell that is not a ZIP code.
    """
    text = pc.replace_substring_regex(rows.text(name, where), r"\.0$", "")
    usable = as_numpy(pc.match_substring_regex(text, _ZIP))
    rows.refuse(~usable, name, where, "is not a ZIP code", _CORRECT)
    first = pc.replace_substring_regex(text, r"-.*$", "")
    return rows.with_column(name, pc.utf8_lpad(first, width=5, padding="0"))


def own_places(rows: TableRows, columns: dict[str, str], where: str) -> Floats:
    """Degrees of longitude and latitude in the rows, [rows, 2]; NaN where a cell is empty. Raises
    InvalidInputError at `where`."""
    own = [columns["longitude"], columns["latitude"]]
    return np.stack([rows.numbers(name, where, missing_allowed=True) for name in own], axis=1)


def are_known(places: Floats) -> Bools:
    """Where longitude and latitude are known; 0,0 is in the sea and marks a missing place."""
    known: Bools = (~np.isnan(places)).all(1) & (places != 0).any(1)
    return known


def joined_places(zips: Levels, source: SourceFile) -> Floats:
    """The places of each row's ZIP code in a table with columns zip, longitude and latitude.

    A ZIP code that the table lacks has an unknown place; a repeated one has its last known place.
    Raises InvalidInputError at the file's pointer.
    """
    where = source.pointer
    file = TableFile(source)
    columns = known_columns(file.names, ZIP_TABLE)
    if missing := [name for name in ZIP_TABLE if name not in columns]:
        raise source.fault(f"lacks the columns {listed(missing)}; name a table that has them")
    table = with_zip(file.read(list(columns.values())), columns["zip"], where)
    places = own_places(table, columns, where)
    known = are_known(places)
    codes = table.where(known).text(columns["zip"], where).to_pylist()
    place_of = dict(zip(codes, places[known], strict=True))
    # One look-up per distinct ZIP code; the last entry serves codes without a place.
    unknown = np.full(2, np.nan)
    return np.stack([*(place_of.get(code, unknown) for code in zips.values), unknown])[zips.codes]


DERIVED_CONDITIONS = (194, 690, 292, 392)
"""The meaning of a `service_index` of 0 to 3 in a file that has it instead of DRG codes."""
ATTRIBUTES = ("state", "region")
TARGET = "average_total_payments"
FEATURES = ("service_index", "longitude", "latitude")
_CLIENT_KEY, _ZIP_TABLE = "/federation/client_key", "/federation/zip_table"


class HospitalChargesKind(SourceKind[HospitalCharges]):
    """Inpatient charges by condition and place."""

    def load(self, asked: LoadRequest) -> Federation:
        """Payments by condition and place, one client per provider or ZIP code; the same data for
        every seed.

        Reads the file as CMS publishes it (from FY2011 on), plain copies of it, and the derived
        file with `service_index` and coordinates. Features are the index of the row's condition in
        `conditions` and the coordinates; rows without coordinates are left out and counted in a
        note. Raises InvalidInputError naming field, column and row.
        """
        source = self._source
        with open_source(source, files=asked.files) as file:
            table = TableFile(file)
            columns = known_columns(table.names, CHARGES)
            _check_columns(source, table, columns, asked.fairness.sensitive)
            check_scales(source.scale, features=FEATURES, one_hot=(), target=TARGET, classes=False)
            read = table.read(list(columns.values()))
            rows, service = _select_conditions(read, columns, source.conditions)
            if source.client_key == "zip" or source.zip_table is not None:
                rows = with_zip(rows, columns["zip"], file.pointer)
            joined_table = None
            if source.zip_table is None:
                places = own_places(rows, columns, file.pointer)
            else:  # it takes precedence over the file's own places
                zips = rows.levels(columns["zip"], file.pointer)
                with open_path(
                    source.zip_table, files=asked.files, pointer=_ZIP_TABLE
                ) as places_of:
                    places = joined_places(zips, places_of)
                    joined_table = places_of.fingerprint
            kept = are_known(places)
            if not kept.any():
                raise error_at(
                    file.pointer if source.zip_table is None else _ZIP_TABLE,
                    "gives coordinates for none of the rows; name a table that knows their ZIP "
                    "codes",
                )
            rows = with_money(rows.where(kept), columns[TARGET], file.pointer)
            attributes, notes = read_sensitive(rows, asked.fairness.sensitive, columns)
            key, remedy = columns[source.client_key], "say which client the row belongs to"
            refuse_gaps(rows, key, _CLIENT_KEY, remedy=remedy)
            scales = centred(source.declared_scales, source.standardise)
            every = scales.get(EVERY_NUMBER, 1.0)
            features = [
                as_float32(scaled(values, scales.get(name, every))[0], name)
                for name, values in zip(FEATURES, (service[kept], *places[kept].T), strict=True)
            ]
            if left_out := int(np.count_nonzero(~kept)):
                notes = (f"rows without coordinates, left out: {left_out}", *notes)
            return pack(
                rows.levels(key, _CLIENT_KEY),
                features=np.stack(features, axis=1),
                feature_names=FEATURES,
                target=rows.numbers(columns[TARGET], file.pointer),
                target_name=TARGET,
                target_scale=source.scale.get(TARGET, 1.0),
                classes=(),
                fingerprint=file.fingerprint,
                joined_table=joined_table,
                attributes=attributes,
                notes=notes,
                row_numbers=rows.row_numbers,
            )

    def row_hashes(self, asked: LoadRequest, *, keep: int) -> Ints:
        """Hashes of all columns of the charges."""
        with open_source(self._source, files=asked.files) as file:
            return smallest_row_hashes(file, asked, header=True, keep=keep)


def _check_columns(
    source: HospitalCharges, table: TableFile, columns: dict[str, str], sensitive: Sequence[str]
) -> None:
    file = table.source
    needed = {TARGET: file.pointer, source.client_key: _CLIENT_KEY}
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
) -> tuple[TableRows, Floats]:
    """The rows of the chosen conditions, and the index of each row's condition among them."""
    chosen = _conditions(rows, columns)[:, None] == np.array(conditions)
    raise_errors(
        [
            FieldError(
                pointer("federation", "conditions", index),
                f"no row has DRG {condition}; take it off the list or correct it",
            )
            for index, condition in enumerate(conditions)
            if not chosen[:, index].any()
        ]
    )
    mask = chosen.any(1)
    return rows.where(mask), chosen.argmax(1)[mask].astype(np.float64)


def _conditions(rows: TableRows, columns: dict[str, str]) -> Ints:
    """Each row's DRG code, of cells like "194", "039" or "194 - SIMPLE PNEUMONIA & PLEURISY"."""
    where = rows.source.pointer
    if (name := columns.get("drg")) is not None:
        found = pc.extract_regex(rows.text(name, where), _DRG)
        rows.refuse(as_numpy(pc.is_null(found)), name, where, "is not a DRG code", _CORRECT)
        return as_numpy(pc.cast(pc.struct_field(found, "code"), pa.int64()))
    name = columns["service_index"]
    index = rows.numbers(name, where)
    unknown = ~np.isin(index, np.arange(len(DERIVED_CONDITIONS)))
    rows.refuse(unknown, name, where, "is not 0, 1, 2 or 3", "give DRG codes instead")
    return np.array(DERIVED_CONDITIONS, dtype=np.int64)[index.astype(np.int64)]
