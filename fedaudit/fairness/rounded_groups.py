"""Whose rows the counts of each group are of, by which they are rounded."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.population import Population
from fedaudit.fairness.rounding import GroupRows, Rounder


def rounder_of(
    people: Population,
    favourable: NDArray[np.bool_],
    *,
    base: int,
    key: bytes,
    data: bytes,
) -> Rounder:
    """The rounder of the people who are scored; `key` is secret.

    `favourable` [rows]: whether the true outcome is; `data`: within what the rows' numbers mean the
    same; rows may share a number. Offsets follow from the rows that are scored and from their true
    outcomes alone, so that a split or a rule that is written otherwise and means the same people
    rounds them alike. Raises ValueError where rows have no numbers.
    """
    if people.row_ids is None:
        raise ValueError("rows without numbers cannot be told apart")
    ids = people.row_ids
    groups = {}
    for name, codes in people.codes.items():
        members = [codes == group for group in range(people.groups[name])]
        groups[name] = [
            GroupRows(
                rows=_digest(ids[own]),
                positives=_digest(ids[own & favourable]),
                negatives=_digest(ids[own & ~favourable]),
            )
            for own in members
        ]
    return Rounder(base=base, key=key, population=data, groups=groups)


def _digest(ids: NDArray[np.int64]) -> bytes:
    return hashlib.sha256(np.sort(ids).astype("<i8").tobytes()).digest()
