"""Whose figures a run reports by group, and which of the groups are disclosed."""

from collections.abc import Collection, Sequence

import numpy as np
import rfc8785
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.earlier_disclosures import DisclosedRows
from fedaudit.fairness.population import Population
from fedaudit.fairness.scored_groups import DisclosureDecision, ScoredGroups
from fedaudit.federations.federation import Federation
from fedaudit.federations.groups.favourable_outcomes import outcome_rules
from fedaudit.spec.sources import FileSource
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.record_sources import validation_rows

_MAX_NUMBERS = 2**26 // 5
"""Of rows that are no table's. They are numbered as if each client had as many as the longest, and
reports remember such numbers; data that would need more were refused when that began."""
_NOT_NUMBERING = {"path", "id", "validation_fraction", "validation_unit", "scoring", "labels"}


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
        row_ids=_row_ids(federation)[place],
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


def scored_outcomes(cell: Cell) -> NDArray[np.bool_]:
    """Whether the true outcome of each of these rows is favourable: [rows]; without rules, none."""
    return _scored(cell)[1]


def decide_disclosures(cell: Cell, *, withheld: Collection[str] = ()) -> dict[str, Disclosure]:
    """Which groups of each attribute a run may report, in its rounds and at its end.

    `withheld`: attributes of which it may report none, because of earlier reports.
    """
    if not cell.federation.attributes:
        return {}
    return _scored_groups(cell).decide(withheld)


def _scored_groups(cell: Cell) -> ScoredGroups:
    return ScoredGroups(
        spec=cell.spec,
        groups={one.name: one.values for one in cell.federation.attributes},
        population=held_out_groups(cell),
        favourable=scored_outcomes(cell),
    )


def is_remembered(cell: Cell) -> bool:
    """Whether what a run discloses is compared with earlier reports, and remembered.

    Generated data are nobody's, and what counts with noise disclose is within their epsilon.
    """
    if cell.spec.fairness.noise is not None:
        return False
    return bool(cell.federation.attributes) and isinstance(cell.spec.federation, FileSource)


def row_numbering(cell: Cell) -> bytes:
    """By what the rows of a run are numbered: equal for runs whose rows have the same numbers.

    Rows of a table have those of the file. Others are counted client by client, so their numbers
    mean the same only where the spec makes the same clients of the data; who of them is held out
    moves no number.
    """
    if cell.federation.row_numbers is not None:
        return b"rows of the file"
    return rfc8785.dumps(cell.spec.federation.model_dump(mode="json", exclude=_NOT_NUMBERING))


def decide_beside_earlier(cell: Cell, earlier: Sequence[DisclosedRows]) -> DisclosureDecision:
    """Which attributes a run withholds, after reports that disclosed `earlier` sets of rows.

    With an attribute its intersections are withheld.
    """
    return _scored_groups(cell).decide_beside(earlier, client_of=_client_of_rows(cell.federation))


def _row_ids(federation: Federation) -> NDArray[np.int64]:
    """The number of each row; see `row_numbering`."""
    if federation.row_numbers is not None:
        return federation.row_numbers.astype(np.int64)
    if federation.clients * federation.longest > _MAX_NUMBERS:
        return np.arange(federation.rows)
    client = federation.client_of
    return client * federation.longest + np.arange(federation.rows) - federation.first[client]


def _client_of_rows(federation: Federation) -> NDArray[np.int64]:
    """The client of each row by its number; -1 for numbers of no row."""
    ids = _row_ids(federation)
    found = np.full(int(ids.max(initial=-1)) + 1, -1, dtype=np.int64)
    found[ids] = federation.client_of
    return found
