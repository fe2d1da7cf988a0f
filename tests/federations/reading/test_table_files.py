"""Tables are read as streams: the columns wanted, in bounded memory, with rows counted."""

import gzip
import io
import threading
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedaudit.federations.reading import source_files, table_files
from fedaudit.federations.reading.source_files import Files, open_path
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows
from tests.refusals import refused_by

LINES = [f"{row},text {row % 7},{row / 3}" for row in range(5000)]
CSV = "\n".join(["number,text,third", *LINES]).encode() + b"\n"
LONG = b"\n".join(line.encode() for line in LINES * 29) + b"\n"
"""Blocks of them."""


def read(folder: Path, names: Sequence[str], *, header: bool = True) -> TableRows:
    with open_path("data", files=Files(folder), pointer="/p") as file:
        return TableFile(file, header=header).read(names)


def refusal(folder: Path, data: bytes, names: Sequence[str], *, header: bool = True) -> str:
    (folder / "data").write_bytes(data)
    (fault,) = refused_by(read, folder, names, header=header)
    return fault.message


def parquet(table: pa.Table, *, row_group_size: int = 700) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=row_group_size)
    return buffer.getvalue()


AS_PARQUET = parquet(
    pa.table(
        {
            "number": range(5000),
            "text": pa.array([f"text {row % 7}" for row in range(5000)]),
            "third": [row / 3 for row in range(5000)],
        }
    )
)


@pytest.mark.parametrize("data", [CSV, gzip.compress(CSV) + gzip.compress(LONG), AS_PARQUET])
def test_no_thread_of_the_reader_calls_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    """One that does has ended a whole process, with a segmentation fault."""
    threads = set()
    for kind in (source_files._Stored, source_files._Unpacked):

        def readinto(stream: Any, buffer: Any, readinto: Any = kind.readinto) -> int:
            threads.add(threading.get_ident())
            return int(readinto(stream, buffer))

        monkeypatch.setattr(kind, "readinto", readinto)
    (tmp_path / "data").write_bytes(data)
    assert len(read(tmp_path, ["third", "number"])) in {5000, 150_000}
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("data", [CSV, gzip.compress(CSV), AS_PARQUET])
def test_columns_and_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(table_files, "_TOGETHER", 2000)
    (tmp_path / "data").write_bytes(data)
    rows = read(tmp_path, ["third", "number"])
    assert len(rows) == 5000
    assert set(rows.columns) == {"third", "number"}
    np.testing.assert_allclose(rows.numbers("third", ""), np.arange(5000) / 3)

    with open_path("data", files=Files(tmp_path), pointer="/p") as file:
        table = TableFile(file)
        assert table.names == ("number", "text", "third")
        batches = list(table.batches(["text", "number"]))
    assert len(batches) > 1 or data is not AS_PARQUET  # the CSV file is one block
    numbers = np.concatenate([batch.numbers("number", "") for batch in batches])
    np.testing.assert_array_equal(numbers, np.arange(5000))
    counted = np.concatenate([batch.row_numbers for batch in batches])
    np.testing.assert_array_equal(counted, np.arange(1, 5001))


def test_files_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"a,1\nb,2\n")
    rows = read(tmp_path, ["column_2", "column_1"], header=False)
    assert rows.numbers("column_2", "").tolist() == [1, 2]
    assert "3 cells in data row 2" in refusal(tmp_path, b"a,1\nb,2,3\n", ["column_1"], header=False)
    assert "names its columns itself" in refusal(tmp_path, AS_PARQUET, ["text"], header=False)


@pytest.mark.parametrize("cell", ["b;c", "b\tc"])
def test_no_cell_parts_the_columns_whatever_ends_lines(tmp_path: Path, cell: str) -> None:
    for end in ("\r", "\n", "\r\n"):
        (tmp_path / "data").write_bytes(end.join(["x,text", f"1,{cell}", "2,d", ""]).encode())
        assert read(tmp_path, ["text"]).text("text", "").to_pylist() == [cell, "d"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (CSV + b"1,2\n", "2 cells in data row 5001 and 3 in its header"),
        (CSV + b"1,2,3,4\n" + CSV, "4 cells in data row 5001"),
        (b"number,text,third\n" + b'1,"two\nlines",3\n' * 9 + b"1,2\n", "in data row 10"),
        (CSV + b"1,caf\xe9,3\n", "not in UTF-8 in data row 5001"),
        (CSV + b'1,2,"three\n1,2,3\n', "a quote that never ends"),
        (CSV + b'1,2,"three\n' + b"1,2,3\n" * 10**6, "a quote that never ends"),
        (CSV + b"1,\0,3\n", "binary file"),
        (gzip.compress(CSV)[:-9], "damaged gzip"),
        (gzip.compress(CSV) + b"\0" * 512, "a gzip file with something behind its end"),
        (gzip.compress(AS_PARQUET), "a Parquet file within a gzip file"),
        (b"PK\x03\x04 xl/workbook.xml", "is an Excel file or an archive; save a sheet as CSV"),
        (AS_PARQUET[:-2000], "no CSV or Parquet file"),
        (AS_PARQUET[:400] + b"\x55" * 20_000 + AS_PARQUET[20_400:], "no CSV or Parquet file"),
    ],
)
def test_damaged_files(tmp_path: Path, data: bytes, says: str) -> None:
    assert says in refusal(tmp_path, data, ["text"])


def test_an_inch_is_no_open_quote(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(CSV + b'1,5" pipe,3\n')
    assert read(tmp_path, ["text"]).text("text", "")[-1].as_py() == '5" pipe'


@pytest.mark.parametrize("nested", [pa.array([[1], [2]]), pa.array([{"a": 1}, {"a": 2}])])
def test_a_nested_column_is_refused_where_it_is_wanted(tmp_path: Path, nested: pa.Array) -> None:
    data = parquet(pa.table({"number": [1, 2], "deep": nested}))
    message = refusal(tmp_path, data, ["number", "deep"])
    assert f"a nested column 'deep' of type {str(nested.type)[:4]}" in message
    assert read(tmp_path, ["number"]).numbers("number", "").tolist() == [1, 2]


def test_texts_that_repeat_take_no_memory_per_row(tmp_path: Path) -> None:
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10**5, dtype=np.int32)), ["x" * 10**5])
    data = parquet(pa.table({"number": range(10**5), "text": long}), row_group_size=10**5)
    assert len(data) < 2**21
    message = refusal(tmp_path, data, ["text"])
    assert "more than 4096 bytes in row 1 of column 'text'" in message


def test_cells_are_counted_while_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "MAX_TABLE_CELLS", 9999)
    for data in (CSV, gzip.compress(CSV), AS_PARQUET):
        assert "9999 are allowed" in refusal(tmp_path, data, ["number", "text"])
        assert len(read(tmp_path, ["number"])) == 5000
    monkeypatch.setattr(table_files, "MAX_FILE_BYTES", 2**15)
    assert "in the columns wanted" in refusal(tmp_path, CSV, ["text"])
    monkeypatch.setattr(table_files, "MAX_ROWS", 4000)
    assert "more than 4000 rows" in refusal(tmp_path, AS_PARQUET, ["number"])


def test_a_stream_takes_memory_for_its_blocks_only(tmp_path: Path) -> None:
    """Arrow's own memory and Python's, measured where a whole file would take 200 MB of each."""
    line = b"1," + b"x" * 1000 + b",3\n"
    with gzip.open(tmp_path / "data", "wb", compresslevel=1) as archive:
        archive.write(b"number,text,third\n")
        for _ in range(200):
            archive.write(line * 1000)
    pool = pa.default_memory_pool()
    before, highest = pool.bytes_allocated(), 0
    tracemalloc.start()
    with open_path("data", files=Files(tmp_path), pointer="/p") as file:
        for _ in TableFile(file).batches(["text", "third"]):
            highest = max(highest, pool.bytes_allocated() - before)
    _, python = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert highest + python < 110 * 2**20
