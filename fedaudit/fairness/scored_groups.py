"""Which groups of the scored rows are disclosed, after what earlier reports have disclosed.

Two reports whose groups differ in few rows give these rows away, as two groups of one report do: a
cut moved from 83 to 84, or one client more that is held out. The same holds for two that judge one
group by rules that differ for few of its rows. So every set of rows whose figures were disclosed is
remembered, with those of them whose outcome was favourable, and one that is too near to another is
not disclosed beside it. Sets are compared in pairs. Of groups between edges, all that lie beside
each other are such a set too. A set is also compared with its subsets together, all of them
and such as have no row in common, as the parts of a region; not all sums of groups are looked at.
"""

import hashlib
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Ints
from fedaudit.fairness.disclosure import Disclosure, DisclosureRule, attribute_rule
from fedaudit.fairness.joint_disclosure import Population, decide_together
from fedaudit.spec.experiment import ExperimentSpec

_BITS = 64


@dataclass(frozen=True, eq=False)
class RowSet:
    """Some rows of the data, by their numbers. Confidential."""

    places: Ints
    """Places of the words of 64 rows that have some of its rows, ascending."""
    words: NDArray[np.uint64]
    """[places]: a bit for each of the 64."""
    digest: str
    """SHA-256 of the rows, in hexadecimal: equal sets have equal ones, and no others."""

    @classmethod
    def of(cls, row_ids: Ints, keys: NDArray[np.uint64] | None = None) -> "RowSet":
        """The rows with these numbers, each at least 0; `keys` where rows may share a number."""
        ordered = np.sort(row_ids)
        bits = np.uint64(1) << ((ordered % _BITS) ^ 7).astype(np.uint64)  # as np.packbits has them
        own = ordered // _BITS
        first = np.flatnonzero(np.append(True, own[1:] != own[:-1])[: len(own)])
        found = cls(own[first], np.bitwise_or.reduceat(bits, first) if len(own) else bits, "")
        named = found.packed() if keys is None else np.sort(keys).astype("<u8").tobytes()
        return replace(found, digest=hashlib.sha256(named).hexdigest())

    @classmethod
    def from_bytes(cls, stored: bytes, *, digest: str) -> "RowSet":
        """Read what `as_bytes` made, lazily: asking for its rows raises zlib.error for anything
        else."""
        return _StoredRows(stored, digest)

    @staticmethod
    def of_words(words: NDArray[np.uint64]) -> "RowSet":
        """The rows of all words, from the first on."""
        places = np.flatnonzero(words)
        return RowSet(places, words[places], "")

    @classmethod
    def union(cls, sets: Sequence["RowSet"]) -> "RowSet":
        """The rows that any of them has, without a digest."""
        words = np.zeros(max((one.width for one in sets), default=0), dtype=np.uint64)
        for one in sets:
            words[one.places] |= one.words
        return cls.of_words(words)

    def as_bytes(self) -> bytes:
        """The form in which it is stored. Only zeros repeat: looking for anything else takes up to
        three times as long, and finds less."""
        runs = zlib.compressobj(level=1, strategy=zlib.Z_RLE)
        return runs.compress(self.packed()) + runs.flush()

    def packed(self) -> bytes:
        """A bit for every number, from 0 up; without zeros behind the last row."""
        return self.spread(self.width).tobytes().rstrip(b"\0")

    def spread(self, width: int) -> NDArray[np.uint64]:
        """All words [width, at least its own]."""
        words = np.zeros(width, dtype=np.uint64)
        words[self.places] = self.words
        return words

    @property
    def width(self) -> int:
        """How many words there are up to its last row."""
        return int(self.places[-1]) + 1 if len(self.places) else 0

    @cached_property
    def rows(self) -> int:
        """How many rows it has."""
        return int(np.bitwise_count(self.words).sum())

    def differing(self, other: "RowSet") -> "RowSet":
        """The rows that only one of the two has, without a digest."""
        words = self.spread(max(self.width, other.width))
        words[other.places] ^= other.words
        return self.of_words(words)

    @property
    def numbers(self) -> Ints:
        """Its rows, ascending."""
        which, bit = np.divmod(np.flatnonzero(np.unpackbits(self.words.view(np.uint8))), _BITS)
        return _BITS * self.places[which] + bit


class _StoredRows(RowSet):
    """Opened late: that takes a third of a millisecond, and of many the digest is enough."""

    def __init__(self, stored: bytes, digest: str) -> None:
        vars(self).update(_stored=stored, digest=digest)

    @cached_property
    def _opened(self) -> RowSet:
        packed = zlib.decompress(vars(self).pop("_stored"))
        words = np.frombuffer(packed + bytes(-len(packed) % 8), np.uint64)
        return self.of_words(words)

    @property
    def places(self) -> Ints:
        return self._opened.places

    @property
    def words(self) -> NDArray[np.uint64]:
        return self._opened.words


@dataclass(frozen=True, eq=False)
class DisclosedRows:
    """Rows whose figures are disclosed together. Confidential."""

    rows: RowSet
    favourable: RowSet
    """Those of them whose true outcome is favourable; none where no outcome was declared."""

    @property
    def key(self) -> tuple[str, str]:
        """Equal for what discloses the same."""
        return self.rows.digest, self.favourable.digest


def _words_of(sets: Sequence[RowSet], *, first: int = 0) -> NDArray[np.uint64]:
    """Of all words of sets: their places, in whose order they are, themselves, and which of the
    sets each is of, counted from `first` on: [3, words]."""
    owners = np.repeat(np.arange(first, first + len(sets)), [len(one.words) for one in sets])
    places = np.concatenate([np.zeros(0, np.int64), *(one.places for one in sets)])
    words = np.concatenate([np.zeros(0, np.uint64), *(one.words for one in sets)])
    return _ordered(np.stack([places.astype(np.uint64), words, owners.astype(np.uint64)]))


def _ordered(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return words[:, np.argsort(words[0], kind="stable")]


MemoryName = tuple[str, str]
"""The key of the data, and how rows are numbered."""


class RememberedSets:
    """Sets that were disclosed, each in a memory, to which others are added."""

    def __init__(self) -> None:
        self.sets: list[DisclosedRows] = []
        self.sizes = np.zeros(0, dtype=np.int64)
        """[sets]: rows of each."""
        self.places: dict[MemoryName, dict[tuple[str, str], int]] = defaultdict(dict)
        """Where the sets of each memory are, by their keys."""
        self.lines: list[NDArray[np.uint64]] = []
        """The words of all sets, as `_words_of` has them."""

    def add(self, memory: MemoryName, sets: Iterable[DisclosedRows]) -> list[DisclosedRows]:
        """Takes in those that the memory has not yet, and returns them."""
        first, known = len(self.sets), self.places[memory]
        new = list({one.key: one for one in sets if one.key not in known}.values())
        rows = [one.rows for one in new]
        line = _words_of(rows, first=first)
        self.sizes = np.append(self.sizes, np.array([one.rows for one in rows], dtype=np.int64))
        self.sets += new
        known |= {one.key: first + place for place, one in enumerate(new)}
        # Each line is far longer than the next: so they are few, and no word is moved often.
        while self.lines and self.lines[-1].size <= _GROWTH * line.size:
            line = _ordered(np.append(self.lines.pop(), line, axis=1))
        self.lines.append(line)
        return new

    def shared(self, ones: Sequence[RowSet]) -> Ints:
        """How many rows each of `ones` shares with each of the sets: [ones, sets]."""
        width = len(self.sets)
        shared = np.zeros(len(ones) * width)
        own_places, own_words, own = _words_of(ones)
        for places, words, sets in self.lines:
            first = np.searchsorted(places, own_places)
            lengths = np.searchsorted(places, own_places, side="right") - first
            turns = 1 + int(lengths.sum()) // _PAIRS_AT_ONCE
            for part in np.array_split(np.flatnonzero(lengths), turns):
                # Each own word beside all words in its place.
                mine = np.repeat(part, lengths[part])
                begins = first[part] - lengths[part].cumsum() + lengths[part]
                other = np.arange(len(mine)) + np.repeat(begins, lengths[part])
                both = np.bitwise_count(own_words[mine] & words[other])
                pair = own[mine].astype(np.int64) * width + sets[other].astype(np.int64)
                shared += np.bincount(pair, both, len(shared))
        return shared.astype(np.int64).reshape(len(ones), width)


_GROWTH = 4
_PAIRS_AT_ONCE = 1 << 20
_PACKED = 32
"""Subsets to which others are added that have no row of them."""


SetsBeside = tuple[RememberedSets, Collection[MemoryName]]
"""Those of some memories."""


class Comparison:
    """Own sets beside earlier ones, of those that disclose anything else."""

    def __init__(
        self, own: Iterable[DisclosedRows], earlier: SetsBeside, neighbourhood: "Neighbourhood"
    ) -> None:
        every = {one.key: one for one in own}
        rows = {one.rows.digest: one.rows for one in every.values()}
        (self._earlier, memories), self._neighbourhood = earlier, neighbourhood
        counts = self._earlier.shared([*rows.values()])
        self._shared = dict(zip(rows, counts, strict=True))
        self._held = np.zeros(len(self._earlier.sets), dtype=np.bool_)
        for memory in memories:
            self._held[list(self._earlier.places[memory].values())] = True
        self._again: set[str] = set()
        """Digests of own sets that some of them have as well."""
        self._other = self._held.copy()
        for digest, one in rows.items():
            alike = (self._earlier.sizes == one.rows) & (self._shared[digest] == one.rows)
            for place in np.flatnonzero(alike & self._held).tolist():
                if self._earlier.sets[place].rows.digest == digest:
                    self._again.add(digest)
                    self._other[place] = self._earlier.sets[place].key not in every

    def any_near(self, one: DisclosedRows) -> bool:
        """Whether `Neighbourhood.is_near` is true of it and any other set."""
        near, name, sets = self._neighbourhood, one.rows.digest, self._earlier.sets
        differing = self._earlier.sizes + one.rows.rows - 2 * self._shared[name]
        may_be_near = differing < max(1, near.rows)
        if near.clients > 1:
            # Fewer than so many clients have no more rows, so the other lacks no more of its own.
            most = (near.clients - 1) * near.clients_of.longest
            may_be_near |= len(near.clients_of.of(one.rows)) - self._shared[name] <= most
        close = np.flatnonzero(may_be_near & self._other)
        return any(near.is_near(one, sets[place]) for place in close.tolist())

    def parts_of(self, one: RowSet) -> Iterator[RowSet]:
        """Unions of an own set's proper subsets: of all, and of some that have no row in common,
        from each on, those with most rows first. None of a set that was disclosed with them."""
        sizes, shared = self._earlier.sizes, self._shared[one.digest]
        if one.digest in self._again:
            return
        inside = (sizes < one.rows) & (sizes > 0) & (shared == sizes) & self._held
        found = [self._earlier.sets[place].rows for place in np.flatnonzero(inside).tolist()]
        found.sort(key=lambda part: (-part.rows, part.digest))
        yield from [RowSet.union(found)] if found else []
        for first in found[:_PACKED]:
            taken = first.spread(one.width)
            for other in found:
                if not (taken[other.places] & other.words).any():
                    taken[other.places] |= other.words
            yield RowSet.of_words(taken)

    def with_parts(self, parts: Sequence[RowSet]) -> Iterator[tuple[RowSet, RowSet]]:
        """The other sets that have some of these within, with all of those together."""
        within: dict[int, list[RowSet]] = defaultdict(list)
        for one in parts:
            inside = (self._shared[one.digest] == max(1, one.rows)) & self._other
            for place in np.flatnonzero(inside).tolist():
                within[place].append(one)
        for place, those in within.items():
            yield self._earlier.sets[place].rows, RowSet.union(those)


@dataclass(frozen=True, eq=False)
class RowClients:
    """The clients of all rows of the data, held out or not, by the numbers of the rows."""

    numbered: Ints
    """[row numbers]: the client of each row; -1 for rows that a spec leaves out, and for numbers
    that no row or several clients have."""

    def of(self, rows: RowSet) -> Ints:
        """The client of each of these rows whose client is known."""
        numbers = rows.numbers
        found = self.numbered[numbers[numbers < len(self.numbered)]]
        return found[found >= 0]

    @cached_property
    def longest(self) -> int:
        """Known rows of the client that has most."""
        return int(np.bincount(self.numbered[self.numbered >= 0]).max(initial=0))


class Neighbourhood:
    """When figures of two sets of rows are too near to each other to be disclosed both."""

    def __init__(self, clients_of: RowClients, *, rows: int, clients: int) -> None:
        """Few are fewer than `rows`, or of fewer than `clients` clients."""
        self.rows, self.clients, self.clients_of = rows, clients, clients_of

    def is_near(self, one: DisclosedRows, other: DisclosedRows) -> bool:
        """Whether two sets differ in few rows only, or are the same rows judged differently for few
        of them. The clients of rows that this spec leaves out are unknown, and counted as none."""
        if one.rows.digest != other.rows.digest:
            return self.differ_in_few(one.rows, other.rows)
        if one.favourable.digest == other.favourable.digest:
            return False
        return self.differ_in_few(one.favourable, other.favourable)

    def differ_in_few(self, one: RowSet, other: RowSet) -> bool:
        """Whether two unequal sets differ in few rows, even if all rows that differ share their
        numbers with rows of both."""
        differing = one.differing(other)
        if differing.rows == 0 or differing.rows < self.rows:
            return True
        return self.clients > 1 and len(np.unique(self.clients_of.of(differing))) < self.clients


def disclosed_sets(
    population: Population,
    disclosures: Mapping[str, Disclosure],
    favourable: Bools,
    *,
    ordered: Collection[str] = (),
) -> dict[str, list[DisclosedRows]]:
    """Each attribute's rows of every group whose figures are disclosed, and all of its rows.

    `favourable` [rows]: whether the true outcome is. `ordered`: attributes that were cut at edges,
    of which every group and those beside it add up to another cut: their sums are disclosed too, as
    far as all of their groups are. Attributes of which nothing is disclosed have
    none. Raises ValueError as `Neighbourhood`.
    """
    everybody = disclosed_rows(population, np.ones(len(favourable), dtype=np.bool_), favourable)
    found = {}
    for name in population.codes.keys() & disclosures.keys():
        one = disclosures[name]
        groups = np.flatnonzero(one.shown & (one.rows > 0))
        if len(groups):
            members = [population.codes[name] == group for group in groups]
            if name in ordered:
                members += _runs_of(population.codes[name], groups)
            own = [disclosed_rows(population, rows, favourable) for rows in members]
            found[name] = [*own, everybody]
    return found


def disclosed_rows(population: Population, rows: Bools, favourable: Bools) -> DisclosedRows:
    """Some of the rows [rows], by their numbers. Raises ValueError where they have none."""
    ids, keys = population.row_ids, population.row_keys
    if ids is None:
        raise ValueError("rows without numbers cannot be remembered")

    def row_set(own: Bools) -> RowSet:
        return RowSet.of(ids[own], None if keys is None else keys[own])

    return DisclosedRows(row_set(rows), row_set(rows & favourable))


def clients_by_number(numbers: Ints, clients: Ints) -> RowClients:
    """The client of each row, by its number."""
    found = np.full(int(numbers.max(initial=-1)) + 1, -1, dtype=np.int64)
    found[numbers] = clients
    found[numbers[found[numbers] != clients]] = -1
    return RowClients(found)


def _runs_of(codes: Ints, groups: Ints) -> list[Bools]:
    """The rows of every two or more shown groups with nothing between them."""
    shown = set(groups.tolist())
    found = []
    for first in groups.tolist():
        last = first + 1
        while last in shown:
            found.append((codes >= first) & (codes <= last))
            last += 1
    return found


def conflicting(
    sets: Mapping[str, Collection[DisclosedRows]], earlier: SetsBeside, neighbourhood: Neighbourhood
) -> set[str]:
    """The attributes with a set that is too near to one that was disclosed before, or leaves few
    rows of one, or of which earlier ones leave few rows. What is disclosed once more gives nothing
    away beside itself."""
    every = [one for own in sets.values() for one in own]
    beside = Comparison(every, earlier, neighbourhood)

    def gives_away(own: Collection[DisclosedRows]) -> bool:
        if any(beside.any_near(one) for one in own):
            return True
        whole = max((one.rows for one in own), key=lambda one: one.rows)
        groups = [one.rows for one in own if one.rows.digest != whole.digest]
        pairs = [pair for pair in beside.with_parts(groups) if pair[0].digest != whole.digest]
        pairs += [(one, parts) for one in groups for parts in beside.parts_of(one)]
        return any(
            one.rows > parts.rows and neighbourhood.differ_in_few(one, parts)
            for one, parts in pairs
        )

    return {name for name, own in sets.items() if own and gives_away(own)}


@dataclass(frozen=True, eq=False)
class NumberedRows:
    """The scored rows, by their groups of some attributes, under one numbering."""

    population: Population
    clients_of: RowClients


Numbered = Sequence[NumberedRows]
"""One way to number rows; perhaps differently for each attribute."""


@dataclass(frozen=True)
class DisclosureDecision:
    """Which attributes a report leaves out, and what it discloses of the others."""

    withheld: frozenset[str]
    """Attributes whose groups are too near to those of earlier reports."""
    sets: Sequence[Sequence[DisclosedRows]]
    """What is to be remembered, under each of the numberings."""
    disclosures: Mapping[str, Disclosure]
    """Which groups of each attribute may be reported."""


@dataclass(frozen=True, eq=False)
class ScoredGroups:
    """Rows that are scored, by their groups of every attribute of a spec. Confidential."""

    spec: ExperimentSpec
    groups: Mapping[str, tuple[str, ...]]
    population: Population
    favourable: Bools
    """[rows]: whether the true outcome is."""

    def decide(self, withheld: Collection[str] = ()) -> dict[str, Disclosure]:
        """Which groups of each attribute may be reported. `withheld`: attributes of which none may
        be, because of earlier reports."""
        rules = self._rules
        open_ = {name: rule for name, rule in rules.items() if name not in withheld}
        found = decide_together(open_, self.population) if open_ else {}
        least = self.spec.fairness
        why = _NEAR.format(size=least.minimum_group_size, clients=least.minimum_group_clients)
        for name in withheld:
            one = rules[name].decide(self.population.sizes(name))
            found[name] = replace(one, shown=np.zeros_like(one.shown), why=why)
        return {name: found[name] for name in self.groups}

    def decide_beside(self, earlier: Sequence[tuple[Numbered, SetsBeside]]) -> DisclosureDecision:
        """Which attributes are withheld, after reports that disclosed sets of rows. `earlier`: ways
        to number the rows, and the sets that were disclosed under each. With an attribute its
        intersections are withheld."""
        fairness = self.spec.fairness
        hidden: set[str] = set()
        while True:
            decided = self.decide(hidden)
            found: set[str] = set()
            remembered = []
            for numbered, before in earlier:
                every: dict[tuple[str, str], DisclosedRows] = {}
                for one in numbered:
                    if hidden | found >= one.population.codes.keys():
                        continue  # nothing of them is disclosed, or it is decided once more
                    sets = disclosed_sets(
                        one.population, decided, self.favourable, ordered=fairness.edges
                    )
                    near = self._neighbourhood(one)
                    found |= conflicting(sets, before, near)
                    every |= {each.key: each for own in sets.values() for each in own}
                remembered.append(tuple(every.values()))
            if not found:
                return DisclosureDecision(frozenset(hidden), remembered, decided)
            hidden |= found
            hidden |= {
                name for name, parts in fairness.combinations.items() if hidden.intersection(parts)
            }

    def totals_near(self, earlier: Sequence[tuple[Numbered, SetsBeside]]) -> bool:
        """Whether the set of all rows is too near to a set that was disclosed before: its totals
        are published whichever groups are. `earlier` as in `decide_beside`."""
        everybody = np.ones(len(self.favourable), dtype=np.bool_)
        return any(
            conflicting(
                {"": [disclosed_rows(one.population, everybody, self.favourable)]},
                before,
                self._neighbourhood(one),
            )
            for numbered, before in earlier
            for one in numbered
        )

    def _neighbourhood(self, numbered: NumberedRows) -> Neighbourhood:
        least = self.spec.fairness
        return Neighbourhood(
            numbered.clients_of, rows=least.minimum_group_size, clients=least.minimum_group_clients
        )

    @cached_property
    def _rules(self) -> dict[str, DisclosureRule]:
        return {name: attribute_rule(self.spec, name, self.groups) for name in self.groups}


EARLIER = "an earlier report on many of the same rows"
_NEAR = (
    "suppressed: the groups, the rows held out or whose outcomes are favourable differ from those "
    f"of {EARLIER} by fewer than {{size}} rows or by rows of fewer than "
    "{clients} clients, which the two reports together would disclose; keep to its edges, "
    "categories, rules, split and rows"
)
