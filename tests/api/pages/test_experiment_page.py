"""The page of one experiment: while it waits, while it runs, and once it has ended."""

import html
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from api.pages.experiment import tiles, time_left
from api.pages.wording import NONE
from api.services.report_pages import live_figures
from fedaudit.number_text import interval_text
from models.tables.experiments import Experiment, Report
from tests.api.pages.browser import Browser, signed_in, text_of
from tests.api.service import ROUNDS, Api, fail, finish, finished, play, spec
from tests.spec.documents import TABLE

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "done", "words"),
    [
        (30, 0, ""),
        (30, 100, "running for 30 s, at this pace at most 30 s more"),
        (600, 50, "running for 10 min, at this pace at most 30 min more"),
        (8000, 20, "running for 2 h 13 min, at this pace at most 20 h 00 min more"),
        (60, 200, "running for 60 s, the report is being made"),
        (-5, 100, ""),
    ],
)
def test_the_pace_so_far_bounds_what_is_left(seconds: int, done: int, words: str) -> None:
    assert time_left(START, START + timedelta(seconds=seconds), done=done, rounds=200) == words


def submitted(api: Api) -> str:
    return f"/experiments/{api.submit()['id']}"


def ended(api: Api) -> tuple[str, dict[str, Any]]:
    """Where the page of an experiment is that succeeded, and its report."""
    document = finish(api, (path := submitted(api))[13:])
    return path, document


def shown(visitor: Browser, path: str, *words: str) -> str:
    answer = visitor.get(path)
    stated = text_of(answer)
    assert [one for one in words if one not in stated] == []
    return str(answer.text)


def test_one_that_waits_says_so_and_can_be_cancelled(api: Api) -> None:
    path, visitor = submitted(api), signed_in(api)
    missing = "Leakage, largest – no round is stored yet"
    page = shown(visitor, path, "Waiting for a worker", missing)
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in page
    for query, looks in (("", True), ("?refresh=no", False)):
        page = visitor.get(path + query).text
        assert ('data-refresh="5"' in page, "/live.js" in page) == (looks, looks)
    assert visitor.post(f"{path}/cancel").headers["location"] == path
    shown(visitor, path, "A user cancelled it.", "cancelled-by-caller")


def test_one_that_runs_shows_its_newest_round_and_curves(api: Api) -> None:
    path, visitor = submitted(api), signed_in(api)
    play(api, path[13:])
    leakage = f"Leakage, largest {ROUNDS} after round {ROUNDS}; heuristic"
    losses = (f"Validation loss 0.5 in round {ROUNDS}", "Equalized odds difference")
    running = (f"Round {ROUNDS} of 4", ", running for ")
    page = shown(visitor, path, *running, leakage, *losses)
    assert page.count("<svg") >= 4
    links = re.findall(r'/experiments/[^"]*/charts/[^"]*', page)
    assert len(links) == 2 * page.count("Save as ")
    for link in links[:2]:
        assert visitor.get(link).headers["Content-Type"].startswith("image/")
    assert "style=" not in page
    assert "<script>" not in page


def test_one_that_succeeded_leads_to_its_report_and_shows_gates(api: Api) -> None:
    path, document = ended(api)
    answer = signed_in(api).get(path)
    assert f'href="{path}/report"' in answer.text
    for reason in document["answer"]["reasons"]:
        assert reason["text"][1:] in html.unescape(answer.text)
    # What passed is not shown in the colour of success where the model is not to be released.
    assert document["answer"]["outcome"] == "do-not-release"
    assert "outcome-pass" not in answer.text
    assert "leakage max at most 40 pass" in text_of(answer)
    intervals = [
        metric["interval"]
        for section in document["fairness"]
        for metric in section["metrics"].values()
        if metric["interval"] is not None
    ]
    assert f"({interval_text(intervals[0])}, 95 %)" in text_of(answer)
    for part in ("http-equiv", "data-refresh", "/cancel"):
        assert part not in answer.text


def test_a_figure_that_the_report_has_not_is_taken_from_no_round(api: Api) -> None:
    _, document = ended(api)
    row = api.stored(document["experiment"]["id"])
    with api.database.read() as session:
        live = live_figures(session, row)
    assert live.validated is not None
    live = replace(live, validated=replace(live.validated, accuracy=0.7))
    row.spec = TABLE
    missing = ("validation_loss", "accuracy")
    reasons = dict.fromkeys(missing, "there was no finite loss")
    document["utility"] |= {**dict.fromkeys(missing), "reasons": reasons}
    shown = {one.name: (one.value, one.note) for one in tiles(row, live, document)}
    assert shown["validation_loss"] == (NONE, "there was no finite loss")
    assert shown["accuracy"] == (NONE, "")
    # Where the threshold weighs errors, the accuracy alone says little.
    weighed = {"accuracy": 0.6, "threshold": 0.875, "weighted_accuracy_over_baseline": 0.08}
    document["utility"] |= {**weighed, "baseline_accuracy": 0.86, "reasons": {}}
    [accuracy] = (one for one in tiles(row, live, document) if one.name == "accuracy")
    assert (accuracy.value, accuracy.constant) == ("0.6", "0.86")
    assert accuracy.note.endswith("its accuracy is 0.08 above that of the best constant.")


def test_without_the_scope_for_reports_nothing_of_the_report_is_shown(api: Api) -> None:
    path, document = ended(api)
    answer = signed_in(api, "experiments:read").get(path)
    assert answer.status_code == 200
    assert document["answer"]["reasons"][0]["text"][1:] not in html.unescape(answer.text)
    assert "/report" not in answer.text
    for word in ("cancel", "retry", "/experiments/new?like"):
        assert f"{path}/{word}" not in answer.text
    # A report of another version is no fault of the page, nor the clients that are kept beside it.
    clients = {"figure": "leakage", "reason": []}
    api.change(update(Report).values(document={"report_version": 1}, clients=clients))
    answer = signed_in(api).get(path)
    assert (answer.status_code, "What each client paid" in answer.text) == (200, False)
    assert f"{path}/report" not in answer.text


def test_one_that_failed_says_why_and_can_be_retried_once(api: Api) -> None:
    path, visitor = submitted(api), signed_in(api)
    fail(api, path[13:])
    lost = "It failed. Its workers were lost, again and again. Retry it."
    page = shown(visitor, path, lost, "worker-lost gone")
    once = re.search(r'name="once" value="([\w-]+)"', page)
    first, second = (
        visitor.post(f"{path}/retry", {"once": once[1]}).headers["location"] for _ in range(2)
    )
    assert first == second != path
    assert f'href="{path}"' in visitor.get(first).text


def test_forms_from_elsewhere_change_nothing(api: Api) -> None:
    path, visitor = submitted(api), signed_in(api)
    reader = signed_in(api, "experiments:read")
    for action in (f"{path}/cancel", f"{path}/retry"):
        assert visitor.post(action, csrf=None).status_code == 403
        assert visitor.post(action, headers={"Origin": "http://evil.example"}).status_code == 403
        assert reader.post(action).status_code == 403
    assert api.stored(path[13:]).status == "queued"


# -- the list of experiments ----------------------------------------------------------------------


HOSTILE = "<script>alert(1)</script> & \"friends\" 'x'"


def _names(text: str) -> list[str]:
    return re.findall(r'<a href="/experiments/[0-9a-f-]{36}">([^<]*)</a>', text)


def test_a_row_says_cost_guarantee_gap_utility_and_outcome(api: Api) -> None:
    id_ = finished(api, spec(name="ended"))
    api.change(update(Experiment).values(accuracy=0.875))
    api.submit(spec(name="waiting", privacy={"radius": 1.0, "clip": 1.0}))
    text = signed_in(api).get("/").text
    assert _names(text) == ["waiting", "ended"]
    waiting, done = text.split("</tr>")[1:3]
    assert all(one in waiting for one in ("guarantee-formal", "not yet", "0 of 4 rounds"))
    assert "checkbox" not in waiting
    leakage = api.get(f"/v1/experiments/{id_}").json()["figures"]["leakage_max"]
    for words in (
        *("guarantee-heuristic", "leakage, largest", f'value="{id_}"'),
        f'<span class="figure">{leakage:g}</span>',
        '<span class="figure">0.875</span> <span class="remark">accuracy</span>',
    ):
        assert words in done
    # Federations are named for those who may know them.
    assert "synthetic-groups" in text
    assert "synthetic-groups" not in signed_in(api, "experiments:read").get("/").text


def test_an_accuracy_has_no_bar_and_says_where_the_model_is_not_shown_to_be_useful(api):
    names = {"useless": ["model-decides-nothing"], "useful": ["gates-failed"], "earlier": None}
    for name, codes in names.items():
        mine = update(Experiment).where(Experiment.id == finished(api, spec(name=name)))
        reasons = [{"code": code, "text": "a reason"} for code in codes or ()]
        answer = None if codes is None else {"outcome": "do-not-release", "reasons": reasons}
        api.change(mine.values(accuracy=0.875, answer=answer))
    earlier, useful, useless = signed_in(api).get("/").text.split("</tr>")[1:4]
    for row in (earlier, useful, useless):
        assert 'class="bar-spent"' not in row
        assert ("accuracy, not shown to be useful" in row) == (row is useless)


def test_hostile_names_and_tags_are_text(api: Api) -> None:
    tag = '"><img src=x onerror=alert(1)>'
    api.submit(spec(name=HOSTILE, tags=[tag]))
    browser = signed_in(api)
    text = browser.get("/").text
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    [link] = re.findall(r'class="tag" href="([^"]+)"', text)
    assert len(_names(browser.get(link).text)) == 1
    echoed = browser.get("/", headers={}).text + browser.client.get("/", params={"name": tag}).text
    assert "<img src=x" not in echoed


def test_filters_hold_over_pages_and_empty_fields_do_not_count(api: Api) -> None:
    for number in range(4):
        api.submit(spec(name=f"run {number}", tags=["even"] if number % 2 == 0 else ["odd"]))
    browser = signed_in(api)
    every = "/?name=&tag=&mechanism=&status=&sort=name"
    assert _names(browser.get(every).text) == [f"run {number}" for number in range(4)]
    first = browser.get("/?tag=even&sort=name&limit=1").text
    assert _names(first) == ["run 0"]
    [following] = re.findall(r'href="([^"]+)" rel="next"', first)
    second = browser.get(following.replace("&amp;", "&") + "&limit=1").text
    assert _names(second) == ["run 2"]
    assert "First page" in second
    assert _names(browser.get("/?status=running").text) == []
    assert 'value="even"' in first
    assert re.search(r'<option value="name" selected>', first)
