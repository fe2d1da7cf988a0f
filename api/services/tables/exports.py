"""A whole table as a file that is sent while it is read."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Literal, TypeVar, assert_never

import orjson
from starlette.responses import StreamingResponse

from api.services.tables.table_pages import Line, Table, read_all
from fedaudit.spreadsheet import plain_text
from models.database import Database

Row = TypeVar("Row")
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
    encoded = _encoded(read_all(table, database), table.columns, what=what, form=form)
    headers = {"Content-Disposition": f'attachment; filename="{file_name}.{form}"'}
    return StreamingResponse(encoded, media_type=MEDIA_TYPES[form], headers=headers)


def _encoded(
    blocks: Iterator[list[Line]], columns: Sequence[str], *, what: What, form: Form
) -> Iterator[bytes]:
    match form:
        case "csv":
            return _csv(blocks, columns)
        case "ndjson":
            return _ndjson(blocks, columns)
        case "parquet":
            from api.services.tables.parquet_tables import parquet

            return parquet(chain.from_iterable(blocks), what=what)
        case _:
            assert_never(form)


def _ndjson(blocks: Iterator[list[Line]], columns: Sequence[str]) -> Iterator[bytes]:
    for block in blocks:
        yield b"".join(
            orjson.dumps({name: line[name] for name in columns}, option=orjson.OPT_APPEND_NEWLINE)
            for line in block
        )


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
