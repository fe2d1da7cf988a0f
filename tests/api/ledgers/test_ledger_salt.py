"""Who took part is found in nothing that a reader of reports is shown, by trying every cohort."""

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import update

from fedaudit.ledger.bundle import opened_bundle
from fedaudit.ledger.declared import declared_entries
from fedaudit.ledger.encoding import SALT_BYTES, EntryEncoder, ledger_hash
from fedaudit.privacy.declared.histories import Histories, charge_of
from fedaudit.reports.verification.verification import VALID, verify
from fedaudit.spec.declared_ledgers import EVERYONE, GaussianRelease, LedgerTerms
from models.tables.ledger import DeclaredLedger
from tests.api.ledgers.trainings import GAUSSIAN, LOCAL, bundle, declared, opened, post, read, sign
from tests.api.service import KEY, Api

NAMES = ["c", "f", *(f"other-{one}" for one in range(6))]
TERMS = {**LOCAL, "population": len(NAMES)}
TRUE = (("c", "other-2"), ("f",))
READER = ("experiments:read", "reports:read")


def ledger_of(api: Api, *, salted: bool) -> str:
    """A signed ledger of one round; as one that was opened before there were salts unless
    `salted`."""
    ledger = opened(api, TERMS)
    if not salted:
        api.change(update(DeclaredLedger).values(ledger_salt=None))
        api.client.app.state.resources.ledgers.forget(ledger)  # type: ignore[attr-defined]
    asked, failed = TRUE
    assert post(api, ledger, declared(1, [*asked], failures=[*failed])).status_code == 200
    assert sign(api) == 1
    return ledger


def shown(api: Api, ledger: str) -> str:
    """All that a key of a reader is answered."""
    as_reader = {"Authorization": f"Bearer {api.key_with(*READER)}"}
    paths = api.get("/openapi.json").json()["paths"]
    mine = [one for one in paths if one.startswith("/v1/ledgers/") and "get" in paths[one]]
    answers = [
        api.client.get(one.replace("{ledger_id}", ledger), headers=as_reader) for one in mine
    ]
    assert sum(one.status_code == 200 for one in answers) > 4
    assert sum(one.status_code == 403 for one in answers) > 1
    return "\n".join(one.text for one in answers)


def cohorts_in(text: str, salt: bytes | None) -> set[Any]:
    """The participants and failures of which a hash is in the text, of all that may have been."""
    terms, found = LedgerTerms.model_validate(TERMS), set()
    charge = charge_of(terms, GaussianRelease.model_validate(GAUSSIAN))
    for three in combinations(NAMES, 3):
        for failed in three:
            asked = tuple(name for name in three if name != failed)
            # Places follow from the order in which names were posted; the encoding sorts them.
            histories = Histories([EVERYONE, *asked, failed])
            places = np.arange(1, 4, dtype=np.int32)
            histories.charge(charge, places, steps=1)
            entries = declared_entries(
                terms,
                histories,
                charge,
                round_=1,
                steps=1,
                participants=places[:-1],
                failures=places[-1:],
                releases=np.zeros(4, dtype=np.int32),
            )
            digests = EntryEncoder(histories.names, salt=salt).digests(entries)
            keyed = [(*key, one) for key, one in zip(entries.keys, digests, strict=True)]
            if any(one in text for one in (ledger_hash(keyed), *(one.hex() for one in digests))):
                found.add((asked, (failed,)))
    return found


def test_no_reader_of_reports_finds_who_took_part(api: Api, tmp_path: Path) -> None:
    ledger = ledger_of(api, salted=True)
    text = shown(api, ledger)
    assert read(api, ledger, "/report")["integrity"]["ledger_hash"] in text
    assert cohorts_in(text, None) == set()
    # With the salt, which the scope of the ledger opens, the same guesses find them.
    page = read(api, ledger, "/privacy-ledger")
    salt = bytes.fromhex(page["salt"])
    assert (len(salt), page["reasons"].get("salt"), salt.hex() in text) == (SALT_BYTES, None, False)
    assert cohorts_in(text, salt) == {TRUE}
    path = tmp_path / "bundle.zip"
    path.write_bytes(api.get(f"/v1/ledgers/{ledger}/bundle").content)
    with opened_bundle(path) as evidence:
        assert evidence.salt == salt
        verified = verify(evidence, trusted=[KEY.public])
    assert verified.verdict == VALID
    assert "ledger.salt" in {one.name for one in verified.checks}


def test_a_ledger_that_was_opened_without_a_salt_goes_on_without_one(api: Api) -> None:
    ledger = ledger_of(api, salted=False)
    assert cohorts_in(shown(api, ledger), None) == {TRUE}
    page = read(api, ledger, "/privacy-ledger")
    assert page["salt"] is None
    assert "not keyed" in page["reasons"]["salt"]
    assert post(api, ledger, declared(2, ["c"])).status_code == 200
    assert sign(api) == 1
    assert read(api, ledger, "/report/verification")["valid"]
    with bundle(api, ledger) as archive:
        assert "salt.json" not in archive.namelist()


@pytest.mark.parametrize("salt", [None, bytes(SALT_BYTES)])
def test_nothing_is_signed_of_a_ledger_whose_salt_was_changed(api: Api, salt: bytes | None) -> None:
    ledger = ledger_of(api, salted=True)
    assert post(api, ledger, declared(2, ["c"])).status_code == 200
    api.change(update(DeclaredLedger).values(ledger_salt=salt))
    assert sign(api) == 0
    failed = {
        one["name"]
        for one in read(api, ledger, "/report/verification")["checks"]
        if one["outcome"] == "fail"
    }
    assert {"ledger.salt", "ledger.digests"} <= failed
