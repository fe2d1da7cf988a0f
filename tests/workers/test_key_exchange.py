"""The signing key is exchanged under running processes; one that leaked is told."""

import os
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import update

from fedaudit.ledger.statements import SigningKey, public_keys_in
from infrastructure.signing_keys import ROUNDING, main, public_file, rotate_key_file
from models.keys import mark_compromised
from models.tables.accounts import AuditHead
from tests.api.service import Api, key_of
from tests.workers.admission import spec_with
from tests.workers.serving import bundle_of, ended, judged_bundle
from workers.context import WorkerContext
from workers.proof.signing import announce_key
from workers.sweeper import Sweeper


@pytest.fixture
def signing_key_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys" / "signing.pem"
    path.parent.mkdir()
    assert main(["create", "--file", str(path)]) == 0
    return path


SHORT = spec_with(training__rounds=2)


def test_a_running_worker_takes_the_new_key_up_and_old_reports_verify(
    api: Api, served: WorkerContext, signing_key_file: Path, tmp_path: Path
) -> None:
    sweeper = Sweeper(api.settings, api.database, served.queue)
    old, before = served.signing_key.key_id, ended(api, served, SHORT)
    rounding = served.signing_key.derived_secret(ROUNDING)
    retired = rotate_key_file(signing_key_file)
    after = ended(api, served, SHORT)
    new = served.signing_key
    assert new.key_id != old
    assert new.derived_secret(ROUNDING) == rounding, "the same counts would be rounded anew"
    assert SigningKey.from_pem(retired.read_bytes()).key_id == old
    assert (os.stat(signing_key_file).st_mode | os.stat(retired).st_mode) & 0o077 == 0
    sweeper.tick()
    assert sweeper.key.key_id == new.key_id
    trusted = public_keys_in(public_file(signing_key_file).read_bytes())
    assert [one.key_id for one in trusted] == [new.key_id, old]
    for id_ in (before, after):
        assert judged_bundle(bundle_of(api, id_, tmp_path), *trusted).verdict == "valid"
    listed = {
        one["key_id"]: one["retired_at"] for one in api.get("/v1/signing-keys").json()["items"]
    }
    assert (listed[new.key_id], listed[old] is None) == (None, False)
    assert sorted(listed.values(), key=str).count(None) == 2, "a key of each algorithm is in use"
    rotate_key_file(signing_key_file)
    assert served.signing_key.derived_secret(ROUNDING) == rounding, "of the third key"


@pytest.mark.parametrize("exchange", [rotate_key_file, Path.touch])
def test_a_sweeper_remembers_audit_logs_over_an_exchange(api, served, signing_key_file, exchange):
    sweeper, heads = Sweeper(api.settings, api.database, served.queue), []
    for name in ("Ada", "Bob"):
        key_of(api, name)
        sweeper.tick()
        heads.append(api.get("/v1/audit-log/verification").json()["signed_head"])
    assert heads[0] != heads[1]
    back = {"signed_entries": 1, "envelope": heads[0]}
    with api.database.write() as session:
        session.execute(update(AuditHead).values(**back))
    exchange(signing_key_file)
    sweeper.tick()
    now = api.get("/v1/audit-log/verification").json()
    assert (now["signed_entries"], now["signed_head"]) == (1, heads[0])


def test_what_a_leaked_key_signed_is_never_valid_again(api, served, signing_key_file, tmp_path):
    experiment, leaked = ended(api, served, SHORT), served.signing_key
    other = api.key_with("admin", project="another")
    mark = partial(mark_compromised, api.settings.database_url, note="laptop stolen")
    with pytest.raises(LookupError, match="no key of this service"):
        mark(key_id="0" * 64, since=None)
    since = "2026-01-31T12:00:00+00:00"
    for said in ("2026-01-31T12:00:00", "2026-06-01T00:00:00Z"):
        assert mark(key_id=leaked.key_id, since=said)["compromised_at"] == since
    both = api.get("/v1/signing-keys").json()["items"]
    assert [one["algorithm"] for one in both] == ["ed25519", "ecdsa-p256-sha256"]
    for listed in both:
        assert listed["compromised_at"].startswith("2026-01-31"), "it was taken back in part"
    # In the log of every project, once for each thing that was said, and without the note.
    for key in (api.key, other):
        log = api.get("/v1/audit-log?action=signing-key.compromised", key=key).json()["items"]
        said = [(one["subject"], one["origin"], one["details"]) for one in log]
        assert said == [(leaked.key_id, "command-line", {"since": since})]
    assert api.get("/v1/audit-log/verification").json()["valid"]
    found = judged_bundle(bundle_of(api, experiment, tmp_path), leaked.public)
    assert found.verdict == "consistent, signer untrusted"
    details = [one.detail for one in found.checks if one.name == "keys.compromised"]
    assert len(details) == 2
    assert all("2026-01-31" in one for one in details)
    with pytest.raises(SystemExit, match="compromised"):
        announce_key(api.database, leaked)
