"""Audits at a service: made by a worker, remembered, signed, and no oracle."""

import io
import json
import threading
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from pypdf import PdfReader

from api.shared.page_printer import PagePrinter
from fedaudit.reports.sections.provenance import report_envelope
from fedaudit_client import Client, ProblemError
from models.repositories import UnitRepository
from models.tables.experiments import Unit
from tests.api.pages.browser import signed_in, text_of
from tests.api.service import KEY, Api, body_of, served
from tests.audits.service_audits import made, report_of, row_of
from tests.audits.tables import asking, audited, people, write
from tests.reports.page.weasyprint_here import needs_pango
from tests.workers.serving import worker_of
from workers import audit_unit
from workers.finish import fail_unit
from workers.run_unit import run_unit


def is_shown(section: dict[str, Any]) -> list[bool]:
    return [not group["suppressed"] for group in section["groups"]]


def test_the_service_reports_what_the_command_line_does(api: Api, sources: Path) -> None:
    write(sources, people(), "same.csv")
    asked = {"path": "same.csv", "client_key": "town", "sensitive": ["sex"]}
    audit = made(api, **asked)
    served, here = report_of(api, audit), audited(sources, **asked)
    for section in ("fairness", "utility", "data", "privacy", "guarantee", "verdict_parts", "spec"):
        assert served[section] == json.loads(json.dumps(here[section])), section
    envelope = report_envelope(served)
    key = worker_of(api).signing_key.public
    assert envelope.key_id == key.key_id
    assert key.verifies(envelope.signature, envelope.message)
    ratios = api.get(f"/v1/audits/{audit['id']}/report/readings/impact-ratio").json()
    rates = [group["selection_rate"] for group in served["fairness"][0]["groups"]]
    assert ratios["tables"][0]["highest_rate"] == max(rates)
    assert "held-out" not in json.dumps(ratios)
    page = api.get(f"/v1/audits/{audit['id']}/report", headers={"Accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html")
    assert "Audit of predictions" in page.text
    assert api.get(f"/v1/audits/{audit['id']}/report.html").text == page.text
    assert audit["id"] in {one["id"] for one in api.get("/v1/audits").json()["items"]}


def test_two_audits_that_differ_in_few_rows_do_not_give_them_away(api: Api, sources: Path) -> None:
    ages = [30] * 290 + [83] * 6 + [90] * 304
    write(sources, people() | {"age": ages}, "ages.csv")
    asked = {"path": "ages.csv", "sensitive": ["age"]}
    first = report_of(api, made(api, **asked, edges={"age": [83]}))
    assert is_shown(first["fairness"][0]) == [True, True]
    second = report_of(api, made(api, **asked, edges={"age": [84]}))
    assert is_shown(second["fairness"][0]) == [False, False]
    assert "earlier report" in second["fairness"][0]["groups"][0]["reasons"]["selection_rate"]
    assert second["fairness"][0]["metrics"]["demographic_parity_difference"]["value"] is None
    again = report_of(api, made(api, **asked, edges={"age": [83]}))
    assert again["fairness"][0]["groups"] == first["fairness"][0]["groups"]


def test_a_file_less_a_few_rows_does_not_give_them_away(api: Api, sources: Path) -> None:
    table = people(seed=11)
    write(sources, table, "full.csv")
    write(sources, {name: column[:-5] for name, column in table.items()}, "less.csv")
    shuffled = np.random.default_rng(1).permutation(600)
    write(sources, {name: [column[at] for at in shuffled] for name, column in table.items()},
          "shuffled.csv")  # fmt: skip
    write(sources, people(seed=12), "others.csv")
    first, less, same, others = (
        report_of(api, made(api, path=f"{name}.csv", sensitive=["sex"]))["fairness"][0]
        for name in ("full", "less", "shuffled", "others")
    )
    assert is_shown(first) == [True, True]
    assert is_shown(less) == [False, False]
    assert "earlier report" in less["groups"][0]["reasons"]["selection_rate"]
    assert same["groups"][0]["selection_rate"] == first["groups"][0]["selection_rate"]
    assert is_shown(others) == [True, True]


def test_rows_that_are_too_much_alike_are_known_in_no_other_file(api: Api, sources: Path) -> None:
    table = people(seed=13)
    write(sources, table, "named.csv")
    write(sources, {name: table[name] for name in ("sex", "hired", "predicted")}, "alike.csv")
    limits = [
        [one for one in report_of(api, made(api, path=name, sensitive=["sex"]))["limits"]
         if "fewer than nine in ten" in one]
        for name in ("named.csv", "alike.csv")
    ]  # fmt: skip
    assert [len(one) for one in limits] == [0, 1]


def test_naming_another_prediction_does_not_avoid_the_comparison(api: Api, sources: Path) -> None:
    table = people(seed=21)
    # All that tells rows apart may be predicted by, too.
    write(sources, table, "decisions.csv")
    write(sources, {name: column[:-5] for name, column in table.items()}, "scored.csv")
    asked = {"sensitive": ["sex"]}
    by_score = {"prediction": None, "score": "score", "threshold": 0.5}
    first = report_of(api, made(api, path="decisions.csv", **asked))["fairness"][0]
    less = report_of(api, made(api, path="scored.csv", **asked, **by_score))["fairness"][0]
    assert is_shown(first) == [True, True]
    assert is_shown(less) == [False, False]
    assert "earlier report" in less["groups"][0]["reasons"]["selection_rate"]
    # Few corrections would be given away; another model's predictions of the same rows are not.
    other = {"yes": "no", "no": "yes"}
    for changed, shown in ((6, False), (300, True)):
        kept, turned = table["predicted"][changed:], table["predicted"][:changed]
        corrected = {**table, "predicted": [other[one] for one in turned] + kept}
        write(sources, corrected, f"corrected-{changed}.csv")
        after = report_of(api, made(api, path=f"corrected-{changed}.csv", **asked))
        assert is_shown(after["fairness"][0]) == [shown, shown]


def test_other_thresholds_of_the_same_scores_are_counted(api: Api, sources: Path) -> None:
    write(sources, people(seed=4), "scores.csv")
    asked = {"path": "scores.csv", "prediction": None, "score": "score", "sensitive": ["sex"]}
    counted = [
        report_of(api, made(api, **asked, threshold=at))["predictions"]["threshold"]
        for at in (0.5, 0.6, 0.5)
    ]
    assert [one["earlier_audits"] for one in counted] == [0, 1, 1]


def test_faults_are_shown_to_those_who_may_read_data_alone(api: Api, sources: Path) -> None:
    write(sources, people() | {"predicted": ["1"] * 600}, "odd.csv")
    audit = made(api, path="odd.csv")
    assert (audit["status"], audit["status_reason"]) == ("failed", "invalid-data")
    assert audit["errors"][0]["pointer"] == "/prediction"
    assert "never has: '1'" in audit["errors"][0]["message"]
    key = api.key_with("experiments:read")
    [shown] = api.get(f"/v1/audits/{audit['id']}", key=key).json()["errors"]
    assert shown["pointer"] == "/prediction"
    assert "'1'" not in shown["message"]
    assert "federations:read" in shown["message"]
    assert api.get(f"/v1/audits/{audit['id']}/report").status_code == 404
    # And a file has to be registered.
    blind = api.key_with("experiments:write")
    [fault] = body_of(api.post("/v1/audits", json=asking(path="odd.csv"), key=blind), 422)["errors"]
    assert (fault["pointer"], "is not registered" in fault["message"]) == ("/path", True)


PREDICTED = {"name": "predicted", "kind": "categorical", "categories": ["yes", "no"]}


def registered(
    api: Api, path: str, *, answers: Sequence[str | dict[str, Any]] = (PREDICTED,), **more: Any
) -> str:
    """The id of a federation of these people, by town."""
    table = {"source": "table", "path": path, "client_key": "town", "target": "hired"}
    registration = {"name": path, "federation": {**table, "features": list(answers)}, **more}
    found: str = body_of(api.post("/v1/federations", json=registration), 202)["id"]
    return found


def test_a_registered_federation_is_audited_within_its_policy(api: Api, sources: Path) -> None:
    write(sources, people(seed=7), "registered.csv")
    fairness = {"sensitive": ["sex"], "favourable": {"op": "in", "value": ["yes"]}}
    federation = registered(api, "registered.csv", fairness=fairness)
    write(sources, people(seed=9), "scored.csv")
    by_score = registered(api, "scored.csv", answers=["score"], fairness=fairness)
    write(sources, people(seed=10), "trained.csv")
    trained = registered(api, "trained.csv", answers=[PREDICTED, "score"], fairness=fairness)
    with api.database.read() as session:
        waiting = UnitRepository(session).stale_waiting(-1)
    for unit in [one.id for one in waiting if one.kind == "profile"]:
        run_unit(worker_of(api), unit)
    assert api.get(f"/v1/federations/{federation}").json()["status"] == "ready"
    asked = {"path": None, "id": federation, "client_key": "town"}
    limited = api.key_with("experiments:write")
    refused = api.post("/v1/audits", json=asking(**asked), key=limited)
    assert [one["pointer"] for one in refused.json()["errors"]] == ["/sensitive/1"]
    # Of a table to train on, an audit by a feature would count its rare values.
    of_feature = asking(**{**asked, "id": trained, "sensitive": ["sex"]})
    refused = api.post("/v1/audits", json=of_feature, key=limited)
    assert [one["pointer"] for one in refused.json()["errors"]] == ["/prediction"]
    assert api.post("/v1/audits", json=of_feature).is_success
    scored = {**asked, "sensitive": ["sex"], "prediction": None, "score": "score", "id": by_score}
    cut = api.post("/v1/audits", json=asking(**scored, threshold=0.51), key=limited)
    assert [one["pointer"] for one in cut.json()["errors"]] == ["/threshold"]
    assert api.post("/v1/audits", json=asking(**scored, threshold=0.6), key=limited).is_success
    taken = api.post("/v1/audits", json=asking(**asked, sensitive=["sex"]), key=limited)
    assert taken.status_code == 202
    hiding = {"minimum_group_size": 31, "rounding": {"base": 6}}
    assert api.post("/v1/audits", json=asking(**asked, **hiding)).is_success
    hiding |= {"gates": [{"figure": "accuracy", "op": "ge", "value": 0.5}]}
    faults = api.post("/v1/audits", json=asking(**asked, **hiding)).json()["errors"]
    assert [one["pointer"] for one in faults] == ["/minimum_group_size", "/rounding/base"]
    kept = {"minimum_group_size": 50, "minimum_group_clients": 5, "sensitive": ["sex"]}
    for one in (federation, by_score):
        api.request("PUT", f"/v1/federations/{one}/disclosure", json={**kept, "edges": {}})
    cut = api.post("/v1/audits", json=asking(**{**scored, **kept}, threshold=0.51))
    assert [one["pointer"] for one in cut.json()["errors"]] == ["/threshold"]
    faults = api.post("/v1/audits", json=asking(path="registered.csv")).json()["errors"]
    lacking = {"/minimum_group_size", "/client_key", "/sensitive/1"}
    assert {one["pointer"] for one in faults} == lacking
    assert made(api, **asked, **kept)["status"] == "succeeded"


def test_a_total_against_readers_of_reports_refuses_audits(api: Api, sources: Path) -> None:
    """As it does runs whose fairness figures have no noise, and audits of other projects."""
    write(sources, people(seed=8), "owned.csv")
    federation = registered(api, "owned.csv")
    total = {"book": "release", "figure": "epsilon", "observer": "report", "delta": 1e-6}
    total |= {"adjacency": "add-or-remove-one"}
    made(api, path="owned.csv")
    # The second total finds those queued that were asked for while there was none.
    for amount, expected, audits in ((0.5, 409, 1), (None, 202, 0), (0.5, 409, 3)):
        assert api.set_budget(federation, amount, **total).status_code == 200
        [one] = api.budgets(federation)
        listed = [(gap["mechanism"], gap["runs"]) for gap in one["uncounted"]]
        assert listed == ([("audit", audits)] if audits else [])
        for key in (None, api.key_with("experiments:write", "federations:read", project="lab")):
            answer = api.post("/v1/audits", json=asking(path="owned.csv"), key=key or api.key)
            assert answer.status_code == expected, answer.text
            assert expected == 202 or "whose figures have no noise" in answer.json()["detail"]
    assert "3 audits: nothing bounds" in text_of(signed_in(api).get(f"/federations/{federation}"))


def test_a_missing_file_is_refused_and_a_changed_one_fails(api: Api, sources: Path) -> None:
    answer = api.post("/v1/audits", json=asking(path="nowhere.csv"))
    assert body_of(answer, 422)["errors"][0]["pointer"] == "/path"
    write(sources, people(), "changing.csv")
    found = api.post("/v1/audits", json=asking(path="changing.csv")).json()
    write(sources, people(seed=9), "changing.csv")
    run_unit(worker_of(api), row_of(api, found["id"]).unit_id)
    audit = api.get(f"/v1/audits/{found['id']}").json()
    assert (audit["status"], audit["errors"][0]["pointer"]) == ("failed", "/path")


def test_a_lost_worker_fails_the_audit_and_an_error_is_tried_again(api, sources, monkeypatch):
    write(sources, people(), "lost.csv")
    first, second = (
        row_of(api, api.post("/v1/audits", json=asking(path="lost.csv")).json()["id"])
        for _ in range(2)
    )
    with api.database.write() as session:
        taken = Unit(id=first.unit_id, project_id=api.project_id)
        why = {"reason": "worker-lost", "detail": "worker lost", "shown": "worker lost"}
        fail_unit(session, taken, **why, key=KEY)
    assert row_of(api, first.id).status_reason == "worker-lost"
    with monkeypatch.context() as patched:
        patched.setattr(audit_unit, "sign_report", lambda *_: 1 / 0)
        run_unit(worker_of(api), second.unit_id)
    between = row_of(api, second.id)
    assert (between.status, between.report) == ("running", None)
    run_unit(worker_of(api), second.unit_id)
    assert row_of(api, second.id).status == "succeeded"


# -- audits by a browser and by the Python client -------------------------------------------------

NOBODY = "01890000-0000-7000-8000-000000000000"


@pytest.fixture(scope="module")
def audit(api: Api, sources: Path) -> dict[str, Any]:
    write(sources, people())
    return made(api, name="<b>hiring</b>", sensitive=["sex"])


def test_the_list_leads_to_reports_and_marks_what_decides_nothing(api, sources, audit):
    write(sources, people() | {"predicted": ["yes"] * 600}, "constant.csv")
    constant = made(api, path="constant.csv", sensitive=["sex"])
    failed = made(api, truth="absent")
    browser = signed_in(api)
    shown = browser.get("/audits").text
    assert 'href="/audits" aria-current="page"' in shown
    degenerate = "".join(row for row in shown.split("<tr") if "model-degenerate" in row)
    assert (constant["id"] in degenerate, audit["id"] in degenerate) == (True, False)
    rows = {one["id"]: f'href="/audits/{one["id"]}"' in shown for one in (audit, constant, failed)}
    assert rows == {audit["id"]: True, constant["id"]: True, failed["id"]: True}
    assert "&lt;b&gt;hiring&lt;/b&gt;" in shown
    assert "<strong>truth</strong>" in shown
    # One that failed has no report, and a page with its faults.
    page = browser.get(f"/audits/{failed['id']}")
    assert (page.status_code, page.text.count("<strong>truth</strong>")) == (200, 1)
    assert audit["id"] not in page.text
    for path in ("/audits?cursor=nonsense", f"/audits/{NOBODY}"):
        assert browser.get(path).status_code in (404, 422)


def test_the_report_leads_to_its_verification_and_its_bundle(api, audit):
    path = f"/audits/{audit['id']}"
    browser = signed_in(api)
    report = browser.get(path)
    assert "Audit of predictions" in report.text
    assert "script" not in report.headers["content-security-policy"]
    for link in ("/audits", f"{path}/verification", f"{path}/bundle.zip"):
        assert f'href="{link}"' in report.text
    checked = browser.get(f"{path}/verification").text
    assert "The report is the one that was stored" in checked
    assert "The rows are not here" in checked
    assert zipfile.is_zipfile(io.BytesIO(browser.get(f"{path}/bundle.zip").content))


@needs_pango
def test_the_report_is_printed_on_three_pages(api: Api, audit: dict[str, Any]) -> None:
    path = f"/audits/{audit['id']}/report.pdf"
    pages = PdfReader(io.BytesIO(api.get(f"/v1{path}?appendix=1").content)).pages
    assert 1 < len(pages) <= 3
    assert "Who is treated worse: by sex" in pages[0].extract_text()
    # Nothing is known of what training spent.
    assert "No limit was set to" not in pages[0].extract_text()
    with patch.object(PagePrinter, "pdf", lambda _, page: page.encode()):
        assert signed_in(api).get(path).content == api.get(f"/v1{path}").content != b""


def test_a_page_shows_what_the_key_opens(api: Api, audit: dict[str, Any]) -> None:
    path = f"/audits/{audit['id']}"
    reader = signed_in(api, "reports:read")
    assert reader.get("/audits").status_code == 403
    assert 'href="/audits"' not in reader.get(path).text
    lister = signed_in(api, "experiments:read")
    assert f'href="{path}"' not in lister.get("/audits").text
    assert lister.get(path).status_code == 403


def test_the_client_asks_waits_and_takes_away(api: Api, sources: Path) -> None:
    write(sources, people(seed=3), "asked.csv")
    with served(api) as url, Client(url, api.key) as client:
        spec = asking(path="asked.csv", sensitive=["sex"])
        submitted = client.submit_audit(spec, idempotency_key="asked")
        assert client.submit_audit(spec, idempotency_key="asked")["id"] == submitted["id"]
        id_ = submitted["id"]
        worker = threading.Thread(
            target=run_unit, args=(worker_of(api), row_of(api, id_).unit_id), daemon=True
        )
        worker.start()
        audit = client.wait_audit(id_)
        worker.join()
        assert (audit["status"], audit) == ("succeeded", client.ask("GET", f"audits/{id_}"))
        assert client.audit_report(id_)["experiment"]["id"] == id_
        client.download_audit_bundle(id_, file := io.BytesIO())
        assert "report.json" in zipfile.ZipFile(file).namelist()
        with pytest.raises(ProblemError):
            client.wait_audit(NOBODY)
