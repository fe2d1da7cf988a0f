"""The page of one experiment: while it waits, while it runs, and once it has ended."""

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.pages.experiment import time_left
from tests.api.pages.browser import signed_in, text_of
from tests.api.service import ROUNDS, Api, fail, finish, play

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


def path_of(experiment: dict[str, Any]) -> str:
    """Where an experiment's page is."""
    return f"/experiments/{experiment['id']}"


def test_one_that_waits_says_so_and_can_be_cancelled(api: Api) -> None:
    path = path_of(api.submit())
    visitor = signed_in(api)
    answer = visitor.get(path)
    stated = text_of(answer)
    assert "Waiting for a worker" in stated
    assert "Leakage, largest – no round is stored yet" in stated
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in answer.text
    assert visitor.post(f"{path}/cancel").headers["location"] == path
    stated = text_of(visitor.get(path))
    assert "A user cancelled it." in stated
    assert "cancelled-by-caller" in stated


def test_one_that_runs_shows_its_newest_round_and_curves(api: Api) -> None:
    experiment = api.submit()
    play(api, experiment["id"])
    page = signed_in(api)
    answer = page.get(path_of(experiment))
    stated = text_of(answer)
    assert f"Round {ROUNDS} of 4" in stated
    assert ", running for " in stated
    assert f"Leakage, largest {ROUNDS} heuristic" in stated
    assert f"Validation loss 0.5 in round {ROUNDS}" in stated
    assert "equalized odds difference" in stated
    assert answer.text.count("<svg") >= 5
    links = re.findall(r'/experiments/[^"]*/charts/[^"]*', answer.text)
    assert len(links) == 2 * answer.text.count("Save as ")
    for link in links[:2]:
        assert page.get(link).headers["Content-Type"].startswith("image/")
    assert "style=" not in answer.text
    assert "<script>" not in answer.text


def test_one_that_succeeded_leads_to_its_report_and_shows_gates(api: Api) -> None:
    experiment = api.submit()
    document = finish(api, experiment["id"])
    answer = signed_in(api).get(path_of(experiment))
    assert f'href="{path_of(experiment)}/report"' in answer.text
    for reason in document["answer"]["reasons"]:
        assert reason["text"][1:] in html.unescape(answer.text)
    # What passed is not shown in the colour of success where the model is not to be released.
    assert document["answer"]["outcome"] == "do-not-release"
    assert "outcome-pass" not in answer.text
    assert "leakage max at most 40 pass" in text_of(answer)
    assert "http-equiv" not in answer.text
    assert "/cancel" not in answer.text


def test_without_the_scope_for_reports_nothing_of_the_report_is_shown(api: Api) -> None:
    experiment = api.submit()
    document = finish(api, experiment["id"])
    answer = signed_in(api, "experiments:read").get(path_of(experiment))
    assert answer.status_code == 200
    assert document["answer"]["reasons"][0]["text"][1:] not in html.unescape(answer.text)
    assert "/report" not in answer.text
    for word in ("cancel", "retry", "/experiments/new?like"):
        assert f"{path_of(experiment)}/{word}" not in answer.text


def test_one_that_failed_says_why_and_can_be_retried_once(api: Api) -> None:
    experiment = api.submit()
    fail(api, experiment["id"])
    visitor = signed_in(api)
    page = visitor.get(path_of(experiment))
    stated = text_of(page)
    assert "It failed. Its workers were lost, again and again. Retry it." in stated
    assert "worker-lost gone" in stated
    once = re.search(r'name="once" value="([\w-]+)"', page.text)
    first, second = (
        visitor.post(f"{path_of(experiment)}/retry", {"once": once[1]}).headers["location"]
        for _ in range(2)
    )
    assert first == second != path_of(experiment)
    assert f'href="{path_of(experiment)}"' in visitor.get(first).text


@pytest.mark.parametrize("action", ["cancel", "retry"])
def test_forms_from_elsewhere_change_nothing(api: Api, action: str) -> None:
    experiment = api.submit()
    visitor = signed_in(api)
    path = f"{path_of(experiment)}/{action}"
    assert visitor.post(path, csrf=None).status_code == 403
    assert visitor.post(path, headers={"Origin": "http://evil.example"}).status_code == 403
    assert signed_in(api, "experiments:read").post(path).status_code == 403
    assert api.stored(experiment["id"]).status == "queued"


def test_another_project_s_experiment_is_not_found(api: Api) -> None:
    theirs = api.submit(key=api.key_with("experiments:write", project="clinic"))
    visitor = signed_in(api)
    assert visitor.get(path_of(theirs)).status_code == 404
    assert visitor.post(f"{path_of(theirs)}/cancel").status_code == 404


def test_it_looks_again_only_while_there_is_something_to_come(api: Api) -> None:
    experiment, visitor = api.submit(), signed_in(api)
    running = visitor.get(path_of(experiment)).text
    assert 'data-refresh="5"' in running
    assert "/live.js" in running
    stopped = visitor.get(f"{path_of(experiment)}?refresh=no").text
    assert "data-refresh" not in stopped
    assert "/live.js" not in stopped
    finish(api, experiment["id"])
    assert "data-refresh" not in visitor.get(path_of(experiment)).text
