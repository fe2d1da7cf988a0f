"""The confidential table of canaries: `scores.csv`."""

import csv
import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedaudit.spreadsheet import plain_text

COLUMNS = ("canary", "client", "row", "present", "releases", "score", "guess")


def score_table(
    *,
    names: Sequence[str],
    rows: NDArray[np.int64] | None,
    coins: NDArray[np.bool_],
    releases: NDArray[np.int64],
    scores: NDArray[np.float64],
    guesses: NDArray[np.int8],
) -> bytes:
    """CSV with a line for each canary; all [canaries].

    `guess`: 1 present, -1 absent, 0 none; `row` is empty where clients are canaries.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for number, name in enumerate(names):
        writer.writerow(
            (
                number,
                plain_text(name),
                "" if rows is None else int(rows[number]),
                int(coins[number]),
                int(releases[number]),
                repr(float(scores[number])),
                int(guesses[number]),
            )
        )
    return buffer.getvalue().encode()
