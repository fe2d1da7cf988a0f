"""Tables as Parquet: what is written is read back, row group by row group."""

import io
from typing import Any

import pyarrow.parquet as pq
import pytest

from api.services.parquet_tables import from_lines, parquet


def test_row_groups_leave_before_the_rest_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.services.parquet_tables._ROWS_AT_ONCE", 3)
    asked = []

    def tables() -> Any:
        for number in range(1, 9):
            asked.append(number)
            yield from_lines([{"round": number, "cluster_sizes": [number, 1]}], what="rounds")

    pieces = parquet(tables(), what="rounds")
    first = next(pieces)
    assert asked == [1, 2, 3]
    file = pq.ParquetFile(io.BytesIO(first + b"".join(pieces)))
    assert file.num_row_groups == 3
    read = file.read()
    assert read["round"].to_pylist() == list(range(1, 9))
    assert read["cluster_sizes"].to_pylist()[7] == [8, 1]
