"""The ledger in readable form: a line for each subject of an entry, and each of its components.

Lines are worked out many entries at a time, as columns: a long ledger has millions.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.entries import OUTCOMES, LedgerEntry, Outcome, OutcomeName
from fedaudit.ledger.entry_columns import EntryColumns
from fedaudit.ledger.report_entries import names_of_subjects
from fedaudit.privacy.accounting.mechanism_parameters import Component, MechanismParameters
from fedaudit.privacy.mechanisms.registry import why_unbounded
from fedaudit.privacy.planning.cost_projection import NO_LEAKAGE

_WHOLE = "all"
"""The component of a vector that is released as a whole."""
_REASONS: dict[OutcomeName, str | None] = {
    "released": None,
    "refused": "refused before the release, which would have passed the client's budget",
    "withheld": "the update was not finite, so nothing was released",
}
"""Why a line lacks figures, by what became of its subject."""
_INTERRUPTED = "charged, and lost with its worker before the radius was stored"
_WITHOUT_NOISE = "something was declared without noise, so nothing bounds what was spent in all"
_RELEASED = int(Outcome.RELEASED)
_NOT_FINITE = "too large for a number in double precision"


@dataclass(frozen=True, eq=False)
class Words:
    """A column of texts of which few are different."""

    codes: NDArray[np.int64]
    """[lines], indices into the texts."""
    texts: Sequence[str | None]

    def tolist(self) -> list[str | None]:
        """A text for each line."""
        texts = self.texts
        return [texts[code] for code in self.codes.tolist()]


Column = Words | NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LedgerColumns:
    """The lines of some entries, column by column; a figure that does not exist is not finite."""

    columns: Mapping[str, Column]
    """By name, [lines] each."""
    counts: NDArray[np.int64]
    """[entries], how many lines each of them has."""

    def __len__(self) -> int:
        """The number of lines."""
        return int(self.counts.sum())

    def lines(self, begin: int = 0, end: int | None = None) -> Iterator[dict[str, Any]]:
        """The lines as objects, all or those from `begin` to before `end`; a figure that does not
        exist is None."""
        names, some = tuple(self.columns), slice(begin, end)
        columns = (_values(column, some) for column in self.columns.values())
        return (dict(zip(names, line, strict=True)) for line in zip(*columns, strict=True))


def ledger_lines(
    entry: LedgerEntry, names: Sequence[str], *, subject: int | None = None
) -> list[dict[str, Any]]:
    """The lines of one entry, as `ledger_columns` has them."""
    return list(ledger_columns([EntryColumns.of_entries([entry])], names, subject=subject).lines())


def ledger_columns(
    entries: Iterable[EntryColumns], names: Sequence[str], *, subject: int | None = None
) -> LedgerColumns:
    """The entries' lines, with the figures of the view `privacy_ledger`; or one subject's lines.

    `epsilon` is per unit of distance under metric privacy; with a delta it is what the subject has
    spent in all. Where the mechanism has components, the figures of a line are its component's, and
    those of a release are their sums. Where a figure does not exist `reason` says why.
    """
    parts = [_Part.of(some, names, subject) for some in entries]
    columns = [part.columns() for part in parts]
    return LedgerColumns(
        {name: _joined([one[name] for one in columns]) for name in columns[0]} if columns else {},
        np.concatenate([np.zeros(0, np.int64), *(part.counts for part in parts)]),
    )


_Figures = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Part:
    """The chosen subjects of entries of one mechanism and kind of subject, side by side."""

    entries: EntryColumns
    names: Sequence[str]
    chosen: NDArray[np.bool_] | slice
    """[charged]."""

    @classmethod
    def of(cls, entries: EntryColumns, names: Sequence[str], subject: int | None) -> "_Part":
        """The part with all subjects, or with one alone; that one is none of the report's."""
        chosen: NDArray[np.bool_] | slice = slice(None)
        if subject is not None and entries.charge_report:
            chosen = slice(0)
        elif subject is not None:
            chosen = entries.subjects == subject
        return cls(entries, names_of_subjects(entries.subject_kind, names), chosen)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """[chosen], the entry of each."""
        return self.entries.places[self.chosen]

    @cached_property
    def outcomes(self) -> NDArray[np.int64]:
        """[chosen]."""
        return self.entries.outcomes[self.chosen].astype(np.int64)

    @cached_property
    def radii(self) -> _Figures:
        """[chosen, components]."""
        radii = self.entries.radii
        return (radii if radii.ndim > 1 else radii[:, None])[self.chosen]

    @property
    def counts(self) -> NDArray[np.int64]:
        """[entries], lines of each."""
        parts = len(_components(self.inputs))
        return parts * np.bincount(self.places, minlength=len(self.entries))

    @property
    def inputs(self) -> MechanismParameters:
        """Those of every entry."""
        return self.entries.inputs

    def columns(self) -> dict[str, Column]:
        """The fields of a line, in the order in which they are told."""
        components, inputs = _components(self.inputs), self.inputs
        parts, lines = len(components), len(self.places) * len(components)
        costs = self._costs(np.array([part.n for part in components]))
        epsilons, leakages, totals = (figures.ravel() for figures in costs)
        radii = self.radii.ravel()
        rounds, releases, _, of_entries = zip(*self.entries.keys, strict=True)
        observers = list(dict.fromkeys(of_entries))

        def same(text: str | None) -> Words:
            return Words(np.zeros(lines, np.int64), (text,))

        def by_entry(values: Iterable[int]) -> NDArray[np.int64]:
            return np.repeat(np.fromiter(values, np.int64)[self.places], parts)

        subjects = self.entries.subjects[self.chosen].astype(np.int64)
        return {
            "round": by_entry(rounds),
            "release": by_entry(releases),
            "subject_kind": same(self.entries.subject_kind),
            "subject": Words(np.repeat(subjects, parts), self.names),
            "observer": Words(by_entry(map(observers.index, of_entries)), observers),
            "component": Words(
                np.tile(np.arange(parts), len(self.places)), [part.name for part in components]
            ),
            "outcome": Words(np.repeat(self.outcomes, parts), OUTCOMES),
            "epsilon": epsilons,
            "delta": np.full(lines, np.nan if inputs.delta is None else inputs.delta),
            "adjacency": same(inputs.adjacency),
            "radius": radii,
            "leakage": leakages,
            "leakage_total": totals,
            "guarantee": same(inputs.guarantee),
            "reason": self._reasons((radii, epsilons, leakages, totals), parts),
        }

    def _costs(self, sizes: NDArray[np.int64]) -> tuple[_Figures, _Figures, _Figures]:
        """Epsilon, leakage and total leakage [subjects, components]; NaN where there is none.

        `sizes` [components].
        """
        nothing = np.full(self.radii.shape, np.nan)
        if self.entries.epsilons is not None:
            return self.entries.epsilons[self.chosen], nothing, nothing
        if self.inputs.cost_kind != "leakage":
            return nothing, nothing, nothing
        released = self.outcomes[:, None] == _RELEASED
        with np.errstate(all="ignore"):
            epsilons = self.inputs.release_epsilons(self.radii)
            once = np.where(released, self.inputs.leakages(1, sizes=sizes), np.nan)
            releases = self.entries.releases[self.chosen].astype(np.int64)
            totals = self.inputs.leakages(releases[:, None], sizes=sizes)
        return epsilons, once, totals

    def _reasons(self, figures: Sequence[_Figures], parts: int) -> Words:
        """Why figures are missing: None where none is."""
        missing = ~np.logical_and.reduce([np.isfinite(one) for one in figures])
        if not missing.any():
            return Words(np.zeros(len(missing), np.int64), (None,))
        by_outcome = np.repeat(self.outcomes, parts)
        if self.inputs.counts_epsilon:
            texts = [_and(_REASONS[name], NO_LEAKAGE) for name in OUTCOMES]
            codes = np.where(np.isnan(figures[1]), len(OUTCOMES), by_outcome)
            return Words(codes, (*texts, _WITHOUT_NOISE))
        if self.inputs.cost_kind == "unbounded":
            return Words(missing.astype(np.int64), (None, why_unbounded(self.inputs)))
        lost = np.array(self.entries.interrupted)[self.places]
        codes = np.where(np.repeat(lost, parts), len(OUTCOMES), by_outcome)
        texts = [_REASONS[name] or _NOT_FINITE for name in OUTCOMES]
        return Words(np.where(missing, codes, len(OUTCOMES) + 1), (*texts, _INTERRUPTED, None))


def _components(inputs: MechanismParameters) -> Sequence[Component]:
    return inputs.components or (Component(_WHOLE, inputs.n),)


def _and(happened: str | None, otherwise: str) -> str:
    return otherwise if happened is None else f"{happened}; {otherwise}"


def _joined(columns: Sequence[Column]) -> Column:
    """One column of those of several parts, in their order."""
    words = [column for column in columns if isinstance(column, Words)]
    if len(words) < len(columns):
        numbers: NDArray[Any] = np.concatenate(
            [one for one in columns if isinstance(one, np.ndarray)]
        )
        return numbers
    if all(column.texts is words[0].texts for column in words):
        return Words(np.concatenate([column.codes for column in words]), words[0].texts)
    texts = list(dict.fromkeys(text for column in words for text in column.texts))
    place = {text: number for number, text in enumerate(texts)}
    codes = [np.array([place[text] for text in column.texts])[column.codes] for column in words]
    return Words(np.concatenate(codes), texts)


def _values(column: Column, some: slice) -> list[Any]:
    if isinstance(column, Words):
        return Words(column.codes[some], column.texts).tolist()
    numbers = column[some]
    values: list[Any] = numbers.tolist()
    if numbers.dtype.kind != "f":
        return values
    finite = np.isfinite(numbers)
    if finite.all():
        return values
    return [value if known else None for value, known in zip(values, finite.tolist(), strict=True)]
