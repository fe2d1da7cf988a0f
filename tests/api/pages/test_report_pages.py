"""The pages of a report: as it is kept, verified, read by others, and beside other reports."""

import base64
import copy
import hashlib
import html
import re
from collections.abc import Callable
from html import escape
from typing import Any

from api.shared.page_printer import PagePrinter
from fedaudit.ledger.bundle import opened_bundle
from fedaudit.reports.readings.readings import READINGS
from infrastructure.storage import Storage, file_key
from models.tables.experiments import Report
from tests.api.pages.browser import printed, signed_in, text_of
from tests.api.service import Api, finish, spec

HOSTILE = '"><script>alert(1)</script>'


def finished(api: Api, **changes: Any) -> str:
    """Where the pages of an experiment with a report begin."""
    experiment = api.submit(spec(**changes))
    finish(api, experiment["id"])
    return f"/experiments/{experiment['id']}"


def id_of(base: str) -> str:
    return base.rpartition("/")[2]


def rewrite(api: Api, base: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the stored report."""
    with api.database.write() as session:
        row = session.get_one(Report, id_of(base))
        document = copy.deepcopy(row.document)
        change(document)
        row.document = document


def test_the_report_is_the_page_that_is_kept_below_links(api: Api) -> None:
    base = finished(api)
    visitor = signed_in(api)
    shown, kept = visitor.get(f"{base}/report"), visitor.get(f"{base}/report.html")
    for part in ("verification", "readings/nist-800-226", "readings/model-card", "report.json"):
        assert f'href="{base}/{part}"' in shown.text
    assert "attachment" in kept.headers["content-disposition"]
    links = re.compile(r"<header class=\"top\">.*?</header>\n", re.DOTALL)
    tail = re.compile(r"<section aria-labelledby=\"sign-offs\".*\n(?=</main>)", re.DOTALL)
    without = re.sub(r"<p class=\"small\">Save as .*?</p>", "", tail.sub("", shown.text))
    assert links.sub("", without) == kept.text


def test_the_one_style_of_a_report_is_named_by_its_hash(api: Api) -> None:
    answer = signed_in(api).get(f"{finished(api)}/report")
    sheets = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    assert len(sheets) == 1
    digest = base64.b64encode(hashlib.sha256(sheets[0].encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert "style=" not in answer.text


def test_verification_names_what_was_altered(api: Api) -> None:
    base, visitor = finished(api), signed_in(api)
    assert "agree with one another" in text_of(visitor.get(f"{base}/verification"))
    rewrite(api, base, lambda document: document.update(verdict="All is well."))
    stated = text_of(visitor.get(f"{base}/verification"))
    assert "Something was altered" in stated
    assert "report.hash fail the report was altered after it was stored" in stated


def test_hostile_names_stay_text(api: Api) -> None:
    first, second = finished(api, name=HOSTILE, tags=[HOSTILE]), finished(api, name="two")
    readings = [f"readings/{name}" for name in ("nist-800-226", "registry", "model-card")]
    paths = [f"{first}/{part}" for part in ("report", "verification", *readings)]
    asked = f"experiment_id={id_of(first)}&experiment_id={id_of(second)}"
    for path in (*paths, f"/compare?{asked}", "/compare"):
        answer = signed_in(api).get(path)
        assert answer.status_code == 200
        assert "<script>" not in answer.text, path


def test_a_comparison_says_by_which_attribute_an_experiment_is_left_out(api: Api) -> None:
    first, second = (finished(api, name=name) for name in ("one", "two"))
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
    base, visitor = finished(api), signed_in(api)
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
    base = finished(api)
    reader, officer = signed_in(api, "experiments:read"), signed_in(api, "reports:read")
    for part in ("report", "report.json", "verification", "readings/registry", "model"):
        assert reader.get(f"{base}/{part}").status_code == 403
    for page in ("report", "verification"):
        assert "bundle.zip" not in officer.get(f"{base}/{page}").text
    assert officer.get(f"{base}/bundle.zip").status_code == 403


def test_what_a_report_advises_is_applied_to_the_form_without_a_script(api: Api) -> None:
    base, visitor = finished(api), signed_in(api)
    link = f"/experiments/new?like={id_of(base)}&advised=true"
    changes = [{"pointer": "/training/local/step_size", "value": 0.37}]
    for advised, offered in ((changes, True), ([], False)):
        rewrite(api, base, lambda document, new=advised: document["advice"].update(changes=new))
        assert (f'href="{escape(link)}"' in visitor.get(f"{base}/report").text) == offered
        form = visitor.get(link)
        assert (form.status_code, "step_size: 0.37" in form.text) == (200, offered)


def test_every_file_of_a_report_is_what_the_api_says(api, tmp_path, monkeypatch):
    monkeypatch.setattr(PagePrinter, "pdf", printed)
    base = finished(api, name="one")
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
