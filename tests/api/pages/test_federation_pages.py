"""The pages of federations: profiles without small groups, and budgets with what is left."""

import re
from typing import Any

from api.pages.federations import LABELS
from models.repositories import FederationRepository
from models.tables.federations import Federation
from tests.api.pages.browser import Browser, signed_in
from tests.api.service import Api, spec

PROFILE: dict[str, Any] = {
    "rows": 100,
    "clients": 10,
    "rows_per_client": {"minimum": 5, "median": 10.0, "maximum": 15},
    "features": ["age", "<i>hours</i>"],
    "target": "earnings",
    "classes": [],
    "class_balance": None,
    "missing": {"age": 3},
    "attributes": {
        "sex": {
            "of": "record",
            "groups": {"F": 60, "M": 40, "X": None},
            "missing": 0,
            "base_rates": {"F": 0.25, "M": 0.5, "X": None},
            "reasons": {"groups": "small groups are not shown"},
        }
    },
    "warnings": [{"pointer": "/fairness", "message": "a group is small"}],
    "notes": [],
    "reasons": {},
}


def _federation(api: Api, **changes: Any) -> str:
    with api.database.write() as session:
        federations = FederationRepository(session, api.project_id)
        row = federations.get_or_create(
            fingerprint="a" * 64, name="people", source="table", profile=PROFILE
        )
        stored = session.get(Federation, row.id)
        assert stored is not None
        values = {"registration": {"name": "people"}, "profiled_at": row.created_at, **changes}
        for name, value in values.items():
            setattr(stored, name, value)
        return row.id


def _text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_the_list_shows_sizes_and_an_empty_one_says_how_to_begin(api: Api) -> None:
    browser = signed_in(api)
    assert "fedaudit federations add" in browser.get("/federations").text
    id_ = _federation(api)
    text = browser.get("/federations").text
    assert f'href="/federations/{id_}"' in text
    assert "10 clients" in _text(text).replace("clients 10", "10 clients")


def test_a_profile_shows_shares_and_no_small_groups(api: Api) -> None:
    text = signed_in(api).get(f"/federations/{_federation(api)}").text
    plain = _text(text)
    assert "F 60 60.0 % 25.0 %" in plain
    assert "M 40 40.0 % 50.0 %" in plain
    assert "X hidden too small to be shown hidden" in plain
    assert "<i>hours</i>" not in text
    assert "a group is small" in plain


def test_codes_are_called_what_the_registration_calls_them(api: Api) -> None:
    registration = {
        "name": "people",
        "federation": {
            "source": "table",
            "path": "people.csv",
            "client_key": "town",
            "target": "hired",
            "labels": {"sex": {"F": "women"}, "hired": {"1": "hired"}},
        },
        "fairness": {"sensitive": ["sex"], "favourable": {"op": "in", "value": ["1"]}},
    }
    text = _text(
        signed_in(api).get(f"/federations/{_federation(api, registration=registration)}").text
    )
    assert "women (F) 60 60.0 % 25.0 %" in text
    assert "M 40 40.0 %" in text
    assert "Favourable outcome: hired (hired = 1)." in text


def test_what_nobody_registered_shows_no_groups(api: Api) -> None:
    text = signed_in(api).get(f"/federations/{_federation(api, profiled_at=None)}").text
    assert "Favourable" not in text


def test_a_rejected_federation_says_why(api: Api) -> None:
    reasons = [{"pointer": "/federation/target", "message": "the file has no such column"}]
    id_ = _federation(api, status="rejected", reasons=reasons, profile={})
    text = signed_in(api).get(f"/federations/{id_}").text
    assert "the file has no such column" in text


def test_budgets_are_bars_with_their_numbers(api: Api) -> None:
    api.submit(spec(privacy={"radius": 1.0, "clip": 1.0}))
    id_ = api.get("/v1/federations").json()["items"][0]["id"]
    browser = signed_in(api)
    assert "no total is set" in browser.get(f"/federations/{id_}").text
    setting = {"book": "simulation", "figure": "leakage", "total": "8", "radius": "1", "clip": "1"}
    answer = browser.post(f"/federations/{id_}/budget", setting)
    assert answer.status_code == 303
    text = browser.get(answer.headers["location"]).text
    assert "The budget is set." in text
    assert "spent 0 reserved 4 left 4 total 8" in _text(text)
    assert re.search(r'class="bar-held" x="0(\.0)?" width="500(\.0)?"', text)
    assert "added up over releases; radius 1, clip 1" in _text(text)
    budget, log_ratio = api.get(f"/v1/federations/{id_}/budget").json()["items"]
    assert (budget["total"], budget["radius"], budget["clip"]) == (8, 1, 1)
    assert log_ratio["figure"] == "log_ratio"
    assert "Log-ratio by the theorem" in _text(text)
    faulty = browser.post(f"/federations/{id_}/budget", {**setting, "radius": "wide"})
    assert faulty.status_code == 422
    browser.post(f"/federations/{id_}/budget", {**setting, "total": ""})
    assert "no total is set" in browser.get(f"/federations/{id_}").text


EPSILON = {
    "book": "release",
    "figure": "epsilon",
    "total": "3",
    "delta": "1e-5",
    "adjacency": "replace-one",
    "observer": "server",
}


FAULTY = [
    ("total", "-1"),
    ("total", "many"),
    ("total", "nan"),
    ("total", "inf"),
    ("delta", "5"),
    ("delta", ""),
    ("adjacency", "friends"),
    ("book", "<b>"),
]


def test_a_faulty_budget_keeps_what_was_typed(api: Api) -> None:
    id_ = _federation(api)
    browser = signed_in(api)
    for field, value in FAULTY:
        answer = browser.post(f"/federations/{id_}/budget", {**EPSILON, field: value})
        assert answer.status_code == 422, (field, value)
        assert f'class="fault" id="e-{field}"' in answer.text
        assert 'aria-invalid="true"' in answer.text
        assert "<b>" not in answer.text
        [alert] = re.findall(
            r'<div class="notice notice-bad" role="alert".*?</div>', answer.text, re.S
        )
        assert f'<a href="#f-{field}">{LABELS[field]}</a>' in alert
        assert answer.text.index(alert) < answer.text.index("<dl")
        assert 'name="total" type="text" value="' in answer.text
    kept = browser.post(f"/federations/{id_}/budget", {**EPSILON, "total": "many"}).text
    assert 'value="many"' in kept
    assert "&#39;many&#39; is no number" in kept
    assert '<option value="replace-one" selected>' in kept
    assert api.get(f"/v1/federations/{id_}/budget").json()["items"] == []


def test_a_budget_bounds_released_runs_unless_another_noise_mode_is_chosen(api: Api) -> None:
    text = signed_in(api).get(f"/federations/{_federation(api)}").text
    assert '<option value="release" selected>' in text
    assert "Noise mode" in _text(text)
    assert "Book" not in _text(text)


def test_an_epsilon_budget_is_set_with_its_parts(api: Api) -> None:
    id_ = _federation(api)
    browser = signed_in(api)
    assert browser.post(f"/federations/{id_}/budget", EPSILON).status_code == 303
    [budget] = api.get(f"/v1/federations/{id_}/budget").json()["items"]
    assert (budget["total"], budget["delta"], budget["observer"]) == (3, 1e-5, "server")
    assert "Epsilon against the server" in browser.get(f"/federations/{id_}").text


def test_who_may_only_read_sets_nothing(api: Api) -> None:
    id_ = _federation(api)
    browser = signed_in(api, "federations:read")
    assert "Set a budget" not in browser.get(f"/federations/{id_}").text
    answer = browser.post(f"/federations/{id_}/budget", EPSILON)
    assert answer.status_code == 403
    assert "federations:write" in answer.text


def test_another_projects_federation_is_not_found(api: Api) -> None:
    id_ = _federation(api)
    browser = Browser(api)
    browser.sign_in(api.key_with("federations:read", "federations:write", project="another"))
    assert browser.get(f"/federations/{id_}").status_code == 404
    assert browser.post(f"/federations/{id_}/budget", EPSILON).status_code == 404
    assert browser.get("/federations/%00").status_code == 404


def test_a_faulty_budget_does_not_show_the_profile_to_a_key_that_may_only_write(api: Api) -> None:
    id_ = _federation(api)
    browser = signed_in(api, "federations:write")
    answer = browser.post(f"/federations/{id_}/budget", {"total": "much"})
    assert answer.status_code == 422
    assert "is no number" in answer.text
    assert "people" not in answer.text
    assert "aaaa" not in answer.text


def test_the_page_says_what_may_be_asked_of_groups(api: Api) -> None:
    id_ = _federation(api, registration=None)
    browser = signed_in(api)
    text = _text(browser.get(f"/federations/{id_}").text)
    assert "Rows of a group 1 or more Clients of a group 1 or more" in text
    policy = {
        "minimum_group_size": 30,
        "edges": {"age": [40, 62.5]},
        "favourable": [
            {"group": {"sex": "F"}, "op": "ge", "value": 10},
            {"group": {"sex": "M"}, "op": "in", "value": [1, 2]},
        ],
        "sensitive": ["age", "sex"],
        "intersections": [["age", "sex"]],
        "split": {"validation_fraction": 0.25, "seed": 3},
        "source": "registered",
    }
    answer = api.request("PUT", f"/v1/federations/{id_}/disclosure", json=policy)
    assert answer.status_code == 200, answer.text
    text = _text(browser.get(f"/federations/{id_}").text)
    for stated in (
        "Rows of a group 30 or more",
        "Edges age at 40, 62.5",
        "Favourable outcome at least 10 for sex F; one of 1, 2 for sex M",
        "Sensitive attributes age, sex",
        "Combinations age + sex",
        "Held out 0.25 of clients, drawn by seed 3; scoring leave-one-out",
        "Columns and clients as registered",
    ):
        assert stated in text
