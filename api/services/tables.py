"""Long tables of an experiment: read in pages, or exported whole.

A stored row gives one line or many. A position in the table is the key of the last row that was
read completely, and the number of lines read of the next row; rows are only ever appended in the
order of their keys, so a position stays valid.
"""

import csv
import io
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice, pairwise
from math import ceil
from typing import Any, Generic, Literal, TypeVar, assert_never

import numpy as np
import orjson
from pydantic import BaseModel
from sqlalchemy.orm import Session
from starlette.responses import Response

from api.http.answers import as_file
from api.schemas.experiment_tables import (
    FairnessFilters,
    FairnessLine,
    LedgerFilters,
    LedgerLine,
    RoundBody,
)
from fedaudit.fairness.gaps import group_rates
from fedaudit.ledger.columns import LedgerColumns, columns_of_rows, ledger_columns
from fedaudit.spec.metrics import COUNTS, RATES
from fedaudit.spreadsheet import plain_text
from fedaudit.stored import FairnessRow, LedgerRow, RoundRow
from models.database import Database
from models.repositories import FairnessRepository, LedgerRepository, RoundRepository

Row = TypeVar("Row")
Key = tuple[Any, ...]
Line = dict[str, Any]
Position = tuple[Key | None, int]
Form = Literal["csv", "ndjson", "parquet"]
What = Literal["privacy-ledger", "rounds", "fairness"]

BEGINNING: Position = (None, 0)
MEDIA_TYPES: dict[Form, str] = {
    "csv": "text/csv",
    "ndjson": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
_FIRST_ROWS, _MAX_ROWS = 16, 1024
_LINES_A_BLOCK = 50_000
"""Approximate lines of an export's block, however many a row has: that bounds its memory."""
_LINES_AT_ONCE = 5000
_MAX_ROWS_A_PAGE = 20_000
"""A page that finds little, as for a client that seldom took part, ends here and continues by
cursor."""


@dataclass(frozen=True)
class LinesByRow:
    """Lines that were made row by row; they are asked as columns of a ledger are."""

    rows: Sequence[Sequence[Line]]

    @property
    def counts(self) -> Iterable[int]:
        return map(len, self.rows)

    def __len__(self) -> int:
        return sum(self.counts)

    def lines(self, begin: int = 0, end: int | None = None) -> Iterable[Line]:
        return islice(chain.from_iterable(self.rows), begin, end)


Lines = LinesByRow | LedgerColumns
"""What callers see of some stored rows."""


@dataclass(frozen=True, kw_only=True)
class Table(Generic[Row]):
    """A table of one experiment or declared ledger."""

    what: What
    owner_id: str
    body: type[BaseModel]
    """Its fields are a line's values."""
    rows: Callable[[Session, Key | None, int], list[Row]]
    """At most so many stored rows after a key, in the order of their keys."""
    key: Callable[[Row], Key]
    lines: Callable[[Sequence[Row]], Lines]
    """What callers see of some rows."""
    lines_a_row: int | None = None
    """How many lines a stored row has; None where the first rows show it."""
    salt: bytes | None = None
    """The key of the digests of a ledger's entries."""


@dataclass(frozen=True)
class LinePage(Generic[Row]):
    """Some lines, the stored rows that begin among them, and where the next page begins."""

    lines: list[Line]
    begun: list[Row]
    next: Position | None


def read_page(table: Table[Row], session: Session, *, start: Position, limit: int) -> LinePage[Row]:
    """At most `limit` lines from a position on."""
    after, skip = start
    lines: list[Line] = []
    begun: list[Row] = []
    known, read = table.lines_a_row, 0
    size = _FIRST_ROWS if known is None else _rows_for(limit + skip, known)
    while read < _MAX_ROWS_A_PAGE:
        rows = table.rows(session, after, size)
        found = table.lines(rows)
        # Where the lines of each row begin, and behind the last where they end.
        begins = list(accumulate(map(int, found.counts), initial=0))
        end = min(skip + limit - len(lines), begins[-1])
        lines += found.lines(skip, end)
        begun += [
            row
            for row, (first, stop) in zip(rows, pairwise(begins), strict=True)
            if skip <= first < min(stop, end)
        ]
        if end < begins[-1]:
            place = bisect_right(begins, end) - 1
            before = table.key(rows[place - 1]) if place else after
            return LinePage(lines, begun, (before, end - begins[place]))
        if len(rows) < size:
            return LinePage(lines, begun, None)
        after, skip, read = table.key(rows[-1]), 0, read + size
        size = _rows_for(limit - len(lines), begins[-1] / len(rows))
    return LinePage(lines, begun, (after, skip))


def _rows_for(lines: int, lines_a_row: float) -> int:
    """So many rows that probably one line more is among theirs, which shows that there are more."""
    needed = (lines + 1) / max(lines_a_row, 1 / _MAX_ROWS)
    return min(_MAX_ROWS, max(_FIRST_ROWS, ceil(needed)))


def _read_all(table: Table[Row], database: Database) -> Iterator[Lines]:
    """Every line, in blocks, each read by a short transaction. The rows of a block are as many as
    have about `_LINES_A_BLOCK` lines."""
    after: Key | None = None
    size = _FIRST_ROWS
    while True:
        with database.read() as session:
            rows = table.rows(session, after, size)
        if rows:
            block = table.lines(rows)
            yield block
        if len(rows) < size:
            return
        lines_a_row = -(-len(block) // len(rows))
        after = table.key(rows[-1])
        size = min(_MAX_ROWS, max(1, _LINES_A_BLOCK // max(1, lines_a_row)))


_NOT_RECORDED = "the round was stored by a version that did not record it"


def round_table(project_id: str, experiment_id: str) -> Table[RoundRow]:
    """The rounds of one experiment: one line each."""

    def rows(session: Session, after: Key | None, limit: int) -> list[RoundRow]:
        round_ = 0 if after is None else after[0]
        return RoundRepository(session, project_id).after(experiment_id, round_, limit)

    return Table(
        what="rounds",
        owner_id=experiment_id,
        body=RoundBody,
        rows=rows,
        key=lambda row: (row.round,),
        lines=lambda rows: LinesByRow([[_round_line(row)] for row in rows]),
        lines_a_row=1,
    )


def _round_line(row: RoundRow) -> Line:
    found = dict(row.reasons)
    found.pop("plane", None)  # a figure of earlier versions
    if row.leakage_by_cluster is None:
        found.setdefault("leakage_by_cluster", _NOT_RECORDED)
    return {name: getattr(row, name) for name in RoundBody.model_fields} | {"reasons": found}


def fairness_table(
    project_id: str, experiment_id: str, filters: FairnessFilters
) -> Table[FairnessRow]:
    """The fairness figures of one experiment: a line for each metric."""

    def rows(session: Session, after: Key | None, limit: int) -> list[FairnessRow]:
        round_, attribute = after or (0, None)
        return FairnessRepository(session, project_id).after(
            experiment_id, round_, limit, attribute=filters.attribute, after_attribute=attribute
        )

    return Table(
        what="fairness",
        owner_id=experiment_id,
        body=FairnessLine,
        rows=rows,
        key=lambda row: (row.round, row.attribute),
        lines=lambda rows: LinesByRow([_gap_lines(row) for row in rows]),
    )


def _gap_lines(row: FairnessRow) -> list[Line]:
    why = "intervals are computed once, for the report"
    common = {"interval": None, "interval_reason": why}
    place = {"round": row.round, "attribute": row.attribute}
    return [
        {**place, **{name: figure[name] for name in ("metric", "value", "reason")}, **common}
        for figure in row.figures
    ]


def group_lines(row: FairnessRow, attributes: Mapping[str, Sequence[str]]) -> list[Line]:
    """The counts and rates of each group, of groups of any size: for confidential use. Empty where
    no favourable outcome was declared, so that nothing was counted."""
    counts = np.asarray(row.counts, dtype=np.int64).reshape(-1, 4)
    if not len(counts):
        return []
    rates = group_rates(counts).T.tolist()
    lines = []
    groups = zip(attributes[row.attribute], counts.tolist(), rates, strict=True)
    for group, numbers, measured in groups:
        shown: Line = {
            name: None if np.isnan(rate) else rate
            for name, rate in zip(RATES, measured, strict=True)
        }
        line: Line = {
            "round": row.round,
            "attribute": row.attribute,
            "value": group,
            "count": sum(numbers),
        }
        line |= dict(zip(COUNTS, numbers, strict=True)) | shown
        undefined = [name for name, rate in shown.items() if rate is None]
        line["reasons"] = {name: RATES[name].why_undefined for name in undefined}
        lines.append(line)
    return lines


LedgerTable = Table[LedgerRow]


def ledger_table(
    project_id: str,
    owner_id: str,
    names: Sequence[str],
    filters: LedgerFilters,
    *,
    salt: bytes | None = None,
) -> LedgerTable:
    """The packed ledger of one experiment or declared ledger, or the part that the filters select,
    one line per subject: the figures of the view `privacy_ledger`. `names`: the subjects' keys by
    index."""
    client, rounds = filters.client, (filters.round_from, filters.round_to)
    subject = names.index(client) if client is not None and client in names else None

    def rows(session: Session, after: Key | None, limit: int) -> list[LedgerRow]:
        stored = LedgerRepository(session, project_id)
        if client is None:
            return stored.rows_after(owner_id, *rounds, after=after, limit=limit)
        if subject is None:
            return []  # there is no such subject
        return stored.history(owner_id, subject, *rounds, after=after, limit=limit)

    return Table(
        what="privacy-ledger",
        owner_id=owner_id,
        body=LedgerLine,
        rows=rows,
        key=lambda row: row.key,
        lines=lambda rows: ledger_columns(columns_of_rows(rows), names, subject=subject),
        lines_a_row=None if client is None else 1,
        salt=salt,
    )


def page_reasons(lines: Sequence[Line], *, salt: bytes | None) -> dict[str, str]:
    """Why there is no salt, and why the fields that give an epsilon its meaning are null in the
    lines of a page; empty if they are not. Stated once a page: within an experiment it is the same
    for every line."""
    reasons = {}
    if salt is None:
        reasons["salt"] = (
            "the digests are not keyed: the noise is simulated, the run or ledger began "
            "before it could have a salt, or the salt was erased with the clients' names"
        )
    for name in ("delta", "adjacency"):
        if any(line[name] is None for line in lines):
            reasons[name] = (
                "the cost is no epsilon with a delta: of metric privacy it is counted as leakage, "
                "and without noise nothing bounds it"
            )
    return reasons


def export(table: Table[Row], database: Database, form: Form) -> Response:
    """Every line of a table as a file that is sent while it is read; a null is an empty cell in
    CSV."""
    blocks = _read_all(table, database)
    match form:
        case "csv":
            encoded = _csv((block.lines() for block in blocks), tuple(table.body.model_fields))
        case "ndjson":
            encoded = _ndjson(block.lines() for block in blocks)
        case "parquet":
            from api.services.parquet_tables import parquet

            columns = (one if isinstance(one, LedgerColumns) else [*one.lines()] for one in blocks)
            encoded = parquet(columns, what=table.what)
        case _:
            assert_never(form)
    return as_file(encoded, f"{table.owner_id}-{table.what}.{form}", MEDIA_TYPES[form])


def _ndjson(blocks: Iterable[Iterable[Line]]) -> Iterator[bytes]:
    """Lines have their fields in the order of the table's columns already."""
    for block in blocks:
        lines = iter(block)
        while some := [
            orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
            for line in islice(lines, _LINES_AT_ONCE)
        ]:
            yield b"".join(some)


def _csv(blocks: Iterable[Iterable[Line]], columns: Sequence[str]) -> Iterator[bytes]:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    for block in blocks:
        writer.writerows([_cell(line[name]) for name in columns] for line in block)
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    yield text.getvalue().encode()


def _cell(value: Any) -> Any:
    """Lists and objects as JSON; floats as the shortest text that reads back as the same."""
    if isinstance(value, str):
        return plain_text(value)
    return json.dumps(value) if isinstance(value, list | dict) else value
