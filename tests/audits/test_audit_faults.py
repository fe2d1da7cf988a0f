"""Every fault of a table names the field, the column and what to do; all of them at once."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedaudit.audits.audit_table import AuditedRows, read_audit
from fedaudit.federations.reading.source_files import Files
from fedaudit.spec.audits import parse_audit
from tests.audits.tables import asking, audited, people, write
from tests.refusals import refused_by


def faults_of(folder: Path, **asked: Any) -> dict[str, str]:
    return {fault.pointer: fault.message for fault in refused_by(audited, folder, **asked)}


GATE = {"figure": "accuracy_difference", "attribute": "town", "op": "le", "value": 0.1}


@pytest.mark.parametrize(
    ("asked", "pointer", "said"),
    [
        ({"prediction": None, "score": "score"}, "/threshold", "goes with `score`"),
        ({"threshold": 0.5}, "/threshold", "goes with `score`"),
        ({"score": "score", "threshold": 0.5}, "/prediction", "both are given"),
        ({"prediction": "hired"}, "/prediction", "as the truth is"),
        ({"sensitive": ["sex", "hired"]}, "/sensitive/1", "'hired' is the truth"),
        ({"path": "../people.csv"}, "/path", "must not contain '..'"),
        ({"path": None}, "/path", "neither is given"),
        ({"labels": {"town": {"t1": "one"}}}, "/labels/town", "neither the target"),
        ({"intersections": [["sex", "age"]]}, "/intersections/0", "'age' is not in `sensitive`"),
        ({"gates": [GATE]}, "/gates/0/attribute", "'town' is not in `sensitive`"),
        ({"threshhold": 1}, "/threshhold", "unknown field"),
    ],
)
def test_what_contradicts_itself_is_refused_at_its_field(asked, pointer, said):
    caught = refused_by(parse_audit, asking(**asked))
    assert [fault.pointer for fault in caught] == [pointer]
    assert said in caught[0].message


def _changed(**columns: Any) -> dict[str, list[Any]]:
    table = people()
    count = len(table["town"])
    return table | {
        name: made if isinstance(made, list) else [made(row) for row in range(count)]
        for name, made in columns.items()
    }


@pytest.mark.parametrize(
    ("columns", "asked", "pointer", "said"),
    [
        ({"hired": lambda _: "no"}, {}, "/truth", "'hired' has one value only"),
        ({"hired": lambda row: row}, {}, "/truth", "600 distinct values"),
        ({"hired": lambda row: "" if row == 4 else "no"}, {}, "/truth", "first of them row 5"),
        ({"predicted": lambda row: row % 2}, {}, "/prediction", "never has: '0', '1'"),
        ({"score": lambda row: "high"}, {"prediction": None, "score": "score", "threshold": 0.5},
         "/score", "row 1 of column 'score' is not a number"),
        ({"town": lambda row: f"t{row}"}, {"client_key": "town"}, "/client_key",
         "different in every one of the 600 rows"),
        ({}, {"favourable": "maybe"}, "/favourable/value/0", "no class 'maybe'"),
        ({}, {"favourable": ["yes", "no"]}, "/favourable", "every outcome of 'hired'"),
        ({}, {"minimum_group_size": 500}, "/minimum_group_size", "has 500 rows"),
        ({}, {"reference_group": "X"}, "/reference_group", "no sensitive attribute has a group"),
        ({}, {"truth": "fired"}, "/truth", "no column 'fired'; it has 'town'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_names_column_and_remedy(tmp_path, columns, asked, pointer, said):
    if columns.get("hired") and "600" in said:
        columns = {"hired": [f"v{row}" for row in range(1200)]}
        write(tmp_path, people(1200) | columns)
        said = "1200 distinct values"
    else:
        write(tmp_path, _changed(**columns))
    assert said in faults_of(tmp_path, **asked)[pointer]


def test_all_faults_come_at_once(tmp_path: Path) -> None:
    table = people(1200) | {"age": [f"{row}" for row in range(1200)], "hired": ["no"] * 1200}
    write(tmp_path, table | {"town": [f"t{row}" for row in range(1200)]})
    found = faults_of(tmp_path, sensitive=["sex", "age"], client_key="town")
    assert found.keys() == {"/truth", "/client_key", "/sensitive/1"}
    assert "1200 distinct values, and 1000 groups are allowed" in found["/sensitive/1"]


def test_files_of_another_form_say_so(tmp_path: Path) -> None:
    path = write(tmp_path, people())
    text = path.read_text()
    path.write_text(text.replace(",", "|"))
    assert "has a single column" in faults_of(tmp_path)["/path"]
    path.write_bytes(text.encode("utf-16"))
    assert "not in UTF-8" in faults_of(tmp_path)["/path"]
    path.write_text(text.replace("race", "sex"))
    assert "names a column twice" in faults_of(tmp_path)["/path"]


def read(folder: Path, **asked: Any) -> AuditedRows:
    return read_audit(parse_audit(asking(**asked)), files=Files(folder))


def test_a_byte_order_mark_and_parquet_are_read_alike(tmp_path: Path) -> None:
    path = write(tmp_path, people())
    plain = read(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    pq.write_table(pa.table(people()), tmp_path / "people.parquet")
    for same in (read(tmp_path), read(tmp_path, path="people.parquet")):
        assert (same.truth == plain.truth).all()
        assert (same.predicted == plain.predicted).all()
        assert (same.codes("race") == plain.codes("race")).all()


def test_codes_are_compared_as_numbers_and_rare_outcomes_may_be_predicted(tmp_path: Path) -> None:
    codes = {"yes": "1", "no": "0"}
    table = people()
    hired, predicted = ([codes[one] for one in table[name]] for name in ("hired", "predicted"))
    write(tmp_path, table | {"hired": hired, "predicted": [f"{one}.0" for one in predicted]})
    rows = read(tmp_path, favourable=1)
    assert [rows.federation.classes[one] for one in rows.predicted] == predicted
    three = ["2" if row % 3 == 0 else one for row, one in enumerate(hired)]
    write(tmp_path, table | {"hired": three, "predicted": ["7", *predicted[1:]]})
    rows = read(tmp_path, favourable=1)
    assert rows.federation.classes[rows.predicted[0]] == "7"
