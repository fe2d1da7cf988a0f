"""Profiles of data: figures, what is hidden in them, and what further ones may show."""

import json
from pathlib import Path
from typing import Any

import pytest

from fedaudit.federations.profiles.profile import beside_earlier, cuts_of, profile
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.fairness import Groups
from tests.federations.conftest import CLASSIFIER, Load
from tests.federations.registering import profile_in, registration


def cut_profile(rows=300):
    of_age = {
        "of": "record",
        "groups": {"<83": 153, ">=83": 147},
        "missing": 0,
        "base_rates": {"<83": 0.5, ">=83": 0.25},
        "reasons": {},
    }
    return {"rows": rows, "attributes": {"age": of_age}}


def groups(*edges, value=None):
    rule = None if value is None else {"op": "ge", "value": value}
    return Groups(sensitive=["age"], edges={"age": list(edges)} if edges else {}, favourable=rule)


def shown(found):
    return found["attributes"]["age"]["groups"]["<83"] is not None


def test_the_first_cut_is_shown_and_remembered_beside_others():
    found, cuts = beside_earlier(cut_profile(), cuts_of(cut_profile(), groups(83)), {})
    assert found == cut_profile()
    assert cuts == {"age": {"rows": 300, "edges": [83.0], "favourable": None}}
    assert beside_earlier(cut_profile(), cuts_of(cut_profile(), groups(83)), cuts) == (found, cuts)
    sex = {"sex": {"rows": 300}}
    _, both = beside_earlier(cut_profile(), cuts_of(cut_profile(), groups(83)), sex)
    assert both == cuts | sex


def test_other_edges_rules_and_rows_are_not():
    first = cuts_of(cut_profile(), groups(83))
    for asked, found in (
        (groups(84), cut_profile()),
        (groups(), cut_profile()),
        (groups(83, value=4), cut_profile()),
        (groups(83), cut_profile(rows=299)),
    ):
        beside, cuts = beside_earlier(found, cuts_of(found, asked), first)
        assert not shown(beside)
        assert cuts == first, "what was not shown is not remembered"
        age = beside["attributes"]["age"]
        assert set(age["reasons"]) == {"groups", "missing", "base_rates"}
        assert age["missing"] is None


def test_a_rule_by_another_name_is_the_same_rule():
    rule = {"op": "ge", "value": 3}
    plain, named = (
        Groups(sensitive=["age"], edges={"age": [83]}, favourable=one)
        for one in (rule, {**rule, "label": "granted"})
    )
    assert cuts_of(cut_profile(), named) == cuts_of(cut_profile(), plain)


DATA = "hospital,x,sex,cost\na,1,F,7\na,2,M,8\nb,3,F,6\nb,4,,7\nb,5,F,0\nc,6,M,1\n"
FAIRNESS = {"sensitive": ["sex"], "favourable": {"op": "ge", "value": 7}, "minimum_group_size": 1}
GROUPS = Groups.model_validate(FAIRNESS)


def test_sizes_and_names_as_json(load: Load) -> None:
    figures = profile(load({"fairness": FAIRNESS}, data=DATA), GROUPS)

    assert json.loads(json.dumps(figures)) == figures
    assert figures == {
        "rows": 6,
        "clients": 3,
        "rows_per_client": {"minimum": 1, "median": 2.0, "maximum": 3},
        "features": ["x"],
        "target": "cost",
        "classes": [],
        "class_balance": None,
        "missing": {},
        "attributes": {
            "sex": {
                "of": "record",
                "groups": {"F": 3, "M": 2},
                "missing": 1,
                "base_rates": {"F": 1 / 3, "M": 0.5},
                "reasons": {},
            }
        },
        "warnings": [],
        "notes": ["rows without a value of 'sex', in no group: 1"],
        "reasons": {"class_balance": "the target is a number"},
    }


def test_classes_and_attributes_of_clients(load: Load) -> None:
    data = "hospital,x,sex,cost\na,1,F,y\na,2,,n\nb,3,M,y\nb,4,M,y\nb,5,M,n\n"
    fairness = {"sensitive": ["sex"], "minimum_group_size": 1}
    federation = load({**CLASSIFIER, "fairness": fairness}, data=data)
    figures = profile(federation, Groups.model_validate(fairness))
    assert figures["class_balance"] == {"n": 2, "y": 3}
    assert figures["attributes"]["sex"]["of"] == "client"
    assert figures["attributes"]["sex"]["base_rates"] == {"F": 1.0, "M": 2 / 3}


def figures_of(load: Load, groups: list[str], favoured: int | None = None) -> dict[str, Any]:
    """The profile of rows of these groups: every second one favoured, or so many first ones."""
    rows = "".join(
        f"{'ab'[row % 2]},1,{group},{row % 2 if favoured is None else int(row < favoured)}\n"
        for row, group in enumerate(groups)
    )
    fairness = {"sensitive": ["sex"]}
    federation = load({**CLASSIFIER, "fairness": fairness}, data="hospital,x,sex,cost\n" + rows)
    return profile(federation, Groups.model_validate(fairness))


def test_small_groups_are_hidden_together_with_what_would_give_them_away(load: Load) -> None:
    figures = figures_of(load, ["F"] * 40 + ["M"] * 35 + ["X"] * 3 + ["Y"] * 50)
    # 128 rows less those of F and Y leave 38 for M and X together.
    assert figures["attributes"]["sex"]["groups"] == {"F": 40, "M": None, "X": None, "Y": 50}
    assert figures["attributes"]["sex"]["base_rates"] == {"F": 0.5, "M": None, "X": None, "Y": 0.5}
    assert set(figures["attributes"]["sex"]["reasons"]) == {"groups", "base_rates"}
    (warning,) = figures["warnings"]
    assert warning["pointer"] == "/fairness/sensitive/0"
    assert "'sex' has groups of fewer than 30 rows: 'X'" in warning["message"]
    assert "nor those of 'M' that protect them; join them" in warning["message"]


@pytest.mark.parametrize(
    ("groups", "favoured", "shown", "rated", "balance"),
    [
        # The total would show that X and Z have one row each, and what came of them.
        (["F"] * 60 + ["M"] * 40 + ["X", "Z"], None, {"F": 60}, ["F"], 51),
        (["F"] * 60 + ["M"] * 40 + ["X", "Z"] * 15, None, {"F": 60, "M": 40}, ["F", "M"], 65),
        # The sizes of the classes, less what the rates add up to, would show the outcomes of rows
        # without a value.
        (["F"] * 60 + ["M"] * 40 + [""] * 2, None, {"F": 60, "M": 40}, ["F"], 51),
        # Rates would show the size of a small class.
        (["F", "M"] * 100, 7, {"F": 100, "M": 100}, [], None),
    ],
)
def test_what_is_shown_does_not_give_away_what_is_hidden(
    load: Load,
    groups: list[str],
    favoured: int | None,
    shown: dict[str, int],
    rated: list[str],
    balance: int | None,
) -> None:
    figures = figures_of(load, groups, favoured)
    found = figures["attributes"]["sex"]
    assert {name: size for name, size in found["groups"].items() if size is not None} == shown
    assert [name for name, rate in found["base_rates"].items() if rate is not None] == rated
    assert figures["class_balance"] == {"0": balance, "1": balance}


def test_without_a_rule_there_are_reasons_and_no_rates(load: Load) -> None:
    federation = load({"fairness": FAIRNESS}, data=DATA)
    no_rule = GROUPS.model_copy(update={"favourable": None})
    figures = profile(federation, no_rule)["attributes"]["sex"]
    assert figures["base_rates"] == {"F": None, "M": None}
    assert "is a number" in figures["reasons"]["base_rates"]

    wrong = Groups.model_validate({**FAIRNESS, "favourable": {"op": "in", "value": ["7"]}})
    with pytest.raises(InvalidInputError):
        profile(federation, wrong)


def test_classes_without_a_favourable_one_are_warned_of_and_none_is_quoted(tmp_path: Path) -> None:
    rows = [f"h{row % 9},1,{'FM'[row % 2]},name{row // 2}" for row in range(400)]
    (tmp_path / "data.csv").write_text("\n".join(["hospital,x,sex,cost", *rows]))
    found = profile_in(tmp_path, registration({"features": ["x"]}, {"sensitive": ["sex"]}))
    [warning] = found["warnings"]
    assert warning["pointer"] == "/fairness/favourable"
    assert "experiments are refused until then" in warning["message"]
    assert "name1" not in repr(found)
