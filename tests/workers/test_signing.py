"""Who writes ledger rows signs them: during a run, at its end, and after its worker was lost."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import delete, update

import workers.run_loop
from api.services.report_evidence import evidence_of
from fedaudit.ledger.statements import Checkpoint, Envelope
from fedaudit.reports.verification.verification import Verification, verify
from models.database import Database
from models.repositories import LedgerCheckpointRepository, ReportRepository, SigningKeyRepository
from models.tables.experiments import Experiment, Report, Unit
from models.tables.ledger import Ledger, LedgerCheckpoint
from tests.workers.admission import (
    SPEC,
    Submitted,
    budget_of,
    cancel,
    crash,
    document_of,
    experiment_of,
    ledger_of,
    lose,
    ran,
    spec_with,
    stop_worker,
)
from tests.workers.epsilon_specs import by_record
from workers.context import WorkerContext
from workers.proof.signing import SigningKeyFile
from workers.sweeper import Sweeper


def checkpoints_of(database: Database, submitted: Submitted) -> list[Checkpoint]:
    with database.read() as session:
        values = LedgerCheckpointRepository(session).envelopes(submitted.id)
    return [Checkpoint.of(Envelope.from_dict(value)) for value in values]


def judged(database: Database, submitted: Submitted, context: WorkerContext) -> Verification:
    with database.read() as session:
        report = ReportRepository(session).get(submitted.id)
    document = None if report is None else report.document
    evidence = evidence_of(database, experiment_of(database, submitted), document)
    return verify(evidence, trusted=[context.signing_key.public])


@pytest.mark.parametrize("mechanism", ["laplace-l2", "none"])
def test_a_finished_run_is_valid_under_its_key(database, context, mechanism):
    bounded = {**SPEC["privacy"], "client_budget": 2.0}
    privacy = {"mechanism": "none"} if mechanism == "none" else bounded
    submitted = ran(database, context, spec_with(privacy=privacy))
    found = judged(database, submitted, context)
    assert [check for check in found.checks if check.outcome != "pass"] == []
    assert found.verdict == "valid"
    [end] = checkpoints_of(database, submitted)
    assert (end.status, end.entries, end.last_round) == ("succeeded", 12, 12)
    with database.read() as session:
        key, of_claims = SigningKeyRepository(session).list()
    assert key.key_id == context.signing_key.key_id == of_claims.derived_from


def test_a_round_that_charged_no_one_against_the_server_can_be_verified(database, context):
    spec = {**by_record(rate=0.5), "seed": 2}
    spec["training"] = {**spec["training"], "rounds": 15}
    submitted = ran(
        database, context, {**spec, "federation": {**SPEC["federation"], "clients": 12}}
    )
    best = document_of(database, submitted)["utility"]["best_round"]
    rows = ledger_of(database, submitted)
    charged = {row.observer: len(row.subjects) for row in rows if row.round == best}
    assert charged["server"] == 0, "the seed no longer has such a round"
    assert charged["final_model"] == 3
    found = judged(database, submitted, context)
    assert [check for check in found.checks if check.outcome != "pass"] == []
    assert found.verdict == "valid"


@pytest.mark.parametrize("noise", ["simulation", "release"])
def test_a_run_that_fails_for_good_is_signed_as_it_is(database, context, flushing, noise):
    flushing(6, crash)
    submitted = ran(database, context, spec_with(privacy__noise=noise), max_attempts=1)
    assert experiment_of(database, submitted).status == "failed"
    Sweeper(context.settings, database, context.queue).tick()
    found = checkpoints_of(database, submitted)
    assert [one.status for one in found if one.status != "running"] == ["failed"]
    assert (found[-1].status, found[-1].witness) == ("failed", "database")
    assert found[-1].entries >= 5
    check_rests_on_the_database(judged(database, submitted, context))


def test_the_sweeper_signs_for_a_worker_that_was_lost(database, context, flushing):
    flushing(4, crash)
    submitted = ran(database, context, max_attempts=2, budget=1e6)
    lose(database, submitted)
    Sweeper(context.settings, database, context.queue).tick()
    end = checkpoints_of(database, submitted)[-1]
    assert (end.status, end.entries, end.witness) == ("failed", 3, "database")
    budget, rows = budget_of(database, submitted), ledger_of(database, submitted)
    assert budget.reserved == pytest.approx(0, abs=1e-9)
    assert budget.spent == pytest.approx(max(int(row.releases.max()) for row in rows) * 2 / 3)
    check_rests_on_the_database(judged(database, submitted, context))


def check_rests_on_the_database(found: Verification) -> None:
    assert [one.name for one in found.checks if one.outcome != "pass"] == ["checkpoints.witness"]
    assert found.verdict == "consistent, signer untrusted"


def without_the_newest_end(database: Database, submitted: Submitted) -> None:
    """Drop the last checkpoint, and the rows that only it counts."""
    signed = checkpoints_of(database, submitted)
    cut = ledger_of(database, submitted)[signed[-2].entries].round
    with database.write() as session:
        session.execute(
            delete(Ledger).where(Ledger.experiment_id == submitted.id, Ledger.round >= cut)
        )
        session.execute(
            delete(LedgerCheckpoint).where(
                LedgerCheckpoint.experiment_id == submitted.id,
                LedgerCheckpoint.entries == signed[-1].entries,
            )
        )


@pytest.mark.parametrize("lost", ["by the sweeper", "by its worker"])
def test_a_ledger_without_its_lost_rounds_is_not_valid(
    database: Database,
    context: WorkerContext,
    monkeypatch: pytest.MonkeyPatch,
    crash_in_block: Any,
    lost: str,
) -> None:
    """Rolled back to an earlier signed state, it never passes for the whole."""
    crash_in_block(3)
    monkeypatch.setattr(workers.run_loop, "CHECKPOINT_SECONDS", 0.0)
    attempts = 1 if lost == "by its worker" else 2
    submitted = ran(database, context, spec_with(privacy__noise="release"), max_attempts=attempts)
    if lost == "by the sweeper":
        lose(database, submitted)
    sweeper = Sweeper(context.settings, database, context.queue)
    for _ in range(2):
        sweeper.tick()
    signed = checkpoints_of(database, submitted)
    assert [one.entries for one in signed if one.status == "failed"] == [9]
    assert judged(database, submitted, context).entries == 9
    without_the_newest_end(database, submitted)
    found = judged(database, submitted, context)
    assert found.entries == 6
    # The ledger alone resembles a run that stopped there; the log of runs has the end.
    assert [one.name for one in found.checks if one.outcome == "fail"] == ["log.checkpoints"]
    assert "report.present" in {one.name for one in found.checks if one.outcome == "unchecked"}


@pytest.mark.parametrize("status", ["failed", "running"])
def test_the_database_alone_does_not_make_the_sweeper_prove_a_forged_ledger(
    database: Database, context: WorkerContext, status: str
) -> None:
    submitted = ran(database, context)
    assert judged(database, submitted, context).verdict == "valid"
    with database.write() as session:
        for table in (LedgerCheckpoint, Report):
            session.execute(delete(table).where(table.experiment_id == submitted.id))
        session.execute(delete(Ledger).where(Ledger.round > 5))
        ended = {} if status == "failed" else {"finished_at": None}
        session.execute(
            update(Experiment).where(Experiment.id == submitted.id).values(status=status, **ended)
        )
        session.execute(
            update(Unit)
            .where(Unit.id == submitted.unit_id)
            .values(
                state="leased",
                lease_until=datetime(2000, 1, 1, tzinfo=UTC),
                attempts=Unit.max_attempts,
            )
        )
    assert Sweeper(context.settings, database, context.queue).tick()
    signed = checkpoints_of(database, submitted)
    assert [one.witness for one in signed] == ([] if status == "failed" else ["database"])
    found = judged(database, submitted, context)
    assert [one.name for one in found.checks if one.outcome == "fail"] == ["log.checkpoints"]


def test_a_cancelled_run_is_signed(database, context, flushing):
    """Given back by its worker, and cancelled while it waits for another."""
    flushing(3, stop_worker)
    submitted = ran(database, context)
    assert cancel(database, submitted) == "cancelled"
    assert checkpoints_of(database, submitted)[-1].entries == 3
    found = judged(database, submitted, context)
    # Nobody with a key was there when it ended.
    assert [one.name for one in found.checks if one.outcome != "pass"] == ["report.present"]
    assert found.verdict == "consistent, signer untrusted"


def test_a_worker_without_a_key_says_how_to_make_one(context: WorkerContext) -> None:
    settings = context.settings.model_copy(update={"signing_key_file": None})
    with pytest.raises(SystemExit, match="fedaudit keys signing --out FILE"):
        SigningKeyFile(settings)
