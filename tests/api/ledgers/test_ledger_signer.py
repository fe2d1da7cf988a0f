"""What whoever may write the database gets signed of a declared ledger: nothing that was changed.

Each test changes what is stored behind the API's back, and asks the signer afterwards.
"""

import subprocess
from typing import Any

import pytest
from sqlalchemy import delete, select, update

import workers.proof.declared_signing as signing
from fedaudit.ledger.encoding import genesis
from fedaudit.ledger.statements import DATABASE, TRAINER, Checkpoint, Envelope, SigningKey
from models.repositories import LedgerCheckpointRepository
from models.tables.ledger import (
    DeclaredLedger,
    DeclaredReservation,
    DeclaredRoundRow,
    Ledger,
    LedgerCheckpoint,
)
from tests.api.ledgers.trainings import CENTRAL, POISSON, declared, group, opened, post, reserve
from tests.api.service import KEY, Api
from tests.cli.service import SCRIPT
from tests.ledger.single_entry import link
from workers.proof.declared_signing import DeclaredLedgerSigner

GROUPS = {"sex": {"f": group(20, 5, 40, 10), "m": group(50, 5, 30, 10)}}
BETTER = {"sex": {"f": group(55, 5, 30, 10), "m": group(50, 5, 30, 10)}}


def signer(api: Api, key: SigningKey = KEY) -> DeclaredLedgerSigner:
    """A process that has just begun: it remembers nothing."""
    return DeclaredLedgerSigner(api.database, key, seconds=0.0)


def sign(api: Api, key: SigningKey = KEY) -> int:
    return signer(api, key).sign_waiting(10)


def newest(api: Api, ledger: str) -> Checkpoint:
    with api.database.read() as session:
        envelope = LedgerCheckpointRepository(session, api.project_id).envelopes(ledger)[-1]
    return Checkpoint.of(Envelope.from_dict(envelope))


def change(api: Api, table: Any, *where: Any, **values: Any) -> None:
    with api.database.write() as session:
        session.execute(update(table).where(*where).values(**values))


def failed(api: Api, ledger: str) -> set[str]:
    checks = api.get(f"/v1/ledgers/{ledger}/report/verification").json()["checks"]
    return {one["name"] for one in checks if one["outcome"] == "fail"}


def unchecked(api: Api, ledger: str) -> set[str]:
    checks = api.get(f"/v1/ledgers/{ledger}/report/verification").json()["checks"]
    return {one["name"] for one in checks if one["outcome"] == "unchecked"}


@pytest.mark.parametrize("signed_before", [False, True])
@pytest.mark.parametrize("values", [{"groups": BETTER}, {"failures": 0}, {"reserved": "reserved"}])
def test_what_a_round_declared_cannot_be_changed_afterwards(api, values, signed_before):
    ledger = opened(api)
    post(api, ledger, declared(1, ["a"], groups=GROUPS, failures=["b"]), declared(2, ["a"]))
    if signed_before:
        assert sign(api) == 1
    assert failed(api, ledger) == set()
    first = (DeclaredRoundRow.ledger_id == ledger, DeclaredRoundRow.round == 1)
    change(api, DeclaredRoundRow, *first, **values)
    assert "ledger.declarations" in failed(api, ledger)
    post(api, ledger, declared(3, ["b"]))
    assert sign(api) == 0


@pytest.mark.parametrize("how", ["deleted", "other names", "put in"])
def test_what_was_reserved_before_a_round_cannot_be_changed_afterwards(api: Api, how: str) -> None:
    ledger = opened(api)
    for number in (1, 2, 4):
        reserve(api, ledger, number, ["a", "b"])
    # Round 2 was reserved and never declared: the round behind it holds that.
    post(api, ledger, declared(1, ["a", "b"]), declared(3, ["a"]))
    assert sign(api) == 1
    assert failed(api, ledger) == set()
    second = (DeclaredReservation.ledger_id == ledger, DeclaredReservation.round == 2)
    if how == "deleted":
        with api.database.write() as session:
            session.execute(delete(DeclaredReservation).where(*second))
    elif how == "other names":
        change(api, DeclaredReservation, *second, admitted=["a"])
    else:
        fourth = (DeclaredReservation.ledger_id == ledger, DeclaredReservation.round == 4)
        change(api, DeclaredReservation, *fourth, round=3)
    assert "ledger.declarations" in failed(api, ledger)
    post(api, ledger, declared(5, ["a"]))
    assert sign(api) == 0


def test_a_reservation_that_is_given_back_late_changes_nothing_in_the_chain(api: Api) -> None:
    ledger = opened(api)
    reserve(api, ledger, 1, ["a"])
    post(api, ledger, declared(2, ["a"]))
    assert api.request("DELETE", f"/v1/ledgers/{ledger}/rounds/1/reservation").status_code == 204
    assert sign(api) == 1
    assert failed(api, ledger) == set()


def test_a_round_without_counts_takes_none_from_the_database(api: Api) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"])])
    assert sign(api) == 1
    change(api, DeclaredRoundRow, DeclaredRoundRow.ledger_id == ledger, groups=BETTER)
    post(api, ledger, declared(2, ["a"]))
    assert sign(api) == 0


def test_a_round_that_no_entry_was_made_for_is_found(api: Api) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"]), declared(3, ["a"])])
    assert sign(api) == 1
    with api.database.write() as session:
        first = session.get(DeclaredRoundRow, (ledger, 1))
        assert first is not None
        stored = {one.name: getattr(first, one.name) for one in first.__table__.columns}
        planted = {"round": 2, "groups": BETTER, "reservations": None, "drawn": None}
        session.add(DeclaredRoundRow(**{**stored, **planted}))
    assert failed(api, ledger) == {"ledger.declarations"}
    post(api, ledger, declared(4, ["a"]))
    assert sign(api) == 0


def test_who_was_drawn_cannot_be_changed_afterwards(api: Api) -> None:
    ledger = opened(api, CENTRAL, population=1000)
    post(api, ledger, *(declared(one, ["a"], POISSON) for one in range(1, 21)))
    assert sign(api) == 1
    assert api.get(f"/v1/ledgers/{ledger}/report").json()["contradictions"]
    names = [f"c{one}" for one in range(20)]
    change(
        api, DeclaredLedger, DeclaredLedger.id == ledger, drawn_names=names, drawn_counts=[1] * 20
    )
    assert failed(api, ledger) == {"ledger.declarations"}
    post(api, ledger, declared(21, ["b"]))
    assert sign(api) == 0


def test_entries_before_a_checkpoint_cannot_be_exchanged(api: Api) -> None:
    """The newest entries lead from the signed head to the ledger's; older ones were changed."""
    ledger = opened(api, rounds=[declared(1, ["a"]), declared(2, ["a"])])
    assert sign(api) == 1
    first = (Ledger.experiment_id == ledger, Ledger.round == 1)
    change(api, Ledger, *first, digest=bytes(32))
    post(api, ledger, declared(3, ["a"]))
    assert sign(api) == 0


def test_a_foreign_checkpoint_vouches_for_nothing(api: Api) -> None:
    """Somebody makes the round cheap, and a key to sign it with."""
    ledger = opened(api, rounds=[declared(1, ["a"])])
    with api.database.read() as session:
        row = session.get(DeclaredLedger, ledger)
        assert row is not None
    planted = Checkpoint(
        experiment_id=ledger,
        status="running",
        entries=1,
        last_round=1,
        chain_head=row.head.hex(),
        spec_hash=row.terms_hash,
        subjects_hash="0" * 64,
        witness=TRAINER,
    )
    change(
        api,
        Ledger,
        Ledger.experiment_id == ledger,
        event='{"kind":"gaussian","noise_multiplier":80.0}',
    )
    with api.database.write() as session:
        envelope = planted.sign(SigningKey.generate()).as_dict()
        LedgerCheckpointRepository(session, api.project_id).add(
            ledger, entries=1, status="running", envelope=envelope
        )
    assert sign(api) == 0


def test_behind_another_keys_signature_the_witness_is_the_database(api_on_both, tmp_path):
    api, other = api_on_both, SigningKey.generate()
    ledger = opened(api, rounds=[declared(1, ["a"])])
    assert sign(api) == 1
    assert newest(api, ledger).witness == TRAINER
    post(api, ledger, declared(2, ["a"]))
    assert sign(api, other) == 1
    assert newest(api, ledger).witness == DATABASE
    post(api, ledger, declared(3, ["a"]))
    assert sign(api) == 1
    # And so it stays, although the newest checkpoint is the own key's again.
    post(api, ledger, declared(4, ["a"]))
    assert sign(api) == 1
    assert newest(api, ledger).witness == DATABASE
    report = api.get(f"/v1/ledgers/{ledger}/report").json()
    assert report["ledger"]["witness"] == DATABASE
    assert any("could choose what was signed" in one for one in report["limits"])
    told = api.get(f"/v1/ledgers/{ledger}/report/verification").json()
    assert (told["valid"], told["verdict"]) == (True, "consistent, signer untrusted")
    assert "checkpoints.witness" in unchecked(api, ledger)
    bundle, key = tmp_path / "bundle.zip", tmp_path / "key.pub"
    bundle.write_bytes(api.get(f"/v1/ledgers/{ledger}/bundle").content)
    key.write_text(KEY.public.pem)
    command = [SCRIPT, "verify", bundle, "--public-key", key]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, "not all of it was signed" in done.stderr) == (3, False)
    assert "they do not show what is marked with ?" in done.stderr


def test_what_no_key_signed_is_not_said_to_be_by_one_that_was_named(api: Api, tmp_path) -> None:
    bundle = tmp_path / "bundle.zip"
    ledger = opened(api, rounds=[declared(1, ["a"])])
    bundle.write_bytes(api.get(f"/v1/ledgers/{ledger}/bundle").content)
    done = subprocess.run([SCRIPT, "verify", bundle], check=False, capture_output=True, text=True)
    assert (done.returncode, "proves nothing: name one" in done.stderr) == (3, True), done.stderr


@pytest.mark.parametrize("thorough", [False, True])
def test_where_checkpoints_were_deleted_the_signature_says_so(api: Api, thorough: bool) -> None:
    ledger = opened(api)
    process = signer(api)
    post(api, ledger, declared(1, ["a"]))
    assert process.sign_waiting(10) == 1
    with api.database.write() as session:
        session.execute(delete(LedgerCheckpoint))
        if thorough:
            # Nothing is left to tell of a signature but the memory of who made it.
            unsigned = {"signed_entries": -1, "signed_at": None, "report": None}
            session.execute(update(DeclaredLedger).values(**unsigned))
    post(api, ledger, declared(2, ["a"]))
    assert (process if thorough else signer(api)).sign_waiting(10) == 1
    assert newest(api, ledger).witness == DATABASE


def test_entries_that_were_signed_and_cut_off_are_missed(api: Api) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"])])
    with api.database.read() as session:
        row = session.get(DeclaredLedger, ledger)
        assert row is not None
        before = {name: getattr(row, name) for name in ("entries", "head", "rounds", "last_round")}
    post(api, ledger, declared(2, ["a"]))
    assert sign(api) == 1
    with api.database.write() as session:
        for table in (Ledger, DeclaredRoundRow):
            session.execute(delete(table).where(table.round == 2))
    change(api, DeclaredLedger, DeclaredLedger.id == ledger, **before)
    assert sign(api) == 0


def test_a_ledger_of_before_goes_on_and_says_what_its_chain_did_not_cover(api: Api) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"], groups=GROUPS)])
    with api.database.read() as session:
        entry = session.scalars(select(Ledger).where(Ledger.experiment_id == ledger)).one()
    head = link(genesis(ledger), bytes(entry.digest), entry.clusters)
    entries = Ledger.experiment_id == ledger
    change(api, Ledger, entries, link=head, declaration=None)
    stored = {"head": head.hex(), "reservations": None}
    change(api, DeclaredRoundRow, DeclaredRoundRow.ledger_id == ledger, **stored)
    change(api, DeclaredLedger, DeclaredLedger.id == ledger, head=head, secret=None)
    assert sign(api) == 1
    post(api, ledger, declared(2, ["a"]))
    assert sign(api) == 1
    assert newest(api, ledger).witness == TRAINER
    report = api.get(f"/v1/ledgers/{ledger}/report").json()
    assert any("1 round declared before the chain covered" in one for one in report["limits"])
    assert api.get(f"/v1/ledgers/{ledger}/report/verification").json()["valid"]
    # What was signed once is covered since.
    first = (DeclaredRoundRow.ledger_id == ledger, DeclaredRoundRow.round == 1)
    change(api, DeclaredRoundRow, *first, groups=BETTER)
    post(api, ledger, declared(3, ["a"]))
    assert sign(api) == 0


def test_rounds_come_in_while_a_report_is_made(api_on_both, monkeypatch):
    api = api_on_both
    ledger = opened(api, rounds=[declared(1, ["a"])])
    made = signing.declared_report

    def meanwhile(material: Any) -> Any:
        monkeypatch.setattr(signing, "declared_report", made)
        # Waits for the ledger's lock, and so for ever, if the signer has it.
        assert post(api, ledger, declared(2, ["a"])).status_code == 200
        return made(material)

    monkeypatch.setattr(signing, "declared_report", meanwhile)
    process = signer(api)
    assert process.sign_waiting(10) == 1
    assert newest(api, ledger).entries == 1
    assert process.sign_waiting(10) == 1
    assert newest(api, ledger).entries == 2


def test_of_two_that_sign_at_once_one_does(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"])])
    made = signing.declared_report

    def meanwhile(material: Any) -> Any:
        monkeypatch.setattr(signing, "declared_report", made)
        assert sign(api) == 1
        return made(material)

    monkeypatch.setattr(signing, "declared_report", meanwhile)
    assert sign(api) == 0
    with api.database.read() as session:
        assert len(LedgerCheckpointRepository(session, api.project_id).envelopes(ledger)) == 1
