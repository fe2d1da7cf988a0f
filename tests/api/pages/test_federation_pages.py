"""The pages of federations: profiles without small groups, and budgets with what is left."""

import re
from typing import Any

from models.repositories import FederationRepository
from models.tables.federations import Federation
from tests.api.pages.browser import signed_in, text_of
from tests.api.service import Api, spec
from tests.api.uploads import registration

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
            "reasons": {"groups": "small groups of Sex are not shown"},
        }
    },
    "warnings": [{"pointer": "/fairness", "message": "a group is small"}],
    "notes": ["rows without a value of 'Age', in no group: 3"],
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


def test_a_profile_shows_shares_and_no_small_groups(api: Api) -> None:
    page = signed_in(api).get(f"/federations/{_federation(api)}")
    plain = text_of(page)
    assert "F 60 60.0 % 25.0 %" in plain
    assert "M 40 40.0 % 50.0 %" in plain
    assert "X hidden too small to be shown hidden" in plain
    assert "<i>hours</i>" not in page.text
    assert "a group is small" in plain
    assert "Rows without a value of 'Age', in no group: 3." in plain
    assert "Small groups of Sex are not shown." in plain


def test_budgets_are_bars_with_their_numbers(api: Api) -> None:
    api.submit(spec(privacy={"radius": 1.0, "clip": 1.0}))
    id_ = api.get("/v1/federations").json()["items"][0]["id"]
    browser = signed_in(api)
    assert "no total is set" in browser.get(f"/federations/{id_}").text
    setting = {"book": "simulation", "figure": "leakage", "total": 8, "radius": 1, "clip": 1}
    assert api.request("PUT", f"/v1/federations/{id_}/budget", json=setting).status_code == 200
    page = browser.get(f"/federations/{id_}")
    for words in (
        *("spent 0 reserved 4 left 4 total 8", "added up over releases; radius 1, clip 1"),
        *("Log-ratio by the theorem", f"fedaudit budget {id_} --set"),
    ):
        assert words in text_of(page)
    assert re.search(r'class="bar-held" x="0(\.0)?" width="500(\.0)?"', page.text)
    budget, log_ratio = api.get(f"/v1/federations/{id_}/budget").json()["items"]
    assert (budget["total"], budget["radius"], budget["clip"]) == (8, 1, 1)
    assert log_ratio["figure"] == "log_ratio"
    reader = signed_in(api, "federations:read")
    assert "--set" not in reader.get(f"/federations/{id_}").text


def test_the_policy_is_shown_with_the_least_that_holds(api: Api) -> None:
    value = registration()
    value["federation"]["path"] = "people.csv"
    id_ = _federation(api, registration=value)
    browser = signed_in(api)
    settings = api.client.app.state.resources.settings
    least = f"minimum_group_size: {settings.min_group_size}"
    assert least in text_of(browser.get(f"/federations/{id_}"))
    policy = {
        "minimum_group_size": settings.min_group_size + 7,
        "favourable": {"op": "ge", "value": 3},
        "exclude": {"sex": ["X"]},
    }
    answer = api.request("PUT", f"/v1/federations/{id_}/disclosure", json=policy)
    assert answer.status_code == 200, answer.text
    plain = text_of(browser.get(f"/federations/{id_}"))
    assert f"minimum_group_size: {settings.min_group_size + 7}" in plain
    assert "favourable: op: ge value: 3" in plain
    assert "exclude: sex: - X" in plain
