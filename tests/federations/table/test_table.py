"""Tables as federations: what arrives is what the file says."""

import csv
import gzip
import hashlib
import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.federations.load import load_federation
from fedaudit.spec.parse import parse_spec
from tests.federations.conftest import CLASSIFIER, Load, spec_value

COSTS = """hospital,age,beds,sex,cost
south,70,2,F,30
north,60,1,M,10
south,80,4,,40.5
east,50,8,F,-20
south,75,6,M,50
"""


def test_rows_are_grouped_by_client(load: Load) -> None:
    federation = load(data=COSTS, changes={"federation.drop": ["sex"]})

    assert federation.client_names == ("east", "north", "south")
    assert federation.feature_names == ("age", "beds")
    assert (federation.clients, federation.rows) == (3, 5)
    assert federation.first.tolist() == [0, 1, 2, 5]
    assert federation.side_by_side[federation.own(2)].tolist() == [[70, 2], [80, 4], [75, 6]]
    assert federation.side_by_side[federation.own(0)].tolist() == [[50, 8]]
    assert federation.raw_target.tolist() == [-20, 10, 30, 40.5, 50]
    assert federation.side_by_side.dtype == federation.target.dtype == np.float32
    assert federation.raw_target.dtype == np.float64
    assert (federation.classes, federation.truth, federation.notes) == ((), None, ())


def test_scales_divide_features_and_target_but_not_the_raw_target(load: Load) -> None:
    scaled = load({"federation.scale": {"age": 100, "cost": 10}, "federation.drop": ["sex"]},
                  data=COSTS)  # fmt: skip

    assert scaled.side_by_side[0].tolist() == [0.5, 8]
    assert scaled.target[0] == -2
    assert scaled.raw_target[0] == -20
    assert scaled.target_scale == 10


def test_sensitive_attributes_are_no_features_unless_named(load: Load) -> None:
    fairness = {"sensitive": ["sex"], "favourable": {"op": "ge", "value": 0}}
    federation = load({"fairness": fairness}, data=COSTS)

    sex = federation.attribute("sex")
    assert federation.feature_names == ("age", "beds")
    assert sex.values == ("F", "M")
    assert sex.codes.tolist() == [0, 1, 0, -1, 1]
    assert federation.notes == ("rows without a value of 'sex', in no group: 1",)


def test_a_numeric_sensitive_attribute_may_be_a_feature_too(load: Load) -> None:
    fairness = {"sensitive": ["beds"], "favourable": {"op": "ge", "value": 0}}
    federation = load({"fairness": fairness, "federation.features": ["beds"]}, data=COSTS)

    assert federation.feature_names == ("beds",)
    assert federation.attribute("beds").values == ("1", "2", "4", "6", "8")


def test_classes_are_ordered_by_number_where_all_are_numbers(load: Load) -> None:
    data = "hospital,x,cost\na,1,10\na,1,9\nb,1,-1\nb,1,10\n"
    federation = load(CLASSIFIER, data=data)

    assert federation.classes == ("-1", "9", "10")
    assert federation.raw_target.tolist() == [2, 1, 0, 2]
    assert federation.target.tolist() == [2, 1, 0, 2]
    assert federation.target_scale == 1


@pytest.mark.parametrize("positive", ["no", "yes"])
def test_the_positive_class_is_the_second(load: Load, positive: str) -> None:
    data = "hospital,x,cost\na,1,yes\nb,1,no\nb,1,yes\n"
    federation = load({**CLASSIFIER, "federation.positive": positive}, data=data)

    assert federation.classes[1] == positive
    said = [federation.classes[int(index)] for index in federation.raw_target]
    assert said == ["yes", "no", "yes"]


def test_a_logistic_model_makes_classes_whatever_its_loss(load: Load) -> None:
    data = "hospital,x,cost\na,1,0\nb,1,1\nb,1,1\n"
    assert load({"model": {"kind": "logistic"}}, data=data).classes == ("0", "1")
    assert load({"model": {"kind": "mlp", "hidden": [2]}}, data=data).classes == ()


def test_cells_and_header_are_trimmed_and_keys_keep_their_zeros(load: Load) -> None:
    data = " hospital , x,cost \n 007 , 1.5 , 2\n07,2,3\n 07,2,3\n"
    federation = load(data=data)

    assert federation.client_names == ("007", "07")
    assert federation.side_by_side[:, 0].tolist() == [1.5, 2, 2]


def test_quotes_windows_lines_blank_lines_and_a_byte_order_mark(load: Load) -> None:
    data = '\ufeffhospital,x,cost\r\n"St. John, ""west""",1,2\r\n\r\nb,3,4\r\n"b",3,4\r\n'
    federation = load(data=data)

    assert federation.client_names == ('St. John, "west"', "b")
    assert federation.raw_target.tolist() == [2, 4, 4]


def test_gzip_is_undone_and_leaves_the_fingerprint(load: Load, sources: Path) -> None:
    plain = load(data=COSTS, changes={"federation.drop": ["sex"]})
    (sources / "data.csv.gz").write_bytes(gzip.compress(COSTS.encode()))
    packed = load({"federation.path": "data.csv.gz", "federation.drop": ["sex"]})

    assert packed.fingerprint == plain.fingerprint == hashlib.sha256(COSTS.encode()).hexdigest()
    assert np.array_equal(packed.features, plain.features)


def test_the_fingerprint_is_of_the_data_not_of_their_use(load: Load) -> None:
    one = load({"federation.drop": ["sex"]}, data=COSTS)
    other = load({"federation.features": ["beds"], "federation.scale": {"beds": 2}, "seed": 9,
                  "federation.client_key": "sex", "federation.validation_fraction": 0.2},
                 data=COSTS.replace("80,4,,", "80,4,F,"))  # fmt: skip
    again = load({"federation.features": ["beds"], "federation.scale": {"beds": 2}, "seed": 9},
                 data=COSTS)  # fmt: skip

    assert one.fingerprint == again.fingerprint
    assert one.fingerprint != other.fingerprint


def test_parquet_equals_csv(load: Load, sources: Path) -> None:
    fairness = {"sensitive": ["sex"], "favourable": {"op": "ge", "value": 0}}
    table = pa.table(
        {
            "hospital": pa.array(["south", "north", "south", "east", "south"]).dictionary_encode(),
            "age": pa.array([70, 60, 80, 50, 75], pa.int16()),
            "beds": pa.array([2, 1, 4, 8, 6], pa.float32()),
            "sex": ["F", "M", None, "F", "M"],
            "cost": pa.array([30, 10, 40.5, -20, 50]),
        }
    )
    pq.write_table(table, sources / "data.parquet", row_group_size=2)
    parquet = load({"fairness": fairness, "federation.path": "data.parquet"})
    from_csv = load({"fairness": fairness}, data=COSTS)

    assert parquet.client_names == from_csv.client_names
    assert np.array_equal(parquet.features, from_csv.features)
    assert np.array_equal(parquet.raw_target, from_csv.raw_target)
    assert np.array_equal(parquet.attribute("sex").codes, from_csv.attribute("sex").codes)
    assert parquet.notes == from_csv.notes


def test_integer_keys_of_parquet_become_text(load: Load, sources: Path) -> None:
    table = pa.table({"hospital": [2**63 - 1, 7, 7], "x": [True, False, True], "cost": [1, 2, 3]})
    pq.write_table(table, sources / "data.parquet")
    federation = load({"federation.path": "data.parquet"})

    assert federation.client_names == ("7", "9223372036854775807")
    assert federation.side_by_side[:, 0].tolist() == [0, 1, 1]


_NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12
).filter(lambda text: text == text.strip() and text.strip("\ufeff"))
_NUMBERS = st.floats(-1e15, 1e15, allow_subnormal=False)
_ROWS = (
    st.lists(st.tuples(_NAMES, _NUMBERS, _NUMBERS), min_size=2, max_size=30)
    .filter(lambda rows: len({row[0] for row in rows}) > 1)
    .map(lambda rows: [*rows, rows[0]])
)


@settings(max_examples=60, deadline=None)
@given(rows=_ROWS, kind=st.sampled_from(["csv", "parquet"]))
def test_what_is_written_is_what_is_read(rows: list[tuple[str, float, float]], kind: str) -> None:
    names = ("hospital", "x", "cost")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.csv"
        if kind == "csv":
            text = io.StringIO()
            csv.writer(text, quoting=csv.QUOTE_ALL).writerows([names, *rows])
            path.write_bytes(text.getvalue().encode())
        else:
            columns: dict[str, Any] = dict(
                zip(names, map(list, zip(*rows, strict=True)), strict=True)
            )
            pq.write_table(pa.table(columns), path)
        federation = load_federation(parse_spec(spec_value({})), sources_dir=Path(folder))

    expected: dict[str, list[tuple[float, float]]] = {}
    for client, x, cost in rows:
        expected.setdefault(client, []).append((float(np.float32(x)), cost))
    read = {
        name: list(
            zip(
                federation.side_by_side[federation.own(client), 0].tolist(),
                federation.raw_target[federation.own(client)].tolist(),
                strict=True,
            )
        )
        for client, name in enumerate(federation.client_names)
    }
    assert read == expected
    assert list(federation.client_names) == sorted(expected)
    keys = [name.encode() for name in federation.client_names]
    assert keys == sorted(keys), "sorted as bytes too"
