"""Sensitive attributes that are numbers, cut at declared edges."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.federations.favourable_outcomes import outcome_rules
from fedaudit.federations.groups import group_names
from fedaudit.spec.parse import parse_spec
from tests.federations.conftest import Load, Refuse, spec_value

PEOPLE = "hospital,x,age,sex,cost\na,1,39.9,F,1\na,2,40,M,2\nb,3,60,F,3\nb,4,,M,4\nb,5,59,F,5\n"


def by_age(edges: list[float], /, **fairness: Any) -> dict[str, Any]:
    usual = {
        "sensitive": ["age", "sex"],
        "edges": {"age": edges},
        "favourable": {"op": "ge", "value": 3},
    }
    return {"fairness": usual | fairness}


def test_a_number_is_cut_into_groups_that_include_their_lower_edge(load: Load) -> None:
    federation = load(by_age([40, 60]), data=PEOPLE)
    age = federation.attribute("age")
    assert age.values == ("<40", "40 to <60", ">=60")
    assert age.codes.tolist() == [0, 1, 2, -1, 1]
    assert federation.attribute("sex").values == ("F", "M")
    assert federation.feature_names == ("x",)
    assert federation.notes == ("rows without a value of 'age', in no group: 1",)


def test_rules_and_the_reference_group_name_such_groups(load: Load) -> None:
    rules = [
        {"group": {"age": "<40"}, "op": "le", "value": 1},
        {"group": {"age": ">=60"}, "op": "ge", "value": 2},
    ]
    changes = by_age([40, 60], favourable=rules, reference_group="40 to <60")
    found = outcome_rules(load(changes, data=PEOPLE), parse_spec(spec_value(changes)).fairness)
    assert found.rule_index.tolist() == [0, -1, 1, -1, -1]


def test_groups_without_a_row_are_groups_all_the_same(load: Load) -> None:
    federation = load(by_age([0, 100], reference_group="<0"), data=PEOPLE)
    assert federation.attribute("age").values == ("<0", "0 to <100", ">=100")


def test_an_attribute_of_the_client(load: Load) -> None:
    data = "hospital,x,beds,sex,cost\na,1,9,F,1\na,2,9,M,2\nb,3,40,F,3\n"
    changes = by_age([], sensitive=["beds"], edges={"beds": [10.5]})
    changes["federation.drop"] = ["sex"]
    federation = load(changes, data=data)
    assert federation.attribute("beds").codes.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("edges", "names"),
    [
        ([40.0], ("<40", ">=40")),
        ([0.1, 2.5], ("<0.1", "0.1 to <2.5", ">=2.5")),
        ([-0.0, 1e20], ("<0", "0 to <1e+20", ">=1e+20")),
        ([-3.0, 1e-9], ("<-3", "-3 to <1e-09", ">=1e-09")),
    ],
)
def test_numbers_in_names_are_as_short_as_can_be(
    edges: list[float], names: tuple[str, ...]
) -> None:
    assert group_names(edges) == names


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=30, unique=True).map(sorted))
def test_names_of_groups_are_distinct(edges: list[float]) -> None:
    names = group_names(edges)
    assert len(set(names)) == len(names) == len(edges) + 1
    assert float(names[0][1:]) == edges[0]
    assert [float(name.split(" to <")[1]) for name in names[1:-1]] == edges[1:]


@pytest.mark.parametrize("cell", ["forty", "NaN", "1e999"])
def test_what_is_no_number_cannot_be_cut(refuse: Refuse, cell: str) -> None:
    faults = refuse(by_age([40, 60]), data=PEOPLE.replace("60,F", f"{cell},F"))
    assert list(faults) == ["/fairness/edges/age"]
    assert "row 3 of column 'age' is not" in faults["/fairness/edges/age"]
    assert cell not in faults["/fairness/edges/age"]


def test_an_attribute_that_is_empty_or_the_target(refuse: Refuse) -> None:
    empty = "hospital,x,age,sex,cost\na,1,,F,1\na,2,,M,2\nb,3,,F,3\n"
    assert "empty in every row" in refuse(by_age([40]), data=empty)["/fairness/sensitive/0"]
    changes = by_age([40], sensitive=["cost"], edges={"cost": [1]})
    assert "is the target" in refuse(changes, data=PEOPLE)["/fairness/sensitive/0"]


def test_many_values_ask_for_edges(refuse: Refuse) -> None:
    data = "hospital,x,age,sex,cost\n" + "".join(
        f"{'ab'[row % 2]},1,{row}.5,F,1\n" for row in range(1001)
    )
    changes = by_age([40], edges={})
    assert "numbers by `edges`" in refuse(changes, data=data)["/fairness/sensitive/0"]


def test_codes_fit_the_padded_array(load: Load) -> None:
    federation = load(by_age([float(edge) for edge in range(100)]), data=PEOPLE)
    assert federation.attribute("age").codes.dtype == np.int16
    assert len(federation.attribute("age").values) == 101
