"""The ledger in readable form: a line for each subject of an entry, and each of its components.

Lines are worked out many entries at a time, as columns: a long ledger has millions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.entries import OUTCOMES, LedgerEntry, Outcome, OutcomeName
from fedaudit.ledger.report_entries import charges_report, names_of_subjects
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

    def lines(self) -> Iterator[dict[str, Any]]:
        """The lines as objects; a figure that does not exist is None."""
        names = tuple(self.columns)
        columns = map(_values, self.columns.values())
        return (dict(zip(names, line, strict=True)) for line in zip(*columns, strict=True))


def ledger_lines(
    entry: LedgerEntry, names: Sequence[str], *, subject: int | None = None
) -> list[dict[str, Any]]:
    """The lines of one entry, as `ledger_columns` has them."""
    return list(ledger_columns([entry], names, subject=subject).lines())


def ledger_columns(
    entries: Sequence[LedgerEntry], names: Sequence[str], *, subject: int | None = None
) -> LedgerColumns:
    """The entries' lines, with the figures of the view `privacy_ledger`; or one subject's lines.

    `epsilon` is per unit of distance under metric privacy; with a delta it is what the subject has
    spent in all. Where the mechanism has components, the figures of a line are its component's, and
    those of a release are their sums. Where a figure does not exist `reason` says why.
    """
    # Entries that charge the report are one subject's that is none of the run's.
    alike = groupby(entries, key=lambda one: (one.inputs, one.subject_kind, one.observer))
    parts = [_Part.of(list(some), names, subject) for _, some in alike]
    counts = [part.counts for part in parts]
    columns = [part.columns() for part in parts] or [_Part.of([], names, subject).columns()]
    return LedgerColumns(
        {name: _joined([one[name] for one in columns]) for name in columns[0]},
        np.concatenate([np.zeros(0, np.int64), *counts]),
    )


_Figures = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Part:
    """Consecutive entries of one mechanism, kind of subject and observer, side by side."""

    entries: Sequence[LedgerEntry]
    names: Sequence[str]
    counts: NDArray[np.int64]
    """[entries], lines of each."""
    places: NDArray[np.int64]
    """[chosen], the entry of each chosen subject."""
    subjects: NDArray[np.int64]
    outcomes: NDArray[np.int64]
    radii: _Figures
    """[chosen, components]."""
    releases: NDArray[np.int64]
    epsilons: _Figures | None

    @classmethod
    def of(
        cls, entries: Sequence[LedgerEntry], names: Sequence[str], subject: int | None
    ) -> "_Part":
        """The part with all subjects, or with one alone; that one is none of the report's."""
        if subject is not None:
            entries_of_it = [one for one in entries if not charges_report(one.observer)]
        else:
            entries_of_it = list(entries)
        sizes = [len(one.subjects) for one in entries_of_it]
        subjects = _concatenated([one.subjects for one in entries_of_it], np.int64)
        chosen: Any = slice(None) if subject is None else np.flatnonzero(subjects == subject)
        places = np.repeat(np.arange(len(entries_of_it)), sizes)[chosen]
        parts = len(_components(entries))
        epsilons = [one.epsilons for one in entries_of_it if one.epsilons is not None]
        return cls(
            entries=entries_of_it,
            names=names_of_subjects(entries[0].subject_kind, names) if entries else names,
            counts=parts * np.bincount(places, minlength=len(entries)),
            places=places,
            subjects=subjects[chosen],
            outcomes=_concatenated([one.outcomes for one in entries_of_it], np.int64)[chosen],
            radii=_concatenated([one.radii.ravel() for one in entries_of_it], np.float64).reshape(
                -1, parts
            )[chosen],
            releases=_concatenated([one.releases for one in entries_of_it], np.int64)[chosen],
            epsilons=_concatenated(epsilons, np.float64)[chosen] if epsilons else None,
        )

    @property
    def inputs(self) -> MechanismParameters:
        return self.entries[0].inputs

    def columns(self) -> dict[str, Column]:
        """The fields of a line, in the order in which they are told."""
        components = _components(self.entries)
        parts, lines = len(components), len(self.subjects) * len(components)
        costs = self._costs(np.array([part.n for part in components]))
        epsilons, leakages, totals = (figures.ravel() for figures in costs)
        radii = self.radii.ravel()
        first = self.entries[0] if self.entries else None

        def same(text: str | None) -> Words:
            return Words(np.zeros(lines, np.int64), (text,))

        def by_entry(values: Sequence[int]) -> NDArray[np.int64]:
            return np.repeat(np.array(values, np.int64)[self.places], parts)

        delta = None if first is None else first.inputs.delta
        return {
            "round": by_entry([one.round for one in self.entries]),
            "release": by_entry([one.release for one in self.entries]),
            "subject_kind": same(None if first is None else first.subject_kind),
            "subject": Words(np.repeat(self.subjects, parts), self.names),
            "observer": same(None if first is None else first.observer),
            "component": Words(
                np.tile(np.arange(parts), len(self.subjects)), [part.name for part in components]
            ),
            "outcome": Words(np.repeat(self.outcomes, parts), OUTCOMES),
            "epsilon": epsilons,
            "delta": np.full(lines, np.nan if delta is None else delta),
            "adjacency": same(None if first is None else first.inputs.adjacency),
            "radius": radii,
            "leakage": leakages,
            "leakage_total": totals,
            "guarantee": same(None if first is None else first.inputs.guarantee),
            "reason": self._reasons((radii, epsilons, leakages, totals), parts),
        }

    def _costs(self, sizes: NDArray[np.int64]) -> tuple[_Figures, _Figures, _Figures]:
        """Epsilon, leakage and total leakage [subjects, components]; NaN where there is none.

        `sizes` [components].
        """
        nothing = np.full(self.radii.shape, np.nan)
        if self.epsilons is not None:
            return self.epsilons, nothing, nothing
        if not self.entries or self.inputs.cost_kind != "leakage":
            return nothing, nothing, nothing
        released = self.outcomes[:, None] == _RELEASED
        with np.errstate(all="ignore"):
            epsilons = self.inputs.release_epsilons(self.radii)
            once = np.where(released, self.inputs.leakages(1, sizes=sizes), np.nan)
            totals = self.inputs.leakages(self.releases[:, None], sizes=sizes)
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
        lost = np.array([one.interrupted for one in self.entries])[self.places]
        codes = np.where(np.repeat(lost, parts), len(OUTCOMES), by_outcome)
        texts = [_REASONS[name] or _NOT_FINITE for name in OUTCOMES]
        return Words(np.where(missing, codes, len(OUTCOMES) + 1), (*texts, _INTERRUPTED, None))


def _components(entries: Sequence[LedgerEntry]) -> Sequence[Component]:
    if not entries:
        return (Component(_WHOLE, 0),)
    inputs = entries[0].inputs
    return inputs.components or (Component(_WHOLE, inputs.n),)


def _concatenated(columns: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(columns, dtype=dtype) if columns else np.zeros(0, dtype)


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


def _values(column: Column) -> list[Any]:
    values: list[Any] = column.tolist()
    if isinstance(column, Words) or column.dtype.kind != "f":
        return values
    finite = np.isfinite(column)
    if finite.all():
        return values
    return [value if known else None for value, known in zip(values, finite.tolist(), strict=True)]
