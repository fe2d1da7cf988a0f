"""The pages of federations: profiles without small groups, and budgets with what is left."""

import html
import json
import re
from typing import Any

import pytest

from fedaudit.ledger.statements import Envelope
from models.repositories import FederationRepository, SigningKeyRepository
from models.tables.federations import Erasure, Federation
from tests.api.pages.browser import signed_in, text_of
from tests.api.service import KEY, Api, spec
from tests.api.uploads import CONTENT, make_ready, registration, upload
from tests.api.webhooks.webhooks import deliveries, register
from tests.house import ROOT
from workers.eraser import Eraser
from workers.lost_rounds import LostRounds

PROFILE: dict[str, Any] = {
    "rows": 100,
    "clients": 10,
    "rows_per_client": {"minimum": 5, "median": 10.0, "maximum": 15},
    "features": ["age", "<i>hours</i>"],
    "target": "earnings",
    "classes": [],
    "class_balance": None,
    "missing": {"age": 3},
    "attributes": {
        "sex": {
            "of": "record",
            "groups": {"F": 60, "M": 40, "X": None},
            "missing": 0,
            "base_rates": {"F": 0.25, "M": 0.5, "X": None},
            "reasons": {"groups": "small groups of Sex are not shown"},
        }
    },
    "warnings": [{"pointer": "/fairness", "message": "a group is small"}],
    "notes": ["rows without a value of 'Age', in no group: 3"],
    "reasons": {},
}


def _federation(api: Api, **changes: Any) -> str:
    with api.database.write() as session:
        federations = FederationRepository(session, api.project_id)
        row = federations.get_or_create(
            fingerprint="a" * 64, name="people", source="table", profile=PROFILE
        )
        stored = session.get(Federation, row.id)
        assert stored is not None
        values = {"registration": {"name": "people"}, "profiled_at": row.created_at, **changes}
        for name, value in values.items():
            setattr(stored, name, value)
        return row.id


def test_a_profile_shows_shares_and_no_small_groups(api: Api) -> None:
    page = signed_in(api).get(f"/federations/{_federation(api)}")
    plain = text_of(page)
    assert "F 60 60.0 % 25.0 %" in plain
    assert "M 40 40.0 % 50.0 %" in plain
    assert "X hidden too small to be shown hidden" in plain
    assert "<i>hours</i>" not in page.text
    assert "a group is small" in plain
    assert "Rows without a value of 'Age', in no group: 3." in plain
    assert "Small groups of Sex are not shown." in plain


def test_budgets_are_bars_with_their_numbers(api: Api) -> None:
    id_ = api.submit(spec(privacy={"radius": 1.0, "clip": 1.0}))["federation_id"]
    browser = signed_in(api)
    assert "no total is set" in browser.get(f"/federations/{id_}").text
    assert api.set_budget(id_, 8, radius=1, clip=1).status_code == 200
    page = browser.get(f"/federations/{id_}")
    for words in (
        *("spent 0 reserved 4 left 4 total 8", "Leakage, radius 1, clip 1 noise mode sim"),
        *("Log-ratio by the theorem", f"fedaudit budget {id_} --set"),
    ):
        assert words in text_of(page)
    # The terms of what ran, or else those that a proposal follows.
    assert f"fedaudit budget {id_} --set leakage=8 --radius 1.0 --clip 1.0</code>" in page.text
    assert "--set epsilon" not in page.text
    none_ran = browser.get(f"/federations/{_federation(api)}").text
    [printed] = re.findall(r"--set epsilon=8 (.+?)</code>", none_ran)
    assert f"--set epsilon=8 {printed}`" in (ROOT / "docs/start.md").read_text("utf-8")
    delta, adjacency, observer = printed.split()[1::2]
    terms = {"delta": float(delta), "adjacency": adjacency, "observer": observer}
    assert api.set_budget(id_, 8, figure="epsilon", **terms).status_code == 200
    refused = api.set_budget(id_, 8, figure="epsilon", delta=0.1)
    assert "adjacency (add-or-remove-one or replace-one)" in refused.text
    assert re.search(r'class="bar-held" x="0(\.0)?" width="500(\.0)?"', page.text)
    reader = signed_in(api, "federations:read")
    assert "--set" not in reader.get(f"/federations/{id_}").text


def test_the_policy_is_shown_with_the_least_that_holds(api: Api) -> None:
    value = registration()
    value["federation"]["path"] = "people.csv"
    id_ = _federation(api, registration=value)
    browser = signed_in(api)
    settings = api.client.app.state.resources.settings
    least = f"minimum_group_size: {settings.min_group_size}"
    assert least in text_of(browser.get(f"/federations/{id_}"))
    policy = {
        "minimum_group_size": settings.min_group_size + 7,
        "favourable": {"op": "ge", "value": 3},
        "exclude": {"sex": ["X"]},
    }
    answer = api.request("PUT", f"/v1/federations/{id_}/disclosure", json=policy)
    assert answer.status_code == 200, answer.text
    plain = text_of(browser.get(f"/federations/{id_}"))
    assert f"minimum_group_size: {settings.min_group_size + 7}" in plain
    assert "favourable: op: ge value: 3" in plain
    assert "exclude: sex: - X" in plain


# -- erasures: a receipt and whether it holds; and the webhook ------------------------------------

_REFERENCE = "request <2026-117>"


def erased(api: Api, content: bytes = CONTENT) -> str:
    """The id of a federation that was erased; before it was, there was no receipt."""
    federation = str(upload(api, content)["id"])
    make_ready(api, federation)
    answer = api.post(f"/v1/federations/{federation}/erasure", json={"reference": _REFERENCE})
    assert answer.status_code == 202, answer.text
    path, browser = f"/federations/{federation}/erasures/1", signed_in(api)
    assert "It is not done" in browser.get(path).text
    assert browser.get(f"{path}/receipt.json").status_code == 404
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
