"""Coordinates of rows of the hospital data: from the file itself, or by ZIP code."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.errors import listed
from fedaudit.federations.hospital.hospital_columns import ZIP_TABLE, known_columns, with_zip
from fedaudit.federations.levels import Levels
from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Degrees; NaN where a place is unknown."""

    longitude: NDArray[np.float64]
    latitude: NDArray[np.float64]

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where both are known; 0,0 lies in the sea and marks a missing place."""
        origin = (self.longitude == 0) & (self.latitude == 0)
        known: NDArray[np.bool_] = ~(np.isnan(self.longitude) | np.isnan(self.latitude) | origin)
        return known


def own_coordinates(rows: TableRows, columns: dict[str, str], where: str) -> Coordinates:
    """The coordinates in the rows. Raises InvalidInputError at `where`."""
    return Coordinates(
        rows.numbers(columns["longitude"], where, missing_allowed=True),
        rows.numbers(columns["latitude"], where, missing_allowed=True),
    )


def joined_coordinates(zips: Levels, source: SourceFile) -> Coordinates:
    """Coordinates of each row's ZIP code in a table with columns zip, longitude and latitude.

    A ZIP code that the table lacks has unknown coordinates; a repeated one has its last known
    place. Raises InvalidInputError at the file's pointer.
    """
    where = source.pointer
    file = TableFile(source)
    columns = known_columns(file.names, ZIP_TABLE)
    if missing := [name for name in ZIP_TABLE if name not in columns]:
        raise source.fault(f"lacks the columns {listed(missing)}; name a table that has them")
    table = with_zip(file.read(list(columns.values())), columns["zip"], where)
    places = own_coordinates(table, columns, where)
    known = table.where(places.known)
    codes = known.text(columns["zip"], where).to_pylist()
    row_of = dict(zip(codes, np.flatnonzero(places.known).tolist(), strict=True))
    # One look-up per distinct ZIP code; the last entry serves codes without a place.
    rows = np.array([row_of.get(code, -1) for code in zips.values] + [-1], dtype=np.int64)
    place = rows[zips.codes]
    return Coordinates(
        np.where(place < 0, np.nan, places.longitude[place]),
        np.where(place < 0, np.nan, places.latitude[place]),
    )
