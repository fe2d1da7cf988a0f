"""Small tables as people bring them, one for each thing that goes wrong with real ones."""

import random
from collections.abc import Callable

_DRAW = random.Random(7)
Cell = Callable[[int], object]


def table(rows: int, columns: dict[str, Cell], *, parted_by: str = ",") -> str:
    """The text of a table: each cell from the number of its row."""
    lines = [[cell(row) for cell in columns.values()] for row in range(rows)]
    return "".join(f"{parted_by.join(map(str, line))}\n" for line in [list(columns), *lines])


def in_turn(*cells: object) -> Cell:
    """A cell after the other."""
    return lambda row: cells[row % len(cells)]


def gaps(every: int, cell: Cell, *, first: int = 0, text: str = "") -> Cell:
    """A gap in one of so many rows."""
    return lambda row: text if row % every == first else cell(row)


def _leaks(row: int) -> bool:
    return row * 11 % 7 < 2


def _relapses(row: int) -> bool:
    return row * 13 % 5 < 2


TABLES = {
    # As a German spreadsheet is saved: semicolons, decimal commas, dates, umlauts, a rare outcome.
    "german": table(
        240,
        {
            "Fallnummer": lambda row: 70000 + 7 * row,
            "Klinik": in_turn("Haus Ä", "Haus B", "Haus Ö", "Haus D"),
            "Geschlecht": in_turn("weiblich", "männlich", "divers"),
            "Alter": lambda row: 20 + row * 7 % 60,
            "Aufnahmedatum": lambda row: f"{1 + row % 28:02}.08.2025",
            "Größe (m)": lambda row: f"1,{50 + row * 11 % 49}",
            "CRP": lambda row: f"{row * 13 % 89},5",
            "Versicherung": in_turn("gesetzlich", "privat"),
            "verstorben": lambda row: "nein" if row % 9 else "ja",
        },
        parted_by=";",
    ),
    # The outcome is among the columns in other words: 1 - passed, and in texts.
    "leaked": table(
        300,
        {
            "school": lambda row: f"s{row % 12}",
            "sex": lambda row: "FM"[row * 7 % 2],
            "share_black": lambda row: (row * 17 % 91) / 100,
            "hours": lambda row: row * 31 % 40,
            "failed_mark": lambda row: int(_leaks(row)),
            "verdict": lambda row: "repeats" if _leaks(row) else ("moves up", "excels")[row % 2],
            "passed": lambda row: int(not _leaks(row)),
        },
    ),
    # What ends an observation says how it ended.
    "survival": table(
        250,
        {
            "clinic": lambda row: f"c{row % 10}",
            "age": lambda row: 20 + row % 60,
            "from": lambda row: row % 5,
            "until": lambda row: row % 5 + row * 7 % 30,
            "event": lambda row: int(_relapses(row)),
            "dose": lambda row: row * 3 % 11,
            "dose.1": lambda row: row * 3 % 11,
            "relapse": lambda row: ("no", "yes")[_relapses(row)],
        },
    ),
    # Nine in ten pass, groups are one-hot, and clients are schools.
    "one-hot": table(
        240,
        {
            "school": lambda row: f"s{row % 12}",
            "lsat": lambda row: 30 + row % 17,
            "gpa": lambda row: 2 + (row % 20) / 10,
            "Race_Black": in_turn(1, 0, 0, 0, 0),
            "Race_White": in_turn(0, 1, 1, 1, 0),
            "Race_Asian": in_turn(0),
            "passed": lambda row: int(row % 10 != 0),
        },
    ),
    # Codes for groups, a target that names something bad, and a second outcome that gives it away.
    "coded": table(
        300,
        {
            "id": lambda row: 1000 + row,
            "county": lambda row: f"c{row % 15}",
            "SEX": in_turn(1, 2),
            "RAC1P": in_turn(1, 2, 3, 4),
            "priors_count": lambda row: row % 13,
            "is_recid": in_turn(1, 1, 1, 0, 0, 0, 0),
            "two_year_recid": in_turn(1, 1, 1, 0, 0, 0, 0),
        },
    ),
    # Age in words, a skewed target, and gaps spelled in two ways.
    "text-age": table(
        200,
        {
            "branch": lambda row: f"b{row % 8}",
            "age": in_turn("19-25", "26-40", "41-60", "60+"),
            "savings": gaps(9, lambda row: 100 * (row % 11), text="?"),
            "purpose": in_turn("car", "tv", "NA"),
            "class": lambda row: "good" if row % 10 else "bad",
        },
    ),
    # Client keys and targets that are missing in some rows, and a number as the target.
    "missing-keys": table(
        240,
        {
            "hospital": gaps(25, lambda row: f"h{row % 6}"),
            "age": lambda row: 20 + row % 60,
            "sex": in_turn("F", "M"),
            "length": lambda row: row % 9,
            "charges": gaps(40, lambda row: 900 + 17 * row, first=3),
        },
    ),
    # Nothing that looks like a client.
    "nobody": table(
        100, {"x": lambda _: _DRAW.random(), "z": in_turn(0, 1, 2), "y": in_turn(0, 1)}
    ),
}
