"""Features of a table: categories, gaps, scales and standardisation."""

import tempfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.federations import federation as federation_module
from fedaudit.federations.levels import Levels
from fedaudit.federations.load import load_federation
from fedaudit.federations.split import held_out_rows, split_clients
from fedaudit.federations.table.features import standardiser
from fedaudit.spec.federation import SyntheticLinear
from fedaudit.spec.parse import parse_spec
from tests.federations.conftest import CLASSIFIER, Load, Refuse, spec_value

PAINS = """hospital,age,pain,beds,cost
a,50,typical,2,1
a,,none,4,2
b,70,?,6,3
b,60,typical, ? ,4
c,65,atypical,8,5
c,55,none,,6
"""
PAIN: dict[str, Any] = {
    **{"name": "pain", "kind": "categorical"},
    "categories": ["none", "typical", "atypical"],
}
FILLED_PAIN = {**PAIN, "missing": "constant", "fill": "none"}
DROPPED_BEDS = {"name": "beds", "missing": "drop-row"}
GAPS: dict[str, Any] = {"missing_values": ["?"]}
RANGE = {"cost": {"low": 0, "high": 9}}


def asked(*columns: Any, **federation: Any) -> dict[str, Any]:
    changes = {f"federation.{name}": value for name, value in federation.items()}
    return {"federation.features": list(columns), **changes}


def rows_of(load: Load, changes: dict[str, Any], data: str = PAINS) -> list[list[float]]:
    return load(changes, data=data).features.tolist()


def test_an_ordinal_feature_is_its_position_and_may_be_scaled(load: Load) -> None:
    ordinal = {**PAIN, "encoding": "ordinal", "missing": "constant", "fill": "atypical"}
    changes = asked(ordinal, missing_values=["?"], scale={"pain": 2})
    federation = load(changes, data=PAINS)
    assert federation.feature_names == ("pain",)
    assert federation.features[:, 0].tolist() == [0.5, 0, 1, 0.5, 1, 0]
    assert federation.notes == ("some empty cells of 'pain' were taken as the declared value",)


@pytest.mark.parametrize(
    ("cells", "categories", "found"),
    [
        (("1", "2.0", "01", "2"), ["1", "2"], [0, 1, 0, 1]),
        (("1.0", "2", "1", "2.00"), ["1", "2"], [0, 1, 0, 1]),
        ((" 1 ", "2", "1", "2"), ["1", "2"], [0, 1, 0, 1]),
        # One that is spelt exactly goes first.
        (("01", "1", "1.0", "1"), ["1", "01"], [1, 0, 0, 0]),
    ],
)
def test_categories_that_are_numbers_match_however_they_are_spelt(load, cells, categories, found):
    lines = [f"{'aabb'[row]},{cell},{row}" for row, cell in enumerate(cells)]
    cp = {"name": "cp", "kind": "categorical", "categories": categories, "encoding": "ordinal"}
    data = "\n".join(["hospital,cp,cost", *lines])
    assert rows_of(load, asked(cp), data) == [[code] for code in found]


def test_rows_with_a_gap_are_left_out_where_that_is_declared(load: Load) -> None:
    named = [{"name": name, "missing": "drop-row"} for name in ("age", "beds")]
    changes = asked(*named, missing_values=["?"])
    federation = load(changes, data=PAINS)
    assert federation.features.tolist() == [[50, 2], [70, 6], [65, 8]]
    left_out = "rows with an empty cell in 'age', 'beds', left out: "
    assert federation.notes == (f"{left_out}3",)
    federation = load(changes, data=PAINS.replace("c,65", "c,"))
    assert federation.client_names == ("a", "b")
    assert federation.notes == (f"{left_out}4", "clients without a row, left out: 1")


def test_a_constant_fills_gaps_in_the_units_of_the_column(load: Load) -> None:
    beds = {"name": "beds", "missing": "constant", "fill": 10}
    changes = asked(beds, missing_values=["?", "none"], scale={"beds": 10})
    federation = load(changes, data=PAINS)
    assert federation.features[:, 0] == pytest.approx([0.2, 0.4, 0.6, 1, 0.8, 1])
    assert federation.notes == ("some empty cells of 'beds' were taken as the declared value",)


def test_missing_values_count_in_numbers_of_parquet_too(load: Load, sources: Path) -> None:
    table = pa.table({"hospital": [1, 1, 2], "x": [-9.0, 5.0, None], "cost": [1, 2, 3]})
    pq.write_table(table, sources / "data.csv")
    x = {"name": "x", "missing": "constant", "fill": 0.5}
    assert load(asked(x, missing_values=["-9"])).features[:, 0].tolist() == [0.5, 5, 0.5]


def test_missing_values_of_a_sensitive_attribute_are_in_no_group(load: Load) -> None:
    fairness = {"sensitive": ["pain"], "favourable": {"op": "ge", "value": 3}}
    changes = {**asked({"name": "age", "missing": "constant", "fill": 0}, missing_values=["?"])}
    federation = load({**changes, "fairness": fairness}, data=PAINS)
    assert federation.attribute("pain").values == ("atypical", "none", "typical")
    assert "rows without a value of 'pain', in no group: 1" in federation.notes


def test_a_file_without_a_header(load: Load) -> None:
    data = "1,2,a,7\n3,4,b,8\n5,6,a,7\n"
    changes = asked(header=False, client_key="column_3", target="column_4")
    federation = load({**changes, "federation.features": "all"}, data=data)
    assert federation.feature_names == ("column_1", "column_2")
    assert federation.raw_target.tolist() == [7, 7, 8]


@pytest.mark.parametrize(
    ("changes", "pointer", "says"),
    [
        (asked(PAIN), "features/0", "row 3 of column 'pain' is not one of the 3 declared"),
        (asked(FILLED_PAIN), "features/0", "row 3 of column 'pain' is not one of"),
        (asked(PAIN, **GAPS), "features/0", "empty; fill the gap, or say under the feature's `mis"),
        (asked("age"), "features/0", "row 2 of column 'age' is empty"),
        (asked(DROPPED_BEDS), "features/0", "row 4 of column 'beds' is not a number"),
        (asked("cost", PAIN, target="beds"), "target", "row 4 of column 'beds'"),
        (asked("cost", target="beds", **GAPS), "target", "row 4 of column 'beds' is empty"),
        (asked(DROPPED_BEDS, client_key="pain", **GAPS), "client_key", "row 3 of column 'pain' is"),
        (asked({"name": "weight"}), "features/0", "no column 'weight'"),
        (asked("age", {"name": "age"}), "features/1", "named twice"),
        (asked(PAIN, scale={"pain": 2}, **GAPS), "scale/pain", "a column of 0 and 1 per category"),
        (asked("age", scale=RANGE), "scale/cost", "takes {mean, deviation} or a divisor"),
        ({**asked("age", header=False), **CLASSIFIER}, "client_key", "it has 'column_1', 'c"),
    ],
)
def test_features_that_do_not_fit(refuse, changes, pointer, says):
    message = refuse(changes, data=PAINS)[f"/federation/{pointer}"]
    assert says in message
    assert "typical" not in message, "cells are confidential"


@pytest.mark.parametrize(
    ("rows", "changes", "pointer", "says"),
    [
        ("a,,\nb,1,2\nb,1,3\n", {}, "target", "row 1 of column 'cost' is empty"),
        ("a,,1\nb,,1\na,,2\n", {}, "features", "every row has an empty cell in one of 'x'"),
        ("a,,1\nb,2,0\na,3,0\n", CLASSIFIER, "target", "one value only"),
    ],
)
def test_what_is_left_without_rows_with_a_gap_must_do(refuse, rows, changes, pointer, says):
    asked_for = {**asked({"name": "x", "missing": "drop-row"}), **changes}
    assert says in refuse(asked_for, data="hospital,x,cost\n" + rows)[f"/federation/{pointer}"]


def test_categories_are_bounded(refuse: Refuse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federation_module, "_OF_A_ROW", 2**28)
    monkeypatch.setattr(federation_module, "_OF_A_CELL", 2**28)
    message = refuse(asked(PAIN), data=PAINS)["/federation/features"]
    assert "6 or more rows of 3 features" in message
    assert "about 6.00 GiB of memory in a run, and 4.00 GiB are" in message


def test_a_declared_range_and_what_lies_outside_it(load: Load) -> None:
    data = "hospital,x,cost\na,-5,1\na,0,2\nb,2.5,3\nb,10,4\nb,11,4\n"
    federation = load(asked("x", scale={"x": {"low": 0, "high": 10}}), data=data)
    assert federation.features[:, 0].tolist() == [0, 0, 0.25, 1, 1]
    assert federation.notes == ("some values of 'x' outside its range were brought to its ends",)


def test_one_scale_for_every_number_that_has_none(load: Load) -> None:
    ordinal = {**PAIN, "encoding": "ordinal", "missing": "drop-row"}
    data = "hospital,x,y,pain,cost\na,4,6,typical,1\nb,8,9,atypical,2\nb,8,9,none,2\n"
    federation = load(asked("x", "y", ordinal, scale={"*": 4, "y": 3}), data=data)
    assert federation.features.tolist() == [[1, 2, 1], [2, 3, 2], [2, 3, 0]]
    assert federation.target_scale == 1


NUMBERS = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.0, 0.1, 3.0]))
HELD_OUT = {
    unit: SyntheticLinear(source="synthetic-linear", validation_fraction=0.3, validation_unit=unit)
    for unit in ("client", "record")
}


@settings(max_examples=60, deadline=None)
@given(
    cells=st.lists(st.tuples(st.integers(0, 4), NUMBERS), min_size=5, max_size=60),
    unit=st.sampled_from(["client", "record"]),
    seed=st.integers(0, 100),
)
def test_standardised_columns_have_mean_0_and_deviation_1(cells, unit, seed):
    present, codes = np.unique([client for client, _ in cells], return_inverse=True)
    values = np.array([value for _, value in cells])
    if len(present) < 2:
        return
    clients = Levels(tuple(map(str, present)), codes)
    counted = np.ones(len(codes), dtype=np.bool_)
    keys = np.arange(len(codes), dtype=np.uint64)
    if unit == "record":
        counted = ~held_out_rows(keys, fraction=0.3, seed=seed)
    how: Literal["client", "global"]
    for how in ("client", "global"):
        bring = standardiser(how, clients, source=HELD_OUT[unit], seed=seed, keys=keys)
        out = bring(values)
        assert np.isfinite(out).all()
        training = split_clients(len(present), validation_fraction=0.3, seed=seed).training
        groups = [counted & (codes == client) for client in range(len(present))]
        if how == "global":
            groups = [counted if unit == "record" else np.isin(codes, training)]
        for group in groups:
            if not group.any() or np.ptp(values[group]) == 0:
                assert not out[group].any()
            elif np.ptp(values[group]) > 1e-3:
                assert abs(out[group].mean()) < 1e-6
                assert abs(out[group].std() - 1) < 1e-6


HEIGHTS = "hospital,x,flag,cost\n" + "".join(
    f"h{row % 10},{row * row % 17},{row % 2},{row}\n" for row in range(60)
)
FLAG = {"name": "flag", "kind": "categorical", "categories": ["0", "1"]}


@pytest.mark.parametrize("how", ["global", "client"])
def test_standardisation_looks_at_training_clients_or_at_each_by_itself(load: Load, how) -> None:
    changes = asked("x", FLAG, standardise=how, scale={"x": 10}, validation_fraction=0.3)
    federation = load({**changes, "seed": 4}, data=HEIGHTS)
    training = split_clients(10, validation_fraction=0.3, seed=4).training
    for clients in [training] if how == "global" else np.arange(10)[:, np.newaxis]:
        seen = federation.side_by_side[federation.rows_of(clients)]
        assert seen[:, 0].mean() == pytest.approx(0, abs=1e-6)
        assert seen[:, 0].std() == pytest.approx(1, abs=1e-6)
        assert set(seen[:, 1].tolist()) <= {0.0, 1.0}, "categories stay as they are"
    said = {"global": "all training clients' rows, taken without", "client": "within each client"}
    assert any(said[how] in note for note in federation.notes)
    other = load({**changes, "seed": 5}, data=HEIGHTS)
    assert np.array_equal(other.features, federation.features) == (how == "client")


NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]),
    min_size=1,
    max_size=8,
).filter(lambda text: text == text.strip() and text.strip("\ufeff"))


@settings(max_examples=30, deadline=None)
@given(data=st.data(), categories=st.lists(NAMES, min_size=1, max_size=6, unique=True))
def test_every_declared_category_is_found_again(data: st.DataObject, categories: list[str]) -> None:
    cells = data.draw(st.lists(st.sampled_from(categories), min_size=3, max_size=20))
    column = {"name": "x", "kind": "categorical", "categories": categories}
    with tempfile.TemporaryDirectory() as folder:
        table = {"hospital": [row % 2 for row in range(len(cells))], "x": cells}
        pq.write_table(pa.table({**table, "cost": [1] * len(cells)}), Path(folder) / "data.csv")
        spec = parse_spec(spec_value(asked(column)))
        federation = load_federation(spec, sources_dir=Path(folder))
    assert federation.feature_names == tuple(f"x={name}" for name in categories)
    expected = [[cell == name for name in categories] for cell in cells[0::2] + cells[1::2]]
    assert federation.features.tolist() == expected
