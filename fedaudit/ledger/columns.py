"""Ledger entries in columns, one or many: read, hashed, counted, and shown line by line.

An entry of a hundred subjects costs half as much among others as by itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Ints, Ints16, Ints32
from fedaudit.ledger.rows import (
    OUTCOMES,
    InputsReader,
    Outcome,
    OutcomeName,
    UnreadableRow,
    charges_report,
    check_types,
    listed,
    names_of_subjects,
)
from fedaudit.privacy.accounting.privacy_events import Component, MechanismParameters
from fedaudit.privacy.mechanisms.registry import why_unbounded
from fedaudit.privacy.planning.cost_projection import NO_LEAKAGE
from fedaudit.stored import Key, LedgerRow

_RELEASED = int(Outcome.RELEASED)
_COLUMNS = ("subjects", "outcomes", "radii", "releases", "clusters")
_ROWS_AT_ONCE = 256
_SUBJECTS_AT_ONCE = 1 << 15
_AnyRow = TypeVar("_AnyRow", bound=LedgerRow | UnreadableRow)


@dataclass(frozen=True, eq=False)
class EntryColumns:
    """Consecutive entries of one mechanism and kind of subject: what a round, and one release of
    it, cost its subjects against one observer. All of them charge either those who train or the
    held-out people."""

    inputs: MechanismParameters
    subject_kind: str
    keys: Sequence[Key]
    """[entries]. The first round is 1; `release` is 0 unless the round was repeated by a run with
    `release` noise."""
    interrupted: Sequence[bool]
    """[entries]: charged, but lost before its results were stored."""
    sizes: Ints
    """[entries], how many subjects each charges."""
    subjects: Ints32
    """[charged], the subjects of one entry after the subjects of the one before, in any order:
    indices of the clients asked to take part, or of the subjects that represent records or the
    population (`fedaudit.privacy.planning.plan`)."""
    outcomes: NDArray[np.uint8]
    """[charged]: codes into OUTCOMES."""
    radii: Floats
    """[charged], or [charged, components]: the radius of the noise; NaN where nothing was released
    or there is no mechanism."""
    releases: Ints32
    """[charged]: the subject's releases up to and including this one."""
    clusters: Ints16
    """[charged]: the cluster of the upload, as the server assigned it; -1 for none. Not part of
    the encoding."""
    epsilons: Floats | None
    """[charged]: what the subject has spent up to and including this entry, as an epsilon at the
    delta of the inputs; None unless the cost is an epsilon."""

    @classmethod
    def of_rows(cls, rows: Sequence[LedgerRow], inputs: MechanismParameters) -> "EntryColumns":
        """The entries of stored rows whose inputs were read: at least one, which `alike` gave.

        Raises ValueError or TypeError where some row does not form an entry.
        """
        parts = 1 if inputs.components is None else len(inputs.components)
        for row in rows:
            check_types(row)
            if (row.epsilons is not None) != inputs.counts_epsilon:
                raise ValueError("epsilons go with an event and a delta, and only with them")
            subjects = len(row.subjects)
            for name in (*_COLUMNS, *(("epsilons",) if inputs.counts_epsilon else ())):
                expected = (subjects * parts if name == "radii" else subjects,)
                if np.shape(getattr(row, name)) != expected:
                    raise ValueError(f"{name} has not {expected[0]} values side by side")

        def joined(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(one, name) for one in rows])

        outcomes, radii = joined("outcomes"), joined("radii")
        if outcomes.size and not 0 <= outcomes.min() <= outcomes.max() < len(OUTCOMES):
            raise ValueError(f"outcomes must lie between 0 and {len(OUTCOMES) - 1}")
        if inputs.components is not None:
            radii = radii.reshape(-1, len(inputs.components))
        return cls(
            inputs=inputs,
            subject_kind=rows[0].subject_kind,
            keys=[one.key for one in rows],
            interrupted=[one.interrupted for one in rows],
            sizes=np.array([len(one.subjects) for one in rows], np.int64),
            subjects=joined("subjects"),
            outcomes=outcomes.astype(np.uint8),
            radii=radii,
            releases=joined("releases"),
            clusters=joined("clusters"),
            epsilons=joined("epsilons") if inputs.counts_epsilon else None,
        )

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def places(self) -> Ints:
        """[charged], the entry that charges each."""
        return np.repeat(np.arange(len(self.keys)), self.sizes)

    @cached_property
    def spans(self) -> Sequence[slice]:
        """[entries], the places of the subjects of each."""
        ends = [0, *np.cumsum(self.sizes).tolist()]
        return [slice(begin, end) for begin, end in pairwise(ends)]

    @cached_property
    def released(self) -> Bools:
        """[charged], whether something of the subject was released."""
        released: Bools = self.outcomes == _RELEASED
        return released

    @property
    def charge_report(self) -> bool:
        """Whether they charge the held-out people, and not those who train."""
        return charges_report(self.keys[0][-1])

    def by_observer(self) -> Iterator[tuple[str, Bools | slice]]:
        """Each observer and which of the charged are charged against it."""
        observers = list(dict.fromkeys(observer for *_, observer in self.keys))
        if len(observers) == 1:
            yield observers[0], slice(None)
            return
        of_entry = np.array([observers.index(key[-1]) for key in self.keys])[self.places]
        for number, observer in enumerate(observers):
            yield observer, of_entry == number

    def with_any(self, found: Bools) -> list[int]:
        """Which entries have a subject that was `found` [charged]."""
        entries: list[int] = np.unique(self.places[found]).tolist()
        return entries

    def each(self) -> Iterator["EntryColumns"]:
        """The entries one by one; their columns are views of these."""
        for place, span in enumerate(self.spans):
            one = slice(place, place + 1)
            yield EntryColumns(
                inputs=self.inputs,
                subject_kind=self.subject_kind,
                keys=self.keys[one],
                interrupted=self.interrupted[one],
                sizes=self.sizes[one],
                **self.part(span),
            )

    def rows(
        self, digests: Sequence[bytes], links: Sequence[bytes], *, declaration: bytes | None = None
    ) -> Iterator[LedgerRow]:
        """The rows that hold the entries, in their places in the chain; they share their inputs.
        `declaration`: of the declared round whose entries they are."""
        inputs, places = self.inputs.as_dict(), zip(self.keys, self.interrupted, strict=True)
        hashes = zip(digests, links, strict=True)
        for (key, interrupted), span, (digest, link) in zip(
            places, self.spans, hashes, strict=True
        ):
            own = self.part(span)
            own["radii"] = own["radii"].ravel()
            yield LedgerRow(
                **key._asdict(),
                interrupted=interrupted,
                inputs=inputs,
                **own,
                digest=digest,
                link=link,
                declaration=declaration,
            )

    def part(self, charged: slice | Bools) -> dict[str, Any]:
        """The columns of some of the charged, by name."""
        own = {name: getattr(self, name)[charged] for name in _COLUMNS}
        return {**own, "epsilons": None if self.epsilons is None else self.epsilons[charged]}


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
    rows: Iterable[LedgerRow], reader: InputsReader
) -> Iterator[tuple[MechanismParameters | None, list[LedgerRow]]]:
    """Consecutive rows of one mechanism and kind of subject that charge the same people, with their
    inputs; None for rows that are not."""
    read = ((reader.known(row), row) for row in rows)
    # The same object: a number of another type may equal one, and has other bytes.
    for _, group in groupby(read, key=lambda one: (id(one[0]), *_people(one[1]))):
        inputs, together = zip(*group, strict=True)
        yield inputs[0], list(together)


def columns_of_rows(rows: Iterable[LedgerRow]) -> Iterator[EntryColumns]:
    """The entries of stored rows, without checks. Raises ValueError or TypeError where a row does
    not form an entry."""
    for inputs, same in alike(rows, InputsReader()):
        if inputs is None:
            raise ValueError("the stored parameters of a mechanism cannot be read")
        yield EntryColumns.of_rows(same, inputs)


def _people(row: LedgerRow) -> tuple[str, bool]:
    return row.subject_kind, charges_report(row.observer)


_ROUNDING = 1e-9
"""The tolerance by which a layer's share of a clipped norm may exceed the clip."""


def misfits(entries: EntryColumns) -> list[int]:
    """Which entries have a release without the public radius, or with a radius outside floor and
    clip. An upload that was not released, or whose round was lost, has no radius. Empty for
    entries counted as an epsilon, which have no radii."""
    inputs, radii = entries.inputs, entries.radii
    if inputs.counts_epsilon:
        return []
    bound = entries.released & ~np.array(entries.interrupted, bool)[entries.places]
    if inputs.cost_kind == "unbounded":
        bound = np.zeros_like(bound)
    if inputs.radius is not None:
        fit = radii == inputs.radius
    else:
        floor = 0.0 if inputs.radius_floor is None else inputs.radius_floor
        most = np.inf if inputs.clip is None else inputs.clip * (1 + _ROUNDING)
        fit = np.isfinite(radii) & (radii >= floor) & (radii <= most)
    if not bound.all():
        fit = np.where(bound if radii.ndim == 1 else bound[:, None], fit, np.isnan(radii))
    if fit.all():
        return []
    return entries.with_any(~(fit if radii.ndim == 1 else fit.all(axis=1)))


_WHOLE = "all"
"""The component of a vector that is released as a whole."""
_REASONS: dict[OutcomeName, str | None] = {
    "released": None,
    "refused": "refused before the release, which would have passed the client's budget",
    "withheld": "the update was not finite, so nothing was released",
}
"""Why a line lacks figures, by the outcome of its subject."""
_INTERRUPTED = "charged, and lost with its worker before the radius was stored"
_WITHOUT_NOISE = "something was declared without noise, so nothing bounds what was spent in all"
_NOT_FINITE = "too large for a number in double precision"


@dataclass(frozen=True, eq=False)
class LedgerColumns:
    """The lines of some entries, column by column; a figure that does not exist is not finite."""

    columns: Mapping[str, NDArray[Any]]
    """Columns by name, [lines] each; texts are objects."""
    counts: Ints
    """[entries], how many lines each of them has."""

    def __len__(self) -> int:
        return int(self.counts.sum())

    def lines(self, begin: int = 0, end: int | None = None) -> Iterator[dict[str, Any]]:
        """The lines as objects, all or those from `begin` to before `end`; a figure that does not
        exist is None."""
        names, some = tuple(self.columns), slice(begin, end)
        columns = (_values(column[some]) for column in self.columns.values())
        return (dict(zip(names, line, strict=True)) for line in zip(*columns, strict=True))


def ledger_columns(
    entries: Iterable[EntryColumns], names: Sequence[str], *, subject: int | None = None
) -> LedgerColumns:
    """The entries' lines, with the figures of the view `privacy_ledger`; or one subject's lines.

    `epsilon` is per unit of distance under metric privacy; with a delta it is what the subject has
    spent in all. Where the mechanism has components, the figures of a line are its component's, and
    those of a release are their sums. Where a figure does not exist `reason` says why.
    """
    named = np.array(names, dtype=object)
    parts = [one if subject is None else _of_subject(one, subject) for one in entries]
    columns = [_columns(part, named) for part in parts]
    counts = [part.sizes * len(_components(part.inputs)) for part in parts]
    every = columns[0] if columns else ()
    return LedgerColumns(
        {name: np.concatenate([one[name] for one in columns]) for name in every},
        np.concatenate([np.zeros(0, np.int64), *counts]),
    )


def _of_subject(entries: EntryColumns, subject: int) -> EntryColumns:
    """The entries with one subject alone; that one is none of the report's."""
    chosen = (entries.subjects == subject) & (not entries.charge_report)
    sizes = np.bincount(entries.places[chosen], minlength=len(entries))
    return replace(entries, sizes=sizes, **entries.part(chosen))


def _columns(entries: EntryColumns, names: NDArray[np.object_]) -> dict[str, NDArray[Any]]:
    """The fields of the entries' lines, in their order."""
    components, inputs = _components(entries.inputs), entries.inputs
    parts, lines = len(components), len(entries.subjects) * len(components)
    radii = entries.radii.reshape(-1, parts)
    costs = _costs(entries, radii, np.array([part.n for part in components]))
    epsilons, leakages, totals = (figures.ravel() for figures in costs)
    rounds, releases, _, observers = zip(*entries.keys, strict=True)
    if of_report := names_of_subjects(entries.subject_kind, ()):
        names = np.array(of_report, dtype=object)

    def same(text: str | None) -> NDArray[np.object_]:
        return np.full(lines, text, dtype=object)

    def by_entry(values: Sequence[Any], kind: type) -> NDArray[Any]:
        return np.repeat(np.array(values, dtype=kind)[entries.places], parts)

    return {
        "round": by_entry(rounds, np.int64),
        "release": by_entry(releases, np.int64),
        "subject_kind": same(entries.subject_kind),
        "subject": np.repeat(names[entries.subjects], parts),
        "observer": by_entry(observers, object),
        "component": _texts(
            [part.name for part in components], np.tile(np.arange(parts), len(entries.subjects))
        ),
        "outcome": _texts(OUTCOMES, np.repeat(entries.outcomes, parts)),
        "epsilon": epsilons,
        "delta": np.full(lines, np.nan if inputs.delta is None else inputs.delta),
        "adjacency": same(inputs.adjacency),
        "radius": radii.ravel(),
        "leakage": leakages,
        "leakage_total": totals,
        "guarantee": same(inputs.guarantee),
        "reason": _reasons(entries, (radii.ravel(), epsilons, leakages, totals), parts),
        "noise": same(inputs.noise),
    }


def _costs(entries: EntryColumns, radii: Floats, sizes: Ints) -> tuple[Floats, Floats, Floats]:
    """Epsilon, leakage and total leakage [charged, components]; NaN where there is none. `radii`
    [charged, components]; `sizes` [components]."""
    inputs, nothing = entries.inputs, np.full(radii.shape, np.nan)
    if entries.epsilons is not None:
        return entries.epsilons, nothing, nothing
    if inputs.cost_kind != "leakage":
        return nothing, nothing, nothing
    with np.errstate(all="ignore"):
        epsilons = inputs.release_epsilons(radii)
        once = np.where(entries.released[:, None], inputs.leakages(1, sizes=sizes), np.nan)
        totals = inputs.leakages(entries.releases.astype(np.int64)[:, None], sizes=sizes)
    return epsilons, once, totals


def _reasons(entries: EntryColumns, figures: Sequence[Floats], parts: int) -> NDArray[np.object_]:
    """Why figures [lines] are missing: None where none is."""
    missing = ~np.logical_and.reduce([np.isfinite(one) for one in figures])
    if not missing.any():
        return np.full(len(missing), None, dtype=object)
    by_outcome = np.repeat(entries.outcomes.astype(np.int64), parts)
    if entries.inputs.counts_epsilon:
        happened = [_REASONS[name] for name in OUTCOMES]
        texts = [f"{one}; {NO_LEAKAGE}" if one else NO_LEAKAGE for one in happened]
        codes = np.where(np.isnan(figures[1]), len(OUTCOMES), by_outcome)
        return _texts((*texts, _WITHOUT_NOISE), codes)
    if entries.inputs.cost_kind == "unbounded":
        return _texts((None, why_unbounded(entries.inputs)), missing.astype(np.int64))
    lost = np.array(entries.interrupted)[entries.places]
    codes = np.where(np.repeat(lost, parts), len(OUTCOMES), by_outcome)
    texts = [_REASONS[name] or _NOT_FINITE for name in OUTCOMES]
    return _texts((*texts, _INTERRUPTED, None), np.where(missing, codes, len(OUTCOMES) + 1))


def _components(inputs: MechanismParameters) -> Sequence[Component]:
    return inputs.components or (Component(_WHOLE, inputs.n),)


def _texts(texts: Sequence[str | None], codes: Ints) -> NDArray[np.object_]:
    return np.array(texts, dtype=object)[codes]


def _values(column: NDArray[Any]) -> list[Any]:
    return column.tolist() if column.dtype == object else listed(column)
