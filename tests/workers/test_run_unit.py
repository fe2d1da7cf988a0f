"""A unit from claim to end, with the real training."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from celery.worker import state as celery_state
from sqlalchemy import select, update

import workers.run_loop
from fedaudit.ledger.statements import Checkpoint, Envelope
from fedaudit.reports.report import Report
from fedaudit.reports.sections import published_fairness, utility
from fedaudit.runs import report_material
from fedaudit.training.base.scored_rows import GroupCounter
from fedaudit.training.stack import Stack
from models.database import Database
from models.repositories import (
    CheckpointRepository,
    ExperimentRepository,
    LedgerCheckpointRepository,
    LedgerRepository,
    ReportRepository,
    RoundRepository,
    UnitRepository,
)
from models.tables.experiments import Experiment
from models.tables.experiments import Report as StoredReport
from tests.ledger.whole_chain import first_broken_link
from tests.training.specs import groups_spec
from tests.workers.admission import (
    budget_of,
    crash,
    document_of,
    ended_as,
    events_of,
    experiment_of,
    ledger_of,
    ran,
    spec_with,
    stop_worker,
    submit,
    unit_of,
    with_settings,
)
from tests.workers.registering import REGISTRATION, people
from tests.workers.test_signing import checkpoints_of, judged
from workers import finish
from workers.claim import Lease
from workers.context import WorkerContext
from workers.run_unit import run_unit

# -- the ordinary way ---------------------------------------------------------------------------


def test_a_finished_run_leaves_ledger_rounds_report_and_events(database, context):
    gates = [
        {
            "figure": "leakage_max",
            "op": "le",
            "value": 1000.0,
            "allow_heuristic": True,
            "allow_simulation": True,
        },
        {"figure": "validation_loss", "op": "le", "value": 0.0},
    ]
    submitted = ran(database, context, spec_with(gates=gates))
    experiment = experiment_of(database, submitted)
    assert (experiment.status, experiment.status_reason) == ("succeeded", None)
    assert (experiment.rounds_done, experiment.gate_outcome) == (12, "fail")
    assert experiment.answer is not None
    assert experiment.answer["outcome"] == "do-not-release"
    assert unit_of(database, submitted).state == "done"

    rows = ledger_of(database, submitted)
    assert [(row.round, row.release) for row in rows] == [(one, 0) for one in range(1, 13)]
    assert first_broken_link(submitted.id, rows) is None
    assert all(len(row.subjects) == 7 and np.isfinite(row.radii).all() for row in rows)

    document = document_of(database, submitted)
    Report.model_validate(document)
    assert document["integrity"]["chain_head"] == rows[-1].link.hex()
    participations = np.zeros(40, dtype=int)
    for row in rows:
        participations[row.subjects] += 1
    assert document["privacy"]["participations_max"] == participations.max()
    assert experiment.leakage_max == participations.max() * 2 / 3.0
    assert document["provenance"]["device"] == "cpu"
    assert document["provenance"]["libraries"]["torch"]

    with database.read() as session:
        rounds = RoundRepository(session).after(submitted.id)
        assert CheckpointRepository(session).get(submitted.id) is None
        totals = LedgerRepository(session).get_totals(submitted.id)
    np.testing.assert_array_equal(totals.releases, participations)
    assert [row.round for row in rounds] == list(range(1, 13))
    assert rounds[-1].leakage_max == experiment.leakage_max
    assert rounds[-1].leakage_median == document["privacy"]["leakage_median"]

    events = events_of(database, submitted.id)
    assert [type_ for type_, _ in events] == (
        ["status.changed"] * 2
        + ["round.completed"] * 12
        + ["gate.evaluated"] * 2
        + ["status.changed"]
    )
    # A second message for the unit, or one for a unit that there is not, does nothing.
    run_unit(context, submitted.unit_id)
    run_unit(context, "00000000-0000-7000-8000-000000000000")
    assert events_of(database, submitted.id) == events
    assert unit_of(database, submitted).attempts == 1


# -- interruptions ------------------------------------------------------------------------------


def test_who_was_refused_is_known_after_an_interruption(database, context, flushing):
    # A release leaks 1 (n = 3, nu = 3), so each client takes part once and is refused after that.
    changes = {"privacy__noise_multiplier": 3.0, "privacy__client_budget": 1.0}
    submitted = submit(database, groups_spec(**changes, training__rounds=12))
    flushing(10, stop_worker)
    run_unit(context, submitted.unit_id)
    celery_state.should_stop = None
    run_unit(context, submitted.unit_id)
    document = document_of(database, submitted)
    with database.read() as session:
        clients = session.scalars(select(StoredReport.clients)).one()
    # Refusals of both halves.
    assert sum(clients["refused"]) == document["privacy"]["refusals"] > 0


def test_a_fault_is_tried_again_and_the_last_one_fails_the_experiment(database, context, flushing):
    submitted = submit(database, max_attempts=2)
    flushing(3, crash)
    run_unit(context, submitted.unit_id)
    unit = unit_of(database, submitted)
    assert (unit.state, unit.attempts) == ("waiting", 1)
    assert experiment_of(database, submitted).rounds_done == 2
    flushing(3, crash)
    run_unit(context, submitted.unit_id)
    experiment = experiment_of(database, submitted)
    assert (experiment.status, experiment.status_reason) == ("failed", "worker-error")
    assert experiment.status_detail == "SystemError: power cut"
    unit = unit_of(database, submitted)
    assert (unit.state, unit.last_error) == ("failed", "SystemError: power cut")
    assert budget_of(database, submitted).reserved == 0


def test_a_worker_that_lost_its_unit_writes_nothing_more(database, context, monkeypatch):
    submitted = submit(database)
    before: list[Any] = []

    def take_over_before_the_fourth_block(*_: Any, **__: Any) -> int:
        if len(ledger_of(database, submitted)) == 3 and not before:
            with database.write() as session:
                units = UnitRepository(session)
                fence = unit_of(database, submitted).fence
                assert units.release(submitted.unit_id, fence, count_attempt=False)
                assert units.claim(
                    submitted.unit_id, worker="other", devices={"auto"}, lease_seconds=60
                )
            before.append(events_of(database, submitted.id))
        return 1

    monkeypatch.setattr(workers.run_loop.Pace, "rounds", take_over_before_the_fourth_block)
    run_unit(context, submitted.unit_id)
    assert events_of(database, submitted.id) == before[0]
    assert len(ledger_of(database, submitted)) == 3
    assert experiment_of(database, submitted).status == "running"
    unit = unit_of(database, submitted)
    assert (unit.state, unit.worker, unit.fence) == ("leased", "other", 2)


def test_rounds_by_which_the_pace_was_found_are_stored_with_the_next(
    database, context, monkeypatch
):
    """Of 12 rounds, 1, 2 and 4 go together: the next 3 are no more than before."""
    submitted = submit(database)
    paces, stored = iter([1, 2, 4, 3, 3, 3, 3, 3]), list[int]()
    progress = ExperimentRepository.progress_each

    def noted(self: ExperimentRepository, rounds_done: dict[str, int]) -> set[str]:
        stored.append(rounds_done[submitted.id])
        return progress(self, rounds_done)

    monkeypatch.setattr(workers.run_loop.Pace, "rounds", lambda *_, **__: next(paces))
    monkeypatch.setattr(ExperimentRepository, "progress_each", noted)
    run_unit(context, submitted.unit_id)
    assert stored == [7, 10, 12]
    assert experiment_of(database, submitted).status == "succeeded"


# -- ends without a report ----------------------------------------------------------------------


def test_cancelled_shows_only_after_the_worker_has_stopped(database, context, monkeypatch):
    submitted = submit(database)
    monkeypatch.setattr(workers.run_loop.Pace, "rounds", lambda *_, **__: 1)
    statuses = []
    progress = ExperimentRepository.progress_each

    def asked(self: ExperimentRepository, rounds_done: dict[str, int]) -> set[str]:
        if rounds_done == {submitted.id: 3}:
            self.request_cancel(submitted.id)
            statuses.append(self.existing(submitted.id).status)
        return progress(self, rounds_done)

    monkeypatch.setattr(ExperimentRepository, "progress_each", asked)
    run_unit(context, submitted.unit_id)
    assert statuses == ["cancelling"]
    experiment = experiment_of(database, submitted)
    assert (experiment.status, experiment.status_reason) == ("cancelled", "cancelled-by-caller")
    assert (experiment.rounds_done, unit_of(database, submitted).state) == (3, "done")
    with database.read() as session:
        assert ReportRepository(session).get(submitted.id) is None
    budget = budget_of(database, submitted)
    rows = ledger_of(database, submitted)
    assert budget.reserved == 0
    assert budget.spent == max(int(row.releases.max()) for row in rows) * 2 / 3
    end = checkpoints_of(database, submitted)[-1]
    assert (end.status, end.witness) == ("cancelled", "worker")
    assert judged(database, submitted, context).verdict == "valid"


def test_training_that_diverges_fails_with_that_reason(database, context):
    submitted = ran(
        database,
        context,
        spec_with(
            training__loss="mse",
            training__hypotheses=1,
            training__local={"step_size": 1e5},
            privacy={"mechanism": "none"},
        ),
    )
    assert ended_as(database, submitted) == ("failed", "diverged")
    with database.read() as session:
        detail = session.get_one(Experiment, submitted.id).status_detail
        assert "`training.local.step_size`" in detail
        last = RoundRepository(session).after(submitted.id)[-1]
    assert last.selection_loss is None
    assert last.reasons["selection_loss"] == "the loss is not finite"


def test_data_that_changed_since_its_admission_is_refused(database, context, tmp_path):
    (tmp_path / "people.csv").write_bytes(people(120))
    spec = spec_with(federation=REGISTRATION["federation"])
    submitted = submit(database, spec, sources_dir=tmp_path)
    (tmp_path / "people.csv").write_bytes(people(121))
    run_unit(with_settings(context, sources_dir=tmp_path), submitted.unit_id)
    experiment = experiment_of(database, submitted)
    assert (experiment.status, experiment.status_reason) == ("failed", "invalid-data")
    assert "not what it was" in (experiment.status_detail or "")
    assert unit_of(database, submitted).state == "done"
    assert ledger_of(database, submitted) == []


@pytest.mark.parametrize(
    ("planned", "detail"),
    [({"parameters": 1}, "what was reserved"), ({"attributes": {"sex": ["F"]}}, "the groups")],
    ids=["features", "groups"],
)
def test_a_plan_that_the_data_do_not_bear_out_is_refused(database, context, planned, detail):
    """As one made from an index that somebody changed: its cost would be that of fewer features."""
    submitted = submit(database, spec_with())
    with database.write() as session:
        session.execute(update(Experiment).values(planned))
    run_unit(context, submitted.unit_id)
    experiment = experiment_of(database, submitted)
    assert (experiment.status, experiment.status_reason) == ("failed", "invalid-data")
    assert detail in (experiment.status_detail or "")
    assert ledger_of(database, submitted) == []


# -- the fairness figures of a report are computed twice before it is signed ----------------------


CHECKED = groups_spec(
    fairness={"sensitive": ["group"], "favourable": {"op": "ge", "value": 5}}, training__rounds=5
)


def test_a_report_that_takes_long_keeps_its_lease(database, context, monkeypatch):
    happened: list[str] = []

    def noted(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def done(*arguments: Any, **options: Any) -> Any:
            happened.append(name)
            return work(*arguments, **options)

        return done

    parts = [
        (Stack, "result"),
        (report_material, "publish_counts"),
        (utility, "method_section"),
        (published_fairness, "rate_intervals"),
        (finish, "sign_report"),
    ]
    for room, name in parts:
        monkeypatch.setattr(room, name, noted(name, getattr(room, name)))
    monkeypatch.setattr(Lease, "progressed", noted("told", Lease.progressed))
    run_unit(context, submit(database, CHECKED).unit_id)
    order = [name for name in happened if name != "told"]
    assert order == ["result", "publish_counts", "method_section", "rate_intervals", "sign_report"]
    begins = [happened.index(name) for name in order]
    for name, begin, end in zip(order, begins, begins[1:], strict=False):
        assert "told" in happened[begin:end], f"nothing is told after {name}"


def test_a_report_whose_figures_do_not_follow_from_its_rows_is_never_stored(
    database: Database, context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = GroupCounter.count_rows

    def count(self: GroupCounter, *arguments: Any, slots: int, **options: Any) -> Any:
        counts = counted(self, *arguments, slots=slots, **options)
        for of_groups in counts.values() if slots > 1 else ():  # those of each client
            client = np.flatnonzero(of_groups[:, 0, 2])[0]
            of_groups[client, 0] += [0, 1, -1, 0]
        return counts

    monkeypatch.setattr(GroupCounter, "count_rows", count)
    submitted = ran(database, context, CHECKED)
    experiment = experiment_of(database, submitted)
    assert (experiment.status, experiment.status_reason) == ("failed", "figures-disagree")
    assert re.fullmatch(
        r"selection_rate by group = g1 is \S+ in the report, and Fairlearn \S+ computes \S+ from "
        r"the rows",
        experiment.status_detail or "",
    )
    with database.read() as session:
        assert ReportRepository(session, submitted.project_id).get(submitted.id) is None
        [*_, last] = LedgerCheckpointRepository(session).envelopes(submitted.id)
    assert Checkpoint.of(Envelope.from_dict(last)).status == "failed"
    assert "gate.evaluated" not in [kind for kind, _ in events_of(database, submitted.id)]
