"""Whatever does not fit a table is told at once."""

from pathlib import Path

import pytest

from fedaudit.federations.table.kept_rows import MAX_FAULTS
from tests.federations.conftest import Refuse
from tests.federations.registering import profile_in, refused, registration

TABLE = (
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
    "/fairness/edges/sex": "row 1 of column 'sex' is not a number",
    "/federation/scale/height": "neither a feature nor the target",
}


def test_a_load_tells_every_fault_of_the_rows(refuse: Refuse) -> None:
    changes = {"federation.features": FEATURES, "federation.scale": {"height": 2}, "fairness": SEX}
    faults = refuse(changes, data=TABLE)
    assert faults.keys() == {*EVERY, "/federation/target"}
    for where, message in EVERY.items():
        assert message in faults[where]


def test_a_profile_tells_them_too_and_rows_that_are_left_out_have_none(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(TABLE)
    federation = {"features": FEATURES, "scale": {"height": 2}}
    faults = refused(tmp_path, registration(federation, fairness=SEX))
    assert faults.keys() == {*EVERY, "/federation/target"}
    drops = {"missing_client": "drop-row", "missing_target": "drop-row"}
    features = [{"name": "age", "missing": "drop-row"}, FEATURES[1]]
    faults = refused(tmp_path, registration({**drops, "features": features}))
    assert "row 3 of column 'age'" in faults.pop("/federation/features/0")
    assert faults == {}, "row 4, whose ward is not declared, has no target"


def test_a_fault_deep_in_a_file_of_several_batches_is_told_by_its_own_row(tmp_path: Path) -> None:
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
    text = "\n".join(
        [
            ",".join(["hospital", *names, "cost"]),
            *(",".join([f"h{row % 3}", *["a"] * columns, "1"]) for row in range(9)),
            "",
        ]
    )
    (tmp_path / "data.csv").write_text(text)
    value = registration({"features": names})
    assert len(refused(tmp_path, value)) == min(columns, MAX_FAULTS)


def test_a_file_without_faults_is_read_as_before(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("hospital,x,cost\na,1,2\na,4,5\nb,2,3\n")
    assert profile_in(tmp_path, registration())["rows"] == 3
