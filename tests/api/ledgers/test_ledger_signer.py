"""What whoever may write the database gets signed of a declared ledger: nothing that was changed.

Each test changes what is stored behind the API's back, and asks the signer afterwards.
"""

from pathlib import Path
from typing import Any

import pytest
import typer
from sqlalchemy import delete, insert, literal, null, select, update

import workers.proof.declared_signing as signing
from fedaudit.cli.verify import verify_command
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
from tests.ledger.single_entry import link
from workers.proof.declared_signing import DeclaredLedgerSigner

BETTER = {"sex": {"f": group(55, 5, 30, 10), "m": group(50, 5, 30, 10)}}


def newest(api: Api, ledger: str) -> Checkpoint:
    with api.database.read() as session:
        envelope = LedgerCheckpointRepository(session, api.project_id).envelopes(ledger)[-1]
    return Checkpoint.of(Envelope.from_dict(envelope))


def checks(api: Api, ledger: str, outcome: str = "fail") -> set[str]:
    found = trainings.verified(api, ledger)["checks"]
    return {one["name"] for one in found if one["outcome"] == outcome}


def verify(api: Api, ledger: str, folder: Path, **options: Any) -> int:
    """The code with which `fedaudit verify` of the ledger's bundle ends."""
    bundle = folder / "bundle.zip"
    bundle.write_bytes(api.get(f"/v1/ledgers/{ledger}/bundle").content)
    with pytest.raises(typer.Exit) as ended:
        verify_command(str(bundle), **options)
    return ended.value.exit_code


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


@pytest.mark.parametrize("how", CHANGES)
def test_what_was_declared_or_reserved_cannot_be_changed_afterwards(api: Api, how: str) -> None:
    ledgers = []
    for signed in (True, False):
        ledgers.append(ledger := opened(api))
        for number in (1, 2, 4):
            reserve(api, ledger, number, ["a", "b"])
        # Round 2 was reserved and never declared: the round behind it holds that.
        first = declared(1, ["a"], groups=trainings.SEX, failures=["b"])
        post(api, ledger, first, declared(3, ["a"]))
        assert not signed or sign(api) == 1
        assert checks(api, ledger) == set()
    api.change(CHANGES[how])
    assert checks(api, ledgers[0]) == {"ledger.declarations"}
    assert "ledger.declarations" in checks(api, ledgers[1])
    for ledger in ledgers:
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
    api.change(update(DeclaredLedger).values(drawn_names=names, drawn_counts=[1] * 20))
    assert checks(api, ledger) == {"ledger.declarations"}
    post(api, ledger, declared(21, ["b"]))
    assert sign(api) == 0


def test_entries_before_a_checkpoint_cannot_be_exchanged(api: Api) -> None:
    """The newest entries lead from the signed head to the ledger's; older ones were changed."""
    ledger = opened(api, rounds=[declared(1, ["a"]), declared(2, ["a"])])
    assert sign(api) == 1
    api.change(changed(Ledger, 1, digest=bytes(32)))
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
    api.change(update(Ledger).values(event='{"kind":"gaussian","noise_multiplier":80.0}'))
    assert sign(api) == 0


def test_behind_another_keys_signature_the_witness_is_the_database(api_on_both, tmp_path, capsys):
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
    assert verify(api, ledger, tmp_path, public_key=key_file) == 3
    said = capsys.readouterr().err
    assert "not all of it was signed" not in said
    assert "they do not show what is marked with ?" in said
    # What no key signed is not said to be by one that was named.
    assert verify(api, opened(api, rounds=[declared(1, ["a"])]), tmp_path) == 3
    assert "proves nothing: name one" in capsys.readouterr().err


@pytest.mark.parametrize("thorough", [False, True])
def test_where_checkpoints_were_deleted_the_signature_says_so(api: Api, thorough: bool) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"])])
    process = DeclaredLedgerSigner(api.database, KEY, seconds=0.0)
    assert process.sign_waiting(10) == 1
    api.change(delete(LedgerCheckpoint))
    if thorough:
        # Nothing is left to tell of a signature but the memory of who made it.
        unsigned = {"signed_entries": -1, "signed_at": None, "report": None}
        api.change(update(DeclaredLedger).values(**unsigned))
    post(api, ledger, declared(2, ["a"]))
    assert (process.sign_waiting(10) if thorough else sign(api)) == 1
    assert newest(api, ledger).witness == DATABASE


def test_entries_that_were_signed_and_cut_off_are_missed(api: Api) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"])])
    row = api.row(DeclaredLedger, ledger)
    before = {name: getattr(row, name) for name in ("entries", "head", "rounds", "last_round")}
    post(api, ledger, declared(2, ["a"]))
    assert sign(api) == 1
    cut = (delete(table).where(table.round == 2) for table in (Ledger, DeclaredRoundRow))
    api.change(*cut, update(DeclaredLedger).values(**before))
    assert sign(api) == 0


def test_a_ledger_of_before_goes_on_and_says_what_its_chain_did_not_cover(api: Api) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"], groups=trainings.SEX)])
    with api.database.read() as session:
        entry = session.scalars(select(Ledger)).one()
    head = link(genesis(ledger), bytes(entry.digest), entry.clusters)
    api.change(
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
    api.change(changed(DeclaredRoundRow, 1, groups=BETTER))
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
