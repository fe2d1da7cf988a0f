"""The page of one experiment: while it waits, while it runs, and once it has ended."""

import html
import re
from typing import Any

import httpx
import pytest

from api.pages.session import COOKIE
from tests.api.pages.browser import signed_in, text_of
from tests.api.service import ROUNDS, Api, fail, finish, play, served


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
    answer = signed_in(api).get(path_of(experiment))
    stated = text_of(answer)
    assert f"Round {ROUNDS} of 4" in stated
    assert ", running for " in stated
    assert f"Leakage, largest {ROUNDS} heuristic" in stated
    assert f"Validation loss 0.5 in round {ROUNDS}" in stated
    assert "equalized odds difference" in stated
    assert answer.text.count("<svg") >= 5
    assert "style=" not in answer.text
    assert "<script>" not in answer.text


def test_one_that_succeeded_leads_to_its_report_and_shows_gates(api: Api) -> None:
    experiment = api.submit()
    document = finish(api, experiment["id"])
    answer = signed_in(api).get(path_of(experiment))
    assert f'href="{path_of(experiment)}/report"' in answer.text
    assert document["verdict"][:60] in html.unescape(answer.text)
    assert "leakage max at most 40 pass" in text_of(answer)
    assert "http-equiv" not in answer.text
    assert "/cancel" not in answer.text


def test_without_the_scope_for_reports_nothing_of_the_report_is_shown(api: Api) -> None:
    experiment = api.submit()
    document = finish(api, experiment["id"])
    answer = signed_in(api, "experiments:read").get(path_of(experiment))
    assert answer.status_code == 200
    assert document["verdict"][:60] not in html.unescape(answer.text)
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


@pytest.mark.parametrize("part", ["", "/figures", "/stream"])
def test_another_project_s_experiment_is_not_found(api: Api, part: str) -> None:
    theirs = api.submit(key=api.key_with("experiments:write", project="clinic"))
    visitor = signed_in(api)
    assert visitor.get(f"{path_of(theirs)}{part}").status_code == 404
    assert visitor.post(f"{path_of(theirs)}/cancel").status_code == 404


def test_the_figures_for_the_script_are_those_of_the_page(api: Api) -> None:
    experiment = api.submit()
    play(api, experiment["id"])
    visitor = signed_in(api)
    state = visitor.get(f"{path_of(experiment)}/figures").json()
    assert (state["status"], state["round"], state["rounds"], state["last"]) == (
        "running",
        ROUNDS,
        4,
        ROUNDS,
    )
    by_name = {curve["name"]: curve for curve in state["curves"]}
    assert by_name["loss"]["rounds"] == [1, 2, 3]
    assert by_name["loss"]["lines"][0] == {"name": "validation loss", "values": [1.5, 0.75, 0.5]}
    assert "gaps group" in by_name
    assert "accuracy" not in by_name
    readings = {one["name"]: one["value"] for one in state["readings"]}
    assert readings["leakage_max"] == "3"
    assert "group equalized_odds_difference" in readings


def test_the_script_is_sent_what_is_new_only(api: Api) -> None:
    experiment = api.submit()
    play(api, experiment["id"])
    visitor = signed_in(api)
    state = visitor.get(f"{path_of(experiment)}/figures?after=2").json()
    assert {tuple(curve["rounds"]) for curve in state["curves"]} == {(3,)}
    state = visitor.get(f"{path_of(experiment)}/figures?after=3").json()
    assert (state["curves"], state["readings"], state["last"]) == ([], [], 3)


def test_the_stream_has_the_events_behind_a_number_under_the_session(api: Api) -> None:
    experiment = api.submit()
    finish(api, experiment["id"])
    visitor = signed_in(api)
    answer = visitor.get(f"{path_of(experiment)}/stream?after=2")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert re.findall(r"^id: (\d+)", answer.text, re.MULTILINE)[0] == "3"
    assert answer.text.count("event: round.completed") == ROUNDS
    assert '"status":"succeeded"' in answer.text.replace(" ", "")
    # A browser that connects again names the last event that it has.
    again = visitor.get(f"{path_of(experiment)}/stream?after=2", headers={"Last-Event-ID": "5"})
    assert re.findall(r"^id: (\d+)", again.text, re.MULTILINE)[0] == "6"


def test_the_stream_needs_the_session(api: Api) -> None:
    path = f"{path_of(api.submit())}/stream"
    assert api.client.get(path, follow_redirects=False).status_code == 303


def test_the_stream_ends_with_the_session(api: Api) -> None:
    path, visitor = f"{path_of(api.submit())}/stream", signed_in(api)
    cookies = {COOKIE: visitor.token or ""}
    with (
        served(api) as url,
        httpx.Client(base_url=url, cookies=cookies, timeout=30) as client,
        client.stream("GET", path) as response,
    ):
        lines = response.iter_lines()
        assert next(lines).startswith("event: ")
        assert visitor.post("/sign-out").status_code == 303
        list(lines)
