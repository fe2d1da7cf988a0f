"""Whose figures a run reports by group, which groups are disclosed, and how rows are recognised.

Reports on two files that differ in few rows give these rows away, as reports on one file do. So
what was disclosed is remembered by keys of rows too, and not only by a file's hash, which one
newline changes. A key is made of what puts a row into a group and a set of people: the client's
name and the attribute's own value, before it is cut; where single records are held out, also of the
record's key, which decides who is. Nothing else is in it: not the columns' names or order, nor
features, classes, edges, rules or the target, so none of these makes known people new ones. Rows
that are alike in these cells are counted through in the order of their targets: how many of them a
set has counts, and which have the favourable outcome, wherever they are in the file.
"""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Ints
from fedaudit.fairness.disclosure import Disclosure, size_rule, why_too_few
from fedaudit.fairness.gaps import ClientScores
from fedaudit.fairness.joint_disclosure import Population, decide_beside
from fedaudit.fairness.noised_counts import Rounder, rounder_of
from fedaudit.fairness.scored_groups import (
    Numbered,
    NumberedRows,
    RowClients,
    ScoredGroups,
    clients_by_number,
)
from fedaudit.federations.federation import Attribute, Federation
from fedaudit.federations.groups import outcome_rules
from fedaudit.federations.record_keys import record_keys, turns
from fedaudit.spec.labels import number_in
from fedaudit.spec.sources import FileSource
from fedaudit.training.base.cell import Cell

Keys = NDArray[np.uint64]

_PERSON = b"fedaudit-rows-1"  # the secret has other uses
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def cell_keys(cell: Cell, attribute: str, *, secret: bytes) -> Keys:
    """The keys of all rows under an attribute, or an intersection: uint64 [rows].

    `secret`: 16 to 64 bytes, without which keys say nothing of people.
    """
    federation, name = cell.federation, _cells(cell, attribute, secret)
    parts, by_record, _ = name

    def made() -> Keys:
        found = _hashes(federation.client_names, secret)[federation.client_of]
        for part in parts:
            found = _mixed(found, _values(federation.attribute(part), secret))
        if by_record:
            found = _mixed(found, record_keys(federation))
        # Rows of one key apart, by how many come before them in the order of targets.
        return _mixed(found, turns(found, np.lexsort((federation.raw_target, found))))

    return federation.once(name, made)


def _cells(cell: Cell, attribute: str, secret: bytes) -> tuple[tuple[str, ...], bool, bytes]:
    """What keys are made of, beside the data."""
    parts = tuple(cell.spec.fairness.combinations.get(attribute, (attribute,)))
    return parts, cell.spec.federation.validation_unit == "record", secret


def contribution_keys(federation: Federation) -> Ints:
    """What each row adds to counts, as a number [rows]: its client's name and its target.

    By these, whichever group it is in, a group of the same people has the same numbers.
    """
    texts: tuple[str, ...] = federation.classes
    codes = federation.raw_target.astype(np.int64)
    if not texts:
        distinct, codes = np.unique(federation.raw_target, return_inverse=True)
        texts = tuple(map(str, distinct.tolist()))
    names = _hashes(federation.client_names, b"")
    return _mixed(names[federation.client_of], _hashes(texts, b"")[codes]).view(np.int64)


def _values(attribute: Attribute, secret: bytes) -> Keys:
    """A hash of each row's own value, [rows]: numbers as numbers, however they are written."""
    attribute = attribute.data or attribute
    if attribute.numbers is None:
        return _hashes((*attribute.values, ""), secret)[attribute.codes]  # -1 is the last
    distinct, codes = np.unique(attribute.numbers, return_inverse=True)
    texts = ("" if np.isnan(number) else str(number) for number in distinct.tolist())
    return _hashes(tuple(texts), secret)[codes]


def _hashes(texts: tuple[str, ...], secret: bytes) -> Keys:
    words = b"".join(
        blake2b(_plain(text).encode(), key=secret, person=_PERSON, digest_size=8).digest()
        for text in texts
    )
    return np.frombuffer(words, dtype="<u8").astype(np.uint64)


def _plain(text: str) -> str:
    number = number_in(text)
    return text if number is None else repr(number + 0.0)  # no minus before a zero


def _mixed(one: Keys, other: Keys) -> Keys:
    """Mix two words into one by the finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    found = one * _GOLDEN + other
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    mixed: Keys = found ^ (found >> np.uint64(31))
    return mixed


_CLIENT = ""
"""No attribute has this name."""
_MAX_NUMBERS = 2**26 // 5
"""Largest count of rows that are numbered client by client."""
NUMBERS = 1 << 20
"""Numbers for rows that are numbered by their cells. Rows may share one: two sets then look nearer
than they are, never farther."""


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


def _scored(cell: Cell) -> tuple[Ints, Bools]:
    """Where the rows lie in the federation's arrays, and whether their true outcome is
    favourable."""
    federation = cell.federation
    held_out = cell.validation_rows
    place = held_out.place[held_out.scored]
    rules = outcome_rules(federation, cell.spec.fairness)
    if rules.ops:
        place = place[rules.rule_index[place] >= 0]
    return place, rules.label(federation.raw_target)[place]


def why_everybody_is_withheld(cell: Cell) -> str | None:
    """Why a run may show no figure of all who are scored: they, or those among them whose outcome
    is judged, are fewer than a group has to be. None where it may."""
    held_out, judged = cell.validation_rows, held_out_groups(cell).clients
    everybody = cell.federation.client_of[held_out.place[held_out.scored]]
    found = (why_too_few(cell.spec.fairness, one) for one in (everybody, judged) if len(one))
    return next(filter(None, found), None)


def decide_disclosures(cell: Cell, *, withheld: Collection[str] = ()) -> dict[str, Disclosure]:
    """Which groups of each attribute a run may report, in its rounds and at its end.

    `withheld`: attributes of which it may report none, because of earlier reports.
    """
    if not cell.federation.attributes:
        return {}
    return scored_groups(cell).decide(withheld)


def decide_clients(
    cell: Cell, scores: ClientScores, disclosures: Mapping[str, Disclosure]
) -> Disclosure:
    """Clients with scored rows, [clients of `scores`], whose accuracy readers of the ledger see,
    beside what the report discloses: `disclosures`, keyed by attribute."""
    federation, held_out = cell.federation, cell.validation_rows
    place = held_out.place[held_out.scored]
    rules = outcome_rules(federation, cell.spec.fairness)
    judged = rules.rule_index[place] >= 0 if rules.ops else np.ones(len(place), dtype=np.bool_)
    codes = {one.name: np.where(judged, one.codes[place], -1) for one in federation.attributes}
    client = federation.client_of[place]
    population = Population(
        codes={**codes, _CLIENT: np.searchsorted(scores.clients, client)},
        groups={one.name: len(one.values) for one in federation.attributes}
        | {_CLIENT: len(scores.clients)},
        clients=client,
    )
    return decide_beside(_CLIENT, size_rule(cell.spec.fairness), population, disclosures)


def is_remembered(cell: Cell) -> bool:
    """Whether what a run discloses is compared with earlier reports, and remembered.

    Generated data are no one's; what counts with secret noise disclose is within their epsilon.
    """
    if cell.spec.hides_counts:
        return False
    return bool(cell.federation.attributes) and isinstance(cell.spec.federation, FileSource)


def scored_groups(cell: Cell) -> ScoredGroups:
    """The scored rows by their groups, for what is disclosed of them."""
    return ScoredGroups(
        spec=cell.spec,
        groups={one.name: one.values for one in cell.federation.attributes},
        population=held_out_groups(cell),
        favourable=_scored(cell)[1],
    )


def rows_of_file(cell: Cell) -> Numbered:
    """Number rows by their places in the file."""
    numbers = cell.federation.row_numbers
    if numbers is None:
        raise ValueError("generated rows are not remembered")
    return [NumberedRows(held_out_groups(cell), _clients(cell, "rows of the file", numbers))]


def _clients(cell: Cell, name: Hashable, numbers: Ints) -> RowClients:
    federation = cell.federation
    return federation.once(name, partial(clients_by_number, numbers, federation.client_of))


def rows_of_clients(cell: Cell) -> Numbered:
    """Number rows as those of images were once: client by client, as if each had as many as the
    longest."""
    federation, (place, _) = cell.federation, _scored(cell)
    client = federation.client_of
    numbers = client * federation.longest + np.arange(federation.rows) - federation.first[client]
    if federation.clients * federation.longest > _MAX_NUMBERS:
        numbers = np.arange(federation.rows)
    population = replace(held_out_groups(cell), row_ids=numbers[place])
    return [NumberedRows(population, clients_by_number(numbers, client))]


def rows_by_cells(cell: Cell, *, secret: bytes) -> Numbered:
    """Number rows by keyed hashes of the cells that put people into groups; see `cell_keys`."""
    (place, _), everybody, found = _scored(cell), held_out_groups(cell), []
    for name in everybody.codes:
        keys = cell_keys(cell, name, secret=secret)
        numbers = (keys % np.uint64(NUMBERS)).astype(np.int64)
        own = "rows by cells", _cells(cell, name, secret)
        population = replace(
            everybody,
            codes={name: everybody.codes[name]},
            groups={name: everybody.groups[name]},
            row_ids=numbers[place],
            row_keys=keys[place],
        )
        found.append(NumberedRows(population, _clients(cell, own, numbers)))
    return found


_OF_RUNS = b"client and target"


def build_rounder(cell: Cell, *, base: int, key: bytes) -> Rounder:
    """The rounder of a run's held-out people; `key` is secret."""
    places, outcomes = _scored(cell)
    people = contribution_keys(cell.federation)[places]
    return rounder_of(
        replace(held_out_groups(cell), row_ids=people), outcomes, base=base, key=key, data=_OF_RUNS
    )
