"""A table with features and a target, as a federation; and its profile: that of its outline, and
what only its cells show.

An outline is the same without the cells of its features, for a plan: they are checked column by
column, gathered on disk, so that it takes memory for the rows alone.

Rows that name no client are assigned to clients by the experiment's seed. Everything is drawn by
counter from (seed, PARTITION), so the same seed assigns the same rows to the same clients on any
machine, except for the last bit of logarithms in Dirichlet shares.
"""

import errno
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, assert_never

import numpy as np

from fedaudit.arrays import Floats, Ints
from fedaudit.federations.federation import Federation, run_bytes
from fedaudit.federations.groups import read_sensitive
from fedaudit.federations.levels import MAX_CLASSES, Levels
from fedaudit.federations.mapped import check_clients, check_scales, loading_folder, pack
from fedaudit.federations.profiles.profile import RowSample, giveaways, profile
from fedaudit.federations.reading.source_files import SourceFile, open_source
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows, class_levels, gathered_rows
from fedaudit.federations.record_keys import joined_cells, keys_of_contents, smallest_row_hashes
from fedaudit.federations.source_kind import LoadRequest, SourceKind, check_fingerprint
from fedaudit.federations.table.columns import BUDGETS, Columns, FeatureColumn, find_columns
from fedaudit.federations.table.features import (
    CellCounts,
    encoded_cells,
    read_features,
    standardiser,
    with_gaps,
)
from fedaudit.federations.table.kept_rows import KeptRows
from fedaudit.randomness import CounterSource, Purpose, normals, permutation, uniforms
from fedaudit.spec.errors import Faults, FieldError, error_at
from fedaudit.spec.fairness import Groups, Rule
from fedaudit.spec.labels import number_in
from fedaudit.spec.sources import Range
from fedaudit.spec.table import Dealt, Dirichlet, Iid, Shards, Table, centred

_PARTITION = "/federation/partition"
MAX_SHARES = 2**24
"""Classes times clients of a Dirichlet partition."""
_NAME_DIGITS = 4
_ATTEMPT_WORDS = 4


def deal_rows(
    partition: Dealt, target: Floats, *, classes: int, seed: int
) -> tuple[Levels, tuple[str, ...]]:
    """A client for each row, and notes on how they were made.

    `target` [rows] holds class indices below `classes`, or numbers where `classes` is 0. Clients
    are called client-0001, client-0002, ...; one that gets no row is left out. Raises
    InvalidInputError below /federation/partition where the rows are too few or the method does
    not fit the target.
    """
    parts, what = partition.clients, "clients"
    if isinstance(partition, Shards):
        parts, what = partition.clients * partition.shards_per_client, "shards"
    if parts > len(target):
        raise error_at(
            f"{_PARTITION}/clients",
            f"{parts} {what} are more than the {len(target)} rows; ask for fewer",
        )
    match partition:
        case Iid():
            # In random order, dealt in turn: client sizes differ by at most one row.
            dealt = np.empty(len(target), dtype=np.int64)
            order = permutation(len(target), seed=seed, purpose=Purpose.PARTITION)
            dealt[order] = np.arange(len(target)) % partition.clients
        case Shards():
            dealt = _by_shards(target, partition, seed=seed)
        case Dirichlet():
            dealt = _by_shares(target, partition, classes=classes, seed=seed)
        case _:
            assert_never(partition)
    present, codes = np.unique(dealt, return_inverse=True)
    # Names sort in numerical order.
    digits = max(_NAME_DIGITS, len(str(partition.clients)))
    names = tuple(f"client-{number + 1:0{digits}}" for number in present.tolist())
    notes = [dealt_note(partition)]
    if empty := partition.clients - len(names):
        notes.append(f"clients without a row, left out: {empty}")
    return Levels(names, codes.astype(np.int64)), tuple(notes)


def dealt_note(partition: Dealt) -> str:
    """How clients were made."""
    return f"rows dealt to {partition.clients} clients by the seed ({partition.method})"


def _by_shards(target: Floats, partition: Shards, *, seed: int) -> Ints:
    """Rows sorted by target (then by row) in shards of equal size, dealt at random."""
    rows, shards = len(target), partition.clients * partition.shards_per_client
    owner = permutation(shards, seed=seed, purpose=Purpose.PARTITION) // partition.shards_per_client
    dealt = np.empty(rows, dtype=np.int64)
    dealt[np.argsort(target, kind="stable")] = owner[np.arange(rows) * shards // rows]
    return dealt


def _by_shares(target: Floats, partition: Dirichlet, *, classes: int, seed: int) -> Ints:
    """Each class separately: its rows in random order, cut by shares from a Dirichlet distribution.

    Cuts are rounded from one random offset per class, so that a client's expected share is exact,
    however few rows a class has.
    """
    if not classes:
        raise error_at(
            f"{_PARTITION}/method",
            "`dirichlet` deals out classes, and the target is a number; use `iid` or `shards`, or "
            "train with `cross-entropy`",
        )
    clients = partition.clients
    if classes * clients > MAX_SHARES:
        raise error_at(
            f"{_PARTITION}/clients",
            f"{clients} clients with a share in each of {classes} classes are {classes * clients} "
            f"shares, and {MAX_SHARES} are allowed; ask for fewer clients",
        )
    source = CounterSource(seed)
    order = permutation(len(target), seed=seed, purpose=Purpose.PARTITION)
    order = order[np.argsort(target[order], kind="stable")]
    counts = np.bincount(target.astype(np.int64), minlength=classes)
    words = source.words(purpose=Purpose.PARTITION, round_=1, counters=np.arange(classes), count=1)
    offsets = uniforms(words)[:, 0]
    dealt = np.empty(len(target), dtype=np.int64)
    first = 0
    for index, count in enumerate(counts.tolist()):
        logs = _log_gammas(source, partition.alpha, first=index * clients, count=clients)
        cumulated = np.cumsum(np.exp(logs - logs.max()))
        cuts = np.floor(cumulated / cumulated[-1] * count + offsets[index])
        positions = np.arange(count)
        dealt[order[first : first + count]] = np.searchsorted(cuts, positions, side="right")
        first += count
    return dealt


def _log_gammas(source: CounterSource, alpha: float, *, first: int, count: int) -> Floats:
    """Logarithms of `count` Gamma(alpha, 1) numbers, by rejection (Marsaglia and Tsang 2000).

    Logarithms, because for a small alpha the numbers themselves are too small for a float:
    Gamma(alpha) is Gamma(alpha + 1) * U ** (1 / alpha). Each attempt reads new words.
    """
    d = alpha + 1 - 1 / 3
    c = 1 / np.sqrt(9 * d)
    found = np.full(count, np.nan)
    waiting = np.arange(count)
    attempt = 0
    while len(waiting):
        words = source.words(
            purpose=Purpose.PARTITION,
            round_=2 + attempt,
            counters=first + waiting,
            count=_ATTEMPT_WORDS,
        )
        x = normals(words[:, :2], np.float64)[:, 0]
        accept, power = uniforms(words[:, 2:]).T
        v = np.maximum((1 + c * x) ** 3, np.finfo(np.float64).tiny)
        taken = np.log(accept) < 0.5 * x * x + d - d * v + d * np.log(v)
        found[waiting[taken]] = (np.log(d * v) + np.log(power) / alpha)[taken]
        waiting = waiting[~taken]
        attempt += 1
    return found


MAX_CLIENTS = 1_000_000
_MAX_WHOLE_NUMBERS = 100
_ROWS_PER_WHOLE_NUMBER = 10
_TWO = 2
_SAMPLED_AT_ONCE = 2**16
_BY_SEED = "how many rows a client gets depends on the experiment's seed"


def is_classified(source: Table, table: TableFile, fairness: Groups) -> bool:
    """Whether a profile treats the target as classes; for a training run its model decides.

    Numbers are treated as classes if there are two of them, or few whole ones that repeat often,
    unless a rule bounds them. Raises InvalidInputError where the column cannot be read.
    """
    favourable = fairness.favourable
    rules = [favourable] if isinstance(favourable, Rule) else favourable or []
    if source.positive is not None or source.target in source.labels:
        return True
    if any(isinstance(rule.value, list) for rule in rules):
        return True
    rows, values = 0, set[str]()
    for part in table.batches([source.target]):
        cells = with_gaps(part, {source.target: _TARGET}, source.missing_values)
        found, codes = cells.encoded(source.target, _TARGET)
        values.update(value for value in found if value)
        rows += len(codes)
        if len(values) > MAX_CLASSES:
            return False
    numbers = [number_in(value) for value in values]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        # A wrong cell among numbers that a rule bounds: the others are measurements.
        return not (rules and known)
    few = len(known) <= min(_MAX_WHOLE_NUMBERS, rows // _ROWS_PER_WHOLE_NUMBER)
    return len(known) <= _TWO or (few and all(number.is_integer() for number in known))


@dataclass(frozen=True, eq=False)
class ReadTable:
    """A table as a federation, and what a profile also needs of it."""

    federation: Federation
    rows: TableRows
    """Those that are kept, in the order of the file."""
    features: tuple[FeatureColumn, ...]
    missing: Mapping[str, int]
    """Empty cells of each feature that has a rule for them."""


def _giveaway_warnings(source: Table, read: ReadTable) -> Iterator[dict[str, str]]:
    """One of each feature that may be the outcome; only readers of the data see profiles."""
    sample = RowSample([source.target, *(one.name for one in read.features)])
    for start in range(0, len(read.rows), _SAMPLED_AT_ONCE):
        sample.add(read.rows.part(start, _SAMPLED_AT_ONCE))
    asked = {one.name: one for one in read.features if not source.is_leak_reviewed(one.name)}
    classes = bool(read.federation.classes)
    for name in giveaways(sample, source.target, list(asked), classes=classes):
        message = (
            f"{name!r} alone predicts {source.target!r} almost without error: where it is the "
            "outcome in other words, or known only after it, leave it out of `features`; "
            "otherwise list it under `leak_reviewed`"
        )
        yield {"pointer": asked[name].where, "message": message}


_TARGET = "/federation/target"


def _read_table(
    source: Table,
    file: SourceFile,
    asked: LoadRequest,
    faults: Faults,
    *,
    folder: Path,
    outline: bool,
) -> ReadTable:
    """Run `read_table`; what memory should not hold goes to `folder`. Raises InvalidInputError
    where there is a fault, after noting those of every column."""
    table = TableFile(file, header=source.header)
    columns = find_columns(source, table.names, asked.fairness.sensitive, budgets=asked.budgets)
    with faults.noting():
        check_scales(
            source.scale,
            features=[one.name for one in columns.features],
            one_hot=[one.name for one in columns.features if one.one_hot],
            target=source.target,
            classes=asked.classification,
        )
    if source.positive is not None and not asked.classification:
        message = (
            "a target that is a number has no positive class; leave it out, or train with "
            "`cross-entropy`"
        )
        faults.found.append(FieldError("/federation/positive", message))
    _check_memory(asked, columns, table.rows or 0, more=False)
    used = KeptRows(source, columns, faults)
    parts = used.parts(table, partial(_check_memory, asked, columns))
    rows = gathered_rows(parts, folder)
    if not faults.found:
        with faults.noting():
            return _grouped(source, asked, columns, used, rows, folder=folder, outline=outline)
    if not asked.classification:
        with faults.noting():
            rows.numbers(source.target, _TARGET)
    with faults.noting():
        read_sensitive(rows, asked.fairness.sensitive, edges=asked.fairness.edges)
    with faults.noting():
        _budgets(rows, asked.budgets)
    for one in columns.features:
        with faults.noting():
            encoded_cells(rows, one, CellCounts(), scales=source.scale)
    raise faults.error()


def _grouped(
    source: Table,
    asked: LoadRequest,
    columns: Columns,
    used: KeptRows,
    rows: TableRows,
    *,
    folder: Path,
    outline: bool,
) -> ReadTable:
    """The rows that are kept as a federation."""
    if asked.classification:
        levels = class_levels(rows, source.target, positive=source.positive)
        target, classes = levels.codes.astype(np.float64), levels.values
    else:
        target, classes = rows.numbers(source.target, _TARGET), ()
    if source.dealt is None:
        clients, dealt = _named_clients(columns, rows, used)
    else:
        clients, dealt = deal_rows(source.dealt, target, classes=len(classes), seed=asked.seed)
    check_clients(
        clients, where=_PARTITION if columns.client_key is None else columns.client_key.where
    )
    row_keys = None
    if asked.keyed:
        cells = joined_cells(rows, columns.trained_on)
        row_keys = keys_of_contents(cells, clients.codes, clients.values)
    attributes, missing = read_sensitive(rows, asked.fairness.sensitive, edges=asked.fairness.edges)
    standardise = standardiser(
        source.standardise, clients, source=source, seed=asked.seed, keys=row_keys
    )
    target_scale = source.scale.get(source.target, 1.0)
    assert not isinstance(target_scale, Range)  # `check_scales` refuses it
    features, order, said, filled = read_features(
        rows,
        columns,
        clients,
        scales=centred(source.scale, source.standardise),
        standardise=standardise,
        folder=None if outline else folder,
        progress=asked.progress,
    )
    federation = pack(
        clients,
        features=features,
        feature_names=columns.feature_names,
        target=target,
        target_name=source.target,
        target_scale=target_scale,
        fingerprint=rows.source.fingerprint,
        classes=classes,
        attributes=attributes,
        notes=(*used.notes, *dealt, *missing, *said),
        record_budgets=_budgets(rows, asked.budgets),
        row_numbers=rows.row_numbers,
        record_keys=row_keys,
        order=order,
        is_outline=outline,
        rows_dropped=used.dropped,
    )
    return ReadTable(federation, rows, columns.features, {**used.missing, **filled})


def _check_memory(asked: LoadRequest, columns: Columns, rows: int, *, more: bool = True) -> None:
    """Raises InvalidInputError where a run would need more memory than is allowed for so many rows,
    or `more`."""
    asked.progress()
    features, attributes = columns.width, len(columns.sensitive)
    needed = run_bytes(rows=rows, features=features, attributes=attributes)
    allowed = asked.files.room.memory_bytes
    if needed > allowed:
        raise error_at(
            "/federation/features",
            f"{rows}{' or more' if more else ''} rows of {features} features and {attributes} "
            f"sensitive attributes take about {needed / 2**30:.2f} GiB of memory in a run, and "
            f"{allowed / 2**30:.2f} GiB are allowed (FEDAUDIT_MAX_DATA_MEMORY_BYTES); use fewer "
            "rows or attributes, or raise it where the machine has the memory",
        )


def _named_clients(
    columns: Columns, rows: TableRows, used: KeptRows
) -> tuple[Levels, tuple[str, ...]]:
    """The client of each row, and a note on those without a row.

    Raises InvalidInputError for a key that is different in every row.
    """
    key = columns.client_key
    if key is None:
        raise ValueError("a table without a client key is partitioned")
    clients = rows.levels(key.name, key.where)
    seen = max(len(clients.values), len(used.clients))
    if seen == used.rows > 1:
        raise error_at(
            key.where,
            f"{key.name!r} is different in every one of the {seen} rows, so each client would "
            "have one row; name the column that identifies clients, or deal rows to clients by "
            "`partition`",
        )
    empty = seen - len(clients.values)
    return clients, (f"clients without a row, left out: {empty}",) * bool(empty)


def _budgets(rows: TableRows, name: str | None) -> Floats | None:
    """The privacy budget of each row. Raises InvalidInputError for the first invalid one."""
    if name is None:
        return None
    found = rows.numbers(name, BUDGETS)
    problem = "is no budget: it is not above 0"
    remedy = "give every record a positive epsilon, or take out records that may not be used"
    rows.refuse(found <= 0, name, BUDGETS, problem, remedy)
    return found


MAX_FAULTS = 25
"""As many faults of a table are raised together."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def read_table(
    source: Table,
    file: SourceFile,
    asked: LoadRequest,
    known: Faults | None = None,
    *,
    outline: bool = False,
) -> ReadTable:
    """The federation in a table: rows grouped by the client key, or dealt to clients.

    Rows are left out for a missing client, target or feature first, then dealt to clients by the
    seed. Text cells are trimmed; an empty cell of a sensitive attribute is a missing value, one of
    the client key or the target an error unless the spec leaves such rows out. Columns that memory
    should not hold, and large features, are in mapped files. Raises InvalidInputError naming field,
    column and row of every fault that the rows show, those `known` before among them, or the disk
    where that is full.
    """
    faults = known or Faults()
    try:
        with loading_folder(asked.files.room.scratch_dir) as folder, faults.noting():
            return _read_table(source, file, asked, faults, folder=folder, outline=outline)
    except OSError as error:
        if error.errno in _FULL:
            raise file.fault(
                "takes more room than is left on the disk where the service lays out data; name "
                "fewer features, or free some of it"
            ) from None
        raise
    raise faults.error(MAX_FAULTS)


class TableKind(SourceKind[Table]):
    """A table with features and a target."""

    def load(self, asked: LoadRequest) -> Federation:
        """Rows grouped by the client key, or dealt to clients by the seed.

        Raises InvalidInputError.
        """
        with open_source(self._source, files=asked.files) as file:
            return read_table(self._source, file, asked).federation

    def outline(self, asked: LoadRequest) -> Federation:
        """Load without the cells of features. Raises InvalidInputError."""
        with open_source(self._source, files=asked.files) as file:
            return read_table(self._source, file, asked, outline=True).federation

    def profile(self, asked: LoadRequest, fingerprint: str | None) -> dict[str, Any]:
        """That of the outline of all rows, with its gaps and the columns that give the outcome
        away: without statistics of the data, and with rows dealt out evenly where a seed deals them
        out unevenly."""
        partition = self._source.partition
        if isinstance(partition, Dirichlet | Shards):
            partition = Iid(method="iid", clients=partition.clients)
        source = self._source.model_copy(update={"standardise": None, "partition": partition})
        with open_source(self._source, files=asked.files) as file:
            check_fingerprint(file.read_fingerprint(asked.progress), fingerprint)
            table = TableFile(file, header=source.header)
            find_columns(source, table.names, asked.fairness.sensitive)
            # Only a number has a scale, where the target cannot be read.
            faults, classes = Faults(), source.target not in source.scale
            with faults.noting():
                classes = is_classified(source, table, asked.fairness)
            asked = replace(asked, classification=classes)
            read = read_table(source, file, asked, faults, outline=True)
        federation = read.federation
        if federation.clients > MAX_CLIENTS:
            message = (
                f"there are {federation.clients} clients, and {MAX_CLIENTS} are allowed; name "
                "another column"
            )
            raise error_at("/federation/client_key", message)
        figures = profile(federation, asked.fairness)
        figures["warnings"] += _giveaway_warnings(source, read)
        without = {one.name: np.count_nonzero(one.codes < 0) for one in federation.attributes}
        figures["missing"] = {**read.missing, **{name: int(n) for name, n in without.items() if n}}
        if (dealt := self._source.dealt) is not None:
            note = dealt_note(source.dealt or dealt)
            by_each = f"rows are dealt to clients by each experiment ({dealt.method})"
            figures["notes"] = [by_each if one == note else one for one in figures["notes"]]
            for attribute in figures["attributes"].values():
                attribute["of"] = "record"
            if not isinstance(dealt, Iid):
                figures["rows_per_client"] = dict.fromkeys(figures["rows_per_client"])
                figures["reasons"]["rows_per_client"] = _BY_SEED
        figures["notes"] += [table.note] if table.note else []
        return figures

    def row_hashes(self, asked: LoadRequest, *, keep: int) -> Ints:
        """Hash all columns, whichever the registration names."""
        with open_source(self._source, files=asked.files) as file:
            return smallest_row_hashes(file, asked, header=self._source.header, keep=keep)
