"""Tables as Parquet: what is written is read back, row group by row group."""

import io
from collections.abc import Sequence
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.services.parquet_tables import SCHEMAS, from_lines, parquet
from api.services.tables import FairnessTable, LedgerTable, RoundTable, What

NUMBERS = st.none() | st.floats(allow_nan=False, allow_infinity=False)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "round": st.integers(1, 10**6),
            "subject": st.text(st.characters(exclude_categories=["Cs"])),
            "outcome": st.sampled_from(["released", "refused", "withheld"]),
            "epsilon": NUMBERS,
            "leakage_total": NUMBERS,
        }
    ),
    max_size=20,
)


def written(rows: Sequence[dict[str, Any]], *, what: str) -> pa.Table:
    """The table in the file of these rows."""
    table = from_lines(rows, what=what)
    return pq.read_table(io.BytesIO(b"".join(parquet([table], what=what))))


@settings(deadline=None)
@given(ROWS)
def test_the_rows_come_back_with_null_for_what_they_lack(rows: list[dict[str, Any]]) -> None:
    table = written(rows, what="ledger")
    assert table.schema == SCHEMAS["ledger"]
    full = [{name: row.get(name) for name in SCHEMAS["ledger"].names} for row in rows]
    assert table.to_pylist() == full


@pytest.mark.parametrize("what", get_args(What))
def test_a_table_without_rows_has_its_columns(what: str) -> None:
    assert written([], what=what).schema == SCHEMAS[what]


@pytest.mark.parametrize(
    ("what", "table"),
    [("ledger", LedgerTable), ("rounds", RoundTable), ("fairness", FairnessTable)],
)
def test_every_column_of_a_table_is_in_its_file(what: str, table: Any) -> None:
    assert SCHEMAS[what].names == list(table.columns)


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
