"""Which cells can be trained side by side, and how many of them at a time. No torch."""

import hashlib
from collections.abc import Sequence
from typing import assert_never

from fedaudit.federations.split import training_clients
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.training.base.cell import Cell, expected_cohort, stands_alone

_BYTES = 8
STACK_BYTES = 512 * 2**20
"""About what cells that are trained together may take, beside their data."""
_COPIES = 4
"""Arrays of the size of a cohort's activations or updates that a round holds at a time."""


def stack_key(cell: Cell) -> tuple[object, ...]:
    """Cells with equal keys can be trained side by side.

    Seeds, noise multipliers, radii, clips, budgets, deltas, rounds and patience may differ between
    them. A cell whose clients are computed one by one or by their length has nothing to gain from
    others and is always alone.
    """
    training, mechanism = cell.spec.training, mechanism_of(cell.spec)
    return (
        id(cell) if stands_alone(cell) else None,
        cell.shape,
        (cell.federation.longest, cell.federation.width),
        tuple((attribute.name, attribute.values) for attribute in cell.federation.attributes),
        cell.federation.clients,
        cell.federation.classes,
        cell.federation.target_scale,
        cell.spec.federation.validation_fraction,
        cell.spec.federation.scoring,
        training.loss,
        training.method,
        training.hypotheses,
        training.cohort,
        training.local,
        training.clustering,
        training.stopping.validate_every,
        training.stopping.validation_clients,
        mechanism.facts.name,
        mechanism.stack_traits(),
        cell.spec.privacy.noise,
        cell.spec.fairness.model_dump_json(),
    )


def stack_digest(cell: Cell) -> str | None:
    """A digest of the key, to be compared between processes; None for a cell that gains nothing
    from others beside it."""
    if stands_alone(cell):
        return None
    role = mechanism_of(cell.spec).facts.applied_by
    match role:
        case "clients" | "server":
            return hashlib.sha256(repr(stack_key(cell)).encode()).hexdigest()
        case "local-steps":
            return None
        case _:
            assert_never(role)


def stacks(cells: Sequence[Cell]) -> list[list[int]]:
    """Positions of cells in groups that are trained side by side, in their order."""
    groups: list[list[int]] = []
    key: str | None = None
    for position, cell in enumerate(cells):
        found = stack_digest(cell)
        if found is None or found != key or len(groups[-1]) >= cells_at_once(cell):
            groups.append([])
        groups[-1].append(position)
        key = found
    return groups


def cells_at_once(cell: Cell, *, memory_bytes: int = STACK_BYTES) -> int:
    """How many cells like this one take about so much memory for a round, at least 1.

    An estimate: the activations of the rows of the cohort, or of the clients that a round is
    validated on where these are more, and the cohort's updates. The data themselves are not
    counted, nor the end of a run, which is scored on all held-out clients by itself.
    """
    federation, training = cell.federation, cell.spec.training
    clients = max(expected_cohort(cell), float(_validated_clients(cell)))
    rows = clients * federation.longest * training.hypotheses * cell.shape.activations
    updates = expected_cohort(cell) * cell.shape.n
    needed = _BYTES * _COPIES * (rows + updates)
    return max(1, int(memory_bytes // max(needed, 1.0)))


def _validated_clients(cell: Cell) -> int:
    """How many clients score the hypotheses of a round."""
    every, source = cell.federation.clients, cell.spec.federation
    if source.holds_out_rows:
        return every
    held_out = every - training_clients(every, source)
    asked = cell.spec.training.stopping.validation_clients
    return held_out if asked is None else min(asked, held_out)
