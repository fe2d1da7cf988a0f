"""Normalise the spellings of CMS inpatient files: names, ZIP codes, DRG codes, money."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedaudit.federations.reading.table_rows import TableRows

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


def known_columns(names: Sequence[str], spellings: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Our names of the columns that a file has, with the file's own names."""
    plain = {re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_"): name for name in names}
    found: dict[str, str] = {}
    for ours, theirs in spellings.items():
        for spelling in theirs:
            if spelling in plain:
                found[ours] = plain[spelling]
                break
    return found


def with_money(rows: TableRows, name: str, where: str) -> TableRows:
    """Amounts like "$5,777.24" as plain numbers; a cell that is not an amount is left unchanged."""
    if pa.types.is_floating(rows.columns[name].type) or pa.types.is_integer(
        rows.columns[name].type
    ):
        return rows
    text = rows.text(name, where)
    amounts = pc.replace_substring_regex(text, r"[$,]", "")
    return rows.with_column(name, pc.if_else(pc.match_substring_regex(text, _MONEY), amounts, text))


def with_zip(rows: TableRows, name: str, where: str) -> TableRows:
    """ZIP codes as five characters: leading zeros restored, the four-digit suffix removed.

    Raises InvalidInputError at `where` for a cell that is not a ZIP code.
    """
    text = pc.replace_substring_regex(rows.text(name, where), r"\.0$", "")
    _refuse_first(rows, pc.invert(pc.match_substring_regex(text, _ZIP)), name, where, "a ZIP code")
    return rows.with_column(
        name, pc.utf8_lpad(pc.replace_substring_regex(text, r"-.*$", ""), width=5, padding="0")
    )


def drg_codes(rows: TableRows, name: str, where: str) -> NDArray[np.int64]:
    """DRG codes [rows] of cells like "194", "039" or "194 - SIMPLE PNEUMONIA & PLEURISY W CC".

    Raises InvalidInputError at `where` for a cell that does not begin with a code.
    """
    found = pc.extract_regex(rows.text(name, where), _DRG)
    _refuse_first(rows, pc.is_null(found), name, where, "a DRG code")
    codes: NDArray[np.int64] = pc.cast(pc.struct_field(found, "code"), pa.int64()).to_numpy(
        zero_copy_only=False
    )
    return codes


def _refuse_first(rows: TableRows, unusable: Any, name: str, where: str, meant: str) -> None:
    mask = unusable.to_numpy(zero_copy_only=False)
    if mask.any():
        raise rows.fault(
            name, int(np.argmax(mask)), where, f"is not {meant}", "correct it or leave the row out"
        )
