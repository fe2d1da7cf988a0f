"""The pages of a report: as it is kept, verified, read by others, and beside other reports."""

import base64
import copy
import hashlib
import html
import re
from collections.abc import Callable
from html import escape
from typing import Any
from urllib.parse import urlencode

from api.shared.page_printer import PagePrinter
from fedaudit.ledger.bundle import opened_bundle
from fedaudit.reports.readings.readings import READINGS
from infrastructure.storage import Storage, file_key
from models.tables.experiments import Report
from tests.api.pages.browser import Browser, printed, signed_in, text_of
from tests.api.service import Api, finished, key_of, spec
from tests.api.stored_reports import Reports, gaps
from tests.html_forms import form_fields

HOSTILE = '"><script>alert(1)</script>'


def reported(api: Api, **changes: Any) -> str:
    """Where the pages of an experiment with a report begin."""
    return f"/experiments/{finished(api, spec(**changes))}"


def id_of(base: str) -> str:
    return base.rpartition("/")[2]


def rewrite(api: Api, base: str, change: Callable[[dict[str, Any]], None]) -> None:
    with api.database.write() as session:
        row = session.get_one(Report, id_of(base))
        document = copy.deepcopy(row.document)
        change(document)
        row.document = document


def test_the_report_is_the_page_that_is_kept_below_links(api: Api) -> None:
    base = reported(api)
    visitor = signed_in(api)
    shown, kept = visitor.get(f"{base}/report"), visitor.get(f"{base}/report.html")
    for part in ("verification", "readings/nist-800-226", "readings/model-card", "report.json"):
        assert f'href="{base}/{part}"' in shown.text
    assert "attachment" in kept.headers["content-disposition"]
    links = re.compile(r"<header class=\"top\">.*?</header>\n", re.DOTALL)
    tail = re.compile(r"<section aria-labelledby=\"sign-offs\".*\n(?=</main>)", re.DOTALL)
    without = re.sub(r"<p class=\"small\">Save as .*?</p>", "", tail.sub("", shown.text))
    assert links.sub("", without) == kept.text
    # Its one style is named by its hash.
    [sheet] = re.findall(r"<style>(.*?)</style>", shown.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    policy = shown.headers["content-security-policy"]
    assert f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert "style=" not in shown.text


def test_verification_names_what_was_altered(api: Api) -> None:
    base, visitor = reported(api), signed_in(api)
    assert "agree with one another" in text_of(visitor.get(f"{base}/verification"))
    rewrite(api, base, lambda document: document.update(verdict="All is well."))
    stated = text_of(visitor.get(f"{base}/verification"))
    assert "Something was altered" in stated
    assert "report.hash fail the report was altered after it was stored" in stated


def test_hostile_names_stay_text(api: Api) -> None:
    first, second = reported(api, name=HOSTILE, tags=[HOSTILE]), reported(api, name="two")
    readings = [f"readings/{name}" for name in ("nist-800-226", "registry", "model-card")]
    paths = [f"{first}/{part}" for part in ("report", "verification", *readings)]
    asked = f"experiment_id={id_of(first)}&experiment_id={id_of(second)}"
    for path in (*paths, f"/compare?{asked}", "/compare"):
        answer = signed_in(api).get(path)
        assert answer.status_code == 200
        assert "<script>" not in answer.text, path


def test_a_comparison_says_by_which_attribute_an_experiment_is_left_out(api: Api) -> None:
    first, second = (reported(api, name=name) for name in ("one", "two"))
    spent = {"adjacency": "add-or-remove-one", "delta": 1e-5, "accountant": "pld", "value": 1.0}

    def lacking(document: dict[str, Any]) -> None:
        epsilon = [{**spent, "observer": one} for one in ("final_model", "server")]
        document["privacy"] |= {"epsilon": epsilon, "epsilon_max": 1.0, "leakage_max": None}
        for figure in document["fairness"][0]["metrics"].values():
            figure |= {"value": None, "reason": "too few rows"}

    rewrite(api, first, lacking)
    asked = f"experiment_id={id_of(first)}&experiment_id={id_of(second)}"
    fronts = text_of(signed_in(api).get(f"/compare?{asked}")).partition("What nothing else beats")[
        2
    ]
    assert fronts.count("against the server") + fronts.count("against those who see") >= 2
    assert fronts.count("and fairness by group") >= 2
    assert "No. 1 is left out: too few rows" in fronts


def test_a_model_is_offered_where_it_may_leave_and_its_reason_shown_elsewhere(api: Api) -> None:
    base, visitor = reported(api), signed_in(api)
    for page in (base, f"{base}/report"):
        assert f'href="{base}/model"' not in visitor.get(page).text
        assert "may not leave: the run's model was not handed over" in text_of(visitor.get(page))
    assert visitor.get(f"{base}/model").status_code == 409
    tensors = [{"name": "hypotheses.0.0.weight", "shape": [1, 2]}]
    model = {"sha256": "a" * 64, "size_bytes": 3, "round": 4, "hypotheses": 1, "tensors": tensors}
    rewrite(api, base, lambda document: document.update(model=model, model_reason=None))
    key = file_key("model", api.project_id, id_of(base))
    with Storage(api.settings.storage_url).writer(key) as file:
        file.write(b"abc")
    for page in (base, f"{base}/report"):
        assert f'href="{base}/model"' in visitor.get(page).text
    saved = visitor.get(f"{base}/model")
    assert saved.content == b"abc"
    assert saved.headers["content-disposition"].endswith('-model.safetensors"')


def test_another_scope_sees_nothing_and_the_bundle_needs_one_more(api: Api) -> None:
    base = reported(api)
    reader, officer = signed_in(api, "experiments:read"), signed_in(api, "reports:read")
    for part in ("report", "report.json", "verification", "readings/registry", "model"):
        assert reader.get(f"{base}/{part}").status_code == 403
    for page in ("report", "verification"):
        assert "bundle.zip" not in officer.get(f"{base}/{page}").text
    assert officer.get(f"{base}/bundle.zip").status_code == 403


def test_what_a_report_advises_is_applied_to_the_form_without_a_script(api: Api) -> None:
    base, visitor = reported(api), signed_in(api)
    link = f"/experiments/new?like={id_of(base)}&advised=true"
    changes = [{"pointer": "/training/local/step_size", "value": 0.37}]
    for advised, offered in ((changes, True), ([], False)):
        rewrite(api, base, lambda document, new=advised: document["advice"].update(changes=new))
        assert (f'href="{escape(link)}"' in visitor.get(f"{base}/report").text) == offered
        form = visitor.get(link)
        assert (form.status_code, "step_size: 0.37" in form.text) == (200, offered)


def test_every_file_of_a_report_is_what_the_api_says(api, tmp_path, monkeypatch):
    monkeypatch.setattr(PagePrinter, "pdf", printed)
    base = reported(api, name="one")
    visitor = signed_in(api)
    page = visitor.get(f"{base}/report").text
    offered = set(map(html.unescape, re.findall(r'<a href="([^"]*)" download', page)))
    files: dict[str, Any] = {href: visitor.get(href) for href in offered}
    for href, answer in files.items():
        assert answer.status_code == 200, href
        assert "attachment" in answer.headers["content-disposition"], href
        assert answer.headers["cache-control"] == "no-store", href
    for name in READINGS:
        said = api.get(f"/v1{base}/report/readings/{name}")
        if f"{base}/files/{name}.md" in files:
            assert files[f"{base}/files/{name}.md"].text == said.text
        else:
            assert files[f"{base}/files/{name}.json"].json() == said.json()
    for name in ("picture-spent", "picture-quality", "chart-loss"):
        assert files[f"{base}/pictures/{name}.svg"].content.startswith(b"<svg xmlns")
        assert files[f"{base}/pictures/{name}.png"].content.startswith(b"\x89PNG")
    assert visitor.get(f"{base}/pictures/none.svg").status_code == 404
    kept = tmp_path / "bundle.zip"
    kept.write_bytes(files[f"{base}/bundle.zip"].content)
    with opened_bundle(kept) as evidence:
        assert evidence.report == api.get(f"/v1{base}/report").json()
    keys = api.get("/v1/signing-keys").json()["items"]
    assert files["/signing-keys.pem"].text == "".join(key["public_key"] for key in keys)
    for key in keys:
        assert key["key_id"] in visitor.get("/signing-keys").text


# -- the list of reports, for those who decide by them --------------------------------------------


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
    for name, gap in (("small", 0.03), ("large", 0.2)):
        stored.add(gaps(group=gap), name=name)
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
    # No gap is called narrow where no interval is shown.
    assert "20 percentage points (wide)" in rows["large"]
    assert "0.03" in rows["small"]
    assert "narrow" not in rows["small"]


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
        "gate_outcome=pass&label=heuristic&in_force=false": ["other", "Income"],
        "label=formal": [],
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
    # They offer what the project's own reports are about.
    offered = {f'<option value="{one}"' for one in ("Ada", federation)}
    assert all(one in officer.get("/reports").text for one in offered)
    stranger = Browser(api)
    stranger.sign_in(api.key_with("reports:read", project="elsewhere"))
    assert not any(one in stranger.get("/reports?sort=name").text for one in offered)
