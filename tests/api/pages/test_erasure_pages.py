"""The pages of erasures: a receipt and whether it holds; and the webhook."""

import html
import json
import re

import pytest

from fedaudit.ledger.statements import Envelope
from models.repositories import SigningKeyRepository
from models.tables.federations import Erasure
from tests.api.pages.browser import signed_in
from tests.api.service import KEY, Api
from tests.api.uploads import CONTENT, make_ready, upload
from tests.api.webhooks.webhooks import deliveries, register
from workers.eraser import Eraser
from workers.lost_rounds import LostRounds

_REFERENCE = "request <2026-117>"


def erased(api: Api, content: bytes = CONTENT, *, finish: bool = True) -> str:
    """The id of a federation that was erased."""
    federation = str(upload(api, content)["id"])
    make_ready(api, federation)
    answer = api.post(f"/v1/federations/{federation}/erasure", json={"reference": _REFERENCE})
    assert answer.status_code == 202, answer.text
    if finish:
        storage, lost = api.client.app.state.resources.storage, LostRounds(api.database)
        assert Eraser(api.database, storage, KEY, lost).erase_waiting(10) == 1
    return federation


def test_a_receipt_is_found_read_and_kept(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    webhook = register(api, "https://hooks.example.org/", events=["erasure.completed"])
    browser = signed_in(api, "federations:read")
    federation = erased(api)
    path = f"/federations/{federation}/erasures/1"
    assert f'href="{path}"' in browser.get(f"/federations/{federation}").text
    assert 'href="/federations?status=erased"' in browser.get("/federations").text
    shown = browser.get(path).text
    words = ("request &lt;2026-117&gt;", "the signature holds", "uploaded data", "backups")
    assert [one for one in words if one not in shown] == []
    kept = browser.get(f"{path}/receipt.json")
    assert "attachment" in kept.headers["content-disposition"]
    envelope = Envelope.from_dict(kept.json())
    assert KEY.public.verifies(envelope.signature, envelope.message)
    assert json.loads(envelope.payload)["reference"] == _REFERENCE
    [sent] = deliveries(api, webhook)
    assert sent["data"] == {"project": "hospital", "federation_id": federation, "number": 1}
    monkeypatch.setattr("api.pages.lists._FEDERATIONS_ON_A_PAGE", 1)
    later = erased(api, CONTENT + b"c0,a,1,2\n")
    newest = browser.get("/federations?status=erased").text
    assert (later in newest, federation in newest) == (True, False)
    [older] = re.findall(r'href="([^"]*)" rel="next"', newest)
    assert federation in browser.get(html.unescape(older)).text
    # Nobody else's project, no other number, and no key without the scope.
    assert browser.get(f"/federations/{federation}/erasures/2").status_code == 404
    assert signed_in(api, "reports:read").get(path).status_code == 403


@pytest.mark.parametrize("change", ["database", "receipt", "key"])
def test_what_the_signature_covers_is_shown_and_so_is_what_it_does_not(api, change):
    path = f"/federations/{erased(api)}/erasures/1"
    browser = signed_in(api)
    with api.database.write() as session:
        row = session.query(Erasure).one()
        row.reference = "a forged word"
        if change == "receipt":
            signature = {**row.envelope["signatures"][0], "sig": "A" * 86 + "=="}
            row.envelope = {**row.envelope, "signatures": [signature]}
        if change == "key":
            keys, since = SigningKeyRepository(session), row.requested_at
            keys.mark_compromised(KEY.key_id, since=since, note=None)
    shown = browser.get(path).text
    assert ("a forged word" in shown) == (change == "receipt")
    assert ("proves nothing" in shown) == (change == "receipt")
    assert ("marked as compromised" in shown) == (change == "key")


def test_what_is_not_done_has_no_receipt(api: Api) -> None:
    path = f"/federations/{erased(api, finish=False)}/erasures/1"
    browser = signed_in(api)
    assert "It is not done" in browser.get(path).text
    assert browser.get(f"{path}/receipt.json").status_code == 404
