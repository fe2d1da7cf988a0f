"""What a resumed run's signatures say of rows that were changed while no worker held them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from celery.worker import state as celery_state
from numpy.typing import NDArray
from sqlalchemy import delete, update
from sqlalchemy.orm import Session

from fedaudit.ledger.encoding import genesis
from fedaudit.ledger.statements import ALGORITHM, DATABASE, WORKER, SigningKey
from models.database import Database
from models.repositories import (
    CheckpointRepository,
    LedgerCheckpointRepository,
    LedgerRepository,
    SigningKeyRepository,
)
from models.tables.experiments import Checkpoint as TrainerState
from models.tables.ledger import Fairness, Ledger, LedgerCheckpoint, LedgerTotals, Round
from tests.ledger.single_entry import link
from tests.workers.admission import Submitted, experiment_of, ran, stop_worker
from tests.workers.test_signing import checkpoints_of, judged
from workers.context import WorkerContext
from workers.run_unit import run_unit

Flushing = Callable[[int, Callable[[], None]], None]

_STOPPED_AT, _ROUNDS = 5, 12


@pytest.fixture
def stopped(database: Database, context: WorkerContext, flushing: Flushing) -> Submitted:
    """A run that its worker gave back after five rounds, each of them signed."""
    flushing(_STOPPED_AT, stop_worker)
    submitted = ran(database, context)
    assert [one.entries for one in checkpoints_of(database, submitted)] == [1, 2, 3, 4, 5]
    celery_state.should_stop = None
    return submitted


def resume(database: Database, context: WorkerContext, submitted: Submitted) -> set[str | None]:
    """Run to the end; returns the witnesses that this worker's signatures state."""
    with database.read() as session:
        before = len(LedgerCheckpointRepository(session).envelopes(submitted.id))
    run_unit(context, submitted.unit_id)
    assert experiment_of(database, submitted).status == "succeeded"
    signed = checkpoints_of(database, submitted)[before:]
    assert signed[-1].entries == _ROUNDS
    return {one.witness for one in signed}


def forget_checkpoints(database: Database, submitted: Submitted, *, above: int) -> None:
    with database.write() as session:
        session.execute(
            delete(LedgerCheckpoint).where(
                LedgerCheckpoint.experiment_id == submitted.id, LedgerCheckpoint.entries > above
            )
        )


def cut(session: Session, submitted: Submitted, *, after: int) -> None:
    """Delete what later rounds left."""
    for table in (Ledger, Round, Fairness):
        session.execute(
            delete(table).where(table.experiment_id == submitted.id, table.round > after)
        )


def alter_newest(database: Database, submitted: Submitted) -> bytes:
    """Change the newest row, with a link that fits it; returns the link."""
    with database.write() as session:
        rows = LedgerRepository(session).rows_after(submitted.id)
        previous = rows[-2].link if len(rows) > 1 else genesis(submitted.id)
        clusters = (1 - np.asarray(rows[-1].clusters)).astype(np.int16)
        forged = link(previous, rows[-1].digest, clusters)
        session.execute(
            update(Ledger)
            .where(Ledger.experiment_id == submitted.id, Ledger.round == rows[-1].round)
            .values(clusters=clusters, link=forged)
        )
    return forged


def test_rows_that_a_worker_signed_are_witnessed_by_workers(database, context, stopped):
    assert resume(database, context, stopped) == {WORKER}
    signed = [(one.entries, one.status) for one in checkpoints_of(database, stopped)]
    running = [(entries, "running") for entries in range(1, _ROUNDS + 1)]
    assert signed == [*running, (_ROUNDS, "succeeded")]
    assert judged(database, stopped, context).verdict == "valid"


def test_altered_rows_are_not_witnessed_by_the_worker_that_resumes(database, context, stopped):
    alter_newest(database, stopped)
    forget_checkpoints(database, stopped, above=_STOPPED_AT - 1)
    assert resume(database, context, stopped) == {DATABASE}
    found = judged(database, stopped, context)
    # The checkpoints alone do not show that one was removed; the log of runs does.
    assert {one.name: one.outcome for one in found.checks if one.outcome != "pass"} == {
        "checkpoints.witness": "unchecked",
        "log.checkpoints": "fail",
    }


def test_a_row_altered_below_the_newest_is_noticed(database, context, stopped):
    """The newest link is the signed one; the rows no longer lead to it."""
    with database.write() as session:
        second = LedgerRepository(session).rows_after(stopped.id)[1]
        session.execute(
            update(Ledger)
            .where(Ledger.experiment_id == stopped.id, Ledger.round == second.round)
            .values(radii=np.asarray(second.radii) / 2)
        )
    assert resume(database, context, stopped) == {DATABASE}
    assert judged(database, stopped, context).verdict == "altered"


def test_a_checkpoint_by_a_key_that_was_planted_covers_nothing(database, context, stopped):
    forged = alter_newest(database, stopped)
    planted = SigningKey.generate()
    newest = checkpoints_of(database, stopped)[-1]
    forged_checkpoint = type(newest)(**{**vars(newest), "chain_head": forged.hex()})
    forget_checkpoints(database, stopped, above=0)
    with database.write() as session:
        SigningKeyRepository(session).use(
            planted.key_id, algorithm=ALGORITHM, public_key=planted.public.pem
        )
        LedgerCheckpointRepository(session, stopped.project_id).add(
            stopped.id,
            entries=_STOPPED_AT,
            status="running",
            envelope=forged_checkpoint.sign(planted).as_dict(),
        )
    assert resume(database, context, stopped) == {DATABASE}


@dataclass(frozen=True)
class Snapshot:
    """Where a run stood after some rounds, as someone who can read the database may keep it."""

    round: int
    state: bytes
    releases: NDArray[np.int32]

    @classmethod
    def of(cls, database: Database, submitted: Submitted) -> "Snapshot":
        with database.read() as session:
            state = CheckpointRepository(session).get(submitted.id)
            totals = LedgerRepository(session).get_totals(submitted.id)
        return cls(state.round, state.data, totals.releases)

    def restore(self, database: Database, submitted: Submitted) -> None:
        """Delete the later rows, and set the state and the totals back."""
        with database.write() as session:
            cut(session, submitted, after=self.round)
            session.execute(
                update(TrainerState)
                .where(TrainerState.experiment_id == submitted.id)
                .values(round=self.round, data=self.state)
            )
            session.execute(
                update(LedgerTotals)
                .where(LedgerTotals.experiment_id == submitted.id)
                .values(releases=self.releases)
            )


def test_a_run_set_back_to_a_state_that_no_one_signed_is_not_witnessed(database, context, flushing):
    flushing(3, stop_worker)
    submitted = ran(database, context)
    earlier = Snapshot.of(database, submitted)
    celery_state.should_stop = None
    flushing(2, stop_worker)
    run_unit(context, submitted.unit_id)
    celery_state.should_stop = None
    assert checkpoints_of(database, submitted)[-1].entries == 5
    earlier.restore(database, submitted)
    forget_checkpoints(database, submitted, above=2)
    assert resume(database, context, submitted) == {DATABASE}
    found = judged(database, submitted, context)
    assert [one.name for one in found.checks if one.outcome == "fail"] == ["log.checkpoints"]


def test_a_run_set_back_to_its_beginning_is_not_witnessed(database, context, stopped):
    """Its rows, state and checkpoints are gone; that rounds were counted is left."""
    with database.write() as session:
        cut(session, stopped, after=0)
        for table in (LedgerTotals, TrainerState, LedgerCheckpoint):
            session.execute(delete(table).where(table.experiment_id == stopped.id))
    assert resume(database, context, stopped) == {DATABASE}
