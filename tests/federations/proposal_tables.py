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

TABLES = {
    "one-hot": ONE_HOT,
    "coded": CODED,
    "text-age": TEXT_AGE,
    "missing-keys": MISSING_KEYS,
    "nobody": NOBODY,
}
