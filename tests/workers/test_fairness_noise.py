"""Fairness counts with noise in the service: charged, settled, published and verified."""

from dataclasses import replace
from typing import Any

import pytest

from api.http.problems import ProblemError
from api.services.report_evidence import bundle_of
from api.services.report_evidence import evidence_of as stored_evidence
from fedaudit.ledger.bundle import Evidence, opened_bundle
from fedaudit.reports.verdict.release import answer_of
from fedaudit.reports.verification.verification import verify
from fedaudit.spec.errors import InvalidInputError
from models.database import Database
from models.repositories import Budgets, FairnessRepository
from tests.workers.admission import (
    Submitted,
    cancel,
    document_of,
    events_of,
    experiment_of,
    ledger_of,
    ran,
    rounds_of,
    spec_with,
    submit,
)
from tests.workers.epsilon_specs import central, released
from tests.workers.test_epsilon_runs import budgets_of
from workers import run_loop
from workers.context import WorkerContext
from workers.run_unit import run_unit


def noised(**changes: Any) -> dict[str, Any]:
    """A run of two groups whose counts get noise."""
    return spec_with(
        federation={"source": "synthetic-groups", "clients_per_group": [60, 40]},
        model={"kind": "linear"},
        fairness={
            "sensitive": ["group"],
            "favourable": {"op": "ge", "value": 0},
            "noise": {
                "mechanism": "discrete-laplace",
                "epsilon": 0.5,
                "unit": "client",
                "max_rows_per_client": 5,
                **changes.pop("noise", {}),
            },
        },
        **changes,
    )


@pytest.fixture
def finished(database: Database, context: WorkerContext) -> Submitted:
    submitted = ran(database, context, noised())
    experiment = experiment_of(database, submitted)
    assert experiment.status == "succeeded", experiment.status_detail
    return submitted


def test_ledger_report_and_budget_agree(database: Database, finished: Submitted) -> None:
    *_, last = ledger_of(database, finished)
    assert (last.round, last.observer, last.subject_kind) == (13, "report", "validation_client")
    assert last.epsilons.tolist() == [0.5]
    stated = document_of(database, finished)["fairness_privacy"]
    assert (stated["epsilon"], stated["delta"], stated["unit"]) == (0.5, 0.0, "client")
    assert stated["sensitivity"] == {"l1": 5.0, "l2": 5.0, "attributes": 1, "max_rows": 5}
    assert stated["in_force"] is False  # the seed gives simulated noise back
    budget = budgets_of(database, finished)["report"]
    assert budget.unit == "client"
    assert budget.reserved == 0.0
    # Composed at a delta, by Renyi orders: a little more than the sum without one.
    assert 0.5 <= budget.spent <= 0.53


def test_nothing_of_held_out_people_is_published_without_noise(database, finished):
    report = document_of(database, finished)
    utility = report["utility"]
    for name in ("validation_loss", "selection_loss", "accuracy"):
        assert utility[name] is None
        assert "fairness.noise" in utility["reasons"][name]
    rounds = [one for kind, one in events_of(database, finished.id) if kind == "round.completed"]
    assert all("fairness.noise" in one["reasons"]["selection_loss"] for one in rounds)
    assert len(rounds) == 12
    assert utility["best_round"] == utility["rounds"] == 12
    [section] = report["fairness"]
    assert section["cross_check"] is None
    for metric in section["metrics"].values():
        assert metric["value"] is None or metric["interval"]["method"] == "noised-counts"
    for group in section["groups"]:
        assert group["accuracy"] is None
        assert group["loss"] is None
        assert isinstance(group["rows"], int)
    assert report["data"]["notes"] == []
    [covered] = [one for one in report["limits"] if one.startswith("fairness_privacy covers")]
    for known in ("the dealing", "who has a usable row", "values of the attributes", "be read"):
        assert known in covered
    experiment = experiment_of(database, finished)
    assert (experiment.validation_loss, experiment.accuracy) == (None, None)
    for one in rounds_of(database, finished):
        assert one.equalized_odds_difference is None
        assert "fairness.noise" in one.reasons["selection_loss"]
    events = [data for kind, data in events_of(database, finished.id) if kind == "round.completed"]
    assert {(one["selection_loss"], one["validation_loss"]) for one in events} == {(None, None)}


CHANGED = ("training", "privacy")


def test_a_delta_that_hands_over_a_held_out_client_is_a_limit(database, context):
    gaussian = {"mechanism": "gaussian", "delta": 0.1}
    asked = {**noised(noise=gaussian), **{name: central()[name] for name in CHANGED}}
    report = document_of(database, ran(database, context, asked))
    held_out = report["data"]["clients"] - report["data"]["training_clients"]
    stated = f"delta = 0.1 is not below one in the {held_out} clients with held-out rows"
    assert stated in " ".join(report["limits"])
    report["spec"]["privacy"]["noise"], report["guarantee"]["in_force"] = "release", True
    answer = answer_of(report)  # of a stored run: no other is so released
    assert answer.outcome == "do-not-release"
    assert "fairness-delta-gives-data-away" in [one.code for one in answer.reasons]


@pytest.mark.parametrize("unit", [{}, {"unit": "record", "max_rows_per_client": None}], ids=str)
def test_noise_with_such_a_delta_stands_in_for_no_suppression(unit, database, context):
    """Not even where it is secret."""
    asked = noised(noise={"mechanism": "gaussian", "delta": 0.1, **unit})
    asked |= {name: released(central())[name] for name in CHANGED}
    with pytest.raises(InvalidInputError, match=r"^/fairness/noise/delta: 0\.1 is too large"):
        submit(database, asked)
    asked["fairness"]["noise"]["delta"] = 1e-5
    submit(database, asked)


def evidence_of(database: Database, submitted: Submitted, *, without: str = "") -> Evidence:
    """What is stored, without the entries against one observer."""
    experiment = experiment_of(database, submitted)
    found = stored_evidence(database, experiment, document_of(database, submitted))
    kept = [row for row in found.rows if getattr(row, "observer", "") != without]
    return replace(found, rows=kept)


def test_a_bundle_verifies_and_a_smaller_epsilon_or_no_charge_is_found(
    database, finished, tmp_path
):
    path = tmp_path / "bundle.zip"
    with database.read() as session:
        path.write_bytes(b"".join(bundle_of(database, session, experiment_of(database, finished))))
    with opened_bundle(path) as bundle:
        checks = {one.name: one.outcome for one in verify(bundle).checks}
    assert set(checks.values()) == {"pass"}
    assert {"ledger.fairness_privacy", "report.fairness_privacy"} <= set(checks)
    evidence = evidence_of(database, finished)
    evidence.report["fairness_privacy"]["epsilon"] = 0.1
    checks = {one.name: one.outcome for one in verify(evidence).checks}
    assert checks["report.fairness_privacy"] == "fail"
    uncharged = verify(evidence_of(database, finished, without="report")).checks
    assert {one.name: one.outcome for one in uncharged}["ledger.fairness_privacy"] == "fail"


def test_a_worker_lost_before_its_report_is_stored_charges_once(database, context, monkeypatch):
    submitted = submit(database, noised())

    def lost(*_: Any, **__: Any) -> Any:
        raise RuntimeError("lost")

    with monkeypatch.context() as patched:
        patched.setattr(run_loop, "report_of", lost)
        run_unit(context, submitted.unit_id)
    assert experiment_of(database, submitted).status == "running"
    run_unit(context, submitted.unit_id)
    experiment = experiment_of(database, submitted)
    assert experiment.status == "succeeded", experiment.status_detail
    assert [row.observer for row in ledger_of(database, submitted)].count("report") == 1
    checks = {one.name: one.outcome for one in verify(evidence_of(database, submitted)).checks}
    assert "fail" not in checks.values()


def test_a_cancelled_run_is_not_charged(database: Database) -> None:
    submitted = submit(database, noised())
    assert budgets_of(database, submitted)["report"].reserved > 0
    cancel(database, submitted)
    budget = budgets_of(database, submitted)["report"]
    assert (budget.reserved, budget.spent) == (0.0, 0.0)


def test_a_budget_against_readers_composes_and_refuses(database: Database) -> None:
    first = submit(database, noised())
    with database.write() as session:
        Budgets(session, first.project_id).set_budget(
            first.federation_id,
            book="simulation",
            figure="epsilon",
            delta=1e-9,
            adjacency="add-or-remove-one",
            observer="report",
            total=1.1,
        )
    submit(database, noised())
    with pytest.raises(ProblemError, match=r"smaller fairness\.noise\.epsilon"):
        submit(database, noised())
    with pytest.raises(ProblemError, match="cannot be composed"):
        submit(
            database,
            noised(noise={"unit": "record", "max_rows_per_client": None}, training__hypotheses=1),
        )
    exact = noised()
    exact["fairness"] = {**exact["fairness"], "noise": None}
    with pytest.raises(ProblemError, match=r"nothing bounds .* set fairness\.noise"):
        submit(database, exact)
    # Another federation's budgets, and a run whose training is counted otherwise, are apart.
    assert submit(database, central()).federation_id != first.federation_id


def test_one_service_rounds_the_same_people_alike(database, context):
    found = []
    for rounding in ({"base": 5}, {"base": 5}, None):
        spec = noised()
        spec["fairness"] = {**spec["fairness"], "noise": None, "rounding": rounding}
        submitted = ran(database, context, spec)
        report = document_of(database, submitted)
        assert report["fairness_privacy"] is None
        assert "no epsilon bounds" in report["fairness_privacy_reason"]
        with database.read() as session:
            rounds = FairnessRepository(session).after(submitted.id)
        found.append(([row.figures for row in rounds], report["fairness"][0]["groups"]))
    assert found[0] == found[1]
    assert found[0] != found[2]
