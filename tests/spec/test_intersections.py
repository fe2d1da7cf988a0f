"""Combinations of sensitive attributes in a spec: their names, and what is refused."""

from typing import Any

import pytest

from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec


def spec(fairness: dict[str, Any], **changes: Any) -> ExperimentSpec:
    value = {
        "name": "people",
        "federation": {"source": "table", "path": "a.csv", "client_key": "who", "target": "y"},
        "model": {"kind": "logistic"},
        "training": {"loss": "cross-entropy", "rounds": 3, "cohort": {"clients": 2}},
        "privacy": {"mechanism": "none"},
        "fairness": fairness,
        **changes,
    }
    return parse_spec(value)


def fault(fairness: dict[str, Any], **changes: Any) -> tuple[str, str]:
    with pytest.raises(InvalidInputError) as caught:
        spec(fairness, **changes)
    (error,) = caught.value.errors
    return error.pointer, error.message


def test_intersections_are_named_after_their_parts_and_come_last() -> None:
    fairness = spec(
        {"sensitive": ["sex", "race", "age"], "intersections": [["sex", "race"], ["age", "sex"]]}
    ).fairness
    assert fairness.attributes == ("sex", "race", "age", "sex_race", "age_sex")
    assert fairness.combinations == {"sex_race": ("sex", "race"), "age_sex": ("age", "sex")}


def test_without_intersections_the_sensitive_attributes_are_all() -> None:
    assert spec({"sensitive": ["sex"]}).fairness.attributes == ("sex",)
    assert spec({}).model_dump(mode="json")["fairness"]["intersections"] == []


def test_a_name_that_is_taken_is_spelt_otherwise() -> None:
    column = spec(
        {"sensitive": ["sex", "race", "sex_race"], "intersections": [["sex", "race"]]}
    ).fairness
    assert column.attributes[-1] == "sex x race"
    each_other = spec(
        {"sensitive": ["a", "a_b", "b_c", "c"], "intersections": [["a_b", "c"], ["a", "b_c"]]}
    ).fairness
    assert each_other.attributes[-2:] == ("a_b x c", "a x b_c")


@pytest.mark.parametrize(
    ("intersections", "pointer", "says"),
    [
        ([["sex", "job"]], "/fairness/intersections/0", "'job' is not in `sensitive`"),
        ([["sex", "race"], ["sex", "sex"]], "/fairness/intersections/1", "named twice"),
        ([["sex", "race"], ["race", "sex"]], "/fairness/intersections/1", "combined above"),
        ([["sex"]], "/fairness/intersections/0", "at least 2"),
        ([["sex", "race", "age", "a", "b"]], "/fairness/intersections/0", "at most 4"),
        ([["sex", "race"]] * 11, "/fairness/intersections", "at most 10"),
    ],
)
def test_what_cannot_be_combined(intersections: Any, pointer: str, says: str) -> None:
    sensitive = ["sex", "race", "age", "a", "b"]
    found, message = fault({"sensitive": sensitive, "intersections": intersections})
    assert found == pointer
    assert says in message


def test_names_that_stay_ambiguous_are_refused() -> None:
    names = ["sex", "race", "sex_race", "sex x race"]
    pointer, message = fault({"sensitive": names, "intersections": [["sex", "race"]]})
    assert pointer == "/fairness/intersections/0"
    assert "'sex x race'" in message


def test_gates_may_speak_of_an_intersection_or_of_every_attribute() -> None:
    fairness = {"sensitive": ["sex", "race"], "intersections": [["sex", "race"]]}
    gate = {"figure": "loss_ratio", "op": "ge", "value": 0.8}
    assert spec(fairness, gates=[{**gate, "attribute": "sex_race"}]).gates[0].compares_groups
    assert spec(fairness, gates=[gate]).gates[0].attribute is None
    pointer, message = fault(fairness, gates=[{**gate, "attribute": "race_sex"}])
    assert pointer == "/gates/0/attribute"
    assert "fairness.intersections" in message


def test_an_outcome_is_declared_by_a_rule_or_by_classes() -> None:
    regression = {
        "model": {"kind": "linear"},
        "training": {"loss": "rmse", "rounds": 3, "cohort": {"clients": 2}},
    }
    assert spec({"sensitive": ["sex"]}).declares_outcome
    assert not spec({"sensitive": ["sex"]}, **regression).declares_outcome
    rule = {"sensitive": ["sex"], "favourable": {"op": "ge", "value": 1}}
    assert spec(rule, **regression).declares_outcome
