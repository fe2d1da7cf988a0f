"""The list of experiments."""

import re

from sqlalchemy import update

from models.tables.experiments import Experiment
from tests.api.pages.browser import signed_in
from tests.api.service import Api, finish, spec

HOSTILE = "<script>alert(1)</script> & \"friends\" 'x'"


def _names(text: str) -> list[str]:
    return re.findall(r'<a href="/experiments/[0-9a-f-]{36}">([^<]*)</a>', text)


def test_a_row_says_cost_guarantee_gap_utility_and_outcome(api: Api) -> None:
    ended = api.submit(spec(name="ended"))["id"]
    finish(api, ended)
    with api.database.write() as session:
        session.execute(update(Experiment).where(Experiment.id == ended).values(accuracy=0.875))
    api.submit(spec(name="waiting", privacy={"radius": 1.0, "clip": 1.0}))
    text = signed_in(api).get("/").text
    assert _names(text) == ["waiting", "ended"]
    waiting, done = text.split("</tr>")[1:3]
    assert "guarantee-formal" in waiting
    assert "not yet" in waiting
    assert "0 of 4 rounds" in waiting
    assert "guarantee-heuristic" in done
    figures = api.get(f"/v1/experiments/{ended}").json()["figures"]
    assert f'<span class="figure">{figures["leakage_max"]:g}</span>' in done
    assert "leakage, largest" in done
    assert '<span class="figure">0.875</span> <span class="remark">accuracy</span>' in done
    assert f'value="{ended}"' in done
    assert "checkbox" not in waiting


def test_an_accuracy_has_no_bar_and_says_where_the_model_is_not_shown_to_be_useful(api):
    names = {"useless": ["model-decides-nothing"], "useful": ["gates-failed"], "earlier": None}
    for name, codes in names.items():
        ended = api.submit(spec(name=name))["id"]
        finish(api, ended)
        answer = None
        if codes is not None:
            reasons = [{"code": code, "text": "a reason"} for code in codes]
            answer = {"outcome": "do-not-release", "reasons": reasons}
        with api.database.write() as session:
            mine = update(Experiment).where(Experiment.id == ended)
            session.execute(mine.values(accuracy=0.875, answer=answer))
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


def test_federations_are_named_for_those_who_may_know_them(api: Api) -> None:
    api.submit(spec())
    assert "synthetic-groups" in signed_in(api).get("/").text
    assert "synthetic-groups" not in signed_in(api, "experiments:read").get("/").text


def test_another_projects_experiments_are_not_shown(api: Api) -> None:
    api.submit(spec(name="ours"))
    api.submit(spec(name="theirs"), key=api.key_with("experiments:write", project="another clinic"))
    assert _names(signed_in(api).get("/").text) == ["ours"]


def test_a_key_without_experiments_is_led_to_what_it_is_good_for(api: Api) -> None:
    assert signed_in(api, "reports:read").get("/").headers["location"] == "/reports"
    assert signed_in(api, "federations:read").get("/").headers["location"] == "/federations"
    assert signed_in(api, "admin").get("/").status_code == 403
