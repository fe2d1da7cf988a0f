"""A whole table as a file that is sent while it is read."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal, TypeVar, assert_never

import orjson
from starlette.responses import StreamingResponse

from api.services.tables.ledger_table import LedgerTable
from api.services.tables.table_pages import Line, Table, read_all
from fedaudit.spreadsheet import plain_text
from models.database import Database

Row = TypeVar("Row")
_LINES_AT_ONCE = 5000
Form = Literal["csv", "ndjson", "parquet"]
What = Literal["ledger", "rounds", "fairness"]

MEDIA_TYPES: dict[Form, str] = {
    "csv": "text/csv",
    "ndjson": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}


def export(
    table: Table[Row], database: Database, *, what: What, form: Form, file_name: str
) -> StreamingResponse:
    """The response with every line of a table; a null is an empty cell in CSV."""
    if isinstance(table, LedgerTable):
        encoded = _of_ledger(table, database, form=form)
    else:
        encoded = _of_lines(table, database, what=what, form=form)
    headers = {"Content-Disposition": f'attachment; filename="{file_name}.{form}"'}
    return StreamingResponse(encoded, media_type=MEDIA_TYPES[form], headers=headers)


def _of_ledger(table: LedgerTable, database: Database, *, form: Form) -> Iterator[bytes]:
    """Its lines are many, and are never made one by one where Arrow writes the file."""
    blocks = read_all(table, database, table.lines)
    if form == "ndjson":
        return _ndjson(block.lines() for block in blocks)
    from api.services.tables.parquet_tables import LedgerTables, ledger_csv, parquet

    tables = map(LedgerTables().table, blocks)
    return ledger_csv(tables) if form == "csv" else parquet(tables, what="ledger")


def _of_lines(table: Table[Row], database: Database, *, what: What, form: Form) -> Iterator[bytes]:
    def lines(rows: Sequence[Row]) -> list[Line]:
        found = table.lines(rows)
        return list(found.lines(0, sum(found.counts)))

    blocks = read_all(table, database, lines)
    match form:
        case "csv":
            return _csv(blocks, table.columns)
        case "ndjson":
            return _ndjson(blocks)
        case "parquet":
            from api.services.tables.parquet_tables import from_lines, parquet

            return parquet((from_lines(block, what=what) for block in blocks), what=what)
        case _:
            assert_never(form)


def _ndjson(blocks: Iterable[Iterable[Line]]) -> Iterator[bytes]:
    """Lines have their fields in the order of the table's columns already."""
    for block in blocks:
        lines = iter(block)
        while some := [
            orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
            for line in islice(lines, _LINES_AT_ONCE)
        ]:
            yield b"".join(some)


def _csv(blocks: Iterator[list[Line]], columns: Sequence[str]) -> Iterator[bytes]:
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
