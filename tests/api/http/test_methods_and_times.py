"""What a path allows, and what counts as a time."""

import pytest

from tests.api.service import Api


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/experiments", "GET, POST"),
        ("/v1/federations", "GET, POST"),
        ("/v1/federations/x", "DELETE, GET"),
        ("/sign-in", "GET, POST"),
        ("/health/live", "GET"),
    ],
)
def test_a_method_that_is_not_allowed_is_told_all_that_are(
    api: Api, path: str, allowed: str
) -> None:
    answer = api.request("PATCH", path)
    assert answer.status_code == 405
    assert set(allowed.split(", ")) <= set(answer.headers["allow"].split(", "))
    for method in answer.headers["allow"].split(", "):
        assert api.request(method, path).status_code != 405


@pytest.mark.parametrize("value", ["0.5", "1700000000", "-1", "1e3", "soon", ""])
@pytest.mark.parametrize("name", ["created_before", "finished_before"])
def test_a_number_is_no_time(api: Api, name: str, value: str) -> None:
    path = "/v1/experiments" if name == "created_before" else "/v1/reports"
    answer = api.get(path, params={name: value})
    assert answer.status_code == 422
    [fault] = answer.json()["errors"]
    assert fault["pointer"] == f"/query/{name}"


def test_times_are_taken_with_and_without_a_zone(api: Api) -> None:
    for value in ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00+01:00", "2026-01-31"):
        answer = api.get("/v1/experiments", params={"created_before": value})
        assert answer.status_code == 200, answer.text
