"""Which groups of several attributes are disclosed together, so that few rows follow from no sum or
difference of their figures."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.fairness.disclosure import Disclosure, DisclosureRule


@dataclass(frozen=True, eq=False)
class Population:
    """Rows whose figures by group are reported, whichever attribute the groups are of."""

    codes: Mapping[str, Ints]
    """Each attribute's group positions [rows]; -1 for a row that has none."""
    groups: Mapping[str, int]
    clients: Ints
    """[rows]: the client that each row belongs to."""
    row_ids: Ints | None = None
    """[rows]: the number of each row in the data, whatever a spec makes of them; None where rows
    cannot be matched from one spec to another."""
    row_keys: NDArray[np.uint64] | None = None
    """[rows]: keys of rows that share a number; None where none do."""

    def sizes(self, attribute: str) -> Ints:
        """How many rows each group has: [groups]."""
        codes = self.codes[attribute]
        return np.bincount(codes[codes >= 0], minlength=self.groups[attribute])

    def clients_of(self, attribute: str) -> Ints:
        """How many clients have rows in each group: [groups]."""
        codes = self.codes[attribute]
        known = codes >= 0
        pairs = _pairs(codes[known], self.clients[known])
        return np.bincount(pairs[0], minlength=self.groups[attribute])

    def atoms(self, attributes: Sequence[str]) -> "Atoms":
        """The rows that no group of these attributes distinguishes, taken together."""
        of_row = np.zeros(len(self.clients), dtype=np.int64)
        for name in attributes:
            # Numbered anew each time, so that no product of sizes overflows.
            finer = of_row * (self.groups[name] + 1) + self.codes[name] + 1
            of_row = np.unique(finer, return_inverse=True)[1].reshape(-1)
        _, first = np.unique(of_row, return_index=True)
        of_pair, client_of_pair = _pairs(of_row, self.clients)
        return Atoms(
            codes={name: self.codes[name][first] for name in attributes},
            rows=np.bincount(of_row, minlength=len(first)),
            of_pair=of_pair,
            client_of_pair=client_of_pair,
        )


@dataclass(frozen=True, eq=False)
class Atoms:
    """Sets of rows that lie in the same group of every attribute: each group is a union of them."""

    codes: Mapping[str, Ints]
    """Each attribute's group [atoms]; -1 for none."""
    rows: Ints
    """[atoms]"""
    of_pair: Ints
    """[pairs]: the atom of each pair of an atom and a client that has rows in it, ascending."""
    client_of_pair: Ints
    """[pairs]"""

    def __len__(self) -> int:
        return len(self.rows)

    def members(self, attribute: str, groups: Ints) -> Bools:
        """The atoms of each of some groups: [groups, atoms]."""
        members: Bools = self.codes[attribute] == groups[:, np.newaxis]
        return members

    @cached_property
    def clients(self) -> Ints:
        """[atoms]: clients with rows in each."""
        return np.bincount(self.of_pair, minlength=len(self))

    def is_few(self, union: Bools, *, rows: int, clients: int) -> bool:
        """Whether a union of atoms [atoms] has rows, but fewer than `rows`, or of fewer than
        `clients` clients."""
        size = int(self.rows[union].sum())
        if not size:
            return False
        if size < rows:
            return True
        return len(np.unique(self.client_of_pair[union[self.of_pair]])) < clients


def _pairs(numbers: Ints, clients: Ints) -> tuple[Ints, Ints]:
    """Each pair of a number and a client once, ascending: [pairs] and [pairs]."""
    width = int(clients.max(initial=0)) + 1
    found = np.unique(numbers * width + clients)
    return found // width, found % width


@dataclass(frozen=True, eq=False)
class PredictedRows:
    """Rows that have a group and were scored, in any order. Confidential."""

    groups: Ints
    """[rows]: positions in the attribute's values."""
    truth: Bools | None
    """[rows]: whether the true outcome is favourable; None where none was declared."""
    predicted: Bools | None
    """[rows]: whether the predicted outcome is favourable; None with `truth`."""
    true_classes: Ints | None
    """[rows]; None for regression."""
    predicted_classes: Ints | None
    """[rows]; None for regression."""


_NEARLY = 1e-7
"""Sums of zeros and ones that are integers up to rounding differ by far more than this."""
_ORDERS = 12
"""How many random orders atoms are eliminated in. With 8 of them no union was missed that a search
of all of them finds, among 6,000 small tables; with none, in 35."""


class Exposure(NamedTuple):
    """Rows too few to be shown that follow from totals that are."""

    atoms: Bools
    """[atoms]: which atoms have the rows."""
    by: Bools
    """[totals]: removable totals that give the rows away together. If some of them are needed in
    any case, only those: without any one of them the rows would not follow."""


def find_exposure(
    totals: Bools, atoms: Atoms, *, removable: Bools, targets: Bools, rows: int, clients: int
) -> Exposure | None:
    """Find few rows that follow from totals [totals, atoms]; None where none were found.
    `removable` [totals]: totals that need not be shown; rows that follow without them are ignored.
    Few means fewer than `rows`, or from fewer than `clients` clients. `targets` [count, atoms]:
    unions that are checked one by one, as groups that are not shown; single atoms and unions of one
    client's atoms always are. Every other union is searched for among the combinations that
    elimination gives."""
    small = (atoms.rows < rows) | (atoms.clients < clients)
    if not small.any() or not len(totals):
        return None
    matrix = totals.astype(np.float64)
    within = _combinations_within(matrix, small)
    if not len(within):
        return None
    place = np.flatnonzero(small)
    wanted = targets[~targets[:, ~small].any(axis=1)][:, small].astype(np.float64)
    owned = _owned(atoms, small) if clients > 1 else []
    many: set[bytes] = set()
    # Atoms of the same totals have equal columns.
    _, alike = np.unique(totals[:, small], axis=1, return_inverse=True)
    found = _candidates(within, wanted, rows=atoms.rows[small], owned=owned, alike=alike)
    for candidate in found:
        union = np.zeros(len(atoms), dtype=np.bool_)
        union[place[np.abs(candidate) > _NEARLY]] = True
        if (name := union.tobytes()) in many:
            continue
        if not atoms.is_few(union, rows=rows, clients=clients):
            many.add(name)
            continue
        whole = np.zeros(len(atoms))
        whole[place] = candidate
        by = _responsible(matrix, whole, removable)
        if by.any():
            return Exposure(union, by)
    return None


def find_one_of(unions: Bools, totals: Bools, *, removable: Bools) -> Exposure | None:
    """One of the unions [count, atoms] that follows from totals [totals, atoms], whatever its size,
    or None. `removable` as for `find_exposure`."""
    if not unions.any() or not len(totals):
        return None
    matrix, wanted = totals.astype(np.float64), unions.astype(np.float64)
    for union in wanted[_followed(wanted, _row_basis(matrix))]:
        by = _responsible(matrix, union, removable)
        if by.any():
            return Exposure(union > 0, by)
    return None


def _followed(wanted: Floats, basis: Floats) -> Bools:
    """Which vectors of zeros and ones, not all 0, are combinations of orthonormal rows: [count]."""
    missed = wanted.sum(axis=1) - np.square(wanted @ basis.T).sum(axis=1)
    found: Bools = (missed < _NEARLY) & wanted.any(axis=1)
    return found


def _responsible(matrix: Floats, whole: Floats, removable: Bools) -> Bools:
    """Which removable rows of a matrix add up to a vector: [rows]; if some are needed, only those.
    A row is needed where no combination of rows that is 0 contains it."""
    left, values, _ = np.linalg.svd(matrix, full_matrices=False)
    rank = int(np.count_nonzero(values > _NEARLY * values[0]))
    weights = np.linalg.lstsq(matrix.T, whole, rcond=None)[0]
    used: Bools = (np.abs(weights) > _NEARLY) & removable
    # What the columns of rank leave of a row's length belongs to sums that are 0.
    needed: Bools = used & (1 - np.square(left[:, :rank]).sum(axis=1) < _NEARLY)
    return needed if needed.any() else used


def _combinations_within(matrix: Floats, small: Bools) -> Floats:
    """A basis [count, small atoms] of the combinations of totals [totals, atoms] that are 0 outside
    small atoms; empty where every combination contains an atom that is not small."""
    if small.all():
        weights = np.eye(len(matrix))
    else:
        outside = matrix[:, ~small]
        values, vectors = np.linalg.eigh(outside @ outside.T)
        weights = vectors[:, values < _NEARLY * max(1.0, values[-1])].T
    return _row_basis(weights @ matrix[:, small])


def _row_basis(matrix: Floats) -> Floats:
    """Orthonormal rows [rank, columns] with the same combinations."""
    if not matrix.size:
        return matrix[:0]
    _, values, rows = np.linalg.svd(matrix, full_matrices=False)
    basis: Floats = rows[values > _NEARLY * max(1.0, values[0])]
    return basis


def _owned(atoms: Atoms, small: Bools) -> list[Ints]:
    """For each client that has several: the places of its own small atoms, whose rows are all
    its."""
    owner = np.zeros(len(atoms), dtype=np.int64)
    owner[atoms.of_pair] = atoms.client_of_pair
    alone = np.flatnonzero((atoms.clients == 1)[small])
    by_owner = alone[np.argsort(owner[small][alone], kind="stable")]
    begins = np.flatnonzero(np.diff(owner[small][by_owner])) + 1
    return [places for places in np.split(by_owner, begins) if len(places) > 1]


def _candidates(
    basis: Floats, wanted: Floats, *, rows: Ints, owned: Sequence[Ints], alike: Ints
) -> Iterator[Floats]:
    """Combinations [small atoms] of the basis that may cover few rows: single atoms, then the
    `wanted` [count, small atoms] that follow, then combinations within each of the `owned` places,
    then those that elimination gives. `rows` and `alike` are [small atoms]: atoms with one number
    in `alike` have equal columns, and one of them is eliminated for all."""
    for single in np.flatnonzero(np.square(basis).sum(axis=0) > 1 - _NEARLY):
        unit = np.zeros(basis.shape[1])
        unit[single] = 1.0
        yield unit
    yield from wanted[_followed(wanted, basis)]
    for places in owned:
        yield from _inside(basis, places)
    # An atom that has a column to itself is in one combination only. Large atoms come first, so
    # that the combinations that are left cover few rows; then mostly large ones, at random.
    chance = np.random.default_rng(0)
    for turn in range(1 + _ORDERS):
        weights = chance.exponential(size=len(rows)) if turn else 1.0
        order = np.argsort(-rows * weights, kind="stable")
        first = np.empty(alike.max() + 1, dtype=np.int64)
        first[alike[order[::-1]]] = np.arange(len(order))[::-1]  # of equal places the last counts
        found, turns = np.zeros((len(basis), len(first))), np.argsort(first)
        found[:, turns] = _eliminated(basis[:, order[first[turns]]])
        yield from found[:, alike]


def _inside(basis: Floats, places: Ints) -> Iterator[Floats]:
    """A combination of orthonormal rows that is 0 outside some places, if there is one: of length 1
    as a whole and at these places."""
    own = basis[:, places]
    if np.square(own).sum() < 1 - _NEARLY:
        return
    left, values, _ = np.linalg.svd(own, full_matrices=False)
    if values[0] > 1 - _NEARLY:
        found = np.zeros(basis.shape[1])
        found[places] = left[:, 0] @ own
        yield found


def _eliminated(basis: Floats) -> Floats:
    """The same combinations, each with a column to itself (reduced row echelon form)."""
    matrix = basis.copy()
    row = 0
    for column in range(matrix.shape[1]):
        if row == len(matrix):
            break
        pivot = row + int(np.abs(matrix[row:, column]).argmax())
        if abs(matrix[pivot, column]) < _NEARLY:
            continue
        if pivot != row:
            matrix[[row, pivot]] = matrix[[pivot, row]]
        matrix[row] /= matrix[row, column]
        factors = matrix[:, column].copy()
        factors[row] = 0.0
        matrix -= factors[:, np.newaxis] * matrix[row]
        row += 1
    return matrix[:row]


MAX_CELLS = 1 << 20
"""Groups times atoms that are examined together."""
MAX_WORK = 1 << 24
"""The same, times how often they are examined: once for every group that is suppressed. Takes some
seconds."""

UNDECIDED = (
    "suppressed: the attributes before it and its own groups are too many to be sure that no "
    "difference between them leaves few rows"
)


def decide_together(
    rules: Mapping[str, DisclosureRule],
    population: Population,
    *,
    beforehand: Mapping[str, Bools] | None = None,
) -> dict[str, Disclosure]:
    """Decide which groups of each attribute are disclosed, from the rows of all attributes
    together. `rules`: by attribute, the most important first: where groups are too many to decide
    together, those of the last attributes are suppressed. `beforehand`: by attribute, the groups
    [groups] that nothing else rules out; the others are suppressed, whatever their size. Groups of
    few rows or clients are suppressed, and so is any group that would give one of them away."""
    found: dict[str, Disclosure] = {}
    kept = {}
    for name, rule in rules.items():
        allowed = None if beforehand is None else beforehand[name]
        rows, clients = population.sizes(name), population.clients_of(name)
        found[name] = rule.decide(rows, clients=clients, allowed=allowed)
        if allowed is not None:
            kept[name] = ~allowed & (rows > 0)
    together = dict(found)
    while (shown := _without_exposed(together, population, kept)) is None:
        together.popitem()
    return {name: _decided(one, shown.get(name)) for name, one in found.items()}


def decide_beside(
    name: str, rule: DisclosureRule, population: Population, others: Mapping[str, Disclosure]
) -> Disclosure:
    """Which groups of one more attribute are disclosed, by their rows alone, to readers who know
    what is disclosed of `others`, which does not change."""
    own = rule.decide(population.sizes(name))
    if not others:
        return own  # its groups and the total of all are everything that adds up
    found = {
        other: replace(one, rule=replace(one.rule, minimum_group_clients=1))
        for other, one in others.items()
    } | {name: own}
    shown = _without_exposed(found, population, {}, fixed=others)
    return _decided(own, None if shown is None else shown[name])


def _decided(one: Disclosure, shown: Bools | None) -> Disclosure:
    if shown is None:
        return replace(one, shown=np.zeros_like(one.shown), why=UNDECIDED)
    return replace(one, shown=shown)


def _without_exposed(
    found: Mapping[str, Disclosure],
    population: Population,
    kept: Mapping[str, Bools],
    *,
    fixed: Collection[str] = (),
) -> dict[str, Bools] | None:
    """What each attribute shows [groups] without the groups that give few rows away; None where
    groups are too many to be sure. `kept` [groups]: groups that must not follow, whatever their
    size. `fixed`: attributes that are shown unchanged, whatever follows.

    One group after the other is suppressed. Of the groups that give few rows away, the smallest:
    so an intersection yields to its parts. Of several, that of the attribute named last.
    """
    if not found:
        return {}
    atoms, sizes = population.atoms(list(found)), [one.rows.size for one in found.values()]
    if sum(sizes) * len(atoms) > MAX_CELLS:
        return None
    # The groups of all attributes one after the other: [groups].
    members = np.concatenate(
        [atoms.members(name, np.arange(one.rows.size)) for name, one in found.items()]
    )
    rows = np.concatenate([one.rows for one in found.values()])
    shown = np.concatenate([one.shown for one in found.values()]) & (rows > 0)
    attribute = np.repeat(np.arange(len(found)), sizes)
    removable = np.repeat([name not in fixed for name in found], sizes)
    secret = np.concatenate(
        [kept.get(name, np.zeros_like(one.shown)) for name, one in found.items()]
    )
    valueless = np.stack([atoms.codes[name] < 0 for name in found])
    rules, work = [one.rule for one in found.values()], 0
    while shown.any():
        totals = np.concatenate([members[shown], np.ones((1, len(atoms)), dtype=np.bool_)])
        work += totals.size
        if work > MAX_WORK:
            return None
        may_go = np.append(removable[shown], False)
        exposure = find_exposure(
            totals,
            atoms,
            removable=may_go,
            targets=np.concatenate([members[~shown & (rows > 0)], valueless]),
            rows=max(rule.minimum_group_size for rule in rules),
            clients=max(rule.minimum_group_clients for rule in rules),
        ) or find_one_of(members[secret], totals, removable=may_go)
        if exposure is None:
            break
        by = np.flatnonzero(shown)[exposure.by[:-1]].tolist()
        shown[min(by, key=lambda group: (rows[group], -attribute[group]))] = False
    return dict(zip(found, np.split(shown, np.cumsum(sizes)[:-1]), strict=True))
