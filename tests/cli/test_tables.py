"""Tables as Parquet: what is written is read back."""

import io

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.cli.tables import SCHEMAS, write_parquet

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


def written(rows, *, what):
    file = io.BytesIO()
    write_parquet(iter(rows), what=what, file=file)
    file.seek(0)
    return pq.read_table(file)


@settings(deadline=None)
@given(ROWS)
def test_the_rows_come_back_with_null_for_what_they_lack(rows):
    table = written(rows, what="ledger")
    assert table.schema == SCHEMAS["ledger"]
    full = [{name: row.get(name) for name in SCHEMAS["ledger"].names} for row in rows]
    assert table.to_pylist() == full


@pytest.mark.parametrize("what", SCHEMAS)
def test_a_table_without_rows_has_its_columns(what):
    assert written([], what=what).schema == SCHEMAS[what]


def test_more_rows_than_a_batch(monkeypatch):
    monkeypatch.setattr("fedaudit.cli.tables._ROWS_AT_ONCE", 3)
    rows = [{"round": number, "cluster_sizes": [number, 1]} for number in range(1, 9)]
    read = written(rows, what="rounds")
    assert read["round"].to_pylist() == list(range(1, 9))
    assert read["cluster_sizes"].to_pylist()[7] == [8, 1]
