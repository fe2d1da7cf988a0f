"""Registrations: what a data file is registered with."""

from typing import Any

import pytest

from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.registration import parse_registration, parse_uploaded

TABLE: dict[str, Any] = {"source": "table", "client_key": "client", "target": "income"}


def _registration(**federation: Any) -> dict[str, Any]:
    return {
        "name": "incomes",
        "federation": {**TABLE, **federation},
        "fairness": {"sensitive": ["age"], "edges": {"age": [40, 60]}},
    }


def test_a_file_below_the_sources_folder_is_named_by_its_path() -> None:
    found = parse_registration(_registration(path="folder/incomes.csv"))
    assert (found.federation.path, found.federation.id) == ("folder/incomes.csv", None)
    assert found.fairness.edges == {"age": [40, 60]}
    assert parse_registration(found.model_dump(mode="json")) == found


def test_an_upload_is_named_by_its_file() -> None:
    found = parse_uploaded(_registration(), file_name="incomes.csv.gz")
    assert found.federation.path == "incomes.csv.gz"
    assert parse_registration(found.model_dump(mode="json")) == found


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (_registration(), "/federation/path"),
        (_registration(path="../x.csv"), "/federation/path"),
        (_registration(id="01890000-0000-7000-8000-000000000000"), "/federation/id"),
        (_registration(path="x.csv", unknown=1), "/federation/unknown"),
        (_registration(path="x.csv", source="synthetic-linear"), "/federation/source"),
        ({**_registration(path="x.csv"), "fairness": {"reference_group": "a"}}, "/fairness"),
        ({**_registration(path="x.csv"), "fairness": {"edges": {"age": [1.0]}}}, "/fairness"),
        ({"federation": {**TABLE, "path": "x.csv"}}, "/name"),
        ({"name": "x"}, "/federation"),
        ({"name": "x", "federation": []}, "/federation"),
        ([], ""),
        (None, ""),
    ],
)
def test_a_registration_that_cannot_be_used_names_the_field(value: object, pointer: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_registration(value)
    assert caught.value.errors[0].pointer.startswith(pointer)


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (_registration(path="x.csv"), "/federation/path"),
        (_registration(id="01890000-0000-7000-8000-000000000000"), "/federation/id"),
        (_registration(target=None), "/federation/target"),
        ({"name": "x", "federation": "table"}, "/federation"),
        ({"name": "x"}, "/federation"),
        ([], ""),
    ],
)
def test_an_upload_names_no_other_file(value: object, pointer: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_uploaded(value, file_name="x.csv")
    assert caught.value.errors[0].pointer == pointer
