"""Runs whose noise nobody can draw again: what was charged stays charged."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

import workers.run_loop
from fedaudit.privacy.accounting.privacy_events import Gaussian, RandomAllocated
from fedaudit.stored import LedgerRow
from models.database import Database
from models.repositories import Budgets, LedgerRepository
from tests.ledger.whole_chain import first_broken_link
from tests.privacy.accounting.spending import spent
from tests.workers.admission import (
    Submitted,
    budget_of,
    cancel,
    document_of,
    ended_as,
    experiment_of,
    ledger_of,
    ran,
    rounds_of,
    spec_with,
    submit,
)
from tests.workers.epsilon_specs import central_by_blocks
from workers.context import WorkerContext
from workers.run_unit import run_unit
from workers.sweeper import Sweeper

RELEASE = spec_with(privacy__noise="release")
PER_RELEASE = 2 / 3.0


@pytest.fixture(autouse=True)
def _blocks_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers.run_loop.Pace, "rounds", lambda *_, **__: 3)


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
def test_lost_rounds_stay_spent_and_their_repeat_is_a_new_release(
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
