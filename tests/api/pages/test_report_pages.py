"""The pages of a report: as it is kept, verified, read by others, and beside other reports."""

import base64
import hashlib
import html
import json
import re
from typing import Any

import pytest
import yaml
from sqlalchemy import update

from infrastructure.storage import Storage, model_key
from models.tables.reports import Report
from tests.api.pages.browser import signed_in
from tests.api.service import Api, finish, spec

HOSTILE = '"><script>alert(1)</script>'


def finished(api: Api, **changes: Any) -> str:
    """Where the pages of an experiment with a report begin."""
    experiment = api.submit(spec(**changes))
    finish(api, experiment["id"])
    return f"/experiments/{experiment['id']}"


def text_of(answer: Any) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


def test_the_report_is_the_page_that_is_kept_below_links(api: Api) -> None:
    base = finished(api)
    visitor = signed_in(api)
    shown, kept = visitor.get(f"{base}/report"), visitor.get(f"{base}/report.html")
    for part in ("verification", "readings/nist-800-226", "readings/model-card", "report.json"):
        assert f'href="{base}/{part}"' in shown.text
    assert "attachment" in kept.headers["content-disposition"]
    links = re.compile(r"<header class=\"top\">.*?</header>\n", re.DOTALL)
    tail = re.compile(r"<section aria-labelledby=\"sign-offs\".*\n(?=</main>)", re.DOTALL)
    assert tail.sub("", links.sub("", shown.text)) == kept.text


def test_the_one_style_of_a_report_is_named_by_its_hash(api: Api) -> None:
    answer = signed_in(api).get(f"{finished(api)}/report")
    sheets = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    assert len(sheets) == 1
    digest = base64.b64encode(hashlib.sha256(sheets[0].encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert "style=" not in answer.text


def test_the_saved_document_is_the_stored_one(api: Api) -> None:
    base = finished(api)
    saved = signed_in(api).get(f"{base}/report.json")
    assert saved.json() == api.get(f"/v1{base}/report.json").json()
    assert saved.headers["cache-control"] == "no-store"


def test_verification_names_what_was_altered(api: Api) -> None:
    base = finished(api)
    visitor = signed_in(api)
    assert "agree with one another" in text_of(visitor.get(f"{base}/verification"))
    with api.database.write() as session:
        stored = session.get(Report, base.rpartition("/")[2])
        assert stored is not None
        document = {**stored.document, "verdict": "All is well."}
        session.execute(update(Report).values(document=document))
    stated = text_of(visitor.get(f"{base}/verification"))
    assert "Something was altered" in stated
    assert "report.hash fail the report was altered after it was stored" in stated


def test_every_reading_says_what_the_api_says(api: Api) -> None:
    base = finished(api)
    visitor = signed_in(api)
    nist = api.get(f"/v1{base}/report?reading=nist-800-226").json()
    stated = text_of(visitor.get(f"{base}/readings/nist-800-226"))
    for topic in nist["topics"]:
        for statement in topic["statements"]:
            assert " ".join(statement["statement"].split()) in stated
    ratios = api.get(f"/v1{base}/report?reading=impact-ratio").json()
    stated = text_of(visitor.get(f"{base}/readings/impact-ratio"))
    assert ratios["notice"] in stated
    for category in ratios["tables"][0]["categories"]:
        assert category["category"] in stated
    page = visitor.get(f"{base}/readings/registry").text
    record = yaml.safe_load(html.unescape(re.findall(r"<pre.*?>(.*?)</pre>", page, re.DOTALL)[0]))
    assert record == api.get(f"/v1{base}/report?reading=registry").json()
    card = api.get(f"/v1{base}/report?reading=model-card").text
    assert " ".join(card.split()) in text_of(visitor.get(f"{base}/readings/model-card"))
    assert visitor.get(f"{base}/readings/poem").status_code == 422


def test_two_reports_side_by_side(api: Api) -> None:
    first, second = finished(api, name="one"), finished(api, name="two", seed=8)
    ids = [base.rpartition("/")[2] for base in (first, second)]
    answer = signed_in(api).get(f"/compare?experiment_id={ids[0]}&experiment_id={ids[1]}")
    stated = text_of(answer)
    assert "2 experiments side by side" in stated
    assert "training.hypotheses" not in stated
    assert re.search(r"<code>seed</code></th>\s*<td>7</td>\s*<td>8</td>", answer.text)
    assert answer.text.count('<svg viewBox="0 0 420') >= 2
    assert "On the front" in stated


def test_a_comparison_of_fewer_than_two_offers_a_choice(api: Api) -> None:
    visitor = signed_in(api)
    assert "There is none so far" in text_of(visitor.get("/compare"))
    first = finished(api, name="one").rpartition("/")[2]
    finished(api, name="two")
    answer = visitor.get(f"/compare?experiment_id={first}&experiment_id={first}")
    assert answer.text.count('type="checkbox"') == 2
    assert f'value="{first}" checked' in answer.text


def test_what_cannot_be_compared_is_a_page_that_says_why(api: Api) -> None:
    visitor = signed_in(api)
    first, waiting = finished(api).rpartition("/")[2], api.submit()["id"]
    answer = visitor.get(f"/compare?experiment_id={first}&experiment_id={waiting}")
    assert answer.status_code == 404
    assert "the experiment has no report: it is queued" in text_of(answer)
    many = "&".join(f"experiment_id={number}" for number in range(51))
    answer = visitor.get(f"/compare?{many}")
    assert (answer.status_code, answer.headers["content-type"][:9]) == (422, "text/html")


def test_hostile_names_stay_text(api: Api) -> None:
    first = finished(api, name=HOSTILE, tags=[HOSTILE])
    second = finished(api, name="two")
    ids = [base.rpartition("/")[2] for base in (first, second)]
    visitor = signed_in(api)
    paths = [
        f"{first}/report",
        f"{first}/verification",
        *(f"{first}/readings/{name}" for name in ("nist-800-226", "registry", "model-card")),
        f"/compare?experiment_id={ids[0]}&experiment_id={ids[1]}",
        "/compare",
    ]
    for path in paths:
        answer = visitor.get(path)
        assert answer.status_code == 200
        assert "<script>" not in answer.text, path


def test_a_model_is_offered_where_it_may_leave_and_its_reason_shown_elsewhere(api: Api) -> None:
    base = finished(api)
    visitor = signed_in(api)
    for page in (base, f"{base}/report"):
        assert f'href="{base}/model"' not in visitor.get(page).text
        assert "may not leave: the run's model was not handed over" in text_of(visitor.get(page))
    assert visitor.get(f"{base}/model").status_code == 409
    document = api.get(f"/v1{base}/report.json").json()
    tensors = [{"name": "hypotheses.0.0.weight", "shape": [1, 2]}]
    model = {"sha256": "a" * 64, "size_bytes": 3, "round": 4, "hypotheses": 1, "tensors": tensors}
    with api.database.write() as session:
        changed = {**document, "model": model, "model_reason": None}
        session.execute(update(Report).values(document=changed))
    with Storage(api.settings.storage_url).writer(
        model_key(api.project_id, base.rpartition("/")[2])
    ) as file:
        file.write(b"abc")
    for page in (base, f"{base}/report"):
        assert f'href="{base}/model"' in visitor.get(page).text
    saved = visitor.get(f"{base}/model")
    assert saved.content == b"abc"
    assert saved.headers["content-disposition"].endswith('-model.safetensors"')


@pytest.mark.parametrize(
    "part", ["report", "report.json", "verification", "readings/registry", "model"]
)
def test_another_project_and_another_scope_see_nothing(api: Api, part: str) -> None:
    base = finished(api)
    assert signed_in(api, "experiments:read").get(f"{base}/{part}").status_code == 403
    stranger = signed_in(api)
    stranger.sign_in(api.key_with("reports:read", project="elsewhere"))
    assert stranger.get(f"{base}/{part}").status_code == 404


def test_the_saved_json_parses_without_nan(api: Api) -> None:
    saved = signed_in(api).get(f"{finished(api)}/report.json").text

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    assert json.loads(saved, parse_constant=refuse)["report_version"] == 1
