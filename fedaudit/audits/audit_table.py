"""The rows of an audit, read from its table; all faults that can be found are named together.

Rows are known again in another file by what they hold. A table less a row is another file, whose
rows have other numbers; audits of the two would give the row away as two audits of one file with
other groups do. So a service numbers rows by a hash of what they hold, twice: by every column,
whichever of them an audit names as truth and prediction, and by every column but these two, which a
new model changes in every row. There are few numbers, so that sets of them are compared quickly,
and two rows may share one: two sets then seem nearer than they are, never farther.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.fairness.joint_disclosure import Population
from fedaudit.fairness.scored_groups import Numbered, NumberedRows, ScoredGroups, clients_by_number
from fedaudit.federations.federation import Attribute, Federation
from fedaudit.federations.groups import (
    OutcomeRules,
    agreed_rules,
    compared,
    left_out_rows,
    read_sensitive,
    with_intersections,
)
from fedaudit.federations.levels import MAX_CLASSES, Levels
from fedaudit.federations.load import federation_label_faults, reference_faults
from fedaudit.federations.reading.source_files import Files, SourceFile, open_source
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows, class_levels
from fedaudit.federations.record_keys import BETWEEN_CELLS, row_hashes, turns
from fedaudit.spec.audits import AuditSpec, in_audit, measuring_spec
from fedaudit.spec.errors import (
    Faults,
    FieldError,
    InvalidInputError,
    error_at,
    listed,
    listed_values,
    no_column,
)
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.labels import find_classes
from fedaudit.spec.sources import FileSource

NUMBERS = 1 << 20
MIN_DISTINCT = 0.9
"""Share of rows that differ from all others in what identifies them; below it rows of two files
would be taken for each other."""


@dataclass(frozen=True, eq=False)
class RowContents:
    """The rows of a file by what they hold in some columns. Confidential."""

    columns: str
    """SHA-256 of the names of the columns that identify rows: only files with the same ones are
    compared."""
    numbers: Ints
    """[rows of the file]: below NUMBERS; those that are alike are counted through."""


def row_contents(
    audit: AuditSpec, table: TableFile, progress: Callable[[], None]
) -> tuple[RowContents, ...]:
    """The rows' numbers by every column, and by every column but truth and prediction; without
    those by which too few rows differ."""
    every = sorted(table.names)
    choices = (every, [name for name in every if name not in (audit.truth, audit.predicted_by)])
    hashes: list[list[NDArray[np.uint64]]] = [[] for _ in choices]
    for rows in table.batches(every):
        for names, found in zip(choices, hashes, strict=True):
            found.append(row_hashes(rows, names, "/path"))
            progress()
    numbered = (_numbered(*one) for one in zip(choices, hashes, strict=True))
    return tuple(one for one in numbered if one is not None)


def _numbered(names: list[str], hashes: list[NDArray[np.uint64]]) -> RowContents | None:
    every = np.concatenate(hashes)
    # The second of two rows that are alike is another row.
    occurrence = turns(every, np.argsort(every, kind="stable"))
    if not len(every) or np.count_nonzero(occurrence == 0) < MIN_DISTINCT * len(every):
        return None
    mixed = every + occurrence * np.uint64(0x9E3779B97F4A7C15)
    columns = hashlib.sha256(BETWEEN_CELLS.join(names).encode()).hexdigest()
    return RowContents(columns, (mixed % np.uint64(NUMBERS)).astype(np.int64))


@dataclass(frozen=True, eq=False, kw_only=True)
class AuditedRows:
    """A table that was read for an audit. Confidential; arrays are [rows]."""

    audit: AuditSpec
    federation: Federation
    """Federation of one client: truth, groups and the numbers of the rows, without features."""
    rules: OutcomeRules
    predicted: Ints
    """The predicted class, as the truth's."""
    scores: Floats | None
    clients: Ints
    """Whose each row is. Without a client key, one of equally large bundles of rows dealt out at
    random, which intervals count."""
    client_count: int | None
    """None without a client key."""
    left_out: int
    rows_of_table: int
    contents: tuple[RowContents, ...] | None = None
    """Contents by which the rows are recognised in other files: none where the rows are too much
    alike, and None where that was not asked for."""

    @cached_property
    def spec(self) -> ExperimentSpec:
        """The audit as the code for groups and disclosure reads it."""
        return measuring_spec(self.audit)

    @cached_property
    def judged(self) -> Bools:
        """The rows for which a rule says what is favourable; no other one is scored."""
        found: Bools = self.rules.rule_index >= 0
        return found

    @cached_property
    def favourable(self) -> Bools:
        """Whether the true outcome is."""
        found: Bools = self.rules.label(self.federation.raw_target)
        return found

    @cached_property
    def truth(self) -> Ints:
        """The true class."""
        return np.asarray(self.federation.raw_target, dtype=np.int64)

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The names of each attribute's groups, keyed by attribute."""
        return {one.name: one.values for one in self.federation.attributes}

    def codes(self, attribute: str) -> Ints:
        """The group of each row; -1 for none."""
        return np.asarray(self.federation.attribute(attribute).codes, dtype=np.int64)

    @cached_property
    def scored(self) -> ScoredGroups:
        """The scored rows by their groups, for what is disclosed of them."""
        judged = self.judged
        population = Population(
            codes={name: self.codes(name)[judged] for name in self.groups},
            groups={name: len(values) for name, values in self.groups.items()},
            clients=self.clients[judged],
            row_ids=self._row_numbers[judged].astype(np.int64),
        )
        return ScoredGroups(
            spec=self.spec,
            groups=self.groups,
            population=population,
            favourable=self.favourable[judged],
        )

    @property
    def rows_of_file(self) -> Numbered:
        """The rows of `scored` by their places in the file."""
        clients_of = clients_by_number(self._row_numbers, self.clients)
        return [NumberedRows(self.scored.population, clients_of)]

    def by_contents(self, contents: RowContents) -> Numbered:
        """The rows of `scored` by what they hold."""
        # The numbers of rows in the file begin with 1.
        numbers = contents.numbers[self._row_numbers - 1]
        population = replace(self.scored.population, row_ids=numbers[self.judged])
        return [NumberedRows(population, clients_by_number(numbers, self.clients))]

    @property
    def _row_numbers(self) -> Ints:
        numbers = self.federation.row_numbers
        if numbers is None:
            raise ValueError("rows of a table have numbers")
        return np.asarray(numbers, dtype=np.int64)

    @cached_property
    def all_right(self) -> bool:
        """Whether every scored prediction equals the truth."""
        return bool((self.predicted == self.truth)[self.judged].all())


def predicted_from(rules: OutcomeRules, scores: Floats, *, threshold: float) -> Ints:
    """The class, 0 or 1, that scores [rows] of the favourable outcome predict: that outcome from
    the threshold up."""
    second_is_favourable = rules.label(np.ones(len(scores)))
    return np.asarray((scores >= threshold) == second_is_favourable, dtype=np.int64)


BUNDLES = 2_000
"""Into so many, at most, rows without a client are dealt: each then has a row or more."""

MAX_CELLS = 1 << 24
"""Clients times groups of one attribute: each has four counts in memory."""


def read_audit(
    audit: AuditSpec,
    *,
    files: Files,
    progress: Callable[[], None] = lambda: None,
    contents: bool = False,
) -> AuditedRows:
    """The table of an audit. `progress` is called now and then; `contents`: whether its rows are to
    be known again in other files. Raises InvalidInputError naming each field of the audit at fault,
    its column and what to do."""
    source = measuring_spec(audit).federation
    if not isinstance(source, FileSource):
        raise TypeError("an audit reads a file")
    try:
        with open_source(source, files=files) as file:
            progress()
            found = _read(audit, file, progress)
            if contents:
                found = replace(found, contents=row_contents(audit, TableFile(file), progress))
            file.read_fingerprint(progress)
            return found
    except InvalidInputError as error:
        raise InvalidInputError(in_audit(error.errors)) from None


def _read(audit: AuditSpec, file: SourceFile, progress: Callable[[], None]) -> AuditedRows:
    table = TableFile(file)
    faults = Faults()
    for name, where in audit.columns:
        if name not in table.names:
            faults.found.append(FieldError(where, no_column(name, table.names)))
    faults.end()
    every = table.read([name for name, _ in audit.columns])
    progress()
    complete, left_out = _complete(audit, every, faults)
    read, notes = tuple[Attribute, ...](), tuple[str, ...]()
    with faults.noting():
        read, notes = read_sensitive(complete, audit.sensitive, edges=audit.edges)
    attributes, out = _compared(audit, read, faults)
    rows = complete if out is None else complete.where(~out)
    with faults.noting():
        truth = class_levels(rows, audit.truth, positive=None)
    scores = predicted = codes = None
    with faults.noting():
        match audit.prediction_role:
            case "score":
                scores = rows.numbers(audit.predicted_by, "/score")
            case "prediction":
                predicted = rows.levels(audit.predicted_by, "/prediction")
            case _:
                assert_never(audit.prediction_role)
    with faults.noting():
        clients, client_count = _clients(audit, rows)
    faults.end()
    progress()
    if predicted is not None:
        truth, codes = _aligned(audit, truth, predicted)
    federation = with_intersections(
        _federation(audit, rows, truth, attributes=attributes, notes=(*left_out, *notes)),
        audit.fairness.combinations,
    )
    rules = _agreed_rules(audit, federation, faults)
    if scores is not None:
        codes = _by_threshold(audit, federation, rules, scores)
    if codes is None:
        raise ValueError("an audit names a prediction or a score")
    return _checked(
        AuditedRows(
            audit=audit,
            federation=federation,
            rules=rules,
            predicted=codes,
            scores=scores,
            clients=clients,
            client_count=client_count,
            left_out=len(every) - len(complete),
            rows_of_table=len(every),
        )
    )


def _agreed_rules(audit: AuditSpec, federation: Federation, faults: Faults) -> OutcomeRules:
    faults.found += federation_label_faults(audit.labels, federation)
    faults.found += reference_faults(audit.fairness, federation)
    with faults.noting():
        rules = agreed_rules(federation, audit.fairness, new=True)
    faults.end()
    return rules


def _complete(
    audit: AuditSpec, rows: TableRows, faults: Faults
) -> tuple[TableRows, tuple[str, ...]]:
    kept, notes = np.ones(len(rows), dtype=np.bool_), []
    for name, where in audit.columns[: 2 if audit.client_key is None else 3]:
        empty = np.zeros(0, dtype=np.bool_)
        with faults.noting():
            empty = rows.empty(name, where)
        if not empty.any():
            continue
        if audit.missing == "drop-row":
            notes.append(f"rows without a value of {name!r}, left out: {(empty & kept).sum()}")
            kept &= ~empty
            continue
        first = int(rows.row_numbers[int(np.argmax(empty))])
        faults.found.append(
            FieldError(
                where,
                f"{name!r} is empty in {int(empty.sum())} rows, the first of them row {first}; "
                "fill the gaps, or leave such rows out by `missing: drop-row`, which counts them",
            )
        )
    faults.end()
    if not kept.any():
        raise error_at("/missing", "no row has truth, prediction and client; audit another file")
    return rows if kept.all() else rows.where(kept), tuple(notes)


def _compared(
    audit: AuditSpec, read: tuple[Attribute, ...], faults: Faults
) -> tuple[tuple[Attribute, ...], Bools | None]:
    """The attributes of the rows that figures count, and which rows [rows] no figure counts."""
    found: tuple[Attribute, ...] = ()
    with faults.noting():
        found = compared(read, audit.fairness)
    out = left_out_rows(found, audit.fairness)
    if out is None:
        return found, None
    if out.all():
        raise error_at("/exclude", "leaves no row to audit; leave fewer values out")
    return tuple(one.of_rows(~out) for one in found), out


def _aligned(audit: AuditSpec, truth: Levels, predicted: Levels) -> tuple[Levels, Ints]:
    """The truth's classes and the predicted one of each row, as text or as numbers alike."""
    places = find_classes(truth.values, list(predicted.values))
    unknown = [value for value, place in zip(predicted.values, places, strict=True) if place < 0]
    if unknown:
        few = len(truth.values) == 2
        if few or len(unknown) == len(places) or len(unknown) + len(truth.values) > MAX_CLASSES:
            raise error_at(
                "/prediction",
                f"{audit.predicted_by!r} has values that the truth {audit.truth!r} never has: "
                f"{listed_values(unknown)}, where the truth has {listed_values(truth.values)}; "
                "write both in the same values"
                + (", or name a score by `score` with a `threshold`" if few else ""),
            )
        # One of several outcomes that was predicted, and never came about.
        truth = Levels((*truth.values, *unknown), truth.codes)
        places = find_classes(truth.values, list(predicted.values))
    return truth, np.array(places, dtype=np.int64)[predicted.codes]


def _clients(audit: AuditSpec, rows: TableRows) -> tuple[Ints, int | None]:
    if audit.client_key is None:
        order = np.random.default_rng(audit.seed).permutation(len(rows))
        found = np.empty(len(rows), dtype=np.int64)
        found[order] = np.arange(len(rows)) % BUNDLES
        return found, None
    levels = rows.levels(audit.client_key, "/client_key")
    count = len(levels.values)
    if count == len(rows) and count > 1:
        raise error_at(
            "/client_key",
            f"{audit.client_key!r} is different in every one of the {count} rows; name the column "
            "that identifies clients, or leave this out",
        )
    return levels.codes, count


def _federation(
    audit: AuditSpec,
    rows: TableRows,
    truth: Levels,
    *,
    attributes: tuple[Attribute, ...],
    notes: tuple[str, ...],
) -> Federation:
    target = truth.codes
    return Federation(
        features=np.zeros((len(rows), 0), dtype=np.float32),
        target=target.astype(np.float32),
        raw_target=target.astype(np.float64),
        first=np.array([0, len(rows)]),
        client_names=("",),
        feature_names=(),
        target_name=audit.truth,
        target_scale=1.0,
        classes=truth.values,
        attributes=attributes,
        fingerprint=rows.source.fingerprint,
        notes=notes,
        row_numbers=rows.row_numbers,
    )


def _by_threshold(
    audit: AuditSpec, federation: Federation, rules: OutcomeRules, scores: Floats
) -> Ints:
    """The predicted class: the favourable one of two from the threshold up."""
    if len(federation.classes) != 2:
        raise error_at(
            "/score",
            f"a score decides between two outcomes, not {listed_values(federation.classes)}; name "
            "a column of predictions, or audit another truth",
        )
    if audit.threshold is None:
        raise ValueError("a score comes with a threshold")
    return predicted_from(rules, scores, threshold=audit.threshold)


def _checked(rows: AuditedRows) -> AuditedRows:
    groups = max(len(values) for values in rows.groups.values())
    if (rows.client_count or 0) * groups > MAX_CELLS:
        raise error_at(
            "/client_key",
            f"{rows.client_count} clients by {groups} groups are more than {MAX_CELLS} cells; "
            "bring values into fewer groups, or name a column with fewer clients",
        )
    population, least = rows.scored.population, rows.audit.minimum_group_size
    largest = {name: int(population.sizes(name).max(initial=0)) for name in rows.groups}
    if not len(population.clients):
        raise error_at("/favourable", "no rule says of any row which outcome is favourable")
    if max(largest.values()) < least:
        raise error_at(
            "/minimum_group_size",
            f"no group of {listed(tuple(rows.audit.sensitive))} has {least} rows; audit more rows, "
            "or bring values into fewer groups (numbers by `edges`)",
        )
    return rows
