"""Whose figures a run reports by group, and which of the groups are disclosed."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import rfc8785
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import Disclosure, attribute_rule
from fedaudit.fairness.earlier_disclosures import (
    DisclosedRows,
    Neighbourhood,
    conflicting,
    disclosed_sets,
)
from fedaudit.fairness.joint_disclosure import decide_together
from fedaudit.fairness.population import Population
from fedaudit.federations.federation import Federation
from fedaudit.federations.groups.favourable_outcomes import outcome_rules
from fedaudit.federations.packing import Places
from fedaudit.spec.sources import FileSource
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.record_sources import validation_rows

_NOT_NUMBERING = {"path", "id", "validation_fraction", "validation_unit", "scoring"}


@dataclass(frozen=True)
class DisclosureDecision:
    """Which attributes a run reports nothing of, and what it discloses of the others."""

    withheld: frozenset[str]
    """Attributes whose groups are too near to those of earlier reports."""
    sets: tuple[DisclosedRows, ...]
    """What is to be remembered."""


def held_out_groups(cell: Cell) -> Population:
    """The rows that are scored, by their groups of every attribute of the spec.

    They follow from spec and data alone, so they are the same in every round. A row for which no
    rule decides whether its outcome is favourable is not among them.
    """
    federation, (place, _) = cell.federation, _scored(cell)
    return Population(
        codes={one.name: one.codes[place].astype(np.int64) for one in federation.attributes},
        groups={one.name: len(one.values) for one in federation.attributes},
        clients=place[0].astype(np.int64),
        row_ids=_row_ids(federation, place),
    )


def _scored(cell: Cell) -> tuple[Places, NDArray[np.bool_]]:
    """Where the rows lie in the federation's arrays, and whether their true outcome is
    favourable."""
    federation = cell.federation
    held_out = validation_rows(cell.spec, federation)
    own, row = np.nonzero(held_out.scored)
    place = held_out.clients[own], row
    rules = outcome_rules(federation, cell.spec.fairness)
    if rules.ops:
        judged = rules.rule_index[place] >= 0
        place = place[0][judged], place[1][judged]
    return place, rules.label(federation.raw_target)[place]


def scored_outcomes(cell: Cell) -> NDArray[np.bool_]:
    """Whether the true outcome of each of these rows is favourable: [rows]; without rules, none."""
    return _scored(cell)[1]


def decide_disclosures(cell: Cell, *, withheld: Collection[str] = ()) -> dict[str, Disclosure]:
    """Which groups of each attribute a run may report, in its rounds and at its end.

    `withheld`: attributes of which it may report none, because of earlier reports.
    """
    groups = {one.name: one.values for one in cell.federation.attributes}
    if not groups:
        return {}
    return _decided(cell, held_out_groups(cell), withheld)


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
    fairness = cell.spec.fairness
    population, (_, favourable) = held_out_groups(cell), _scored(cell)
    neighbourhood = Neighbourhood(
        _client_of_rows(cell.federation),
        rows=fairness.minimum_group_size,
        clients=fairness.minimum_group_clients,
    )
    withheld: set[str] = set()
    while True:
        decided = _decided(cell, population, withheld)
        sets = disclosed_sets(population, decided, favourable, ordered=fairness.edges)
        found = conflicting(sets, earlier, neighbourhood)
        if not found:
            every = {one.key: one for own in sets.values() for one in own}
            return DisclosureDecision(frozenset(withheld), tuple(every.values()))
        withheld |= found
        withheld |= {
            name for name, parts in fairness.combinations.items() if withheld.intersection(parts)
        }


def _row_ids(federation: Federation, place: Places) -> NDArray[np.int64]:
    """The numbers of the rows that lie there; see `row_numbering`."""
    if federation.row_numbers is None:
        return np.asarray(place[0] * federation.longest + place[1], dtype=np.int64)
    return federation.row_numbers[place].astype(np.int64)


def _client_of_rows(federation: Federation) -> NDArray[np.int64]:
    """The client of each row by its number; -1 for numbers of no row."""
    client, row = np.nonzero(federation.mask)
    ids = _row_ids(federation, (client, row))
    found = np.full(int(ids.max(initial=-1)) + 1, -1, dtype=np.int64)
    found[ids] = client
    return found


def _decided(
    cell: Cell, population: Population, withheld: Collection[str]
) -> dict[str, Disclosure]:
    groups = {one.name: one.values for one in cell.federation.attributes}
    rules = {name: attribute_rule(cell.spec, name, groups) for name in groups}
    open_ = {name: rule for name, rule in rules.items() if name not in withheld}
    found = decide_together(open_, population) if open_ else {}
    for name in withheld:
        one = rules[name].decide(population.sizes(name))
        found[name] = replace(one, shown=np.zeros_like(one.shown), why=_near(cell))
    return {name: found[name] for name in groups}


def _near(cell: Cell) -> str:
    fairness = cell.spec.fairness
    return (
        "suppressed: the groups, the rows held out or whose outcomes are favourable differ from "
        f"those of an earlier report on these data by fewer than {fairness.minimum_group_size} "
        f"rows or by rows of fewer than {fairness.minimum_group_clients} clients, which the two "
        "reports together would disclose; keep to its edges, categories, rules and split"
    )
