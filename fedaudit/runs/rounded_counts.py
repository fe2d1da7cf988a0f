"""How the counts of a run are rounded: by whose rows they are, whatever the spec calls them."""

import hashlib

from fedaudit.fairness.rounded_groups import rounder_of
from fedaudit.fairness.rounding import Rounder
from fedaudit.runs.held_out_groups import held_out_groups, row_numbering, scored_outcomes
from fedaudit.training.base.cell import Cell


def build_rounder(cell: Cell, *, base: int, key: bytes) -> Rounder:
    """The rounder of a run's held-out people; `key` is secret.

    Raises ValueError where rows have no numbers.
    """
    return rounder_of(
        held_out_groups(cell),
        scored_outcomes(cell),
        base=base,
        key=key,
        fingerprint=cell.federation.fingerprint,
        numbering=hashlib.sha256(row_numbering(cell)).hexdigest(),
    )
