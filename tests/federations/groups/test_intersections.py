"""Attributes whose groups combine those of others."""

import numpy as np
import pytest

from fedaudit.federations.groups import with_intersections
from tests.federations.conftest import CLASSIFIER, Load, Refuse

PEOPLE = (
    "hospital,x,sex,race,cost\n"
    "a,1,F,White,yes\na,1,M,Black,no\na,1,F,,no\n"
    "b,1,M,White,yes\nb,1,,Black,no\nb,1,M,White,no\n"
)
BOTH = {
    **CLASSIFIER,
    "fairness": {"sensitive": ["sex", "race"], "intersections": [["sex", "race"]]},
}


def test_every_combination_is_a_group_also_one_without_rows(load: Load) -> None:
    federation = load(BOTH, data=PEOPLE)
    found = federation.attribute("sex_race")
    assert [one.name for one in federation.attributes] == ["sex", "race", "sex_race"]
    assert found.values == ("F, Black", "F, White", "M, Black", "M, White")
    assert found.codes.dtype == np.int16
    assert found.codes.tolist() == [1, 2, -1, 3, -1, 3], "missing in either is missing"


def test_a_row_belongs_where_its_parts_say(load: Load) -> None:
    federation = load(
        {
            **CLASSIFIER,
            "federation.features": ["x"],
            "fairness": {
                "sensitive": ["sex", "race", "age"],
                "intersections": [["race", "age", "sex"], ["race", "sex"]],
            },
        },
        data="hospital,x,sex,race,age,cost\n"
        "a,1,F,White,40,yes\na,1,M,Black,9,no\na,1,F,,40,no\n"
        "b,1,M,White,,yes\nb,1,M,White,9,no\n",
    )
    for name, parts in {
        "race_age_sex": ("race", "age", "sex"),
        "race_sex": ("race", "sex"),
    }.items():
        found = federation.attribute(name)
        own = [federation.attribute(part) for part in parts]
        for cell in range(federation.rows):
            codes = [int(part.codes[cell]) for part in own]
            texts = [part.values[code] for part, code in zip(own, codes, strict=True)]
            if min(codes) < 0:
                assert found.codes[cell] == -1
            else:
                assert found.values[found.codes[cell]] == ", ".join(texts)


def test_missing_values_are_counted_in_a_note(load: Load) -> None:
    notes = load(BOTH, data=PEOPLE).notes
    assert "rows without a value of 'sex_race', in no group: 2" in notes


def test_without_intersections_nothing_changes(load: Load) -> None:
    federation = load(
        {**BOTH, "federation.drop": ["race"], "fairness": {"sensitive": ["sex"]}}, data=PEOPLE
    )
    assert with_intersections(federation, {}) is federation


def test_too_many_groups_are_refused(refuse: Refuse) -> None:
    data = "hospital,x,sex,race,cost\n" + "".join(
        f"{'ab'[row % 2]},1,s{row % 40},r{row % 26},{'yes' if row % 3 else 'no'}\n"
        for row in range(1040)
    )
    faults = refuse(BOTH, data=data)
    assert list(faults) == ["/fairness/intersections/0"]
    assert "40 x 26 combinations are 1040 groups, and 1000 are allowed" in next(
        iter(faults.values())
    )


def test_names_that_run_into_each_other_are_refused(refuse: Refuse) -> None:
    data = (
        "hospital,x,sex,race,cost\n"
        'a,1,"p, q",r,yes\na,1,p,"q, r",no\nb,1,"p, q",r,yes\nb,1,p,"q, r",no\n'
    )
    faults = refuse(BOTH, data=data)
    assert "same name" in faults["/fairness/intersections/0"]
    assert "p, q" not in faults["/fairness/intersections/0"]


def test_a_reference_group_may_be_a_combination(load: Load, refuse: Refuse) -> None:
    fairness = {**BOTH["fairness"], "reference_group": "M, White"}
    load({**BOTH, "fairness": fairness}, data=PEOPLE)
    faults = refuse({**BOTH, "fairness": {**fairness, "reference_group": "M,White"}}, data=PEOPLE)
    assert list(faults) == ["/fairness/reference_group"]


@pytest.mark.parametrize("favourable", [None, {"op": "ge", "value": 5}])
def test_a_target_that_is_a_number_may_go_without_a_rule(
    load: Load, favourable: dict[str, object] | None
) -> None:
    data = "hospital,x,sex,cost\na,1,F,3\na,1,M,8\nb,1,F,6\nb,1,M,7\n"
    load({"fairness": {"sensitive": ["sex"], "favourable": favourable}}, data=data)
