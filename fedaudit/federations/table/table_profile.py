"""The profile of a table of any size, in one pass, with the same checks as loading it."""

from collections.abc import Iterator
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import DisclosureRule, size_rule
from fedaudit.federations.errors import error_at
from fedaudit.federations.federation import memory_fault
from fedaudit.federations.groups import MAX_GROUPS, between_edges, group_names
from fedaudit.federations.levels import levels_of
from fedaudit.federations.profiles.giveaways import RowSample, giveaways
from fedaudit.federations.profiles.profile import (
    NUMERIC_TARGET,
    AttributeCounts,
    Warnings,
    attribute_figures,
    class_figures,
    spread,
)
from fedaudit.federations.profiles.tallies import (
    ClientTally,
    GroupTally,
    Positions,
    TargetFound,
    TargetPass,
)
from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.source_kind import LoadRequest
from fedaudit.federations.table.columns import Columns, find_columns
from fedaudit.federations.table.features import check_features, check_table_scales
from fedaudit.federations.table.kept_rows import RequiredCells, complete_rows, prepared_rows
from fedaudit.spec.errors import pointer
from fedaudit.spec.fairness import Groups
from fedaudit.spec.table import Dealt, Dirichlet, Iid, Shards, Table


class TablePass:
    """What a table holds, counted batch by batch; memory for clients, groups and classes only."""

    def __init__(self, source: Table, columns: Columns, fairness: Groups) -> None:
        self._source = source
        self._columns = columns
        self._edges = fairness.edges
        key = columns.client_key
        self.required = RequiredCells(source, columns)
        self.clients = None if key is None else ClientTally(key.name, key.where)
        self.target = TargetPass(source, fairness)
        self.sample = RowSample([source.target, *(one.name for one in columns.features)])
        self.rows = 0
        """Rows that are kept."""
        self.left_out = 0
        """Rows with a gap in a feature whose rule omits such rows."""
        self.missing: dict[str, int] = {}
        """Empty cells of each column that may have some."""
        self._tallies = {name: GroupTally() for name in columns.sensitive}
        self._positions = {name: Positions() for name in columns.sensitive}

    def add(self, rows: TableRows) -> None:
        """Check and count rows. Raises InvalidInputError naming column and row."""
        rows = self.required.kept(rows)
        if not len(rows):
            return
        clients = None
        if self.clients is not None:
            values, codes = rows.encoded(self.clients.name, self.clients.where)
            clients = self.clients.number(values, codes)
        kept, empty = complete_rows(rows, self._columns.features)
        for name, count in empty.items():
            self.missing[name] = self.missing.get(name, 0) + count
        if not kept.all():
            rows = rows.where(kept)
            clients = None if clients is None else clients[kept]
        self.rows += len(rows)
        self.left_out += len(kept) - len(rows)
        if not len(rows):
            return
        check_features(rows, self._columns.features, scales=self._source.scale)
        self.sample.add(rows)
        if self.clients is not None and clients is not None:
            self.clients.add(clients)
        groups = {
            name: self._groups(rows, name, place)
            for place, name in enumerate(self._columns.sensitive)
        }
        scored, favourable = self.target.outcomes(rows, groups)
        for name, (names, of_row) in groups.items():
            places = np.append(self._positions[name].of(names), -1)  # the last entry: no group
            self._tallies[name].add(places[of_row], clients, scored=scored, favourable=favourable)

    def attributes(self, file: SourceFile) -> tuple[TargetFound, list[AttributeCounts]]:
        """The target and the attributes after the last row. Raises InvalidInputError."""
        values = {name: self._values(name) for name in self._columns.sensitive}
        target = self.target.found(file, {name: found[0] for name, found in values.items()})
        counts = []
        for place, (name, (names, order)) in enumerate(values.items()):
            tally, where = self._tallies[name], pointer("fairness", "sensitive", place)
            if tally.missing == self.rows:
                raise error_at(where, f"{name!r} is empty in every row; name another column")
            rows, scored, favourable = (found[order] for found in tally.counts(len(names)))
            counts.append(
                AttributeCounts(
                    name=name,
                    where=where,
                    constant=tally.constant,
                    values=names,
                    rows=rows,
                    missing=tally.missing,
                    scored=scored,
                    favourable=scored - favourable if target.positive_flipped else favourable,
                    no_rule=target.no_rule,
                )
            )
            if tally.missing:
                self.missing[name] = tally.missing
        return target, counts

    def _groups(
        self, rows: TableRows, name: str, place: int
    ) -> tuple[list[str], NDArray[np.int64]]:
        """The groups of an attribute in these rows, and each row's index among them."""
        edges = self._edges.get(name)
        if edges is None:
            where = pointer("fairness", "sensitive", place)
            values, codes = rows.encoded(name, where)
            if len(self._positions[name]) + len(values) > MAX_GROUPS:
                self._check_groups(name, values, where)
            gaps = np.array([value == "" for value in values], dtype=np.bool_)
            return values, np.where(gaps[codes], -1, codes)
        where = pointer("fairness", "edges", name)
        levels = between_edges(rows.numbers(name, where, missing_allowed=True), edges)
        return list(levels.values), levels.codes

    def _check_groups(self, name: str, values: list[str], where: str) -> None:
        self._positions[name].of(values)
        if len(self._positions[name]) > MAX_GROUPS:
            raise error_at(
                where,
                f"{name!r} has more than {MAX_GROUPS} distinct values, and so many groups are "
                "allowed; bring them into fewer groups, numbers by `edges`",
            )

    def _values(self, name: str) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """The groups of an attribute in their order, and the index of each in its tally."""
        seen = self._positions[name].values
        if name in self._edges:
            return group_names(self._edges[name]), np.arange(len(seen))
        levels = levels_of(seen, np.arange(len(seen)), numeric=True)
        return levels.values, np.argsort(levels.codes)


_MAX_NAMED_CLASSES = 100
_ALWAYS_NAMED_CLASSES = 20
_ROWS_PER_NAMED_CLASS = 10
_BY_SEED = "how many rows a client gets depends on the experiment's seed"


def profile_table(source: Table, file: SourceFile, asked: LoadRequest) -> dict[str, Any]:
    """Sizes and names as JSON; small groups are suppressed. Raises InvalidInputError with the same
    message as loading the data."""
    table, fairness = TableFile(file, header=source.header), asked.fairness
    columns = find_columns(source, table.names, fairness.sensitive)
    check_table_scales(source, columns, classes=source.positive is not None)
    found = TablePass(source, columns, fairness)
    for rows in table.batches(list(columns.fields)):
        found.add(prepared_rows(rows, columns, source))
        asked.progress()
    profile = _figures(found, source, columns, file, size_rule(fairness))
    profile["notes"] += [table.note] if table.note else []
    # An experiment would be refused that needs more memory than is allowed.
    fault = memory_fault(
        rows=found.rows,
        features=columns.width,
        attributes=len(columns.sensitive),
        allowed=asked.files.room.memory_bytes,
    )
    for one in () if fault is None else fault.errors:
        profile["warnings"].append({"pointer": one.pointer, "message": one.message})
    return profile


def _figures(
    found: TablePass, source: Table, columns: Columns, file: SourceFile, rule: DisclosureRule
) -> dict[str, Any]:
    found.required.check_rows_left(found.rows)
    if not found.rows:
        raise error_at(
            "/federation/features",
            "every row has an empty cell in a feature whose rule is `drop-row`; leave that column "
            "out, or fill its gaps with `constant`",
        )
    clients = _clients(found, source)
    target, counts = found.attributes(file)
    balance, warnings, reasons = _balance(target, source.target, rule)
    warnings += _giveaways(found, source, columns, classes=bool(target.classes))
    attributes: dict[str, Any] = {}
    for attribute in counts:
        attributes[attribute.name], small = attribute_figures(attribute, rule)
        warnings += small
    if clients["rows_per_client"]["minimum"] is None:
        reasons["rows_per_client"] = _BY_SEED
    return {
        "rows": found.rows,
        **clients,
        "features": list(columns.feature_names),
        "target": source.target,
        "classes": [] if "classes" in reasons else list(target.classes),
        "class_balance": balance,
        "missing": found.missing,
        "attributes": attributes,
        "warnings": warnings,
        "notes": _notes(found, source),
        "reasons": reasons,
    }


def _giveaways(
    found: TablePass, source: Table, columns: Columns, *, classes: bool
) -> Iterator[dict[str, str]]:
    """A warning of each feature that may be the outcome; only readers of the data see profiles."""
    asked = [one for one in columns.features if not source.is_leak_reviewed(one.name)]
    known = giveaways(found.sample, source.target, [one.name for one in asked], classes=classes)
    for one in asked:
        if one.name in known:
            message = (
                f"{one.name!r} alone predicts {source.target!r} almost without error: where it is "
                "the outcome in other words, or known only after it, leave it out of `features`; "
                "otherwise list it under `leak_reviewed`"
            )
            yield {"pointer": one.where, "message": message}


def _clients(found: TablePass, source: Table) -> dict[str, Any]:
    """`clients` and `rows_per_client`."""
    if found.clients is not None:
        rows = found.clients.rows()
        if len(rows) < 2:
            raise error_at(
                found.clients.where,
                "every row belongs to one client; a federation needs at least two, so name a "
                "column that identifies clients",
            )
        return {"clients": len(rows), "rows_per_client": spread(rows)}
    if source.dealt is None:
        raise ValueError("a table without a client key is partitioned")
    return _dealt(source.dealt, found.rows)


def _dealt(partition: Dealt, rows: int) -> dict[str, Any]:
    clients = partition.clients
    if clients > rows:
        raise error_at(
            "/federation/partition/clients",
            f"{clients} clients are more than the {rows} rows; ask for fewer",
        )
    match partition:
        case Iid():
            even = np.full(clients, rows // clients)
            even[: rows % clients] += 1
            return {"clients": clients, "rows_per_client": spread(even)}
        case Dirichlet() | Shards():
            unknown = dict.fromkeys(("minimum", "median", "maximum"))
            return {"clients": clients, "rows_per_client": unknown}
        case _:
            assert_never(partition)


def _balance(
    target: TargetFound, name: str, rule: DisclosureRule
) -> tuple[dict[str, int | None] | None, Warnings, dict[str, str]]:
    """Rows per class if there are classes, else the reason.

    If classes are many relative to their rows, they are not even named: they may be measurements
    that were not recognised as numbers because of one non-numeric cell.
    """
    if not target.classes:
        return None, [], {"class_balance": NUMERIC_TARGET}
    most = max(_ALWAYS_NAMED_CLASSES, int(target.rows.sum()) // _ROWS_PER_NAMED_CLASS)
    if len(target.classes) > min(most, _MAX_NAMED_CLASSES):
        why = f"there are {len(target.classes)} classes, too many to be named"
        return None, [], {"classes": why, "class_balance": why}
    balance, warnings = class_figures(name, target.classes, target.rows, rule)
    return balance, warnings, {}


def _notes(found: TablePass, source: Table) -> list[str]:
    notes = list(found.required.notes)
    if found.left_out:
        notes.append(f"rows with an empty cell that leaves them out: {found.left_out}")
    if found.clients is None and source.partition is not None:
        notes.append(f"rows are dealt to clients by each experiment ({source.partition.method})")
    elif found.clients is not None and found.clients.without_rows:
        notes.append(f"clients without a row, left out: {found.clients.without_rows}")
    return notes
