"""How the counts of a run are rounded: by whose rows they are, whatever the spec calls them."""

from dataclasses import replace

from fedaudit.fairness.noised_counts import Rounder, rounder_of
from fedaudit.runs.cell_keys import contribution_keys
from fedaudit.runs.held_out_groups import held_out_groups, scored_outcomes, scored_places
from fedaudit.training.base.cell import Cell

_OF_RUNS = b"client and target"


def build_rounder(cell: Cell, *, base: int, key: bytes) -> Rounder:
    """The rounder of a run's held-out people; `key` is secret."""
    people = contribution_keys(cell.federation)[scored_places(cell)]
    return rounder_of(
        replace(held_out_groups(cell), row_ids=people),
        scored_outcomes(cell),
        base=base,
        key=key,
        data=_OF_RUNS,
    )
