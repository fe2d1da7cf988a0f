"""The pages of webhooks: what was sent where, a test, and nothing for who does not administer."""

from tests.api.pages.browser import signed_in
from tests.api.service import Api
from tests.api.webhooks.webhooks import deliveries, register


def test_a_test_is_sent_from_the_page_and_shown_there(api: Api) -> None:
    webhook = register(api, "https://hooks.example.org/<b>", events=["gate.failed"])
    browser = signed_in(api)
    path = f"/webhooks/{webhook['id']}"
    listed = browser.get("/webhooks").text
    assert f'href="{path}"' in listed
    assert "https://hooks.example.org/&lt;b&gt;" in listed
    assert "Nothing was sent" in browser.get(path).text
    answer = browser.post(f"{path}/test")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{path}?sent=true")
    [sent] = deliveries(api, webhook)
    shown = browser.get(path).text
    assert "webhook.test" in shown
    assert webhook["secret"] not in shown
    assert browser.post(f"{path}/deliveries/{sent['id']}/redeliver").status_code == 303
    assert browser.post(f"{path}/test", csrf=None).status_code == 403
    api.request("PATCH", f"/v1{path}", json={"enabled": False})
    shown = browser.get(path).text
    assert "Disabled: disabled by tests" in shown
    assert "Send a test" not in shown
    assert browser.post(f"{path}/test").status_code == 409


def test_who_administers_nothing_sees_nothing(api: Api) -> None:
    webhook = register(api, "https://hooks.example.org/", events=["gate.failed"])
    browser = signed_in(api, "experiments:read", "reports:read")
    assert "/webhooks" not in browser.get("/").text
    for path in ("/webhooks", f"/webhooks/{webhook['id']}"):
        assert browser.get(path).status_code == 403
    assert browser.post(f"/webhooks/{webhook['id']}/test").status_code == 403
    stranger = signed_in(api)
    assert stranger.get("/webhooks/01890000-0000-7000-8000-000000000000").status_code == 404
