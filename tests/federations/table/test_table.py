"""Tables: clients, targets, gaps, joined columns, and every fault at once."""

import csv
import gzip
import hashlib
import io
import random
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
from fedaudit.federations.reading import table_files
from fedaudit.federations.table.table_federation import MAX_FAULTS
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import spec_hash
from fedaudit.spec.parse import parse_spec
from tests.federations.conftest import (
    CLASSIFIER,
    Load,
    Refuse,
    assert_alike,
    profile_in,
    refused,
    registration,
    spec_value,
)
from tests.spec.documents import BY_RECORD, TABLE, changed

COSTS = """hospital,age,beds,sex,cost
south,70,2,F,30
north,60,1,M,10
south,80,4,,40.5
east,50,8,F,-20
south,75,6,M,50
"""


@pytest.mark.parametrize(
    ("scale", "age", "targets", "mean"),
    [
        ({"age": 100, "cost": 10}, 0.5, [-2, 1, 3, 4.05, 5], 0),
        ({"cost": {"mean": 30, "deviation": 10}}, 50, [-5, -2, 0, 1.05, 2], 30),
    ],
)
def test_scales_move_features_and_target_but_not_the_raw_target(load, scale, age, targets, mean):
    scaled = load({"federation.scale": scale, "federation.drop": ["sex"]}, data=COSTS)
    assert scaled.side_by_side[0].tolist() == [age, 8]
    assert scaled.target.tolist() == pytest.approx(targets)
    assert scaled.raw_target.tolist() == [-20, 10, 30, 40.5, 50]
    assert (scaled.target_mean, scaled.target_scale) == (mean, 10)


def test_a_numeric_sensitive_attribute_may_be_a_feature_too(load: Load) -> None:
    fairness = {"sensitive": ["beds"], "favourable": {"op": "ge", "value": 0}}
    federation = load({"fairness": fairness, "federation.features": ["beds"]}, data=COSTS)
    assert federation.feature_names == ("beds",)
    assert federation.attribute("beds").values == ("1", "2", "4", "6", "8")


def test_classes_are_ordered_by_number_where_all_are_numbers(load: Load) -> None:
    federation = load(CLASSIFIER, data="hospital,x,cost\na,1,10\na,1,9\nb,1,-1\nb,1,10\n")
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


@pytest.mark.parametrize(
    ("data", "clients", "targets"),
    [
        (" hospital , x,cost \n 007 , 1.5 , 2\n07,2,3\n 07,2,3\n", ("007", "07"), [2, 3, 3]),
        (
            '\ufeffhospital,x,cost\r\n"St. John, ""west""",1,2\r\n\r\nb,3,4\r\n"b",3,4\r\n',
            ('St. John, "west"', "b"),
            [2, 4, 4],
        ),
    ],
    ids=["blanks around cells", "quotes, Windows lines, a byte order mark"],
)
def test_cells_are_what_is_written_in_them(load: Load, data, clients, targets) -> None:
    federation = load(data=data)
    assert federation.client_names == clients
    assert federation.raw_target.tolist() == targets


def test_the_fingerprint_is_of_the_data_not_of_their_use_or_packing(load, sources):
    plain = load({"federation.drop": ["sex"]}, data=COSTS)
    beds = {"federation.features": ["beds"], "federation.scale": {"beds": 2}, "seed": 9}
    (sources / "data.csv.gz").write_bytes(gzip.compress(COSTS.encode()))
    packed = load({"federation.path": "data.csv.gz", **beds})
    assert packed.fingerprint == plain.fingerprint == hashlib.sha256(COSTS.encode()).hexdigest()
    assert np.array_equal(2 * packed.side_by_side, plain.side_by_side[:, 1:])
    other = load(beds, data=COSTS.replace("80,4,,", "80,4,F,"))
    assert other.fingerprint != plain.fingerprint


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
    assert_alike(parquet, from_csv, but=("fingerprint",))


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
            pq.write_table(pa.table([*map(list, zip(*rows, strict=True))], names=names), path)
        federation = load_federation(parse_spec(spec_value({})), sources_dir=Path(folder))

    expected: dict[str, list[tuple[float, float]]] = {}
    for client, x, cost in rows:
        expected.setdefault(client, []).append((float(np.float32(x)), cost))
    features, targets = federation.side_by_side[:, 0].tolist(), federation.raw_target.tolist()
    read = {
        name: list(zip(features, targets, strict=True))[federation.own(client)]
        for client, name in enumerate(federation.client_names)
    }
    assert read == expected
    assert list(federation.client_names) == sorted(expected)
    keys = [name.encode() for name in federation.client_names]
    assert keys == sorted(keys), "sorted as bytes too"


BOTH = {"missing_client": "drop-row", "missing_target": "drop-row"}
FAULTY_TABLE = (
    "hospital,age,ward,weight,sex,cost\n"
    "a,30,x,60,F,1\n"
    ",41,x,70,M,2\n"
    "b,old,x,,F,3\n"
    "b,50,z,80,M,\n"
    "c,60,y,90,F,many\n"
)
FEATURES = ["age", {"name": "ward", "kind": "categorical", "categories": ["x", "y"]}, "weight"]
SEX = {"sensitive": ["sex"], "edges": {"sex": [1]}, "favourable": {"op": "ge", "value": 1}}
EVERY = {
    "/federation/client_key": "row 2 of column 'hospital' is empty",
    "/federation/features/0": "row 3 of column 'age' is not a number",
    "/federation/features/2": "row 3 of column 'weight' is empty",
    "/federation/target": "row 5 of column 'cost' is not a number",
    "/fairness/edges/sex": "row 1 of column 'sex' is not a number",
    "/federation/scale/height": "neither a feature nor the target",
}


def test_a_load_reports_every_fault_of_the_rows(refuse: Refuse) -> None:
    changes = {"federation.features": FEATURES, "federation.scale": {"height": 2}, "fairness": SEX}
    faults = refuse(changes, data=FAULTY_TABLE)
    assert faults.keys() == EVERY.keys()
    assert [where for where, message in EVERY.items() if message not in faults[where]] == []
    faults = refuse({**changes, "federation.positive": "1"}, data=FAULTY_TABLE)
    assert "has no positive class" in faults["/federation/positive"]
    assert "row 3 of column 'age'" in faults["/federation/features/0"]


def test_a_target_that_cannot_be_read_is_a_fault_among_others(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("hospital,age,cost\na,,1\nb,30,\x07\n")
    faults = refused(tmp_path, registration({"features": ["age"]}))
    assert "row 2 of column 'cost' has control" in faults["/federation/target"]
    assert "row 1 of column 'age' is empty" in faults["/federation/features/0"]


def test_rows_that_are_left_out_have_no_faults(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(FAULTY_TABLE)
    features = [{"name": "age", "missing": "drop-row"}, FEATURES[1]]
    faults = refused(tmp_path, registration({**BOTH, "features": features}))
    assert "row 3 of column 'age'" in faults["/federation/features/0"]
    assert "/federation/features/1" not in faults, "row 4, whose ward is undeclared, has no target"


def test_a_fault_deep_in_a_file_of_several_batches_is_named_by_its_row(tmp_path: Path) -> None:
    filler = "y" * 200
    rows = [f"h{row % 9},{row},{filler},1" for row in range(60_000)]
    rows[10] = f"h1,,{filler},1"
    rows[59_000] = f"h1,5,{filler},"
    (tmp_path / "data.csv").write_text("\n".join(["hospital,x,text,cost", *rows, ""]))
    faults = refused(tmp_path, registration({"features": ["x"], "drop": ["text"]}))
    assert "row 11 of column 'x'" in faults["/federation/features/0"]
    assert "row 59001 of column 'cost'" in faults["/federation/target"]


@pytest.mark.parametrize("columns", [3, MAX_FAULTS + 10])
def test_the_list_of_faults_is_bounded(tmp_path: Path, columns: int) -> None:
    names = [f"x{place}" for place in range(columns)]
    rows = [[f"h{row % 3}", *["a"] * columns, str(row % 2)] for row in range(9)]
    lines = map(",".join, [["hospital", *names, "cost"], *rows])
    (tmp_path / "data.csv").write_text("\n".join(lines))
    faults = refused(tmp_path, registration({"features": names}))
    assert len(faults) == min(columns, MAX_FAULTS)


PEOPLE = (
    "hospital,x,Race_Black,Race_White,cost\n"
    "a,1,1,0,1\na,2,0,True,2\nb,3,0.0,0,3\nb,4,,,4\nb,5,no,yes,5\n"
)
RACE: dict[str, Any] = {"columns": {"Race_Black": "Black", "Race_White": "white"}, "none": "other"}
BY_RACE = {"sensitive": ["race"], "favourable": {"op": "ge", "value": 3}}


def joined(**changes: Any) -> dict[str, Any]:
    return {"federation.join": {"race": {**RACE, **changes}}, "fairness": BY_RACE}


def test_rows_belong_to_the_column_that_is_set(load: Load) -> None:
    found = load(joined(), data=PEOPLE)
    race = found.attribute("race")
    assert race.values == ("Black", "other", "white")
    assert race.codes.tolist() == [0, 2, 1, -1, 2]
    assert found.feature_names == ("x",)
    assert "rows without a value of 'race', in no group: 1" in found.notes
    alone = load(joined(none=None), data=PEOPLE).attribute("race")
    assert alone.values == ("Black", "white")
    assert alone.codes.tolist().count(-1) == 2


@pytest.mark.parametrize(
    ("data", "changes", "where", "message"),
    [
        (PEOPLE.replace("a,1,1,0", "a,1,1,1"), {}, "/race", "row 1 of column 'Race_White' puts"),
        (PEOPLE.replace("a,1,1", "a,1,2"), {}, "/race/columns/Race_Black", "neither 0 nor 1"),
        (PEOPLE, {"columns": {"Black": "b", "x": "w"}}, "/race/columns/Black", "no column"),
        (PEOPLE, {"columns": {"cost": "b", "x": "w"}}, "/race/columns/cost", "the target"),
    ],
)
def test_what_cannot_be_joined_is_named(refuse, tmp_path, data, changes, where, message):
    assert message in refuse(joined(**changes), data=data)[f"/federation/join{where}"]
    (tmp_path / "data.csv").write_text(data)
    value = registration({"join": {"race": {**RACE, **changes}}}, fairness=BY_RACE)
    assert message in refused(tmp_path, value)[f"/federation/join{where}"]


@pytest.mark.parametrize("name", ["x", "X"])
def test_an_attribute_may_not_hide_a_column(refuse: Refuse, name: str) -> None:
    changes = {"federation.join": {name: RACE}, "fairness": {**BY_RACE, "sensitive": [name]}}
    assert "already" in refuse(changes, data=PEOPLE)[f"/federation/join/{name}"]


GAPS = "hospital,x,cost\na,1,5\n,2,6\nb,3,\nb,4,8\n,5,\na,6,9\n"
DROPS = {f"federation.{name}": rule for name, rule in BOTH.items()}
NOTES = ("rows without a target, left out: 2", "rows without a client, left out: 1")


def test_such_rows_are_left_out_and_counted_once(load: Load, tmp_path: Path) -> None:
    found = load(DROPS, data=GAPS)
    assert (found.client_names, found.notes) == (("a", "b"), NOTES)
    assert found.row_numbers.tolist() == [1, 6, 4]
    (tmp_path / "data.csv").write_text(GAPS)
    profile = profile_in(tmp_path, registration(BOTH))
    assert (profile["rows"], profile["clients"]) == (3, 2)
    assert profile["notes"] == list(NOTES)


@pytest.mark.parametrize(
    ("given", "lacking", "where"),
    [("target", "client", "/federation/client_key"), ("client", "target", "/federation/target")],
)
def test_a_gap_without_a_rule_is_an_error_that_names_the_rule(refuse, given, lacking, where):
    faults = refuse({f"federation.missing_{given}": "drop-row"}, data=GAPS)
    assert f"missing_{lacking}: drop-row" in faults[where]


def test_a_table_of_nothing_but_gaps_is_refused(refuse: Refuse) -> None:
    nothing = "hospital,x,cost\n,1,5\na,2,\n"
    assert "every row lacks" in refuse(DROPS, data=nothing)["/federation/target"]


@pytest.mark.parametrize(
    ("field", "default", "other"),
    [("join", {}, {"race": RACE}), ("missing_client", "reject", "drop-row")],
)
def test_what_is_no_departure_changes_no_hash(field: str, default: Any, other: Any) -> None:
    plain, same, another = (
        spec_hash(parse_spec(changed(TABLE, changes)))
        for changes in ({}, {f"federation.{field}": default}, {f"federation.{field}": other})
    )
    assert plain == same != another


PATIENTS = "hospital,age,epsilon,cost\nb,50,0.5,1\na,60,2,2\nb,70,1e-3,3\na,40,30,4\na,30,0.25,5\n"
BUDGETS: dict[str, Any] = {
    "training": {
        "loss": "mse",
        "rounds": 1,
        "cohort": {"sampling": "poisson", "rate": 1},
        "local": {"steps": 1},
    },
    "privacy": {**BY_RECORD, "budgets": {"column": "epsilon"}},
}
POINTER = "/privacy/budgets/column"


def test_budgets_are_kept_beside_their_rows_and_are_no_feature(load: Load) -> None:
    federation = load(BUDGETS, data=PATIENTS)
    assert federation.feature_names == ("age",)
    assert federation.record_budgets.tolist() == [2, 30, 0.25, 0.5, 1e-3]
    # Those of rows that are left out are left out too.
    changes = BUDGETS | {"federation.features": [{"name": "age", "missing": "drop-row"}]}
    federation = load(changes, data=PATIENTS.replace("a,60,2", "a,,0"))
    assert federation.record_budgets.tolist() == [30, 0.25, 0.5, 1e-3]
    drawn = changed(BUDGETS, {"privacy.budgets": {"distribution": "three-levels"}})
    for without in ({}, drawn):
        federation = load(without, data=PATIENTS)
        assert federation.record_budgets is None
        assert federation.feature_names == ("age", "epsilon")


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("0", "not above 0"),
        ("-1", "not above 0"),
        ("", "is empty"),
        ("NaN", "is not finite"),
        ("inf", "is not finite"),
        ("much", "is not a number"),
    ],
)
def test_a_cell_that_is_no_budget_is_refused_by_its_row(refuse, cell, problem):
    faults = refuse(BUDGETS, data=PATIENTS.replace("a,40,30", f"a,40,{cell}"))
    assert list(faults) == [POINTER]
    assert faults[POINTER].startswith("row 4 of column 'epsilon' ")
    assert problem in faults[POINTER]
    assert "much" not in faults[POINTER]


def test_a_column_that_is_not_there_is_refused(refuse: Refuse) -> None:
    faults = refuse(changed(BUDGETS, {"privacy.budgets.column": "consent"}), data=PATIENTS)
    assert "no column 'consent'" in faults[POINTER]


# -- tables that cannot be used: the field, the column, the row and the remedy are named ----------


PATH, FIRST = "/federation/path", "/federation/features/0"
GOOD = "hospital,x,cost\na,1,2\nb,3,4\na,1,2\n"
ONE_OF_CLASSES = {**CLASSIFIER, "federation.positive": "1"}


@pytest.mark.parametrize(
    ("changes", "pointer", "says"),
    [
        ({"federation.client_key": "city"}, "/federation/client_key", "'city'; it has 'hospital'"),
        ({"federation.target": "price"}, "/federation/target", "'price'"),
        ({"federation.target": "hospital"}, "/federation/target", "client key"),
        ({"federation.features": ["x", "y"]}, "/federation/features/1", "'y'"),
        ({"federation.features": ["x", "x"]}, "/federation/features/1", "twice"),
        ({"federation.features": ["cost"]}, FIRST, "is the target"),
        ({"federation.features": ["hospital"]}, FIRST, "is the client key"),
        ({"federation.drop": ["y"]}, "/federation/drop/0", "'y'"),
        ({"federation.drop": ["x"]}, "/federation/features", "no column is left"),
        ({"federation.drop": ["cost"]}, "/federation/drop/0", "do not drop it"),
        ({"federation.drop": ["x"], "federation.features": ["x"]}, FIRST, "under `drop` too"),
        ({"fairness": {"sensitive": ["race"]}}, "/fairness/sensitive/0", "'race'"),
        ({"fairness": {"sensitive": ["x", "cost"]}}, "/fairness/sensitive/1", "is the target"),
        ({"federation.scale": {"a/b": 2}}, "/federation/scale/a~1b", "neither a feature"),
        ({"federation.scale": {"hospital": 2}}, "/federation/scale/hospital", "neither"),
        ({"federation.scale": {"x": 1e-300}}, "/federation/scale/x", "larger scale"),
        ({"federation.scale": {"cost": 1e-300}}, "/federation/scale/cost", "larger scale"),
        ({"federation.positive": "4"}, "/federation/positive", "leave it out"),
        ({**CLASSIFIER, "federation.positive": "5"}, "/federation/positive", "'2', '4'"),
        ({**CLASSIFIER, "federation.scale": {"cost": 2}}, "/federation/scale/cost", "class"),
    ],
)  # fmt: skip
def test_fields_that_do_not_fit_the_table(refuse, changes, pointer, says):
    faults = refuse(changes, data=GOOD)
    assert list(faults) == [pointer]
    assert says in faults[pointer]


@pytest.mark.parametrize(
    ("rows", "changes", "pointer", "says"),
    [
        ("a,1,2\na,3,4\n", {}, "client_key", "at least two"),
        ("a,1,2\nb,3,4\nc,3,4\n", {}, "client_key", "different in every one of the 3"),
        ("a,1,yes\nb,1,no\na,1,\n", CLASSIFIER, "target", "row 3 of column 'cost' is empty"),
        ("a,1,yes\nb,1,yes\na,1,yes\n", CLASSIFIER, "target", "one value only"),
        ("a,1,1\nb,1,2\na,1,3\n", ONE_OF_CLASSES, "positive", "3 classes"),
    ],
)
def test_client_keys_and_classes(refuse, rows, changes, pointer, says):
    faults = refuse(changes, data="hospital,x,cost\n" + rows)
    assert says in faults[f"/federation/{pointer}"]


def test_a_measurement_makes_no_classes(refuse: Refuse) -> None:
    lines = "".join(f"{'ab'[row % 2]},1,{row}.5\n" for row in range(1001))
    message = refuse(CLASSIFIER, data="hospital,x,cost\n" + lines)["/federation/target"]
    assert "1001 distinct values" in message
    assert "rmse" in message


def test_parquet_gaps_and_infinities(refuse: Refuse, sources: Path) -> None:
    for gap, says in ((None, "is empty"), (float("nan"), "not finite"), (2**63, "past 64 bits")):
        x = pa.array([1, gap, 1], pa.uint64() if isinstance(gap, int) else pa.float64())
        table = pa.table({"hospital": ["a", "b", "b"], "x": x, "cost": [1, 2, 3]})
        pq.write_table(table, sources / "data.csv")
        message = refuse()["/federation/features"]
        assert "row 2 of column 'x'" in message
        assert says in message


def test_columns_are_bounded(refuse: Refuse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "MAX_COLUMNS", 2)
    assert "3 columns" in refuse(data=GOOD)[PATH]


def _damaged(rng: random.Random, content: bytes) -> bytes:
    """A few bytes changed, cut out or put in."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data))
        kind = rng.random()
        if kind < 0.6:
            data[place] = rng.choice([rng.randrange(256), *b'\n",\0'])
        elif kind < 0.8:
            del data[place : place + rng.randint(1, 9)]
        else:
            data[place:place] = rng.randbytes(rng.randint(1, 5))
        data = data or bytearray(b"x")
    return bytes(data)


@pytest.mark.parametrize("kind", ["csv", "gzip", "parquet"])
def test_damaged_files_are_refused_or_read_and_never_worse(sources: Path, kind: str) -> None:
    rng = random.Random(7)
    text = b"hospital,x,cost\n" + b'a,1,2\n"b, c",3,4\n' * 5
    table = pa.table({"hospital": ["a", "b", "b"], "x": [1.5, 2, 3], "cost": [1, 2, 3]})
    pq.write_table(table, sources / "good")
    whole = {"csv": text, "gzip": gzip.compress(text), "parquet": (sources / "good").read_bytes()}
    spec = parse_spec(spec_value({}))
    pointers: list[str] = []
    for _ in range(150):
        (sources / "data.csv").write_bytes(_damaged(rng, whole[kind]))
        try:
            federation = load_federation(spec, sources_dir=sources)
        except InvalidInputError as error:
            pointers += [fault.pointer for fault in error.errors]
        else:
            assert np.isfinite(federation.features).all()
    assert len(pointers) > 50
    assert all(pointer.startswith("/federation/") for pointer in pointers)
