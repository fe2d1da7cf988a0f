"""Whose figures a run reports by group, and which of the groups are disclosed."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.joint_disclosure import Population
from fedaudit.fairness.scored_groups import Numbered, NumberedRows, ScoredGroups, clients_by_number
from fedaudit.federations.favourable_outcomes import outcome_rules
from fedaudit.runs.cell_keys import cell_keys
from fedaudit.spec.sources import FileSource
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.record_sources import validation_rows

_MAX_NUMBERS = 2**26 // 5
"""Of rows that are numbered client by client."""
NUMBERS = 1 << 20
"""Of rows that are numbered by their cells. Rows may share one: two sets then look nearer than they
are, never farther."""


def held_out_groups(cell: Cell) -> Population:
    """The rows that are scored, by their groups of every attribute of the spec.

    They follow from spec and data alone, so they are the same in every round. A row for which no
    rule decides whether its outcome is favourable is not among them.
    """
    federation, (place, _) = cell.federation, _scored(cell)
    return Population(
        codes={one.name: one.codes[place].astype(np.int64) for one in federation.attributes},
        groups={one.name: len(one.values) for one in federation.attributes},
        clients=federation.client_of[place],
        row_ids=None if federation.row_numbers is None else federation.row_numbers[place],
    )


def _scored(cell: Cell) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where the rows lie in the federation's arrays, and whether their true outcome is
    favourable."""
    federation = cell.federation
    held_out = validation_rows(cell.spec, federation)
    place = held_out.place[held_out.scored]
    rules = outcome_rules(federation, cell.spec.fairness)
    if rules.ops:
        place = place[rules.rule_index[place] >= 0]
    return place, rules.label(federation.raw_target)[place]


def scored_places(cell: Cell) -> NDArray[np.int64]:
    """Where these rows lie in the federation's arrays: [rows]."""
    return _scored(cell)[0]


def scored_outcomes(cell: Cell) -> NDArray[np.bool_]:
    """Whether the true outcome of each of these rows is favourable: [rows]; without rules, none."""
    return _scored(cell)[1]


def decide_disclosures(cell: Cell, *, withheld: Collection[str] = ()) -> dict[str, Disclosure]:
    """Which groups of each attribute a run may report, in its rounds and at its end.

    `withheld`: attributes of which it may report none, because of earlier reports.
    """
    if not cell.federation.attributes:
        return {}
    return scored_groups(cell).decide(withheld)


def is_remembered(cell: Cell) -> bool:
    """Whether what a run discloses is compared with earlier reports, and remembered.

    Generated data are nobody's, and what counts with noise disclose is within their epsilon.
    """
    if cell.spec.fairness.noise is not None:
        return False
    return bool(cell.federation.attributes) and isinstance(cell.spec.federation, FileSource)


def scored_groups(cell: Cell) -> ScoredGroups:
    """The scored rows by their groups, for what is disclosed of them."""
    return ScoredGroups(
        spec=cell.spec,
        groups={one.name: one.values for one in cell.federation.attributes},
        population=held_out_groups(cell),
        favourable=scored_outcomes(cell),
    )


def rows_of_file(cell: Cell) -> Numbered:
    """By their places in the file."""
    federation = cell.federation
    if federation.row_numbers is None:
        raise ValueError("generated rows are not remembered")
    return [
        NumberedRows(
            held_out_groups(cell), clients_by_number(federation.row_numbers, federation.client_of)
        )
    ]


def rows_of_clients(cell: Cell) -> Numbered:
    """As rows of images were numbered once: client by client, as if each had as many as the
    longest."""
    federation, (place, _) = cell.federation, _scored(cell)
    client = federation.client_of
    numbers = client * federation.longest + np.arange(federation.rows) - federation.first[client]
    if federation.clients * federation.longest > _MAX_NUMBERS:
        numbers = np.arange(federation.rows)
    population = replace(held_out_groups(cell), row_ids=numbers[place])
    return [NumberedRows(population, clients_by_number(numbers, client))]


def rows_by_cells(cell: Cell, *, secret: bytes) -> Numbered:
    """By keyed hashes of the cells that put people into groups; see `cell_keys`."""
    federation, (place, _) = cell.federation, _scored(cell)
    everybody, found = held_out_groups(cell), []
    for name in everybody.codes:
        keys = cell_keys(cell, name, secret=secret)
        numbers = (keys % np.uint64(NUMBERS)).astype(np.int64)
        population = replace(
            everybody,
            codes={name: everybody.codes[name]},
            groups={name: everybody.groups[name]},
            row_ids=numbers[place],
            row_keys=keys[place],
        )
        found.append(NumberedRows(population, clients_by_number(numbers, federation.client_of)))
    return found
