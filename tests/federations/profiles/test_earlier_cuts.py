"""A column that profiles showed in one way is not shown in another."""

from fedaudit.federations.profiles.profile import beside_earlier, cuts_of
from fedaudit.spec.fairness import Groups


def profile(rows=300):
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


def test_the_first_cut_is_shown_and_remembered():
    found, cuts = beside_earlier(profile(), cuts_of(profile(), groups(83)), {})
    assert found == profile()
    assert cuts == {"age": {"rows": 300, "edges": [83.0], "favourable": None}}
    again, same = beside_earlier(profile(), cuts_of(profile(), groups(83)), cuts)
    assert again == profile()
    assert same == cuts


def test_other_edges_rules_and_rows_are_not():
    first = cuts_of(profile(), groups(83))
    for asked, found in (
        (groups(84), profile()),
        (groups(), profile()),
        (groups(83, value=4), profile()),
        (groups(83), profile(rows=299)),
    ):
        beside, cuts = beside_earlier(found, cuts_of(found, asked), first)
        assert not shown(beside)
        assert cuts == first, "what was not shown is not remembered"
        age = beside["attributes"]["age"]
        assert set(age["reasons"]) == {"groups", "missing", "base_rates"}
        assert age["missing"] is None


def test_another_attribute_is_added():
    _, cuts = beside_earlier(profile(), cuts_of(profile(), groups(83)), {"sex": {"rows": 300}})
    assert set(cuts) == {"age", "sex"}


def test_a_rule_by_another_name_is_the_same_rule():
    rule = {"op": "ge", "value": 3}
    plain, named = (
        Groups(sensitive=["age"], edges={"age": [83]}, favourable=one)
        for one in (rule, {**rule, "label": "granted"})
    )
    assert cuts_of(profile(), named) == cuts_of(profile(), plain)
