"""The list of reports, for those who decide by them."""

import html
import re
from typing import Any
from urllib.parse import urlencode

from tests.api.pages.browser import Browser, signed_in
from tests.api.service import Api, finished, key_of, spec
from tests.api.stored_reports import Reports, gaps
from tests.html_forms import form_fields


def _rows(page: str) -> dict[str, str]:
    """The text of each row, by the report's name."""
    rows = re.findall(r'<tr role="row">\n<th role="rowheader".*?</tr>', page, re.DOTALL)
    texts = [" ".join(html.unescape(re.sub(r"<[^>]*>", " ", row)).split()) for row in rows]
    return {text.split()[0]: text for text in texts}


def test_a_row_says_what_one_decides_by(api: Api) -> None:
    stored = Reports(api)

    def bare(document: dict[str, Any]) -> None:
        document["guarantee"] |= {"kind": "none", "label": "none", "in_force": False}

    stored.add(bare, name="bare")
    finished(api, spec(name="one"), key=key_of(api, "Ada"))
    rows = _rows(signed_in(api, "reports:read").get("/reports").text)
    document = api.get("/v1/reports").json()["items"][0]
    assert document["verdict"] not in rows["one"]
    for words in (
        document["answer"]["reasons"][0]["text"],
        *("Ada key Ada's key", "heuristic, not in force", "by group", "pass"),
    ):
        assert words in rows["one"]
    assert "no person named key tests" in rows["bare"]
    # A run without protection is unbounded.
    assert "unbounded" in rows["bare"]
    assert "none" not in rows["bare"].replace("none for", "")
    assert "–" not in rows["bare"]


def test_filters_are_those_of_the_api(api: Api) -> None:
    finished(api, spec(name="Income 50%"), key=key_of(api, "Ada"))
    finished(api, spec(name="other"))
    officer = signed_in(api, "reports:read")
    federation = api.get("/v1/experiments").json()["items"][0]["federation_id"]
    today = api.get("/v1/reports").json()["items"][0]["experiment"]["finished_at"][:10]
    for query, names in {
        "search=COME+50%25": ["Income"],
        "search=come_50": [],
        "person=Ada": ["Income"],
        "person=Bob": [],
        "gate_outcome=pass&label=heuristic&in_force=false": ["other", "Income"],
        "label=formal": [],
        "gate_outcome=fail": [],
        f"federation_id={federation}": ["other", "Income"],
        f"finished_after={today}&finished_before={today}": ["other", "Income"],
        "finished_before=2020-01-01": [],
        "sort=name&person=&search=": ["Income", "other"],
    }.items():
        shown = officer.get(f"/reports?{query}")
        assert shown.status_code == 200, query
        assert list(_rows(shown.text)) == names, query
        if "finished" not in query and "person=&" not in query:
            listed = api.get(f"/v1/reports?{query}").json()["items"]
            assert [one["experiment"]["name"].split()[0] for one in listed] == names
    asked = {"mechanism": "laplace-l2", "gate_outcome": "pass", "person": "Ada"}
    asked |= {"finished_before": f"{today}T23:59:00Z", "sort": "name", "label": "heuristic"}
    shown = officer.get(f"/reports?{urlencode(asked)}").text
    sent = form_fields(shown.replace('method="get"', 'method="post"'), "/reports")
    assert {name: text for name, text in sent.items() if text} == asked
    assert officer.get("/reports?label=perfect").status_code == 422


def test_filters_offer_what_the_projects_own_reports_are_about(api: Api) -> None:
    finished(api, key=key_of(api, "Ada"))
    federation = api.get("/v1/experiments").json()["items"][0]["federation_id"]
    offered = {f'<option value="{one}"' for one in ("Ada", federation)}
    assert all(one in signed_in(api, "reports:read").get("/reports").text for one in offered)
    stranger = Browser(api)
    stranger.sign_in(api.key_with("reports:read", project="elsewhere"))
    assert not any(one in stranger.get("/reports?sort=name").text for one in offered)


def test_no_gap_is_called_narrow_where_no_interval_is_shown(api: Api) -> None:
    stored = Reports(api)
    stored.add(gaps(group=0.03), name="small")
    stored.add(gaps(group=0.2), name="large")
    rows = _rows(signed_in(api, "reports:read").get("/reports").text)
    assert "20 percentage points (wide)" in rows["large"]
    assert "0.03" in rows["small"]
    assert "narrow" not in rows["small"]
