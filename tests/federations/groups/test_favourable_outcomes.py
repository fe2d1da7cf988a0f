"""Favourable outcomes: by rule, by group, and by class."""

from typing import Any

import numpy as np
import pytest

from fedaudit.federations.favourable_outcomes import OutcomeRules, outcome_rules
from fedaudit.spec.parse import parse_spec
from tests.federations.conftest import CLASSIFIER, Load, Refuse, spec_value

DATA = "hospital,x,sex,cost\na,1,F,7000\na,1,M,8000\nb,1,F,6000\nb,1,,7000.5\nb,1,D,0\n"


def rules_of(load: Load, changes: dict[str, Any], data: str = DATA) -> OutcomeRules:
    return outcome_rules(load(changes, data=data), parse_spec(spec_value(changes)).fairness)


def fairness(favourable: object) -> dict[str, Any]:
    return {"fairness": {"sensitive": ["sex"], "favourable": favourable}}


def test_one_rule_for_everyone_in_the_units_of_the_target(load: Load) -> None:
    changes = {**fairness({"op": "le", "value": 7000}), "federation.scale": {"cost": 10_000}}
    rules = rules_of(load, changes)
    federation = load(changes, data=DATA)

    assert rules.ops == ("le",)
    assert list(rules.values) == [7000]
    assert rules.rule_index.dtype == np.int16
    assert rules.rule_index.tolist() == [0, 0, 0, 0, 0]
    favourable = rules.label(federation.raw_target)
    assert favourable.tolist() == [True, False, True, False, True]


def test_rules_by_group_score_their_groups_only(load: Load) -> None:
    by_group = [
        {"group": {"sex": "M"}, "op": "ge", "value": 8000},
        {"group": {"sex": "F"}, "op": "le", "value": 6000},
    ]
    rules = rules_of(load, fairness(by_group))

    assert rules.ops == ("ge", "le")
    assert rules.rule_index.tolist() == [1, 0, 1, -1, -1], "no rule for D and for nobody"
    predicted = np.full(5, 5000.0)
    assert rules.label(predicted).tolist() == [True, False, True, False, False]


def test_no_sensitive_attribute_no_rules(load: Load) -> None:
    rules = rules_of(load, {"federation.drop": ["sex"]})
    assert rules.ops == ()
    assert (rules.rule_index == -1).all()
    assert not rules.label(np.ones((2, 3))).any()


def test_a_number_without_a_rule_has_no_favourable_outcome(load: Load) -> None:
    rules = rules_of(load, fairness(None))
    assert rules.ops == ()
    assert not rules.label(np.ones((2, 3))).any()


def classifier(favourable: object, **federation: object) -> dict[str, Any]:
    changes = {f"federation.{name}": value for name, value in federation.items()}
    return {**CLASSIFIER, **fairness(favourable), **changes}


YES_NO = "hospital,x,sex,cost\na,1,F,yes\nb,1,M,no\nb,1,F,yes\n"
STARS = "hospital,x,sex,cost\na,1,F,1\nb,1,M,2\nb,1,F,3.0\n"


@pytest.mark.parametrize(
    ("changes", "data", "favoured"),
    [
        pytest.param(classifier(None), YES_NO, {1}, id="the last of two"),
        pytest.param(classifier(None, positive="no"), YES_NO, {1}, id="the positive one"),
        pytest.param(classifier({"op": "in", "value": ["no"]}), YES_NO, {0}, id="a text"),
        pytest.param(classifier({"op": "in", "value": [1, 3]}), STARS, {0, 2}, id="numbers"),
        pytest.param(classifier({"op": "in", "value": ["3", 1.0]}), STARS, {0, 2}, id="spellings"),
        pytest.param(classifier({"op": "ge", "value": 2}), STARS, {1, 2}, id="from 2"),
        pytest.param(classifier({"op": "le", "value": 2}), STARS, {0, 1}, id="to 2"),
        pytest.param(classifier({"op": "ge", "value": 9}), STARS, set(), id="none"),
    ],
)
def test_classes(load: Load, changes: dict[str, Any], data: str, favoured: set[int]) -> None:
    rules = rules_of(load, changes, data)
    assert rules.ops == ("in",)
    assert rules.values == (frozenset(favoured),)
    assert rules.rule_index.tolist() == [0, 0, 0]
    outcome = rules.label(np.array([0.0, 1.0, 2.0]))
    assert outcome.tolist() == [index in favoured for index in range(3)]


@pytest.mark.parametrize(
    ("changes", "data", "pointer", "says"),
    [
        (fairness({"op": "in", "value": [1]}), DATA, "/fairness/favourable/op", "`ge` or `le`"),
        (
            fairness([{"group": {"sex": "X"}, "op": "ge", "value": 1}]),
            DATA,
            "/fairness/favourable/0/group",
            "no value 'X'; it has 'D', 'F', 'M'",
        ),
        (
            fairness([{"group": {"sex": "F"}, "op": "ge", "value": 1}] * 2),
            DATA,
            "/fairness/favourable/1/group",
            "has a rule already",
        ),
        (
            fairness([{"group": {"sex": "F"}, "op": "in", "value": ["a"]}]),
            DATA,
            "/fairness/favourable/0/op",
            "`ge` or `le`",
        ),
        (classifier(None), STARS, "/fairness/favourable", "3 classes"),
        (
            classifier({"op": "in", "value": ["no", "maybe"]}),
            YES_NO,
            "/fairness/favourable/value/1",
            "no class 'maybe'; it has 'no', 'yes'",
        ),
        (classifier({"op": "ge", "value": 1}), YES_NO, "/fairness/favourable/op", "use `in`"),
    ],
)
def test_rules_that_do_not_fit(
    refuse: Refuse, changes: dict[str, Any], data: str, pointer: str, says: str
) -> None:
    faults = refuse(changes, data=data)
    assert list(faults) == [pointer]
    assert says in faults[pointer]


CHARACTERS = "hospital,x,rotated,cost\n" + "".join(
    f"w{row % 5},1,{'no' if row % 5 < 3 else 'yes'},{row % 62}\n" for row in range(310)
)


def test_many_classes_with_numbers_for_names_and_rules_by_client(load: Load) -> None:
    """As of handwriting: 62 classes, and writers whose images are turned."""
    upper = [*range(10), *(str(index) for index in range(10, 36))]
    rules = [
        {"group": {"rotated": "no"}, "op": "in", "value": upper},
        {"group": {"rotated": "yes"}, "op": "in", "value": [61.0, "0"]},
    ]
    changes = {**CLASSIFIER, "fairness": {"sensitive": ["rotated"], "favourable": rules}}
    federation = load(changes, data=CHARACTERS)
    found = outcome_rules(federation, parse_spec(spec_value(changes)).fairness)

    assert federation.classes == tuple(map(str, range(62)))
    assert found.values == (frozenset(range(36)), frozenset({0, 61}))
    plain = federation.client_of < 3
    assert set(found.rule_index[plain].tolist()) == {0}
    assert set(found.rule_index[~plain].tolist()) == {1}
    outcome = found.label(federation.raw_target)
    raw = federation.raw_target
    assert np.array_equal(outcome[plain], raw[plain] < 36)
    assert np.array_equal(outcome[~plain], np.isin(raw[~plain], [0, 61]))


def test_a_class_that_does_not_exist_is_named(refuse: Refuse) -> None:
    rules = [{"group": {"rotated": "no"}, "op": "in", "value": [3, 62]}]
    changes = {**CLASSIFIER, "fairness": {"sensitive": ["rotated"], "favourable": rules}}
    faults = refuse(changes, data=CHARACTERS)
    assert list(faults) == ["/fairness/favourable/0/value/1"]
    assert "no class 62" in faults["/fairness/favourable/0/value/1"]
