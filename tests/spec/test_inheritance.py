"""What a spec by `id` takes from the registration, and what it never loses to it."""

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.registration import (
    federation_id_of,
    parse_uploaded,
    waits_for_registration,
    with_registration,
)
from tests.spec.documents import TABLE, changed

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
    found = spec(federation={**federation, "validation_fraction": 0.4})
    known = REGISTERED["federation"]
    dumped = found.model_dump(mode="json")
    for name in ("client_key", "target", "positive", "features", "scale", "labels"):
        assert dumped["federation"][name] == known[name]
    assert (found.federation.validation_fraction, dumped["federation"]["path"]) == (0.4, None)
    assert dumped["federation"]["missing_target"] == "drop-row"
    assert found.fairness.sensitive == ["SEX", "age"]
    assert found.fairness.edges == {"age": [30, 50]}
    assert dumped["fairness"]["favourable"]["label"] == "free"
    assert found.fairness.minimum_group_size == 20


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
def test_what_is_incomplete_by_itself_waits_for_the_registration(
    federation: Any, waits: bool
) -> None:
    assert waits_for_registration({"federation": federation}) is waits


def test_what_the_spec_says_stays() -> None:
    found = spec(federation__features=["priors"], fairness={"sensitive": ["SEX"]})
    assert found.federation.features == ["priors"]
    assert found.federation.scale == {"priors": 10, "*": 100}
    assert (found.fairness.sensitive, found.fairness.edges) == (["SEX"], {})
    dealt = spec(federation__partition={"method": "iid", "clients": 30})
    assert dealt.federation.client_key is None
    nobody = spec(fairness={"sensitive": []})
    assert (nobody.fairness.sensitive, nobody.fairness.favourable) == ([], None)
    assert set(nobody.federation.labels) == {"recid"}


def test_a_spec_that_names_its_columns_keeps_its_meaning_and_takes_words() -> None:
    own = {"id": ID, "source": "table", "client_key": "county", "target": "recid"}
    found = spec(federation=own)
    assert (found.federation.positive, found.federation.scale) == (None, {})
    assert found.fairness.sensitive == []
    assert found.federation.labels == {"recid": {"0": "not re-arrested"}}
    rule = {"op": "in", "value": ["0"]}
    worded = spec(federation=own, fairness={"sensitive": ["SEX"], "favourable": rule})
    assert worded.fairness.favourable.label == "free"
    assert set(worded.federation.labels) == {"SEX", "recid"}
    other = spec(
        federation=own, fairness={"sensitive": ["SEX"], "favourable": {**rule, "value": ["1"]}}
    )
    assert other.fairness.favourable.label is None
    assert spec(federation={**own, "labels": {}}).federation.labels == {}


def test_another_source_is_left_to_be_refused() -> None:
    value = changed(BARE, {"federation": {"id": ID, "source": "images"}})
    assert with_registration(value, REGISTERED) == value


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "source", "target", "features", "name", "sensitive", "favourable"]
            ),
            inner,
            max_size=4,
        )
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
