"""The service's floor and the federation's policy hold for declared groups: when a ledger opens,
and whenever its report is made."""

import io
import zipfile
from pathlib import Path
from typing import Any

from fedaudit.spec.disclosure import DisclosureFloor
from tests.api.ledgers.trainings import LOCAL, declared, group, opened, post
from tests.api.service import KEY, Api, running_api, settings_for
from workers.proof.declared_signing import DeclaredLedgerSigner

_GROUPS = {"sex": {"f": group(20, 5, 40, 10), "m": group(50, 5, 30, 10)}}
"""75 and 95 rows."""


def _suppressed(report: Any) -> bool:
    [section] = report["fairness"]
    return all(one["suppressed"] for one in section["groups"])


def _policy(api: Api, federation: str, least: int) -> None:
    path = f"/v1/federations/{federation}/disclosure"
    assert api.request("PUT", path, json={"minimum_group_size": least}).status_code == 200


def test_terms_below_the_floor_or_the_policy_are_refused(sqlite_url: str, tmp_path: Path) -> None:
    with running_api(settings_for(sqlite_url, tmp_path, min_group_size=40)) as api:
        answer = api.post("/v1/ledgers", json=LOCAL)
        assert answer.status_code == 422
        [fault] = answer.json()["errors"]
        assert (fault["pointer"], "40" in fault["message"]) == ("/minimum_group_size", True)
        opened(api, minimum_group_size=40)


def test_a_policy_below_which_terms_lie_refuses_them(api: Api) -> None:
    federation = api.submit()["federation_id"]
    _policy(api, federation, 50)
    terms = {**LOCAL, "federation_id": federation, "minimum_group_size": 49}
    answer = api.post("/v1/ledgers", json=terms)
    assert answer.json()["errors"][0]["pointer"] == "/minimum_group_size"
    opened(api, federation_id=federation, minimum_group_size=50)


def test_a_policy_that_became_stricter_holds_for_the_next_report(api: Api) -> None:
    federation = api.submit()["federation_id"]
    ledger = opened(api, federation_id=federation)
    post(api, ledger, declared(1, ["a"], groups=_GROUPS))
    signer = DeclaredLedgerSigner(api.database, KEY, seconds=0.0)
    assert signer.sign_waiting(10) == 1
    report = api.get(f"/v1/ledgers/{ledger}/report").json()
    assert (report["ledger"]["minimum_group_size"], _suppressed(report)) == (30, False)
    _policy(api, federation, 80)
    # What was signed before shows a group that may no longer be shown.
    report = api.get(f"/v1/ledgers/{ledger}/report").json()
    assert (report["ledger"]["minimum_group_size"], _suppressed(report)) == (80, True)
    assert report["integrity"]["signature"] is None
    assert api.get(f"/v1/ledgers/{ledger}/report/verification").json()["valid"]
    with zipfile.ZipFile(io.BytesIO(api.get(f"/v1/ledgers/{ledger}/bundle").content)) as bundle:
        assert "report.json" not in bundle.namelist()
    post(api, ledger, declared(2, ["a"]))
    assert signer.sign_waiting(10) == 1
    report = api.get(f"/v1/ledgers/{ledger}/report").json()
    assert report["integrity"]["signature"] is not None
    assert _suppressed(report)


def test_a_floor_that_was_raised_holds_for_what_is_signed(api: Api) -> None:
    ledger = opened(api)
    post(api, ledger, declared(1, ["a"], groups=_GROUPS))
    floor = DisclosureFloor(minimum_group_size=80)
    assert DeclaredLedgerSigner(api.database, KEY, seconds=0.0, floor=floor).sign_waiting(10) == 1
    assert _suppressed(api.get(f"/v1/ledgers/{ledger}/report").json())
