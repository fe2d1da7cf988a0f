"""What is said of a training elsewhere, signed and verified, and what is found of lies."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from sqlalchemy import delete, insert, literal, null, select, update

import workers.proof.declared_signing as signing
from fedaudit.cli.verify import verify_command
from fedaudit.ledger.bundle import opened_bundle
from fedaudit.ledger.encoding import genesis
from fedaudit.ledger.statements import DATABASE, TRAINER, Checkpoint, Envelope, SigningKey
from fedaudit.reports.sections.provenance import sign_report
from fedaudit.reports.verification.verification import ALTERED, UNTRUSTED, VALID, verify
from fedaudit.spec.disclosure import DisclosureFloor
from models.repositories import LedgerCheckpointRepository
from models.tables.ledger import (
    DeclaredLedger,
    DeclaredReservation,
    DeclaredRoundRow,
    Ledger,
    LedgerCheckpoint,
)
from tests.api.ledgers import trainings
from tests.api.ledgers.trainings import (
    LOCAL,
    SEX,
    declared,
    group,
    opened,
    post,
    report,
    reserve,
    sign,
)
from tests.api.service import KEY, Api, body_of, running_api, settings_for, spec
from tests.ledger.single_entry import link
from workers.proof.declared_signing import DeclaredLedgerSigner

NOTHING = {"kind": "none"}


def page(api: Api, ledger: str) -> str:
    shown = api.get(f"/v1/ledgers/{ledger}/report", headers={"Accept": "text/html"})
    return str(shown.text)


def judged(api: Api, ledger: str) -> tuple[bool, str]:
    verification = trainings.verified(api, ledger)
    return verification["valid"], verification["verdict"]


def saved(api: Api, ledger: str, folder: Path) -> Path:
    path = folder / "bundle.zip"
    path.write_bytes(api.get(f"/v1/ledgers/{ledger}/bundle").content)
    return path


def test_a_bundle_is_valid_although_names_grow(api: Api, tmp_path: Path) -> None:
    ledger = opened(api, rounds=[declared(1, ["a", "b"], failures=["c"])])
    assert (sign(api), sign(api)) == (1, 0)
    post(api, ledger, declared(2, ["d"]), declared(3, ["a"]))
    assert sign(api) == 1
    # What came after the newest signature is not in the bundle.
    post(api, ledger, declared(4, ["e"]))
    path = saved(api, ledger, tmp_path)
    for trusted, verdict in (([KEY.public], VALID), ([], UNTRUSTED)):
        with opened_bundle(path) as evidence:
            found = verify(evidence, trusted=trusted)
        assert (found.verdict, found.entries, found.experiment_id) == (verdict, 4, ledger)
    verification = trainings.verified(api, ledger)
    assert verification["valid"]
    assert [one["name"] for one in verification["checks"] if one["outcome"] != "pass"] == [
        "ledger.waiting"
    ]


@pytest.mark.parametrize("change", ["epsilon", "event"])
def test_an_altered_entry_is_found_and_never_signed(api: Api, change: str) -> None:
    def alter(ledger: str) -> None:
        with api.database.write() as session:
            row = session.get_one(Ledger, (ledger, 2, 0, "client", "server"))
            assert row.epsilons is not None
            if change == "event":
                row.event = '{"kind":"gaussian","noise_multiplier":80}'
            else:
                row.epsilons = row.epsilons / 2

    ledger = opened(api, rounds=[declared(1, ["a"]), declared(2, ["a"])])
    assert sign(api) == 1
    alter(ledger)
    assert judged(api, ledger) == (False, ALTERED)
    alter(other := opened(api, rounds=[declared(2, ["a"])]))
    assert sign(api) == 0
    # So is a report of other figures than its entries'.
    sound = opened(api, rounds=[declared(1, ["a"])])
    assert sign(api) == 1
    altered = report(api, sound)
    altered["privacy"]["epsilon_max"] /= 2
    api.change(update(DeclaredLedger).where(DeclaredLedger.id != other).values(report=altered))
    checks = trainings.verified(api, sound)["checks"]
    assert "report.epsilon_max" in {one["name"] for one in checks if one["outcome"] == "fail"}


@pytest.mark.parametrize("how", [update(Ledger).values(delta=0.1), delete(Ledger)], ids=str)
def test_nothing_is_said_of_a_ledger_whose_entries_were_altered(api: Api, how: Any) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"])])
    api.change(how)
    api.client.app.state.resources.ledgers.forget(ledger)  # type: ignore[attr-defined]
    for path in ("", "/report"):
        answer = body_of(api.get(f"/v1/ledgers/{ledger}{path}"), 409)
        assert answer["type"] == "/problems/conflict"
    assert post(api, ledger, declared(2, ["a"])).status_code == 409
    assert judged(api, ledger) == (False, ALTERED)


def test_all_is_marked_as_declared_and_small_groups_are_suppressed(api: Api) -> None:
    age = {"old": group(3, 1, 2, 1), "young": group(67, 9, 68, 19)}
    ledger = opened(
        api, rounds=[declared(1, ["a"], groups={**SEX, "age": age}), declared(2, ["b"])]
    )
    found = report(api, ledger)
    guarantee = found["guarantee"]
    assert guarantee["kind"] == guarantee["label"] == "declared"
    assert (guarantee["in_force"], found["declared"], found["fairness_round"]) == (None, True, 1)
    assert "not observed here" in guarantee["reasons"]["in_force"]
    assert found["verdict"].startswith("As declared by the trainer")
    assert "equalized_odds_difference by sex, in round 1." in found["verdict"]
    asked = {"figure": "demographic_parity_difference", "op": "le", "value": 0.5}
    [gate] = trainings.judged(api, ledger, {**asked, "attribute": "sex", "allow_declared": True})
    assert "as declared by the trainer in round 1 of 2" in gate["reason"]
    by_name = {one["attribute"]: one for one in found["fairness"]}
    gaps = {name: one["metrics"]["demographic_parity_difference"] for name, one in by_name.items()}
    assert gaps["sex"]["value"] == pytest.approx(55 / 95 - 25 / 75)
    assert gaps["age"]["value"] is None
    assert all(one["suppressed"] for one in by_name["age"]["groups"])
    for shown in (one for section in found["fairness"] for one in section["groups"]):
        missing = {name for name, value in shown.items() if value is None}
        assert missing - {"label"} == set(shown["reasons"])
    words = json.dumps(found["fairness"])
    assert not [one for one in ("the run", "fairness.", "held out", "spec") if one in words]
    assert "as declared by the trainer" in page(api, ledger)
    assert "formal" not in page(api, ledger).replace("information", "")


def test_clients_who_come_too_often_contradict_the_sampling(api: Api) -> None:
    """What gates make of it is in test_ledger_rounds.py."""
    honest, lying = (opened(api, trainings.CENTRAL, population=size) for size in (100, 1000))
    for ledger, others in ((honest, []), (lying, ["b", "c"])):
        names = ([f"c{one}", "a"] if ledger == honest else ["a", *others] for one in range(20))
        rounds = (declared(n, one, trainings.POISSON) for n, one in enumerate(names, start=1))
        post(api, ledger, *rounds)
    assert report(api, honest)["contradictions"]
    found = report(api, lying)
    assert "one client was named in more of 20 rounds" in found["contradictions"][0]
    assert "contradicts itself" in found["verdict"]
    assert "a guess" not in found["verdict"]  # of a figure that is no evidence
    assert "what was declared contradicts itself, so it bounds nothing" in page(api, lying)


CONSTANT = {"sex": {"f": group(0, 0, 60, 20), "m": group(0, 0, 60, 20)}}
UNPROTECTED = {"mechanism": "none", "delta": None, "accountant": None}
ANSWERS: dict[str, tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any]]] = {
    "no-rounds": ({}, None, {}),
    "training-not-observed": ({}, {"noise_multiplier": 8.0}, SEX),
    "guarantee-bounds-nothing": ({}, {"noise_multiplier": 0.1}, {}),
    "delta-gives-data-away": ({"delta": 0.01}, {"noise_multiplier": 8}, {}),
    "model-decides-nothing": ({}, {"noise_multiplier": 8}, CONSTANT),
    "no-guarantee": (UNPROTECTED, NOTHING, {}),
}
"""By the reason: changed terms, the event of a round, and its groups."""


def test_the_answer_is_never_to_release_and_follows_from_the_figures(api, tmp_path):
    for code, (terms, event, groups) in ANSWERS.items():
        ledger = opened(api, **terms)
        if event is not None:
            more = {"groups": groups} if groups else {}
            post(api, ledger, declared(1, ["a"], {"kind": "gaussian", **event}, **more))
        said = report(api, ledger)
        open_ = code in ("no-rounds", "training-not-observed")
        expected = "not-decided" if open_ else "do-not-release"
        answer = said["answer"]
        assert (answer["outcome"], [one["code"] for one in answer["reasons"]]) == (expected, [code])
        if code in ("training-not-observed", "delta-gives-data-away"):
            assert ("a guess" in said["verdict"]) == (code == "training-not-observed")
        assert f'class="answer answer-{expected}"' in page(api, ledger)
    assert sign(api) == len(ANSWERS)
    with opened_bundle(saved(api, ledger, tmp_path)) as evidence:
        true = evidence.report or {}
        proven = {**true["guarantee"], "label": "formal", "in_force": True}
        altered = {"answer": {"outcome": "release", "reasons": []}, "guarantee": proven}
        forged = replace(evidence, report=sign_report({**true, **altered}, KEY))
        found = verify(forged, trusted=[KEY.public])
    assert {one.name for one in found.checks if one.outcome == "fail"} == {
        *("report.answer", "report.guarantee.label", "report.guarantee.in_force")
    }
    with opened_bundle(tmp_path / "bundle.zip") as evidence:
        assert verify(evidence, trusted=[KEY.public]).verdict == VALID


def test_gates_take_a_trainers_word_only_where_they_say_so(api: Api) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"], groups=SEX)])
    bounds = {"epsilon_max": 5, "demographic_parity_difference": 0.1, "participations_max": 1}
    gates = [{"figure": name, "op": "le", "value": value} for name, value in bounds.items()]
    for allowed, outcomes in (
        (False, ["insufficient_evidence"] * 3),
        (True, ["pass", "fail", "pass"]),
    ):
        asked = [{**gate, "allow_declared": allowed} for gate in gates]
        body = {"ledger_id": ledger, "gates": asked}
        answer = api.post("/v1/gates/evaluations", json=body).json()
        assert [one["outcome"] for one in answer["gates"]] == outcomes
        assert (answer["ledger_id"], answer["experiment_id"]) == (ledger, None)
    none = api.post("/v1/gates/evaluations", json={"ledger_id": ledger}).json()
    assert (none["outcome"], none["reason"]) == (None, "no gate was given")


def test_files_of_entries_have_the_form_of_those_of_runs(api: Api) -> None:
    ledger = opened(api, rounds=[declared(1, ["a", "b"]), declared(2, ["b"])])
    path = f"/v1/ledgers/{ledger}/privacy-ledger"
    first = api.get(f"{path}?limit=2").json()
    rest = api.get(f"{path}?limit=2&cursor={first['next_cursor']}").json()
    entries = [(one["round"], one["subject"]) for one in first["items"] + rest["items"]]
    assert entries == [(1, "a"), (1, "b"), (2, "b")]
    lines = {form: api.get(f"{path}.{form}").text.splitlines() for form in ("csv", "ndjson")}
    assert (len(lines["csv"]), len(lines["ndjson"])) == (4, 3)
    with trainings.bundle(api, ledger) as bundle:
        assert "ledger.ndjson" in bundle.namelist()


# -- how small a group may be shown ---------------------------------------------------------------


def floor_of(api: Api, ledger: str) -> tuple[int, bool]:
    """The size that the report says, and whether its groups are suppressed."""
    said = report(api, ledger)
    [section] = said["fairness"]
    hidden = all(one["suppressed"] for one in section["groups"])
    return said["ledger"]["minimum_group_size"], hidden


def set_policy(api: Api, federation: str, least: int) -> None:
    path = f"/v1/federations/{federation}/disclosure"
    assert api.request("PUT", path, json={"minimum_group_size": least}).status_code == 200


def test_terms_below_the_floor_or_the_policy_are_refused(sqlite_url: str, tmp_path: Path) -> None:
    with running_api(settings_for(sqlite_url, tmp_path, min_group_size=40)) as api:
        federation = api.submit(spec(fairness={"minimum_group_size": 40}))["federation_id"]
        set_policy(api, federation, 50)
        for least, more in ((40, {}), (50, {"federation_id": federation})):
            terms = {**LOCAL, **more, "minimum_group_size": least - 1}
            [fault] = body_of(api.post("/v1/ledgers", json=terms), 422)["errors"]
            assert fault["pointer"] == "/minimum_group_size"
            assert f"{least}" in fault["message"]
            opened(api, **more, minimum_group_size=least)


def test_the_attack_a_population_below_the_federation_turns_no_rule_of_delta_off(api: Api) -> None:
    federation = api.submit()["federation_id"]
    profile = body_of(api.get(f"/v1/federations/{federation}"))["profile"]
    by_records = {**LOCAL, "mechanism": "gaussian", "unit": "record"}
    asked = {"figure": "epsilon_max", "op": "le", "value": 1e6, "allow_declared": True}
    for of_unit, units in ((LOCAL, profile["clients"]), (by_records, profile["rows"])):
        terms = {**of_unit, "population": 2, "federation_id": federation}
        large, small = (
            opened(api, {**terms, "delta": delta}, rounds=[declared(1, ["a"])])
            for delta in (1 / units, 0.9 / units)
        )
        for signed in (0, 2):
            [said] = report(api, large)["contradictions"]
            assert f"not below one in the {of_unit['unit']}s" in said
            assert trainings.judged(api, large, asked)[0]["outcome"] == "insufficient_evidence"
            assert report(api, small)["contradictions"] == []
            assert trainings.judged(api, small, asked)[0]["outcome"] == "pass"
            assert sign(api) == 2 - signed
        assert report(api, large)["ledger"]["witness"] == "trainer"


def test_a_federation_that_is_not_ready_any_more_keeps_the_rule_of_delta_on(api: Api) -> None:
    submitted = api.submit()
    federation = submitted["federation_id"]
    clients = body_of(api.get(f"/v1/federations/{federation}"))["clients"]
    terms = {**LOCAL, "population": 2, "federation_id": federation, "delta": 1 / clients}
    ledger = opened(api, terms, rounds=[declared(1, ["a"])])
    api.post(f"/v1/experiments/{submitted['id']}/cancel")
    assert api.request("DELETE", f"/v1/federations/{federation}").status_code == 204
    for _ in range(2):
        [said] = report(api, ledger)["contradictions"]
        assert "not below one in the clients" in said
        sign(api)


def test_a_policy_that_became_stricter_holds_for_the_next_report(api: Api) -> None:
    federation = api.submit()["federation_id"]
    ledger = opened(api, rounds=[declared(1, ["a"], groups=SEX)], federation_id=federation)
    assert sign(api) == 1
    assert floor_of(api, ledger) == (30, False)
    set_policy(api, federation, 80)
    # What was signed before shows a group that may no longer be shown.
    assert floor_of(api, ledger) == (80, True)
    assert report(api, ledger)["integrity"]["signature"] is None
    assert trainings.verified(api, ledger)["valid"]
    with trainings.bundle(api, ledger) as bundle:
        assert "report.json" not in bundle.namelist()
    post(api, ledger, declared(2, ["a"]))
    assert sign(api) == 1
    assert report(api, ledger)["integrity"]["signature"] is not None
    assert floor_of(api, ledger) == (80, True)


def test_a_floor_that_was_raised_holds_for_what_is_signed(api: Api) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"], groups=SEX)])
    assert sign(api, floor=DisclosureFloor(minimum_group_size=80)) == 1
    assert floor_of(api, ledger)[1]


# -- changed rows of the database are never signed ------------------------------------------------

BETTER = {"sex": {"f": group(55, 5, 30, 10), "m": group(50, 5, 30, 10)}}


def newest(api: Api, ledger: str) -> Checkpoint:
    with api.database.read() as session:
        envelope = LedgerCheckpointRepository(session, api.project_id).envelopes(ledger)[-1]
    return Checkpoint.of(Envelope.from_dict(envelope))


def checks(api: Api, ledger: str, outcome: str = "fail") -> set[str]:
    found = trainings.verified(api, ledger)["checks"]
    return {one["name"] for one in found if one["outcome"] == outcome}


def verified_code(api: Api, ledger: str, folder: Path, **options: Any) -> int:
    """The code with which `fedaudit verify` of the ledger's bundle ends."""
    with pytest.raises(typer.Exit) as ended:
        verify_command(str(saved(api, ledger, folder)), **options)
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
    verification = trainings.verified(api, ledger)
    assert (verification["valid"], verification["verdict"]) == (
        True,
        "consistent, signer untrusted",
    )
    assert "checkpoints.witness" in checks(api, ledger, "unchecked")
    key_file = tmp_path / "key.pub"
    key_file.write_text(KEY.public.pem)
    assert verified_code(api, ledger, tmp_path, public_key=key_file) == 3
    said = capsys.readouterr().err
    assert "not all of it was signed" not in said
    assert "they do not show what is marked with ?" in said
    # What no key signed is not said to be by one that was named.
    assert verified_code(api, opened(api, rounds=[declared(1, ["a"])]), tmp_path) == 3
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
