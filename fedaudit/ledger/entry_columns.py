"""Many ledger entries side by side, so that they are read, hashed and counted in one piece.

An entry of a hundred subjects costs half as much so as it does by itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.entries import OUTCOMES, LedgerEntry, Outcome
from fedaudit.ledger.report_entries import charges_report
from fedaudit.ledger.rows import InputsReader, StoredRow, UnreadableRow
from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters

Key = tuple[int, int, str, str]
"""Round, release, subject kind and observer of an entry."""
_OF_KEYS = (int, int, str, str)
_RELEASED = int(Outcome.RELEASED)
_ROWS_AT_ONCE = 256
_SUBJECTS_AT_ONCE = 1 << 15
_AnyRow = TypeVar("_AnyRow", bound=StoredRow | UnreadableRow)


@dataclass(frozen=True, eq=False)
class EntryColumns:
    """Consecutive entries of one mechanism and kind of subject, against any observers.

    All charge those who train, or all the held-out people.
    """

    inputs: MechanismParameters
    subject_kind: str
    keys: Sequence[Key]
    """[entries]."""
    interrupted: Sequence[bool]
    """[entries]."""
    sizes: NDArray[np.int64]
    """[entries], how many subjects each charges."""
    subjects: NDArray[np.int32]
    """[charged], the subjects of one entry behind those of the one before."""
    outcomes: NDArray[np.uint8]
    """[charged]."""
    radii: NDArray[np.float64]
    """[charged], or [charged, components]."""
    releases: NDArray[np.int32]
    """[charged]."""
    clusters: NDArray[np.int16]
    """[charged]."""
    epsilons: NDArray[np.float64] | None
    """[charged]; None for a cost that is no epsilon."""

    @classmethod
    def of_entries(cls, entries: Sequence[LedgerEntry]) -> "EntryColumns":
        """Entries that share mechanism, kind of subject and whom they charge; at least one."""
        first = entries[0]

        def joined(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(one, name) for one in entries])

        return cls(
            inputs=first.inputs,
            subject_kind=first.subject_kind,
            keys=[(one.round, one.release, one.subject_kind, one.observer) for one in entries],
            interrupted=[one.interrupted for one in entries],
            sizes=np.array([len(one.subjects) for one in entries], np.int64),
            subjects=joined("subjects"),
            outcomes=joined("outcomes"),
            radii=joined("radii"),
            releases=joined("releases"),
            clusters=joined("clusters"),
            epsilons=None if first.epsilons is None else joined("epsilons"),
        )

    @classmethod
    def of_rows(cls, rows: Sequence[StoredRow], inputs: MechanismParameters) -> "EntryColumns":
        """The same of stored rows whose inputs were read: at least one, which `alike` gave.

        Raises ValueError or TypeError where some row does not form an entry.
        """
        sizes = [len(row.subjects) for row in rows]
        parts = 1 if inputs.components is None else len(inputs.components)

        def joined(name: str, each: int = 1) -> NDArray[Any]:
            columns = [getattr(row, name) for row in rows]
            if [len(column) for column in columns] != [each * size for size in sizes]:
                raise ValueError(f"{name} are not {each} for each subject")
            found: NDArray[Any] = np.concatenate(columns)
            if found.ndim != 1:
                raise ValueError(f"{name} has more than one dimension")
            return found

        outcomes = joined("outcomes")
        if outcomes.size and not 0 <= outcomes.min() <= outcomes.max() < len(OUTCOMES):
            raise ValueError(f"outcomes must lie between 0 and {len(OUTCOMES) - 1}")
        if any((row.epsilons is not None) != inputs.counts_epsilon for row in rows):
            raise ValueError("epsilons go with an event and a delta, and only with them")
        radii = joined("radii", parts)
        return cls(
            inputs=inputs,
            subject_kind=rows[0].subject_kind,
            keys=[_key(row) for row in rows],
            interrupted=[_truth(row.interrupted) for row in rows],
            sizes=np.array(sizes, np.int64),
            subjects=joined("subjects"),
            outcomes=outcomes.astype(np.uint8),
            radii=radii if inputs.components is None else radii.reshape(-1, parts),
            releases=joined("releases"),
            clusters=joined("clusters"),
            epsilons=joined("epsilons") if inputs.counts_epsilon else None,
        )

    def __len__(self) -> int:
        """The number of entries."""
        return len(self.keys)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """[charged], the entry that charges each."""
        return np.repeat(np.arange(len(self.keys)), self.sizes)

    @cached_property
    def spans(self) -> Sequence[slice]:
        """[entries], where the subjects of each lie."""
        ends = [0, *np.cumsum(self.sizes).tolist()]
        return [slice(begin, end) for begin, end in pairwise(ends)]

    @cached_property
    def released(self) -> NDArray[np.bool_]:
        """[charged], whether something of the subject was released."""
        released: NDArray[np.bool_] = self.outcomes == _RELEASED
        return released

    @property
    def charge_report(self) -> bool:
        """Whether they charge the held-out people, and not those who train."""
        return charges_report(self.keys[0][-1])

    def by_observer(self) -> Iterator[tuple[str, NDArray[np.bool_] | slice]]:
        """Each observer and which of the charged are charged against it."""
        observers = list(dict.fromkeys(observer for *_, observer in self.keys))
        if len(observers) == 1:
            yield observers[0], slice(None)
            return
        of_entry = np.array([observers.index(key[-1]) for key in self.keys])[self.places]
        for number, observer in enumerate(observers):
            yield observer, of_entry == number

    def with_any(self, found: NDArray[np.bool_]) -> list[int]:
        """Which entries have a subject that was `found` [charged]."""
        entries: list[int] = np.unique(self.places[found]).tolist()
        return entries

    def entries(self) -> Iterator[LedgerEntry]:
        """The entries one by one; their columns are views of these."""
        for key, interrupted, span in zip(self.keys, self.interrupted, self.spans, strict=True):
            round_, release, subject_kind, observer = key
            yield LedgerEntry(
                round=round_,
                release=release,
                subject_kind=subject_kind,
                observer=observer,
                inputs=self.inputs,
                subjects=self.subjects[span],
                outcomes=self.outcomes[span],
                radii=self.radii[span],
                releases=self.releases[span],
                clusters=self.clusters[span],
                interrupted=interrupted,
                epsilons=None if self.epsilons is None else self.epsilons[span],
            )


def batches(rows: Iterable[_AnyRow]) -> Iterator[list[_AnyRow]]:
    """The rows of a stream, as many at a time as are worth it and bound the memory."""
    batch: list[_AnyRow] = []
    subjects = 0
    for row in rows:
        batch.append(row)
        subjects += 0 if isinstance(row, UnreadableRow) else np.size(row.subjects)
        if len(batch) >= _ROWS_AT_ONCE or subjects >= _SUBJECTS_AT_ONCE:
            yield batch
            batch, subjects = [], 0
    if batch:
        yield batch


def alike(
    rows: Iterable[StoredRow], reader: InputsReader
) -> Iterator[tuple[MechanismParameters | None, list[StoredRow]]]:
    """Consecutive rows of one mechanism and kind of subject that charge the same people, with their
    inputs; None where these are none."""
    together: list[StoredRow] = []
    inputs: MechanismParameters | None = None
    for row in rows:
        known = reader.known(row)
        # The same object: a number of another type may equal one, and has other bytes.
        if together and not (known is inputs and _same_people(row, together[0])):
            yield inputs, together
            together = []
        inputs = known
        together.append(row)
    if together:
        yield inputs, together


def columns_of_rows(rows: Iterable[StoredRow]) -> Iterator[EntryColumns]:
    """The entries of stored rows that are believed. Raises ValueError or TypeError where one does
    not form an entry."""
    for inputs, same in alike(rows, InputsReader()):
        if inputs is None:
            raise ValueError("the stored parameters of a mechanism cannot be read")
        yield EntryColumns.of_rows(same, inputs)


def _same_people(one: StoredRow, other: StoredRow) -> bool:
    return one.subject_kind == other.subject_kind and (
        charges_report(one.observer) == charges_report(other.observer)
    )


def _key(row: StoredRow) -> Key:
    """Raises TypeError where a column of SQLite holds a value of another type."""
    key = (row.round, row.release, row.subject_kind, row.observer)
    if tuple(map(type, key)) != _OF_KEYS:
        raise TypeError("round, release, kind and observer are two numbers and two texts")
    return key


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("interrupted is a truth")
    return value
