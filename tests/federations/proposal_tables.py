"""Small tables as people bring them, one for each thing that goes wrong with real ones."""

import random

_DRAW = random.Random(7)


def _table(head: str, rows: list[list[object]]) -> str:
    return "\n".join([head, *(",".join(map(str, row)) for row in rows), ""])


def _rows(count: int) -> range:
    return range(count)


# Nine in ten pass, groups are one-hot, and clients are schools.
ONE_HOT = _table(
    "school,lsat,gpa,Race_Black,Race_White,Race_Asian,passed",
    [
        [
            f"s{row % 12}",
            30 + row % 17,
            2 + (row % 20) / 10,
            int(row % 5 == 0),
            int(row % 5 in (1, 2, 3)),
            0,
            int(row % 10 != 0),
        ]
        for row in _rows(240)
    ],
)

# Codes for groups, a target that names something bad, and a second outcome that gives it away.
CODED = _table(
    "id,county,SEX,RAC1P,priors_count,is_recid,two_year_recid",
    [
        [
            1000 + row,
            f"c{row % 15}",
            1 + row % 2,
            1 + row % 4,
            row % 13,
            int(row % 7 < 3),
            int(row % 7 < 3),
        ]
        for row in _rows(300)
    ],
)

# Age in words, a skewed target, and gaps spelled in two ways.
TEXT_AGE = _table(
    "branch,age,savings,purpose,class",
    [
        [
            f"b{row % 8}",
            ("19-25", "26-40", "41-60", "60+")[row % 4],
            "?" if row % 9 == 0 else 100 * (row % 11),
            ("car", "tv", "NA")[row % 3],
            "good" if row % 10 else "bad",
        ]
        for row in _rows(200)
    ],
)

# Client keys and targets that are missing in some rows, and a number as the target.
MISSING_KEYS = _table(
    "hospital,age,sex,length,charges",
    [
        [
            "" if row % 25 == 0 else f"h{row % 6}",
            20 + row % 60,
            "FM"[row % 2],
            row % 9,
            "" if row % 40 == 3 else 900 + 17 * row,
        ]
        for row in _rows(240)
    ],
)

# Nothing that looks like a client.
NOBODY = _table("x,z,y", [[_DRAW.random(), row % 3, row % 2] for row in _rows(100)])

# As a German spreadsheet is saved: semicolons, decimal commas, dates, umlauts, a rare outcome.
GERMAN = "\n".join(
    [
        "Fallnummer;Klinik;Geschlecht;Alter;Aufnahmedatum;Größe (m);CRP;Versicherung;verstorben",
        *(
            ";".join(
                (
                    str(70000 + 7 * row),
                    f"Haus {'ÄBÖD'[row % 4]}",
                    ("weiblich", "männlich", "divers")[row % 3],
                    str(20 + row * 7 % 60),
                    f"{1 + row % 28:02}.08.2025",
                    f"1,{50 + row * 11 % 49}",
                    f"{row * 13 % 89},5",
                    ("gesetzlich", "privat")[row % 2],
                    ("nein", "ja")[row % 9 == 0],
                )
            )
            for row in _rows(240)
        ),
        "",
    ]
)

# The outcome is among the columns in other words: 1 - passed, and in texts.
LEAKED = _table(
    "school,sex,share_black,hours,failed_mark,verdict,passed",
    [
        [
            f"s{row % 12}",
            "FM"[row * 7 % 2],
            (row * 17 % 91) / 100,
            row * 31 % 40,
            int(row * 11 % 7 < 2),
            ("repeats", "moves up", "excels")[0 if row * 11 % 7 < 2 else 1 + row % 2],
            int(row * 11 % 7 >= 2),
        ]
        for row in _rows(300)
    ],
)

# What ends an observation says how it ended.
SURVIVAL = _table(
    "clinic,age,from,until,event,dose,dose.1,relapse",
    [
        [
            f"c{row % 10}",
            20 + row % 60,
            row % 5,
            row % 5 + row * 7 % 30,
            int(row * 13 % 5 < 2),
            row * 3 % 11,
            row * 3 % 11,
            ("no", "yes")[row * 13 % 5 < 2],
        ]
        for row in _rows(250)
    ],
)

TABLES = {
    "german": GERMAN,
    "leaked": LEAKED,
    "survival": SURVIVAL,
    "one-hot": ONE_HOT,
    "coded": CODED,
    "text-age": TEXT_AGE,
    "missing-keys": MISSING_KEYS,
    "nobody": NOBODY,
}
