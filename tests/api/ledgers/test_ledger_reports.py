"""What is said of a training elsewhere, signed and verified, and what is found of lies."""

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from fedaudit.ledger.bundle import opened_bundle
from fedaudit.reports.sections.provenance import sign_report
from fedaudit.reports.verification.verification import ALTERED, UNTRUSTED, VALID, verify
from fedaudit.spec.disclosure import DisclosureFloor
from models.tables.ledger import DeclaredLedger, Ledger
from tests.api.answers import body_of
from tests.api.ledgers.trainings import CENTRAL, LOCAL, POISSON, declared, group, opened, post
from tests.api.service import KEY, Api, running_api, settings_for
from workers.proof.declared_signing import DeclaredLedgerSigner


def signed(api: Api) -> int:
    """What the sweeper signs."""
    return DeclaredLedgerSigner(api.database, KEY, seconds=0.0).sign_waiting(10)


def test_a_bundle_is_valid_although_names_grow(api: Api, tmp_path: Path) -> None:
    ledger = opened(api, rounds=[declared(1, ["a", "b"], failures=["c"])])
    assert (signed(api), signed(api)) == (1, 0)
    post(api, ledger, declared(2, ["d"]), declared(3, ["a"]))
    assert signed(api) == 1
    # What came after the newest signature is not in the bundle.
    post(api, ledger, declared(4, ["e"]))
    path = tmp_path / "bundle.zip"
    path.write_bytes(api.get(f"/v1/ledgers/{ledger}/bundle").content)
    with opened_bundle(path) as evidence:
        found = verify(evidence, trusted=[KEY.public])
    assert (found.verdict, found.entries, found.experiment_id) == (VALID, 4, ledger)
    with opened_bundle(path) as evidence:
        assert verify(evidence).verdict == UNTRUSTED
    told = api.get(f"/v1/ledgers/{ledger}/report/verification").json()
    assert told["valid"]
    assert [one["name"] for one in told["checks"] if one["outcome"] != "pass"] == ["ledger.waiting"]


@pytest.mark.parametrize("change", ["epsilon", "event"])
def test_an_altered_entry_is_found_and_never_signed(api: Api, change: str) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"]), declared(2, ["a"])])
    signed(api)
    with api.database.read() as session:
        row = session.get(Ledger, (ledger, 2, 0, "client", "server"))
        assert row.epsilons is not None
    values: dict[str, Any] = {"epsilons": row.epsilons / 2}
    if change == "event":
        values = {"event": '{"kind":"gaussian","noise_multiplier":80}'}
    with api.database.write() as session:
        mine = (Ledger.experiment_id == ledger, Ledger.round == 2)
        session.execute(update(Ledger).where(*mine).values(**values))
    told = api.get(f"/v1/ledgers/{ledger}/report/verification").json()
    assert (told["valid"], told["verdict"]) == (False, ALTERED)

    fresh = opened(api, rounds=[declared(2, ["a"])])
    with api.database.write() as session:
        mine = (Ledger.experiment_id == fresh, Ledger.round == 2)
        session.execute(update(Ledger).where(*mine).values(**values))
    assert signed(api) == 0


@pytest.mark.parametrize("how", ["of other terms", "missing"])
def test_nothing_is_said_of_a_ledger_whose_entries_were_altered(api: Api, how: str) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"])])
    with api.database.write() as session:
        session.execute(delete(Ledger) if how == "missing" else update(Ledger).values(delta=0.1))
    api.client.app.state.resources.ledgers.forget(ledger)  # type: ignore[attr-defined]
    for path in ("", "/report"):
        answer = api.get(f"/v1/ledgers/{ledger}{path}")
        assert (answer.status_code, answer.json()["type"]) == (409, "/problems/conflict")
    assert post(api, ledger, declared(2, ["a"])).status_code == 409
    told = api.get(f"/v1/ledgers/{ledger}/report/verification").json()
    assert (told["valid"], told["verdict"]) == (False, ALTERED)


def test_a_report_of_other_counts_than_its_entries_is_found(api: Api) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"]), declared(2, ["a"])])
    assert signed(api) == 1
    report = api.get(f"/v1/ledgers/{ledger}/report").json()
    report["privacy"]["epsilon_max"] /= 2
    with api.database.write() as session:
        session.execute(update(DeclaredLedger).values(report=report))
    told = api.get(f"/v1/ledgers/{ledger}/report/verification").json()
    failed = {one["name"] for one in told["checks"] if one["outcome"] == "fail"}
    assert "report.epsilon_max" in failed


def test_all_is_marked_as_declared_and_small_groups_are_suppressed(api: Api) -> None:
    ledger = opened(api)
    groups = {
        "sex": {"f": group(20, 5, 40, 10), "m": group(50, 5, 30, 10)},
        "age": {"old": group(3, 1, 2, 1), "young": group(67, 9, 68, 19)},
    }
    post(api, ledger, declared(1, ["a"], groups=groups), declared(2, ["b"]))
    report = api.get(f"/v1/ledgers/{ledger}/report").json()
    assert report["guarantee"]["kind"] == report["guarantee"]["label"] == "declared"
    assert report["guarantee"]["in_force"] is None
    assert report["declared"] is True
    assert report["verdict"].startswith("As declared by the trainer")
    by_name = {one["attribute"]: one for one in report["fairness"]}
    gap = by_name["sex"]["metrics"]["demographic_parity_difference"]["value"]
    assert gap == pytest.approx(55 / 95 - 25 / 75)
    assert all(one["suppressed"] for one in by_name["age"]["groups"])
    assert by_name["age"]["metrics"]["demographic_parity_difference"]["value"] is None
    assert report["fairness_round"] == 1
    for shown in (one for section in report["fairness"] for one in section["groups"]):
        missing = {name for name, value in shown.items() if value is None}
        assert missing - {"label"} == set(shown["reasons"])
    words = json.dumps(report["fairness"])
    assert not [one for one in ("the run", "fairness.", "held out", "spec") if one in words]
    page = api.get(f"/v1/ledgers/{ledger}/report", headers={"Accept": "text/html"})
    assert "as declared by the trainer" in page.text
    assert "formal" not in page.text.replace("information", "")


def test_clients_who_come_too_often_contradict_the_sampling(api: Api) -> None:
    honest, lying = opened(api, CENTRAL), opened(api, CENTRAL, population=1000)
    rounds = range(1, 21)
    post(api, honest, *(declared(one, [f"c{one}", "a"], POISSON) for one in rounds))
    post(api, lying, *(declared(one, ["a", "b", "c"], POISSON) for one in rounds))
    assert api.get(f"/v1/ledgers/{honest}/report").json()["contradictions"]
    found = api.get(f"/v1/ledgers/{lying}/report").json()
    assert "one client was named in 20 of 20 rounds" in found["contradictions"][0]
    assert "contradicts itself" in found["verdict"]
    assert "a guess" not in found["verdict"]  # of a figure that is no evidence
    page = api.get(f"/v1/ledgers/{lying}/report", headers={"Accept": "text/html"}).text
    assert "what was declared contradicts itself, so it bounds nothing" in page
    gate = {"figure": "epsilon_max", "op": "le", "value": 100, "allow_declared": True}
    body = {"ledger_id": lying, "gates": [gate]}
    assert api.post("/v1/gates/evaluations", json=body).json()["outcome"] == (
        "insufficient_evidence"
    )


_SEX = {"f": group(20, 5, 40, 10), "m": group(50, 5, 30, 10)}
_CONSTANT = {"f": group(0, 0, 60, 20), "m": group(0, 0, 60, 20)}


@pytest.mark.parametrize(
    ("terms", "event", "more", "code"),
    [
        ({}, None, {}, "no-rounds"),
        ({}, {"kind": "gaussian", "noise_multiplier": 8.0}, {"sex": _SEX}, "training-not-observed"),
        ({}, {"kind": "gaussian", "noise_multiplier": 0.1}, {}, "guarantee-bounds-nothing"),
        ({"delta": 0.01}, {"kind": "gaussian", "noise_multiplier": 8}, {}, "delta-gives-data-away"),
        (
            {},
            {"kind": "gaussian", "noise_multiplier": 8},
            {"sex": _CONSTANT},
            "model-decides-nothing",
        ),
        (
            {"mechanism": "none", "delta": None, "accountant": None},
            {"kind": "none"},
            {},
            "no-guarantee",
        ),
    ],
)
def test_the_answer_is_never_to_release_and_follows_from_the_figures(
    api: Api, tmp_path: Path, terms: Any, event: Any, more: Any, code: str
) -> None:
    ledger = opened(api, {**LOCAL, **terms})
    if event is not None:
        post(api, ledger, declared(1, ["a"], event, **({"groups": more} if more else {})))
    report = api.get(f"/v1/ledgers/{ledger}/report").json()
    stands = "not-decided" if code in ("no-rounds", "training-not-observed") else "do-not-release"
    answer = report["answer"]
    assert (answer["outcome"], [one["code"] for one in answer["reasons"]]) == (stands, [code])
    if code in ("training-not-observed", "delta-gives-data-away"):
        assert ("a guess" in report["verdict"]) == (code == "training-not-observed")
    page = api.get(f"/v1/ledgers/{ledger}/report", headers={"Accept": "text/html"}).text
    assert f'class="answer answer-{stands}"' in page
    if event is None:
        return
    signed(api)
    path = tmp_path / "bundle.zip"
    path.write_bytes(api.get(f"/v1/ledgers/{ledger}/bundle").content)
    with opened_bundle(path) as evidence:
        assert verify(evidence, trusted=[KEY.public]).verdict == VALID
    with opened_bundle(path) as evidence:
        true = evidence.report or {}
        proven = {**true["guarantee"], "label": "formal", "in_force": True}
        altered = {"answer": {"outcome": "release", "reasons": []}, "guarantee": proven}
        forged = replace(evidence, report=sign_report({**true, **altered}, KEY))
        found = verify(forged, trusted=[KEY.public])
    assert {one.name for one in found.checks if one.outcome == "fail"} == {
        *("report.answer", "report.guarantee.label", "report.guarantee.in_force")
    }


def test_gates_take_a_trainers_word_only_where_they_say_so(api: Api) -> None:
    ledger = opened(api)
    groups = {"sex": {"f": group(20, 5, 40, 10), "m": group(50, 5, 30, 10)}}
    post(api, ledger, declared(1, ["a"], groups=groups))
    bounds = {"epsilon_max": 5, "demographic_parity_difference": 0.1, "participations_max": 1}
    gates = [{"figure": name, "op": "le", "value": value} for name, value in bounds.items()]
    body: dict[str, Any] = {"ledger_id": ledger, "gates": gates}
    answer = api.post("/v1/gates/evaluations", json=body).json()
    assert {one["outcome"] for one in answer["gates"]} == {"insufficient_evidence"}
    body["gates"] = [{**gate, "allow_declared": True} for gate in gates]
    answer = api.post("/v1/gates/evaluations", json=body).json()
    assert [one["outcome"] for one in answer["gates"]] == ["pass", "fail", "pass"]
    assert (answer["ledger_id"], answer["experiment_id"]) == (ledger, None)


def test_files_of_entries_have_the_form_of_those_of_runs(api: Api) -> None:
    ledger = opened(api, rounds=[declared(1, ["a", "b"]), declared(2, ["b"])])
    page = api.get(f"/v1/ledgers/{ledger}/privacy-ledger?limit=2").json()
    rest = api.get(
        f"/v1/ledgers/{ledger}/privacy-ledger?limit=2&cursor={page['next_cursor']}"
    ).json()
    assert [(one["round"], one["subject"]) for one in page["items"] + rest["items"]] == [
        (1, "a"),
        (1, "b"),
        (2, "b"),
    ]
    csv = api.get(f"/v1/ledgers/{ledger}/privacy-ledger.csv").text.splitlines()
    assert len(csv) == 4
    lines = api.get(f"/v1/ledgers/{ledger}/privacy-ledger.ndjson").text.splitlines()
    assert len(lines) == 3
    with zipfile.ZipFile(io.BytesIO(api.get(f"/v1/ledgers/{ledger}/bundle").content)) as bundle:
        assert "ledger.ndjson" in bundle.namelist()


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
        [fault] = body_of(api.post("/v1/ledgers", json=LOCAL), 422)["errors"]
        assert (fault["pointer"], "40" in fault["message"]) == ("/minimum_group_size", True)
        opened(api, minimum_group_size=40)


def test_a_policy_refuses_terms_below_it(api: Api) -> None:
    federation = api.submit()["federation_id"]
    _policy(api, federation, 50)
    terms = {**LOCAL, "federation_id": federation, "minimum_group_size": 49}
    answer = api.post("/v1/ledgers", json=terms)
    assert answer.json()["errors"][0]["pointer"] == "/minimum_group_size"
    opened(api, federation_id=federation, minimum_group_size=50)


def test_a_policy_that_became_stricter_holds_for_the_next_report(api: Api) -> None:
    federation = api.submit()["federation_id"]
    ledger = opened(api, rounds=[declared(1, ["a"], groups=_GROUPS)], federation_id=federation)
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
    ledger = opened(api, rounds=[declared(1, ["a"], groups=_GROUPS)])
    floor = DisclosureFloor(minimum_group_size=80)
    assert DeclaredLedgerSigner(api.database, KEY, seconds=0.0, floor=floor).sign_waiting(10) == 1
    assert _suppressed(api.get(f"/v1/ledgers/{ledger}/report").json())
