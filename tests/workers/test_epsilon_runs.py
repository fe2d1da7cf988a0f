"""Runs that are counted as an epsilon with a delta: their ledger, rounds, report and budgets."""

from typing import Any

import pytest

from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.ledger_context import rebuild_ledger_context
from fedaudit.privacy.accounting.accountant import composed_epsilon
from fedaudit.privacy.accounting.privacy_events import MechanismParameters
from models.database import Database
from models.repositories import Budgets, ExperimentRepository, SubjectSetRepository
from models.values import Budget
from tests.workers.admission import (
    Submitted,
    document_of,
    ended_as,
    events_of,
    experiment_of,
    ledger_of,
    ran,
    rounds_of,
    submit,
)
from tests.workers.epsilon_specs import EPSILON_SPECS, by_record, central
from workers.context import WorkerContext
from workers.run_unit import run_unit


def names_of(database: Database, submitted: Submitted) -> tuple[str, ...]:
    with database.read() as session:
        experiment = experiment_of(database, submitted)
        return SubjectSetRepository(session).names(experiment.subject_set_id)


def budgets_of(database: Database, submitted: Submitted) -> dict[str, Budget]:
    """By observer."""
    with database.read() as session:
        budgets = Budgets(session, submitted.project_id, price=composed_epsilon)
        id_ = submitted.federation_id
        found = [budgets.composed(id_, one) for one in budgets.budgets(id_)]
        return {str(one.observer): one for one in found}


def audited(database: Database, submitted: Submitted) -> LedgerAudit:
    salt = experiment_of(database, submitted).ledger_salt
    audit = LedgerAudit(submitted.id, names_of(database, submitted), watch=(), salt=salt)
    for row in ledger_of(database, submitted):
        assert audit.read([row])
    assert audit.unchained is None
    assert not audit.altered.count + audit.miscounted.count + audit.disordered.count
    return audit


@pytest.mark.parametrize("name", EPSILON_SPECS)
def test_ledger_rounds_report_and_budget_agree(name, database, context):
    submitted = submit(database, EPSILON_SPECS[name])
    reserved = budgets_of(database, submitted)
    run_unit(context, submitted.unit_id)
    experiment = experiment_of(database, submitted)
    assert experiment.status == "succeeded", experiment.status_detail
    audited(database, submitted)

    rows = ledger_of(database, submitted)
    observers = {row.observer for row in rows}
    assert len(rows) == 12 * len(observers)
    report = document_of(database, submitted)
    stated = {one["observer"]: one["value"] for one in report["privacy"]["epsilon"]}
    largest = {
        observer: max(
            float(row.epsilons.max(initial=0.0))
            for row in rows
            if row.observer == observer and row.epsilons is not None
        )
        for observer in observers
    }
    assert stated == largest
    assert experiment.epsilon_max == max(stated.values()) > 0
    assert experiment.delta == rows[0].inputs["delta"]
    assert experiment.leakage_max is None

    rounds = rounds_of(database, submitted)
    # Rounds tell the worst case, which does not depend on who was drawn when.
    assert (rounds[-1].epsilon_max or 0.0) >= experiment.epsilon_max
    if "server" not in observers:
        assert rounds[-1].epsilon_max == experiment.epsilon_max
    assert [one.epsilon_max for one in rounds] == sorted(one.epsilon_max or 0.0 for one in rounds)
    assert rounds[-1].leakage_max is None
    assert "another figure" in rounds[-1].reasons["leakage_max"]
    *_, event = (
        data for kind, data in events_of(database, submitted.id) if kind == "round.completed"
    )
    assert event["epsilon_max"] == rounds[-1].epsilon_max
    assert "leakage_max" in event["reasons"]

    for observer, budget in budgets_of(database, submitted).items():
        # A composition of two-stage events by whole orders only is a little larger.
        assert stated[observer] <= budget.spent <= stated[observer] * 1.2
        assert budget.reserved == 0.0
        assert budget.spent <= reserved[observer].reserved * (1 + 1e-12)
    # The epsilons follow from the stored events alone.
    names = names_of(database, submitted)
    for row in ledger_of(database, submitted):
        inputs = MechanismParameters.from_dict(row.inputs)
        ledger_context = rebuild_ledger_context(inputs, names, rounds=12)
        found = ledger_context.epsilons(row.observer, row.subjects, row.releases)  # type: ignore[arg-type]
        assert found.tolist() == row.epsilons.tolist()


def test_the_ledger_of_a_trusted_server_names_no_one(database, context):
    submitted = ran(database, context, central())
    assert names_of(database, submitted) == ("everyone",)
    rows = ledger_of(database, submitted)
    assert [(row.subject_kind, row.observer) for row in rows] == [
        ("population", "final_model")
    ] * 12
    assert [row.releases.tolist() for row in rows] == [[number] for number in range(1, 13)]


def test_before_the_server_records_pay_for_the_rounds_of_the_busiest_client(database, context):
    submitted = ran(database, context, by_record(rate=0.1))
    rows = ledger_of(database, submitted)
    server = [row for row in rows if row.observer == "server"]
    model = [row for row in rows if row.observer == "final_model"]
    assert [row.releases.tolist() for row in model] == [
        [number] * len(names_of(database, submitted)) for number in range(1, 13)
    ]
    paid = [len(row.subjects) > 0 for row in server]
    assert 0 < sum(paid) < 12
    last = max(row.releases.max(initial=0) for row in server)
    assert last == sum(paid)
    report = document_of(database, submitted)
    assert report["privacy"]["participations_max"] == last


def test_a_budget_in_the_spec_ends_the_run_in_the_round_that_was_projected(database, context):
    free = ran(database, context, central())
    allowed = float(rounds_of(database, free)[6].epsilon_max or 0.0)
    submitted = ran(database, context, central(epsilon_budget=allowed))
    experiment = experiment_of(database, submitted)
    assert (experiment.status, experiment.rounds_done) == ("succeeded", 7)
    assert experiment.epsilon_max == allowed
    assert document_of(database, submitted)["utility"]["stopped_by"] == "budget"


# -- noise that nobody can draw again --------------------------------------------------------------


# Blocks of random allocation are lost in test_release_noise.py.
@pytest.mark.parametrize("name", [one for one in EPSILON_SPECS if one != "central-by-blocks"])
def test_lost_rounds_stay_spent_and_their_repeat_is_a_new_release(
    name: str, database: Database, context: WorkerContext, crash_in_block: Any
) -> None:
    spec = EPSILON_SPECS[name]
    submitted = submit(database, {**spec, "privacy": {**spec["privacy"], "noise": "release"}})
    crash_in_block(2)
    run_unit(context, submitted.unit_id)
    drawn = budgets_of(database, submitted)
    assert all(one.spent > 0 for one in drawn.values())
    run_unit(context, submitted.unit_id)
    experiment = experiment_of(database, submitted)
    assert experiment.status == "succeeded", experiment.status_detail
    audited(database, submitted)
    rows = ledger_of(database, submitted)
    lost = {(row.round, row.release) for row in rows if row.interrupted}
    assert lost == {(4, 0), (5, 0), (6, 0)}
    assert all(row.release == 1 for row in rows if 4 <= row.round < 7 and not row.interrupted)
    report = document_of(database, submitted)
    stated = {one["observer"]: one["value"] for one in report["privacy"]["epsilon"]}
    for observer, budget in budgets_of(database, submitted).items():
        assert budget.reserved == 0.0
        assert budget.spent >= stated[observer]


def test_what_would_be_spent_otherwise_than_reserved_is_not_run(database, context):
    submitted = submit(database, central())
    with database.write() as session:
        experiments = ExperimentRepository(session, submitted.project_id)
        row = experiments.get(submitted.id)
        assert row.mechanism_inputs is not None
        row.mechanism_inputs = {**row.mechanism_inputs, "delta": 0.5}
    run_unit(context, submitted.unit_id)
    assert ended_as(database, submitted) == ("failed", "invalid-data")
