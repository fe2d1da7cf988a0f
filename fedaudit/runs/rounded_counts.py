"""How the counts of a run are rounded: by whose rows they are, whatever the spec calls them."""

import hashlib
import json

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.rounding import GroupRows, Rounder
from fedaudit.runs.held_out_groups import held_out_groups, row_numbering, scored_outcomes
from fedaudit.training.base.cell import Cell


def build_rounder(cell: Cell, *, base: int, key: bytes) -> Rounder:
    """The rounder of a run's held-out people; `key` is secret.

    Offsets follow from the rows that are scored and from their true outcomes alone, so that a split
    or a rule that is written otherwise and means the same people rounds them alike. Raises
    ValueError where rows have no numbers.
    """
    people, favourable = held_out_groups(cell), scored_outcomes(cell)
    if people.row_ids is None:
        raise ValueError("rows without numbers cannot be told apart")
    ids = people.row_ids
    numbering = hashlib.sha256(row_numbering(cell)).hexdigest()
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
    return Rounder(
        base=base,
        key=key,
        population=json.dumps([cell.federation.fingerprint, numbering]).encode(),
        groups=groups,
    )


def _digest(ids: NDArray[np.int64]) -> bytes:
    return hashlib.sha256(np.sort(ids).astype("<i8").tobytes()).digest()
