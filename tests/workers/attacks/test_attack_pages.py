"""The page of attacks on a finished run: its form, what came of requests, and their end."""

import re

from tests.api.pages.browser import signed_in, text_of
from tests.api.service import Api, spec
from tests.attacks.doubles import ALARM, Looks
from tests.workers.attacks.attacked_service import work, work_later

QUIET = spec(training={"rounds": 3}, gates=[])


def ended(api: Api) -> str:
    id_ = str(api.submit(QUIET)["id"])
    work(api, id_)
    return id_


def once(page: str) -> str:
    found = re.search(r'name="once" value="([^"]+)"', page)
    return found[1]


def test_an_attack_is_asked_for_and_told_of_on_its_page(api: Api, looks: Looks) -> None:
    id_ = ended(api)
    visitor, path = signed_in(api), f"/experiments/{id_}/attacks"
    assert f'href="{path}"' in visitor.get(f"/experiments/{id_}").text
    form = {"kind": "canaries", "number": "20", "once": once(visitor.get(path).text)}
    for _ in range(2):
        answer = visitor.post(path, form)
        assert (answer.status_code, answer.headers["location"]) == (303, path)
    [asked] = api.get(f"/v1{path}/later").json()["items"]
    assert (asked["asked"][0]["unit"], asked["asked"][0]["count"]) == ("client", 20)
    waiting = visitor.get(path).text
    assert 'http-equiv="refresh"' in waiting
    assert "Ask for an attack" not in waiting
    looks.alarm = ALARM
    assert work_later(api, asked["id"])["status"] == "succeeded"
    told = text_of(visitor.get(path))
    assert "1. canaries succeeded 1 alarm" in told
    assert "The largest parameter was looked up" in told
    assert "Ask for an attack" in told
    # One that waits is taken back from the page.
    assert visitor.post(path, {"kind": "membership"}).status_code == 303
    newest = api.get(f"/v1{path}/later").json()["items"][-1]["id"]
    assert visitor.post(f"{path}/later/{newest}/cancel").status_code == 303
    assert "2. membership cancelled" in text_of(visitor.get(path))
