"""The confidential files of a membership attack: scores of rows, and of clients."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.membership.attacked_rows import AttackedRows
from fedaudit.attacks.membership.found_members import FoundMembers
from fedaudit.federations.federation import Federation
from fedaudit.spreadsheet import plain_text


def membership_files(
    federation: Federation,
    rows: AttackedRows,
    scores: Mapping[str, NDArray[np.float64]],
    found: Sequence[FoundMembers],
) -> dict[str, bytes]:
    """`scores.csv`, a line a row, and `clients.csv`, a line a client.

    `scores`: by column, [rows]; the first is the one that the rates in `found` are of.
    """
    return {
        "scores.csv": _csv(_rows(federation, rows, scores)),
        "clients.csv": _csv(_clients(federation, rows, next(iter(scores.values())), found)),
    }


def _rows(
    federation: Federation, rows: AttackedRows, scores: Mapping[str, NDArray[np.float64]]
) -> Iterable[dict[str, Any]]:
    number = rows.place - federation.first[rows.client] + 1
    for place in range(len(rows)):
        yield {
            "client": plain_text(federation.client_names[rows.client[place]]),
            "row": int(number[place]),
            "member": int(rows.member[place]),
            **{name: repr(float(values[place])) for name, values in scores.items()},
        }


def _clients(
    federation: Federation,
    rows: AttackedRows,
    scores: NDArray[np.float64],
    found: Sequence[FoundMembers],
) -> Iterable[dict[str, Any]]:
    for client in np.unique(rows.client).tolist():
        own = rows.client == client
        yield {
            "client": plain_text(federation.client_names[client]),
            "rows": int(own.sum()),
            "members": int(rows.member[own].sum()),
            "score_mean": repr(float(scores[own].mean())),
            **{
                f"taken_for_members_at_{level.fpr:g}": int((scores[own] >= level.threshold).sum())
                for level in found
                if level.threshold is not None
            },
        }


def _csv(lines: Iterable[dict[str, Any]]) -> bytes:
    text, table = io.StringIO(), None
    for line in lines:
        if table is None:
            table = csv.DictWriter(text, list(line), lineterminator="\n")
            table.writeheader()
        table.writerow(line)
    return text.getvalue().encode()
