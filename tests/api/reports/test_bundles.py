"""Bundles over HTTP, and the keys that they are verified with."""

from pathlib import Path

import pytest

from fedaudit.ledger.bundle import opened_bundle
from fedaudit.ledger.statements import SigningKey, public_keys_in
from fedaudit.reports.verification.verification import verify
from models.repositories import SigningKeyRepository
from tests.api.service import KEY, Api, fail, finished, play


@pytest.fixture
def bundle(api: Api, tmp_path: Path) -> Path:
    """The bundle of a finished experiment."""
    id_ = finished(api)
    answer = api.get(f"/v1/experiments/{id_}/bundle")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/zip"
    assert answer.content == api.get(f"/v1/experiments/{id_}/bundle").content
    path = tmp_path / "bundle.zip"
    path.write_bytes(answer.content)
    return path


@pytest.mark.parametrize(
    ("key", "verdict"),
    [
        (KEY, "valid"),
        (None, "consistent, signer untrusted"),
        (SigningKey.generate(), "consistent, signer untrusted"),
    ],
)
def test_a_bundle_is_judged_without_the_service(bundle, key, verdict):
    with opened_bundle(bundle) as evidence:
        found = verify(evidence, trusted=[] if key is None else [key.public])
    assert found.verdict == verdict
    assert {check.outcome for check in found.checks} == {"pass"}
    assert found.entries == 3


def test_a_run_without_a_report_has_a_bundle_too(api: Api, tmp_path: Path) -> None:
    id_ = api.submit()["id"]
    fail(api, id_)
    path = tmp_path / "bundle.zip"
    path.write_bytes(api.get(f"/v1/experiments/{id_}/bundle").content)
    with opened_bundle(path) as evidence:
        assert evidence.report is None
        assert verify(evidence, trusted=[KEY.public]).verdict == "consistent, signer untrusted"


def test_what_still_runs_has_no_bundle(api: Api) -> None:
    id_ = api.submit()["id"]
    for _ in range(2):
        answer = api.get(f"/v1/experiments/{id_}/bundle")
        assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (409, "conflict")
        if api.stored(id_).status == "queued":
            play(api, id_)


def test_signing_keys_are_listed_with_the_retired_ones(api: Api) -> None:
    for key in (KEY, SigningKey.generate()):
        with api.database.write() as session:
            SigningKeyRepository(session).use(
                key.key_id, algorithm="ed25519", public_key=key.public.pem
            )
    old, new = api.get("/v1/signing-keys").json()["items"]
    assert (old["key_id"], new["key_id"]) == (KEY.key_id, key.key_id)
    assert old["retired_at"] is not None
    assert new["retired_at"] is None
    assert public_keys_in(new["public_key"].encode()) == [key.public]
