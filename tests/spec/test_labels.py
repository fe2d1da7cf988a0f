"""Words for codes: what may be a label, and what a label leaves as it was."""

import pytest

from fedaudit.spec.disclosure import DisclosurePolicy, spec_faults
from fedaudit.spec.experiment import spec_hash
from fedaudit.spec.parse import decode_text, parse_spec
from fedaudit.spec.registration import departures, parse_uploaded
from tests.spec.documents import TABLE, changed, faults

CODED = changed(
    TABLE,
    {
        "fairness": {"sensitive": ["SEX"], "favourable": {"op": "in", "value": ["0"]}},
        "federation.target": "two_year_recid",
    },
)
WHERE = "/federation/labels"


def labelled(labels):
    return changed(CODED, {"federation.labels": labels})


def test_a_spec_without_labels_keeps_its_hash_and_one_with_labels_has_another():
    assert spec_hash(parse_spec(labelled({}))) == spec_hash(parse_spec(CODED))
    named = parse_spec(labelled({"SEX": {"1": "male"}}))
    assert spec_hash(named) != spec_hash(parse_spec(CODED))
    rule = {**CODED["fairness"]["favourable"], "label": "not re-arrested"}
    worded = parse_spec(changed(CODED, {"fairness.favourable": rule}))
    assert spec_hash(worded) != spec_hash(parse_spec(CODED))
    assert "label" not in parse_spec(CODED).model_dump(mode="json")["fairness"]["favourable"]


def test_a_code_that_yaml_takes_for_a_number_is_the_code():
    labels = decode_text("SEX: {1: male, 2: female}")
    assert parse_spec(labelled(labels)).federation.labels == {"SEX": {"1": "male", "2": "female"}}


@pytest.mark.parametrize(
    ("labels", "where", "message"),
    [
        ({"SEX": {"1": "male", "2": "Male "}}, f"{WHERE}/SEX/2", "space at its ends"),
        ({"SEX": {"1": "male", "2": "MALE"}}, f"{WHERE}/SEX/2", "nobody could tell them apart"),
        ({"SEX": {"1": "male", "2": "ｍale"}}, f"{WHERE}/SEX/2", "nobody could tell them apart"),
        ({"SEX": {"1": "male", "2": "ma\u200ble"}}, f"{WHERE}/SEX/2", "invisible"),
        ({"SEX": {"1": "male", "1.0": "man"}}, f"{WHERE}/SEX/1.0", "the same code as '1'"),
        ({"SEX": {"1": "2", "2": "1"}}, f"{WHERE}/SEX/1", "is itself a code"),
        ({"SEX": {"1": "<b>male</b>"}}, f"{WHERE}/SEX/1", "must not contain < or >"),
        ({"SEX": {"1": "m" * 81}}, f"{WHERE}/SEX/1", "at most 80"),
        ({"SEX": {"1": ""}}, f"{WHERE}/SEX/1", "at least 1"),
        ({"SEX": {"1": True}}, f"{WHERE}/SEX/1", "put it in quotes"),
        ({"SEX": {}}, f"{WHERE}/SEX", "at least 1"),
        ({"race": {"1": "white"}}, f"{WHERE}/race", "neither the target ('two_year_recid') nor"),
    ],
)
def test_labels_that_would_mislead_or_name_nothing_are_refused(labels, where, message):
    (fault,) = faults(labelled(labels))
    assert (fault.pointer, message in fault.message) == (where, True), fault


def test_a_registration_refuses_labels_of_columns_that_it_does_not_name():
    value = {
        "name": "coded",
        "federation": {
            "source": "table",
            "client_key": "who",
            "target": "y",
            "labels": {"RACE": {"1": "white"}},
        },
    }
    with pytest.raises(Exception, match=r"'RACE' is neither the target"):
        parse_uploaded(value, file_name="a.csv")


REGISTERED = parse_uploaded(
    {
        "name": "coded",
        "federation": {
            "source": "table",
            "client_key": "who",
            "target": "two_year_recid",
            "labels": {"SEX": {"1": "male", "2": "female"}},
        },
        "fairness": {
            "sensitive": ["SEX"],
            "favourable": {"op": "in", "value": ["0"], "label": "not re-arrested"},
        },
    },
    file_name="a.csv",
)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({}, []),
        ({"federation.labels": {"SEX": {"1": "male", "2": "female"}}}, []),
        ({"federation.labels": {"SEX": {"1": "female", "2": "male"}}}, [f"{WHERE}/SEX"]),
        (
            {"fairness.favourable": {"op": "in", "value": ["0"], "label": "re-arrested"}},
            ["/fairness/favourable"],
        ),
        ({"fairness.favourable": {"op": "in", "value": ["1"]}}, ["/fairness/favourable"]),
    ],
)
def test_whoever_may_not_read_the_data_calls_nothing_otherwise_than_registered(changes, where):
    spec = parse_spec(changed(CODED, changes))
    found = departures(spec, REGISTERED, known_groups=["1", "2"])
    assert [fault.pointer for fault in found] == where


def test_a_policy_fixes_the_rule_and_not_its_words():
    policy = DisclosurePolicy.model_validate({"favourable": {"op": "in", "value": ["0"]}})
    rule = {"op": "in", "value": ["0"], "label": "not re-arrested"}
    worded = parse_spec(changed(CODED, {"fairness.favourable": rule}))
    assert spec_faults(policy, worded, registration=None) == []
    other = parse_spec(changed(CODED, {"fairness.favourable": {"op": "in", "value": ["1"]}}))
    assert [one.pointer for one in spec_faults(policy, other, registration=None)] == [
        "/fairness/favourable"
    ]
