"""What whoever may write the database gets signed of a declared ledger: nothing that was changed.

Each test changes what is stored behind the API's back, and asks the signer afterwards.
"""

from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from sqlalchemy import delete, insert, literal, null, select, update

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
from tests.api.ledgers import trainings
from tests.api.ledgers.trainings import declared, group, opened, post, report, reserve, sign
from tests.api.service import KEY, Api
from tests.cli.service import clean_environment
from tests.ledger.single_entry import link
from tests.preloaded import programs
from workers.proof.declared_signing import DeclaredLedgerSigner

BETTER = {"sex": {"f": group(55, 5, 30, 10), "m": group(50, 5, 30, 10)}}


def newest(api: Api, ledger: str) -> Checkpoint:
    with api.database.read() as session:
        envelope = LedgerCheckpointRepository(session, api.project_id).envelopes(ledger)[-1]
    return Checkpoint.of(Envelope.from_dict(envelope))


def change(api: Api, *statements: Any) -> None:
    with api.database.write() as session:
        for one in statements:
            session.execute(one)


def checks(api: Api, ledger: str, outcome: str = "fail") -> set[str]:
    found = trainings.verified(api, ledger)["checks"]
    return {one["name"] for one in found if one["outcome"] == outcome}


def verify(api: Api, ledger: str, folder: Path, *options: object) -> CompletedProcess[str]:
    """`fedaudit verify` of the ledger's bundle."""
    bundle = folder / "bundle.zip"
    bundle.write_bytes(api.get(f"/v1/ledgers/{ledger}/bundle").content)
    asked = ["verify", str(bundle), *map(str, options)]
    return programs().run(*asked, stdin="", env=clean_environment(), cwd=folder, timeout=120)


def changed(table: Any, number: int, **values: Any) -> Any:
    return update(table).where(table.round == number).values(**values)


ROUNDS = DeclaredRoundRow.__table__
PLANTED = {"round": literal(2), "reservations": null(), "drawn": null()}
COPIED = select(*(PLANTED.get(one.name, one) for one in ROUNDS.c)).where(ROUNDS.c.round == 1)
CHANGES = {
    "better counts": changed(DeclaredRoundRow, 1, groups=BETTER),
    "counts of a round without": changed(DeclaredRoundRow, 3, groups=BETTER),
    "no failures": changed(DeclaredRoundRow, 1, failures=0),
    "said to be reserved": changed(DeclaredRoundRow, 3, reserved="reserved"),
    "a round without an entry": insert(ROUNDS).from_select([*ROUNDS.c], COPIED),
    "a reservation deleted": delete(DeclaredReservation).where(DeclaredReservation.round == 2),
    "a reservation of other names": changed(DeclaredReservation, 2, admitted=["a"]),
    "a reservation put in": changed(DeclaredReservation, 4, round=3),
}


@pytest.mark.parametrize("signed_before", [False, True])
@pytest.mark.parametrize("how", CHANGES)
def test_what_was_declared_or_reserved_cannot_be_changed_afterwards(api, how, signed_before):
    ledger = opened(api)
    for number in (1, 2, 4):
        reserve(api, ledger, number, ["a", "b"])
    # Round 2 was reserved and never declared: the round behind it holds that.
    first = declared(1, ["a"], groups=trainings.SEX, failures=["b"])
    post(api, ledger, first, declared(3, ["a"]))
    if signed_before:
        assert sign(api) == 1
    assert checks(api, ledger) == set()
    change(api, CHANGES[how])
    found = checks(api, ledger)
    assert (found == {"ledger.declarations"}) if signed_before else "ledger.declarations" in found
    post(api, ledger, declared(5, ["b"]))
    assert sign(api) == 0


def test_a_reservation_that_is_given_back_late_changes_nothing_in_the_chain(api: Api) -> None:
    ledger = opened(api)
    reserve(api, ledger, 1, ["a"])
    post(api, ledger, declared(2, ["a"]))
    assert api.request("DELETE", f"/v1/ledgers/{ledger}/rounds/1/reservation").status_code == 204
    assert sign(api) == 1
    assert checks(api, ledger) == set()


def test_who_was_drawn_cannot_be_changed_afterwards(api: Api) -> None:
    ledger = opened(api, trainings.CENTRAL, population=1000)
    post(api, ledger, *(declared(one, ["a"], trainings.POISSON) for one in range(1, 21)))
    assert sign(api) == 1
    assert report(api, ledger)["contradictions"]
    names = [f"c{one}" for one in range(20)]
    change(api, update(DeclaredLedger).values(drawn_names=names, drawn_counts=[1] * 20))
    assert checks(api, ledger) == {"ledger.declarations"}
    post(api, ledger, declared(21, ["b"]))
    assert sign(api) == 0


def test_entries_before_a_checkpoint_cannot_be_exchanged(api: Api) -> None:
    """The newest entries lead from the signed head to the ledger's; older ones were changed."""
    ledger = opened(api, rounds=[declared(1, ["a"]), declared(2, ["a"])])
    assert sign(api) == 1
    change(api, changed(Ledger, 1, digest=bytes(32)))
    post(api, ledger, declared(3, ["a"]))
    assert sign(api) == 0


def test_a_foreign_checkpoint_vouches_for_nothing(api: Api) -> None:
    """Somebody makes the round cheap, and a key to sign it with."""
    ledger = opened(api, rounds=[declared(1, ["a"])])
    with api.database.write() as session:
        row = session.get_one(DeclaredLedger, ledger)
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
        envelope = planted.sign(SigningKey.generate()).as_dict()
        LedgerCheckpointRepository(session, api.project_id).add(
            ledger, entries=1, status="running", envelope=envelope
        )
    change(api, update(Ledger).values(event='{"kind":"gaussian","noise_multiplier":80.0}'))
    assert sign(api) == 0


def test_behind_another_keys_signature_the_witness_is_the_database(api_on_both, tmp_path):
    api, other = api_on_both, SigningKey.generate()
    ledger = opened(api)
    # And so it stays, although the newest checkpoint is the own key's again.
    witnesses = [(KEY, TRAINER), (other, DATABASE), (KEY, DATABASE), (KEY, DATABASE)]
    for number, (key, witness) in enumerate(witnesses, start=1):
        post(api, ledger, declared(number, ["a"]))
        assert sign(api, key) == 1
        assert newest(api, ledger).witness == witness
    said = report(api, ledger)
    assert said["ledger"]["witness"] == DATABASE
    assert any("could choose what was signed" in one for one in said["limits"])
    told = trainings.verified(api, ledger)
    assert (told["valid"], told["verdict"]) == (True, "consistent, signer untrusted")
    assert "checkpoints.witness" in checks(api, ledger, "unchecked")
    key_file = tmp_path / "key.pub"
    key_file.write_text(KEY.public.pem)
    done = verify(api, ledger, tmp_path, "--public-key", key_file)
    assert (done.returncode, "not all of it was signed" in done.stderr) == (3, False)
    assert "they do not show what is marked with ?" in done.stderr


def test_what_no_key_signed_is_not_said_to_be_by_one_that_was_named(api, tmp_path):
    done = verify(api, opened(api, rounds=[declared(1, ["a"])]), tmp_path)
    assert (done.returncode, "proves nothing: name one" in done.stderr) == (3, True), done.stderr


@pytest.mark.parametrize("thorough", [False, True])
def test_where_checkpoints_were_deleted_the_signature_says_so(api: Api, thorough: bool) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"])])
    process = DeclaredLedgerSigner(api.database, KEY, seconds=0.0)
    assert process.sign_waiting(10) == 1
    change(api, delete(LedgerCheckpoint))
    if thorough:
        # Nothing is left to tell of a signature but the memory of who made it.
        unsigned = {"signed_entries": -1, "signed_at": None, "report": None}
        change(api, update(DeclaredLedger).values(**unsigned))
    post(api, ledger, declared(2, ["a"]))
    assert (process.sign_waiting(10) if thorough else sign(api)) == 1
    assert newest(api, ledger).witness == DATABASE


def test_entries_that_were_signed_and_cut_off_are_missed(api: Api) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"])])
    with api.database.read() as session:
        row = session.get_one(DeclaredLedger, ledger)
        before = {name: getattr(row, name) for name in ("entries", "head", "rounds", "last_round")}
    post(api, ledger, declared(2, ["a"]))
    assert sign(api) == 1
    cut = (delete(table).where(table.round == 2) for table in (Ledger, DeclaredRoundRow))
    change(api, *cut, update(DeclaredLedger).values(**before))
    assert sign(api) == 0


def test_a_ledger_of_before_goes_on_and_says_what_its_chain_did_not_cover(api: Api) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"], groups=trainings.SEX)])
    with api.database.read() as session:
        entry = session.scalars(select(Ledger)).one()
    head = link(genesis(ledger), bytes(entry.digest), entry.clusters)
    change(
        api,
        update(Ledger).values(link=head, declaration=None),
        update(DeclaredRoundRow).values(head=head.hex(), reservations=None),
        update(DeclaredLedger).values(head=head, secret=None),
    )
    assert sign(api) == 1
    post(api, ledger, declared(2, ["a"]))
    assert sign(api) == 1
    assert newest(api, ledger).witness == TRAINER
    limits = report(api, ledger)["limits"]
    assert any("1 round declared before the chain covered" in one for one in limits)
    assert trainings.verified(api, ledger)["valid"]
    # What was signed once is covered since.
    change(api, changed(DeclaredRoundRow, 1, groups=BETTER))
    post(api, ledger, declared(3, ["a"]))
    assert sign(api) == 0


def test_rounds_come_in_and_others_sign_while_a_report_is_made(api_on_both, monkeypatch):
    api = api_on_both
    ledger = opened(api, rounds=[declared(1, ["a"])])
    made = signing.declared_report

    def sign_while(something: Any) -> int:
        def meanwhile(material: Any) -> Any:
            monkeypatch.setattr(signing, "declared_report", made)
            something()
            return made(material)

        monkeypatch.setattr(signing, "declared_report", meanwhile)
        return sign(api)

    # Waits for the ledger's lock, and so for ever, if the signer has it.
    assert sign_while(lambda: post(api, ledger, declared(2, ["a"])).raise_for_status()) == 1
    assert newest(api, ledger).entries == 1
    others: list[int] = []
    assert sign_while(lambda: others.append(sign(api))) == 0
    assert (others, newest(api, ledger).entries) == ([1], 2)
    with api.database.read() as session:
        assert len(LedgerCheckpointRepository(session, api.project_id).envelopes(ledger)) == 2
