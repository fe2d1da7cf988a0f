"""The page of attacks on a finished run: what came of requests, and their end."""

from tests.api.pages.browser import signed_in, text_of
from tests.api.service import Api, spec
from tests.attacks.doubles import ALARM, Looks
from tests.workers.attacks.attacked_service import work, work_later

QUIET = spec(training={"rounds": 3}, gates=[])


def ended(api: Api) -> str:
    id_ = str(api.submit(QUIET)["id"])
    work(api, id_)
    return id_


def test_what_was_asked_for_and_found_is_shown_on_its_page(api: Api, looks: Looks) -> None:
    id_ = ended(api)
    visitor, path = signed_in(api), f"/experiments/{id_}/attacks"
    assert f'href="{path}"' in visitor.get(f"/experiments/{id_}").text
    asked = {"attacks": [{"kind": "canaries", "unit": "client", "count": 20}]}
    later = api.post(f"/v1{path}", json=asked).json()["id"]
    assert 'http-equiv="refresh"' in visitor.get(path).text
    looks.alarm = ALARM
    assert work_later(api, later)["status"] == "succeeded"
    shown = visitor.get(path)
    assert "1. canaries succeeded 1 alarm" in text_of(shown)
    assert "The largest parameter was looked up" in text_of(shown)
    assert 'http-equiv="refresh"' not in shown.text
    # One that waits is taken back from the page.
    newest = api.post(f"/v1{path}", json={"attacks": [{"kind": "membership"}]}).json()["id"]
    assert visitor.post(f"{path}/later/{newest}/cancel").status_code == 303
    assert "2. membership cancelled" in text_of(visitor.get(path))
