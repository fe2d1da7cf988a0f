"""Counts what the columns of a table hold, in one pass over its first rows."""

from typing import Any

import pyarrow.compute as pc

from fedaudit.federations.proposals.surveyed_columns import Column, Survey
from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows

MAX_SURVEYED_COLUMNS = 2000
_WHERE = "/federation/path"


def survey_table(file: SourceFile, *, header: bool, most_rows: int) -> Survey:
    """The columns of at most `most_rows` rows. Raises InvalidInputError for what is no table."""
    table = TableFile(file, header=header)
    if len(table.names) > MAX_SURVEYED_COLUMNS:
        raise file.fault(
            f"has {len(table.names)} columns, and a registration is proposed for "
            f"{MAX_SURVEYED_COLUMNS} at most; write it yourself, or take out columns"
        )
    columns = tuple(Column(name) for name in table.names)
    rows, complete = 0, True
    for batch in table.batches(table.names):
        complete = rows + len(batch) <= most_rows
        read = batch if complete else batch.part(0, most_rows - rows)
        rows += len(read)
        for column in columns:
            column.add(*_counted(read, column.name))
        if not complete:
            break
    return Survey(columns, rows, complete)


def _counted(rows: TableRows, name: str) -> tuple[list[str], list[int]]:
    """The distinct texts of a column and how many rows have each."""
    counts: Any = pc.value_counts(rows.text(name, _WHERE))
    return counts.field("values").to_pylist(), counts.field("counts").to_pylist()
