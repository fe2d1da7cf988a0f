"""Sensitive attributes, favourable outcomes, intersections and labels of groups."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.federations.groups import OutcomeRules, group_names, outcome_rules
from fedaudit.federations.load import check_agreement, load_federation, pooled_groups
from fedaudit.spec.parse import parse_spec
from tests.federations.conftest import (
    CLASSIFIER,
    Load,
    Refuse,
    profile_in,
    refused,
    registration,
    spec_value,
)

DATA = "hospital,x,sex,cost\na,1,F,7000\na,1,M,8000\nb,1,F,6000\nb,1,,7000.5\nb,1,D,0\n"


def rules_of(load: Load, changes: dict[str, Any], data: str = DATA) -> OutcomeRules:
    return outcome_rules(load(changes, data=data), parse_spec(spec_value(changes)).fairness)


def fairness(favourable: object) -> dict[str, Any]:
    return {"fairness": {"sensitive": ["sex"], "favourable": favourable}}


def of_sex(name: str, **rule: Any) -> dict[str, Any]:
    """A rule for a group."""
    return {"group": {"sex": name}, **rule}


def test_one_rule_for_everyone_in_the_units_of_the_target(load: Load) -> None:
    changes = {**fairness({"op": "le", "value": 7000}), "federation.scale": {"cost": 10_000}}
    rules = rules_of(load, changes)
    federation = load(changes, data=DATA)
    assert (rules.ops, list(rules.values)) == (("le",), [7000])
    assert rules.rule_index.dtype == np.int16
    assert rules.rule_index.tolist() == [0, 0, 0, 0, 0]
    assert rules.label(federation.raw_target).tolist() == [True, False, True, False, True]


def test_rules_by_group_score_their_groups_only(load: Load) -> None:
    by_group = [of_sex("M", op="ge", value=8000), of_sex("F", op="le", value=6000)]
    rules = rules_of(load, fairness([*by_group, of_sex("D", op="ge", value=9000)]))
    assert rules.ops == ("ge", "le", "ge")
    assert rules.rule_index.tolist() == [1, 0, 1, -1, 2], "a group without a rule"
    assert rules.label(np.full(5, 5000.0)).tolist() == [True, False, True, False, False]


def test_a_number_without_a_rule_has_no_favourable_outcome(load: Load) -> None:
    rules = rules_of(load, fairness(None))
    assert rules.ops == ()
    assert not rules.label(np.ones((2, 3))).any()


def among(*classes: object) -> dict[str, Any]:
    """A rule that favours these."""
    return {"op": "in", "value": list(classes)}


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
        pytest.param(classifier(among("no")), YES_NO, {0}, id="a text"),
        pytest.param(classifier(among(1, 3)), STARS, {0, 2}, id="numbers"),
        pytest.param(classifier(among("3", 1.0)), STARS, {0, 2}, id="spellings"),
        pytest.param(classifier({"op": "ge", "value": 2}), STARS, {1, 2}, id="from 2"),
        pytest.param(classifier({"op": "le", "value": 2}), STARS, {0, 1}, id="to 2"),
    ],
)
def test_classes(load: Load, changes: dict[str, Any], data: str, favoured: set[int]) -> None:
    rules = rules_of(load, changes, data)
    assert (rules.ops, rules.values) == (("in",), (frozenset(favoured),))
    assert rules.rule_index.tolist() == [0, 0, 0]
    outcome = rules.label(np.array([0.0, 1.0, 2.0]))
    assert outcome.tolist() == [index in favoured for index in range(3)]


PERSONS = "hospital,x,sex,cost\n" + "".join(f"w{row % 5},1,F,person {row}\n" for row in range(21))
UNIT, IN_A, MAYBE = {"op": "ge", "value": 1}, among("a"), among("no", "maybe")


@pytest.mark.parametrize(
    ("changes", "data", "pointer", "says"),
    [
        (fairness(IN_A), DATA, "/op", "`ge` or `le`"),
        (fairness([of_sex("F", **IN_A)]), DATA, "/0/op", "`ge` or `le`"),
        (fairness([of_sex("X", **UNIT)]), DATA, "/0/group", "no value 'X'; it has 'D', 'F', 'M'"),
        (fairness([of_sex("F", **UNIT)] * 2), DATA, "/1/group", "has a rule already"),
        (fairness([of_sex("F", **UNIT)]), DATA, "", "no rule is for sex 'D', 'M'"),
        (classifier({"op": "ge", "value": 9}), STARS, "", "every outcome of 'cost' is favourable"),
        (classifier(among(1, 2, 3)), STARS, "", "or none is ('1', '2', '3.0'); name those"),
        (classifier(None), STARS, "", "3 classes"),
        (classifier(MAYBE), YES_NO, "/value/1", "it has 'no', 'ye"),
        (classifier(UNIT), YES_NO, "/op", "use `in`"),
        # Names of people are not quoted, not even a few.
        (
            classifier(IN_A),
            PERSONS,
            "/value/0",
            "no class 'a'; it has more values than can be named",
        ),
    ],
)
def test_rules_that_do_not_fit(refuse, changes, data, pointer, says):
    faults = refuse(changes, data=data)
    assert list(faults) == [f"/fairness/favourable{pointer}"]
    assert says in faults[f"/fairness/favourable{pointer}"]


def test_each_group_has_its_own_favourable_classes(load: Load) -> None:
    rules = [of_sex("F", **among(1, "3")), of_sex("M", **among(2.0))]
    found = rules_of(load, classifier(rules), STARS)
    assert found.values == (frozenset({0, 2}), frozenset({1}))
    assert found.label(np.array([0.0, 1.0, 2.0])).all()
    assert not found.label(np.array([1.0, 0.0, 1.0])).any()


def rows_of(head: str, *rows: str) -> str:
    return "\n".join([f"hospital,x,{head}", *rows, ""])


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
    found = federation.attributes[2]
    assert [one.name for one in federation.attributes] == ["sex", "race", "sex_race"]
    assert found.values == ("F, Black", "F, White", "M, Black", "M, White")
    assert found.codes.dtype == np.int16
    assert found.codes.tolist() == [1, 2, -1, 3, -1, 3], "missing in either is missing"


def test_a_row_belongs_where_all_its_parts_say(load: Load) -> None:
    fairness = {"sensitive": ["sex", "race", "age"], "intersections": [["race", "age", "sex"]]}
    changes = {**CLASSIFIER, "federation.features": ["x"], "fairness": fairness}
    people = [
        *("a,1,F,White,40,yes", "a,1,M,Black,9,no", "a,1,F,,40,no"),
        *("b,1,M,White,,yes", "b,1,M,White,9,no"),
    ]
    found = load(changes, data=rows_of("sex,race,age,cost", *people)).attribute("race_age_sex")
    names = [found.values[code] if code >= 0 else None for code in found.codes]
    assert names == ["White, 40, F", "Black, 9, M", None, None, "White, 9, M"]


AGED = "hospital,x,age,sex,cost\na,1,39.9,F,1\na,2,40,M,2\nb,3,60,F,3\nb,4,,M,4\nb,5,59,F,5\n"


def by_age(edges: list[float], /, **fairness: Any) -> dict[str, Any]:
    usual = {"sensitive": ["age", "sex"], "favourable": {"op": "ge", "value": 3}}
    return {"fairness": usual | {"edges": {"age": edges} if edges else {}} | fairness}


PAIRS = [f"{'ab'[row % 2]},1,s{row % 40},r{row % 26},{row % 3}" for row in range(1040)]
RUN_TOGETHER = ['a,1,"p, q",r,yes', 'a,1,p,"q, r",no', 'b,1,"p, q",r,yes', 'b,1,p,"q, r",no']
EMPTY = ["a,1,,F,1", "a,2,,M,2", "b,3,,F,3"]
NO_NUMBER = "row 3 of column 'age' is not"
MEASURED = [f"{'ab'[row % 2]},1,{row}.5,F,1" for row in range(1001)]


@pytest.mark.parametrize(
    ("changes", "data", "pointer", "says"),
    [
        (BOTH, rows_of("sex,race,cost", *PAIRS), "intersections/0", "1040 groups, and 1000 are"),
        (BOTH, rows_of("sex,race,cost", *RUN_TOGETHER), "intersections/0", "same name"),
        (by_age([]), rows_of("age,sex,cost", *MEASURED), "sensitive/0", "numbers by `edges`"),
        (by_age([40]), rows_of("age,sex,cost", *EMPTY), "sensitive/0", "every row"),
        *(
            (by_age([40]), AGED.replace("60,F", f"{cell},F"), "edges/age", NO_NUMBER)
            for cell in ("forty", "NaN", "1e999")
        ),
    ],
)
def test_groups_that_cannot_be_made_are_refused_and_no_cell_is_shown(
    refuse, changes, data, pointer, says
):
    faults = refuse(changes, data=data)
    assert list(faults) == [f"/fairness/{pointer}"]
    assert says in faults[f"/fairness/{pointer}"]
    assert not [cell for cell in ("p, q", "forty", "NaN", "1e999") if cell in str(faults)]


def test_a_reference_group_may_be_a_combination(load: Load, refuse: Refuse) -> None:
    fairness = {**BOTH["fairness"], "reference_group": "M, White"}
    load({**BOTH, "fairness": fairness}, data=PEOPLE)
    faults = refuse({**BOTH, "fairness": {**fairness, "reference_group": "M,White"}}, data=PEOPLE)
    assert list(faults) == ["/fairness/reference_group"]


LABELLED = "hospital,x,sex,cost\n" + "".join(
    f"h{row % 10},{row},{1 + row % 2},{row % 2}\n" for row in range(80)
)
FAIRNESS: dict[str, Any] = {"sensitive": ["sex"]}


def labelled(labels: dict[str, Any], **fairness: Any) -> dict[str, Any]:
    return {"federation.labels": labels, "fairness": {**FAIRNESS, **fairness}}


def test_labels_move_no_row_and_no_group(load: Load) -> None:
    plain, named = (load(labelled(one), data=LABELLED) for one in ({}, {"sex": {"1": "male"}}))
    assert plain.fingerprint == named.fingerprint
    assert plain.attribute("sex").values == named.attribute("sex").values == ("1", "2")


def test_a_label_of_no_code_and_one_that_a_code_has_are_named(refuse: Refuse) -> None:
    faults = refuse(labelled({"sex": {"1": "2", "3": "other"}}), data=LABELLED)
    assert set(faults) == {"/federation/labels/sex/1", "/federation/labels/sex/3"}
    assert "another group" in faults["/federation/labels/sex/1"]
    assert "'1', '2'" in faults["/federation/labels/sex/3"]
    swapped = {"sex": {"female": "Male", "male": "Female"}}
    words = "hospital,x,sex,cost\n" + "".join(
        f"h{row % 10},{row},{('male', 'female')[row % 2]},{row % 2}\n" for row in range(80)
    )
    faults = refuse(labelled(swapped), data=words)
    assert set(faults) == {"/federation/labels/sex/female", "/federation/labels/sex/male"}


def test_a_stored_spec_is_loaded_by_the_rules_of_its_time(load, refuse, sources) -> None:
    partial = fairness([of_sex("F", **UNIT)])
    unlike = classifier({"op": "ge", "value": 9})
    for changes, data in (
        (partial, DATA),
        (unlike, STARS),
        (labelled({"sex": {"1": "2"}}), LABELLED),
    ):
        [where] = refuse(changes, data=data)
        assert where.startswith(("/fairness/favourable", "/federation/labels"))
        spec = parse_spec(spec_value(changes))
        stored = load_federation(spec, sources_dir=sources)
        check_agreement(spec, stored)
        assert stored.rows == len(data.splitlines()) - 1


def test_groups_between_edges_are_labelled_by_their_names(load: Load, refuse: Refuse) -> None:
    labels = {"sex": {"<2": "first", ">=2": "second"}}
    assert load(labelled(labels, edges={"sex": [2]}), data=LABELLED).rows == 80
    named = {f"/federation/labels/sex/{name}" for name in ("<2", ">=2")}
    assert set(refuse(labelled(labels), data=LABELLED)) == named


def test_a_registration_is_checked_and_its_labelled_target_taken_for_classes(tmp_path):
    (tmp_path / "data.csv").write_text(LABELLED)
    labels = {"cost": {"0": "cheap", "1": "dear"}, "sex": {"1": "male"}}
    found = profile_in(tmp_path, registration({"labels": labels}, fairness=FAIRNESS))
    assert found["classes"] == ["0", "1"]
    wrong = {"cost": {"7": "cheap"}, "sex": {"male": "male"}}
    faults = refused(tmp_path, registration({"labels": wrong}, fairness=FAIRNESS))
    as_numbers = {"cost": {"0.0": "cheap"}, "sex": {"1.0": "male"}}
    assert profile_in(tmp_path, registration({"labels": as_numbers}, fairness=FAIRNESS))["rows"]
    assert set(faults) == {"/federation/labels/cost/7", "/federation/labels/sex/male"}


def test_a_number_is_cut_into_groups_that_include_their_lower_edge(load: Load) -> None:
    federation = load(by_age([40, 60]), data=AGED)
    age = federation.attribute("age")
    assert (age.values, age.codes.tolist()) == (("<40", "40 to <60", ">=60"), [0, 1, 2, -1, 1])
    assert federation.attribute("sex").values == ("F", "M")
    assert federation.feature_names == ("x",)
    assert federation.notes == ("rows without a value of 'age', in no group: 1",)


def test_rules_and_the_reference_group_name_such_groups(load: Load) -> None:
    rules = [
        {"group": {"age": "<40"}, "op": "le", "value": 1},
        {"group": {"age": ">=60"}, "op": "ge", "value": 2},
        {"group": {"age": "40 to <60"}, "op": "ge", "value": 3},
    ]
    changes = by_age([40, 60], favourable=rules, reference_group="40 to <60")
    found = outcome_rules(load(changes, data=AGED), parse_spec(spec_value(changes)).fairness)
    assert found.rule_index.tolist() == [0, 2, 1, -1, 2]


@pytest.mark.parametrize(
    ("edges", "names"),
    [
        ([40.0], ("<40", ">=40")),
        ([0.1, 2.5], ("<0.1", "0.1 to <2.5", ">=2.5")),
        ([-0.0, 1e20], ("<0", "0 to <1e+20", ">=1e+20")),
        ([-3.0, 1e-9], ("<-3", "-3 to <1e-09", ">=1e-09")),
    ],
)
def test_numbers_in_names_are_as_short_as_can_be(edges, names):
    assert group_names(edges) == names


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=30, unique=True).map(sorted))
def test_names_of_groups_are_distinct(edges: list[float]) -> None:
    names = group_names(edges)
    assert len(set(names)) == len(names) == len(edges) + 1
    assert float(names[0][1:]) == edges[0]
    assert [float(name.split(" to <")[1]) for name in names[1:-1]] == edges[1:]


@given(st.lists(st.integers(0, 90), min_size=1, max_size=12), st.integers(1, 60))
def test_pooled_sites_are_large_enough_and_leave_something_to_compare(sizes, least):
    pool = pooled_groups(np.array(sizes), least)
    apart = [size for place, size in enumerate(sizes) if size and place not in pool]
    if pool:
        assert sum(sizes[place] for place in pool) >= least
        assert apart, "the pool is compared with somebody"
        assert min(apart) >= least, "no small site stays by itself"
        assert max(sizes[place] for place in pool) <= min(apart)
    else:
        all_large = all(size >= least for size in apart)
        assert all_large or max(apart) < least or sum(apart) - max(apart) < least
