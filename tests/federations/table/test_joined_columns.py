"""One attribute in several columns of 0 and 1."""

from pathlib import Path
from typing import Any

import pytest

from fedaudit.spec.canonical import spec_hash
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.registration import parse_registration
from tests.federations.conftest import Load, Refuse
from tests.federations.proposals.tables import ONE_HOT
from tests.federations.registering import profile_in, refused, registration
from tests.spec.documents import TABLE, changed

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


def test_a_profile_counts_the_same_groups(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(ONE_HOT)
    federation = {
        "client_key": "school",
        "target": "passed",
        "positive": "1",
        "features": ["lsat", "gpa"],
        "join": {"race": RACE},
    }
    found = profile_in(tmp_path, registration(federation, fairness={"sensitive": ["race"]}))
    assert found["attributes"]["race"]["groups"] == {"Black": 48, "other": 48, "white": 144}
    assert found["class_balance"] == {"0": None, "1": None}, "24 who failed are too few to show"


@pytest.mark.parametrize(
    ("data", "changes", "where", "message"),
    [
        (PEOPLE.replace("a,1,1,0", "a,1,1,1"), {}, "/race", "row 1 of column 'Race_White' puts"),
        (PEOPLE.replace("a,1,1", "a,1,2"), {}, "/race/columns/Race_Black", "neither 0 nor 1"),
        (
            PEOPLE,
            {"columns": {"Black": "b", "Race_White": "w"}},
            "/race/columns/Black",
            "no column",
        ),
        (PEOPLE, {"columns": {"cost": "b", "Race_White": "w"}}, "/race/columns/cost", "the target"),
    ],
)
def test_what_cannot_be_joined_is_named(
    refuse: Refuse, tmp_path: Path, data: str, changes: dict[str, Any], where: str, message: str
) -> None:
    faults = refuse(joined(**changes), data=data)
    assert message in faults[f"/federation/join{where}"]
    (tmp_path / "data.csv").write_text(data)
    value = registration({"join": {"race": {**RACE, **changes}}}, fairness=BY_RACE)
    assert message in refused(tmp_path, value)[f"/federation/join{where}"]


def test_an_attribute_may_not_hide_a_column(refuse: Refuse) -> None:
    changes = {"federation.join": {"x": RACE}, "fairness": {**BY_RACE, "sensitive": ["x"]}}
    assert "already" in refuse(changes, data=PEOPLE)["/federation/join/x"]


@pytest.mark.parametrize(
    "race",
    [
        {"columns": {"a": "Black", "b": "black"}},
        {"columns": {"a": "Black"}},
        {"columns": {"a": "Black"}, "none": "Black"},
        {"columns": {}},
    ],
)
def test_groups_that_are_not_told_apart_are_refused(race: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        parse_registration(registration({"join": {"race": race}}))


def test_nothing_joined_changes_no_hash() -> None:
    plain = spec_hash(parse_spec(TABLE))
    assert spec_hash(parse_spec(changed(TABLE, {"federation.join": {}}))) == plain
    assert spec_hash(parse_spec(changed(TABLE, {"federation.join": {"race": RACE}}))) != plain
