"""What runs leave that are counted as an epsilon, or layer by layer: ledger, report, budgets."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from api.services.report_evidence import evidence_of
from fedaudit.privacy.accounting.accountant import composed_epsilon
from fedaudit.privacy.accounting.privacy_events import Gaussian, RandomAllocated
from fedaudit.reports.report import Report
from fedaudit.reports.verification.verification import Verification, verify
from fedaudit.stored import LedgerRow
from models.database import Database
from models.repositories import (
    Budgets,
    ExperimentRepository,
    LedgerRepository,
    SubjectSetRepository,
)
from models.values import Budget
from tests.ledger.single_entry import columns_of
from tests.ledger.whole_chain import first_broken_link
from tests.privacy.accounting.spending import spent
from tests.workers.admission import (
    Submitted,
    budget_of,
    cancel,
    document_of,
    ended_as,
    events_of,
    experiment_of,
    ledger_of,
    ran,
    rounds_of,
    spec_with,
    submit,
)
from tests.workers.epsilon_specs import EPSILON_SPECS, by_record, central, central_by_blocks
from tests.workers.test_signing import judged
from workers.context import WorkerContext
from workers.run_unit import run_unit
from workers.sweeper import Sweeper


def names_of(database: Database, submitted: Submitted) -> tuple[str, ...]:
    with database.read() as session:
        experiment = experiment_of(database, submitted)
        return SubjectSetRepository(session).names(experiment.subject_set_id)


def failed_checks(verification: Verification) -> set[str]:
    return {one.name for one in verification.checks if one.outcome == "fail"}


def budgets_of(database: Database, submitted: Submitted) -> dict[str, Budget]:
    """By observer."""
    with database.read() as session:
        budgets = Budgets(session, submitted.project_id, price=composed_epsilon)
        id_ = submitted.federation_id
        found = [budgets.composed(id_, one) for one in budgets.budgets(id_)]
        return {str(one.observer): one for one in found}


@pytest.mark.parametrize("name", EPSILON_SPECS)
def test_ledger_rounds_report_and_budget_agree(name, database, context):
    submitted = submit(database, EPSILON_SPECS[name])
    reserved = budgets_of(database, submitted)
    run_unit(context, submitted.unit_id)
    experiment = experiment_of(database, submitted)
    assert experiment.status == "succeeded", experiment.status_detail
    assert not failed_checks(judged(database, submitted, context))

    rows = ledger_of(database, submitted)
    observers = {row.observer for row in rows}
    assert len(rows) == 12 * len(observers)
    report = document_of(database, submitted)
    stated = {one["observer"]: one["value"] for one in report["privacy"]["epsilon"]}
    largest = dict.fromkeys(observers, 0.0)
    for row in rows:
        assert row.epsilons is not None
        largest[row.observer] = max(largest[row.observer], row.epsilons.max(initial=0.0))
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
    events = [data for kind, data in events_of(database, submitted.id) if kind == "round.completed"]
    assert events[-1]["epsilon_max"] == rounds[-1].epsilon_max
    assert "leakage_max" in events[-1]["reasons"]

    for observer, budget in budgets_of(database, submitted).items():
        # A composition of two-stage events by whole orders only is a little larger.
        assert stated[observer] <= budget.spent <= stated[observer] * 1.2
        assert budget.reserved == 0.0
        assert budget.spent <= reserved[observer].reserved * (1 + 1e-12)


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


# -- noise that no one can draw again -------------------------------------------------------------


# Blocks of random allocation are lost further below.
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
    assert not failed_checks(judged(database, submitted, context))
    rows = ledger_of(database, submitted)
    lost = {(row.round, row.release) for row in rows if row.interrupted}
    assert lost == {(4, 0), (5, 0), (6, 0)}
    assert all(row.release == 1 for row in rows if 4 <= row.round < 7 and not row.interrupted)
    report = document_of(database, submitted)
    stated = {one["observer"]: one["value"] for one in report["privacy"]["epsilon"]}
    for observer, budget in budgets_of(database, submitted).items():
        assert budget.reserved == 0.0
        assert budget.spent >= stated[observer]
    if name == "by-record":  # records leave once as many rounds are charged as were planned
        groups = report["privacy"]["records"]["groups"]
        charged = {float(row.epsilons.max()) for row in rows if row.observer == "final_model"}
        assert max(charged) == stated["final_model"] == max(one["epsilon_max"] for one in groups)


def test_what_would_be_spent_otherwise_than_reserved_is_not_run(database, context):
    submitted = submit(database, central())
    with database.write() as session:
        experiments = ExperimentRepository(session, submitted.project_id)
        row = experiments.get(submitted.id)
        assert row.mechanism_inputs is not None
        row.mechanism_inputs = {**row.mechanism_inputs, "delta": 0.5}
    run_unit(context, submitted.unit_id)
    assert ended_as(database, submitted) == ("failed", "invalid-data")


# -- noise for each layer: ledger, report, verification, crashes ----------------------------------


LAYERS: dict[str, Any] = {
    "model": {"kind": "mlp", "hidden": [3]},
    "training__local": {"step_size": 0.01},
    "privacy__per_layer": True,
}
SIZES, NU = (9, 4), 3.0
"""Two features to three units, and these to one output, with a bias each."""


@pytest.mark.parametrize("radius", ["adaptive", 0.5])
def test_ledger_report_and_verification_agree(database, context, radius):
    submitted = ran(database, context, spec_with(**LAYERS, privacy__radius=radius))
    rows = ledger_of(database, submitted)
    assert len(rows) == 12
    for row in rows:
        assert [part["n"] for part in row.inputs["components"]] == list(SIZES)
        assert row.radii.shape == (14,)
        assert (np.unique(row.radii).size == 14) == (radius == "adaptive")

    document = document_of(database, submitted)
    privacy = Report.model_validate(document).privacy
    assert privacy.leakage_by_component is not None
    assert [
        (part.component, part.parameters, part.leakage_per_release)
        for part in privacy.leakage_by_component
    ] == [(f"layer-{place}", n, n / NU) for place, n in enumerate(SIZES, start=1)]
    assert privacy.leakage_per_release == sum(SIZES) / NU
    assert "Each of the 2 layers" in document["guarantee"]["statement"]
    assert judged(database, submitted, context).verdict == "valid"


@pytest.mark.parametrize(
    "layers",
    [
        [("layer-1", 13)],
        [("layer-1", 6), ("layer-2", 7)],
        [("layer-1", 9.5), ("layer-2", 3.5)],
        [("layer-1", 9), ("layer-2", 4), ("layer-3", 4)],
        None,
    ],
)
def test_a_report_with_other_layers_is_found(database, context, layers):
    submitted = ran(database, context, spec_with(**LAYERS, training__rounds=2))
    document = document_of(database, submitted)
    document["privacy"]["leakage_by_component"] = layers and [
        {"component": name, "parameters": n, "leakage_per_release": n / NU} for name, n in layers
    ]
    evidence = evidence_of(database, experiment_of(database, submitted), document)
    found = failed_checks(verify(evidence, trusted=[context.signing_key.public]))
    assert {"ledger.inputs", "report.signature"} <= found


@pytest.mark.parametrize("ending", ["taken up", "failed"])
def test_lost_rounds_are_charged_in_every_layer(database, context, crash_in_block, ending):
    """Whether another worker takes the run up, or none does and the sweeper enters them."""
    crash_in_block(2)
    attempts = 1 if ending == "failed" else 3
    spec = spec_with(**LAYERS, privacy__noise="release")
    submitted = ran(database, context, spec, max_attempts=attempts)
    if ending == "failed":
        assert Sweeper(context.settings, database, context.queue).tick()
    else:
        run_unit(context, submitted.unit_id)
    rows = ledger_of(database, submitted)
    assert len(rows) == (6 if ending == "failed" else 15)
    for row in rows:
        entry = columns_of(row)
        assert entry.radii.shape == (7, 2)
        assert np.isnan(entry.radii).all() == row.interrupted
    assert sum(row.interrupted for row in rows) == 3
    assert not failed_checks(judged(database, submitted, context))


# -- clusters and hypotheses of stored runs: over rounds, after interruptions, and in the report --


def test_lost_rounds_count_in_the_cluster_that_a_client_was_in(database, context, crash_in_block):
    submitted = submit(database, spec_with(privacy__noise="release"))
    crash_in_block(3, rounds=2)
    run_unit(context, submitted.unit_id)
    assert experiment_of(database, submitted).rounds_done == 4
    run_unit(context, submitted.unit_id)
    assert experiment_of(database, submitted).status == "succeeded"
    report, rounds = document_of(database, submitted), rounds_of(database, submitted)
    assert rounds[-1].leakage_by_cluster == report["privacy"]["leakage_by_cluster"]
    for row in rounds:
        assert row.leakage_max == max(one["leakage_max"] for one in row.leakage_by_cluster or ())
    # The best round's radii are found even where a lost release of it comes before them.
    assert report["privacy"]["between_hypotheses"]["pairs"][0]["epsilon_max"] > 0


# -- noise that cannot be drawn again: what was charged stays charged -----------------------------


RELEASE = spec_with(privacy__noise="release")
PER_RELEASE = 2 / 3.0


def spent_of(database: Database, submitted: Submitted) -> float:
    budget = budget_of(database, submitted)
    # Sums of floats: the ledger's counts are exact, a budget's balance is not.
    assert budget.reserved == pytest.approx(0, abs=1e-9)
    return budget.spent


def max_released(rows: list[LedgerRow]) -> int:
    released = Counter(int(subject) for row in rows for subject in row.subjects[row.outcomes == 0])
    return max(released.values())


def check_running_counts(rows: list[LedgerRow]) -> None:
    """`releases` counts up, row by row, in the order of the key."""
    counted = np.zeros(40, dtype=int)
    for row in rows:
        counted[row.subjects[row.outcomes == 0]] += 1
        np.testing.assert_array_equal(row.releases, counted[row.subjects])


def test_the_theorems_sum_is_spent_beside_the_leakage(database, context, crash_in_block):
    clipped = spec_with(
        privacy__noise="release", privacy__radius=0.5, privacy__clip=2.0, training__hypotheses=1
    )
    submitted = submit(database, clipped)
    crash_in_block(2)
    for _ in range(2):
        run_unit(context, submitted.unit_id)
    document = document_of(database, submitted)
    with database.read() as session:
        budgets = Budgets(session, submitted.project_id).budgets(submitted.federation_id)
    bounded = document["privacy"]["log_ratio_max"]
    assert bounded == pytest.approx(8 * document["privacy"]["leakage_max"])
    found = {one.figure: one.spent for one in budgets}
    assert found["log_ratio"] == pytest.approx(bounded)
    assert found["log_ratio"] >= bounded * (1 - 1e-12)
    assert [one.reserved for one in budgets] == pytest.approx([0, 0], abs=1e-9)


@pytest.mark.parametrize("attempts_lost", [0, 2])
def test_lost_rounds_stay_spent_in_the_order_of_their_releases(
    database: Database, context: WorkerContext, crash_in_block: Any, attempts_lost: int
) -> None:
    submitted = submit(database, RELEASE)
    crash_in_block(*range(2, 2 + attempts_lost))
    for _ in range(attempts_lost):
        run_unit(context, submitted.unit_id)
        assert experiment_of(database, submitted).rounds_done == 3
    run_unit(context, submitted.unit_id)
    experiment = experiment_of(database, submitted)
    assert experiment.status == "succeeded"

    rows = ledger_of(database, submitted)
    repeated = [
        (round_, release, release < attempts_lost)
        for round_ in (4, 5, 6)
        for release in range(attempts_lost + 1)
    ]
    assert [(row.round, row.release, row.interrupted) for row in rows] == (
        [(one, 0, False) for one in (1, 2, 3)]
        + repeated
        + [(one, 0, False) for one in range(7, 13)]
    )
    assert all(np.isnan(row.radii).all() == row.interrupted for row in rows)
    assert first_broken_link(submitted.id, rows) is None
    check_running_counts(rows)
    assert experiment.leakage_max == max_released(rows) * 2 / 3.0
    assert spent_of(database, submitted) == pytest.approx(experiment.leakage_max)
    with database.read() as session:
        assert LedgerRepository(session).open_intents(submitted.id) == []
    assert [row.round for row in rounds_of(database, submitted)] == list(range(1, 13))


def test_a_lost_block_of_random_allocation_is_charged_whole(database, context, crash_in_block):
    """Three rounds are asked for at a time and blocks have four: the second is lost, and its repeat
    is a block of its own, so that four are spent where three were planned."""
    submitted = submit(database, central_by_blocks(noise="release", accountant="pld"))
    crash_in_block(2)
    for _ in range(2):
        run_unit(context, submitted.unit_id)
    assert experiment_of(database, submitted).status == "succeeded"
    rows = ledger_of(database, submitted)
    rounds = [(row.round, row.release, row.interrupted) for row in rows]
    lost = [(one, release, release == 0) for one in range(5, 9) for release in (0, 1)]
    first, last = ([(one, 0, False) for one in part] for part in (range(1, 5), range(9, 13)))
    assert sorted(rounds) == first + lost + last
    assert [int(row.releases[0]) for row in rows] == list(range(1, 17))
    event = RandomAllocated(4, Gaussian(2.0))
    costs = [spent(event, blocks, by="pld") for blocks in range(1, 5)]
    found = [float(row.epsilons[0]) for row in rows if row.epsilons is not None]
    assert len(found) == 16
    for place, epsilon in enumerate(found):
        assert epsilon >= costs[place // 4] * (1 - 1e-9)
    with database.read() as session:
        assert LedgerRepository(session).open_intents(submitted.id) == []
    assert document_of(database, submitted)["privacy"]["epsilon_max"] == pytest.approx(found[-1])


def test_a_client_budget_counts_lost_rounds(database, context, crash_in_block):
    # Every training client takes part in every round, and may release four times.
    privacy = {**RELEASE["privacy"], "client_budget": 2.7}
    spec = spec_with(privacy=privacy, training__cohort={"clients": 20})
    submitted = submit(database, spec)
    crash_in_block(1)
    run_unit(context, submitted.unit_id)
    run_unit(context, submitted.unit_id)
    rows = ledger_of(database, submitted)
    assert max_released(rows) == 4
    # Rounds 1 to 3 were lost; one release is left for their repeat, the rest is refused.
    assert [int((row.outcomes == 0).sum()) for row in rows if row.release == 1] == [20, 0, 0]


def test_without_room_for_the_repeat_nothing_more_is_released(database, context, crash_in_block):
    spec = spec_with(privacy__noise="release", training__cohort={"clients": 20})
    submitted = submit(database, spec, budget=12 * PER_RELEASE)
    crash_in_block(4)
    run_unit(context, submitted.unit_id)
    run_unit(context, submitted.unit_id)
    assert ended_as(database, submitted) == ("failed", "budget-exhausted")
    rows = ledger_of(database, submitted)
    assert [(row.round, row.interrupted) for row in rows] == (
        [(one, False) for one in range(1, 10)] + [(one, True) for one in (10, 11, 12)]
    )
    assert spent_of(database, submitted) == pytest.approx(12 * PER_RELEASE)


@pytest.mark.parametrize("ending", ["failed", "cancelled"])
def test_the_ledger_of_a_run_that_no_worker_takes_up_shows_what_was_charged(
    database: Database, context: WorkerContext, crash_in_block: Any, ending: str
) -> None:
    crash_in_block(2)
    submitted = ran(database, context, RELEASE, max_attempts=1 if ending == "failed" else 3)
    if ending == "cancelled":
        cancel(database, submitted)
    assert experiment_of(database, submitted).status == ending
    # With the end that a worker or the sweeper signs, or, where there was neither, soon after.
    assert len(ledger_of(database, submitted)) == (6 if ending == "failed" else 3)
    sweeper = Sweeper(context.settings, database, context.queue)
    assert sweeper.tick()
    rows = ledger_of(database, submitted)
    assert [(row.round, row.interrupted) for row in rows] == [
        (1, False), (2, False), (3, False), (4, True), (5, True), (6, True)
    ]  # fmt: skip
    check_running_counts(rows)
    assert first_broken_link(submitted.id, rows) is None
    assert spent_of(database, submitted) == pytest.approx(max_released(rows) * PER_RELEASE)
    sweeper.tick()
    assert len(ledger_of(database, submitted)) == 6
