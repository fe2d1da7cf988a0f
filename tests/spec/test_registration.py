"""Registrations, what specs take from them, and labels."""

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.spec.disclosure import DisclosurePolicy, spec_faults
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import spec_hash
from fedaudit.spec.parse import decode_text, parse_spec
from fedaudit.spec.registration import (
    departures,
    federation_id_of,
    parse_registration,
    parse_uploaded,
    waits_for_registration,
    with_registration,
)
from tests.refusals import refused_by
from tests.spec.documents import TABLE, changed, faults

REGISTERED_TABLE: dict[str, Any] = {"source": "table", "client_key": "client", "target": "income"}


def _registration(**federation: Any) -> dict[str, Any]:
    return {
        "name": "incomes",
        "federation": {**REGISTERED_TABLE, **federation},
        "fairness": {"sensitive": ["age"], "edges": {"age": [40, 60]}},
    }


def test_a_file_is_named_by_its_path_and_an_upload_by_its_name() -> None:
    found = parse_registration(_registration(path="folder/incomes.csv"))
    assert (found.federation.path, found.federation.id) == ("folder/incomes.csv", None)
    assert found.fairness.edges == {"age": [40, 60]}
    uploaded = parse_uploaded(_registration(), file_name="incomes.csv.gz")
    assert uploaded.federation.path == "incomes.csv.gz"
    for one in (found, uploaded):
        assert parse_registration(one.model_dump(mode="json")) == one


OTHER_ID = "01890000-0000-7000-8000-000000000000"


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (_registration(), "/federation/path"),
        (_registration(path="../x.csv"), "/federation/path"),
        (_registration(id=OTHER_ID), "/federation/id"),
        (_registration(path="x.csv", unknown=1), "/federation/unknown"),
        (_registration(path="x.csv", source="synthetic-linear"), "/federation/source"),
        (_registration(path="x.csv") | {"fairness": {"reference_group": "a"}}, "/fairness"),
        (_registration(path="x.csv") | {"fairness": {"edges": {"age": [1.0]}}}, "/fairness"),
        *(
            (_registration(path="x.csv", join={"race": race}), "/federation/join/race")
            for race in (
                {"columns": {"a": "Black", "b": "black"}},
                {"columns": {"a": "Black"}},
                {"columns": {"a": "Black"}, "none": "Black"},
                {"columns": {}},
            )
        ),
        ({"federation": {**REGISTERED_TABLE, "path": "x.csv"}}, "/name"),
        ({"name": "x"}, "/federation"),
        ({"name": "x", "federation": []}, "/federation"),
        (None, ""),
    ],
)
def test_a_registration_that_cannot_be_used_names_the_field(value: object, pointer: str) -> None:
    assert refused_by(parse_registration, value)[0].pointer.startswith(pointer)


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (_registration(path="x.csv"), "/federation/path"),
        (_registration(id=OTHER_ID), "/federation/id"),
        (_registration(target=None), "/federation/target"),
        ({"name": "x", "federation": "table"}, "/federation"),
        ({"name": "x"}, "/federation"),
        ([], ""),
    ],
)
def test_an_upload_names_no_other_file(value: object, pointer: str) -> None:
    assert refused_by(parse_uploaded, value, file_name="x.csv")[0].pointer == pointer


ID = "00000000-0000-7000-8000-000000000000"
REGISTERED = parse_uploaded(
    {
        "name": "defendants",
        "federation": {
            "source": "table",
            "client_key": "county",
            "target": "recid",
            "positive": "0",
            "features": ["priors", {"name": "degree", "kind": "categorical", "categories": ["F"]}],
            "scale": {"priors": 10, "*": 100},
            "missing_target": "drop-row",
            "labels": {"SEX": {"1": "male"}, "recid": {"0": "not re-arrested"}},
        },
        "fairness": {
            "sensitive": ["SEX", "age"],
            "edges": {"age": [30, 50]},
            "favourable": {"op": "in", "value": ["0"], "label": "free"},
            "minimum_group_size": 20,
        },
    },
    file_name="a.csv",
).model_dump(mode="json")
BARE = changed(TABLE, {"federation": {"id": ID, "validation_fraction": 0.4}, "fairness": ...})


def spec(**changes: Any) -> Any:
    value = changed(BARE, {name.replace("__", "."): given for name, given in changes.items()})
    return parse_spec(with_registration(value, REGISTERED))


@pytest.mark.parametrize("federation", [{"id": ID}, {"id": ID, "source": "table"}])
def test_a_spec_that_names_the_data_alone_is_completed(federation: dict[str, Any]) -> None:
    found = spec(federation={**federation, "validation_fraction": 0.4}).model_dump(mode="json")
    known = REGISTERED["federation"] | {"validation_fraction": 0.4, "path": None, "id": ID}
    taken = {*known} - {"leak_reviewed"}
    assert {name: found["federation"][name] for name in taken} == {
        name: known[name] for name in taken
    }
    fairness = REGISTERED["fairness"]
    assert {name: found["fairness"][name] for name in fairness} == fairness


@pytest.mark.parametrize(
    ("federation", "waits"),
    [
        ({"id": ID}, True),
        ({"id": ID, "source": "table"}, True),
        ({"id": ID, "source": "table", "target": "recid"}, False),
        ({"id": ID, "source": "images"}, False),
        ({"path": "a.csv"}, False),
        ("table", False),
    ],
)
def test_what_is_incomplete_by_itself_waits_for_the_registration(federation, waits):
    assert waits_for_registration({"federation": federation}) is waits


def test_what_the_spec_says_stays() -> None:
    found = spec(federation__features=["priors"], fairness={"sensitive": ["SEX"]})
    assert found.federation.features == ["priors"]
    assert found.federation.scale == {"priors": 10, "*": 100}
    assert (found.fairness.sensitive, found.fairness.edges) == (["SEX"], {})
    dealt = spec(federation__partition={"method": "iid", "clients": 30})
    assert dealt.federation.client_key is None
    ungrouped = spec(fairness={"sensitive": []})
    assert (ungrouped.fairness.sensitive, ungrouped.fairness.favourable) == ([], None)
    assert set(ungrouped.federation.labels) == {"recid"}


def test_a_spec_that_names_its_columns_keeps_its_meaning_and_takes_words() -> None:
    own = {"id": ID, "source": "table", "client_key": "county", "target": "recid"}
    found = spec(federation=own)
    assert (found.federation.positive, found.federation.scale) == (None, {})
    assert found.fairness.sensitive == []
    assert found.federation.labels == {"recid": {"0": "not re-arrested"}}
    for value, label in (("0", "free"), ("1", None)):
        rule = {"op": "in", "value": [value]}
        worded = spec(federation=own, fairness={"sensitive": ["SEX"], "favourable": rule})
        assert worded.fairness.favourable.label == label
        assert set(worded.federation.labels) == {"SEX", "recid"}
    assert spec(federation={**own, "labels": {}}).federation.labels == {}


def test_another_source_is_left_to_be_refused() -> None:
    value = changed(BARE, {"federation": {"id": ID, "source": "images"}})
    assert with_registration(value, REGISTERED) == value


_FIELDS = ["id", "source", "target", "features", "name", "sensitive", "favourable"]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(federation=_JSON, fairness=_JSON)
def test_a_document_of_any_form_ends_in_a_spec_or_in_faults(federation: Any, fairness: Any) -> None:
    value = {**copy.deepcopy(BARE), "federation": federation, "fairness": fairness}
    found = federation_id_of(value)
    assert found is None or found == federation["id"]
    completed = with_registration(value, REGISTERED)
    assert completed.keys() == value.keys()
    with suppress(InvalidInputError):
        parse_spec(completed)


FREE = {"op": "in", "value": ["0"]}
CODED = changed(
    TABLE,
    {"fairness": {"sensitive": ["SEX"], "favourable": FREE}, "federation.target": "two_year_recid"},
)
WORDED = changed(CODED, {"fairness.favourable": {**FREE, "label": "not re-arrested"}})
WHERE = "/federation/labels"


def labelled(labels):
    return changed(CODED, {"federation.labels": labels})


def test_a_spec_without_labels_keeps_its_hash_and_one_with_labels_has_another():
    assert spec_hash(parse_spec(labelled({}))) == spec_hash(parse_spec(CODED))
    named = parse_spec(labelled({"SEX": {"1": "male"}}))
    assert spec_hash(named) != spec_hash(parse_spec(CODED))
    assert spec_hash(parse_spec(WORDED)) != spec_hash(parse_spec(CODED))
    assert "label" not in parse_spec(CODED).model_dump(mode="json")["fairness"]["favourable"]


def test_a_code_that_yaml_takes_for_a_number_is_the_code():
    labels = decode_text("SEX: {1: male, 2: female}")
    assert parse_spec(labelled(labels)).federation.labels == {"SEX": {"1": "male", "2": "female"}}


@pytest.mark.parametrize(
    ("labels", "where", "message"),
    [
        ({"SEX": {"1": "male", "2": "Male "}}, f"{WHERE}/SEX/2", "space at its ends"),
        ({"SEX": {"1": "male", "2": "MALE"}}, f"{WHERE}/SEX/2", "could not be distinguished"),
        ({"SEX": {"1": "male", "2": "ｍale"}}, f"{WHERE}/SEX/2", "could not be distinguished"),
        ({"SEX": {"1": "male", "2": "ma\u200ble"}}, f"{WHERE}/SEX/2", "invisible"),
        ({"SEX": {"1": "male", "1.0": "man"}}, f"{WHERE}/SEX/1.0", "the same code as '1'"),
        ({"SEX": {"1": "2", "2": "1"}}, f"{WHERE}/SEX/1", "is itself a code"),
        ({"SEX": {"1": "<b>male</b>"}}, f"{WHERE}/SEX/1", "must not contain < or >"),
        ({"SEX": {"1": "m" * 81}}, f"{WHERE}/SEX/1", "at most 80"),
        ({"SEX": {"1": ""}}, f"{WHERE}/SEX/1", "is empty, or too short"),
        ({"SEX": {"1": True}}, f"{WHERE}/SEX/1", "put it in quotes"),
        ({"SEX": {}}, f"{WHERE}/SEX", "at least 1"),
        ({"race": {"1": "white"}}, f"{WHERE}/race", "neither the target ('two_year_recid') nor"),
    ],
)
def test_labels_that_would_mislead_or_name_nothing_are_refused(labels, where, message):
    (fault,) = faults(labelled(labels))
    assert (fault.pointer, message in fault.message) == (where, True), fault


def test_a_registration_refuses_labels_of_columns_that_it_does_not_name():
    value = {"name": "x", "federation": {**REGISTERED_TABLE, "labels": {"RACE": {"1": "white"}}}}
    [fault] = refused_by(parse_uploaded, value, file_name="a.csv")
    assert "'RACE' is neither the target" in fault.message


REGISTERED_LABELS = parse_uploaded(
    {
        "name": "coded",
        "federation": {
            **{"source": "table", "client_key": "who", "target": "two_year_recid"},
            "labels": {"SEX": {"1": "male", "2": "female"}},
        },
        "fairness": WORDED["fairness"],
    },
    file_name="a.csv",
)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({}, []),
        ({"federation.labels": {"SEX": {"1": "male", "2": "female"}}}, []),
        ({"federation.labels": {"SEX": {"1": "female", "2": "male"}}}, [f"{WHERE}/SEX"]),
        ({"fairness.favourable": {**FREE, "label": "re-arrested"}}, ["/fairness/favourable"]),
        ({"fairness.favourable": {"op": "in", "value": ["1"]}}, ["/fairness/favourable"]),
        ({"decision": {"threshold": 0.3}}, []),
        ({"decision": {"threshold": 0.31}}, ["/decision/threshold"]),
    ],
)
def test_a_key_that_may_not_read_the_data_relabels_and_cuts_nothing(changes, where):
    spec = parse_spec(changed(CODED, changes))
    found = departures(spec, REGISTERED_LABELS, known_groups=["1", "2"])
    assert [fault.pointer for fault in found] == where


def test_a_policy_fixes_the_rule_and_not_its_words():
    policy = DisclosurePolicy.model_validate({"favourable": FREE})
    assert spec_faults(policy, parse_spec(WORDED), registration=None) == []
    other = parse_spec(changed(CODED, {"fairness.favourable": {"op": "in", "value": ["1"]}}))
    [found] = spec_faults(policy, other, registration=None)
    assert found.pointer == "/fairness/favourable"


@pytest.mark.parametrize(
    ("edges", "threshold", "count"), [({}, 0.31, 1), ({}, 0.3, 0), (None, 0.31, 0)]
)
def test_a_policy_that_fixes_edges_fixes_cuts_of_scores(edges, threshold, count):
    spec = parse_spec(changed(CODED, {"decision": {"threshold": threshold}}))
    found = spec_faults(DisclosurePolicy(edges=edges), spec, registration=None)
    assert [one.pointer for one in found] == ["/decision/threshold"] * count
