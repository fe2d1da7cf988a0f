"""Who writes ledger rows signs them: during a run, at its end, and after its worker was lost."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from celery.worker import state as celery_state
from numpy.typing import NDArray
from sqlalchemy import delete, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

import workers.claim
import workers.run_loop
from api.services.report_evidence import evidence_of
from fedaudit.ledger.encoding import genesis
from fedaudit.ledger.run_log import BEGUN
from fedaudit.ledger.statements import ALGORITHM, DATABASE, WORKER, Checkpoint, Envelope, SigningKey
from fedaudit.reports.verification.verification import Verification, verify
from models.database import Database
from models.repositories import (
    CheckpointRepository,
    LedgerCheckpointRepository,
    LedgerRepository,
    ReportRepository,
    RunLogRepository,
    SigningKeyRepository,
)
from models.tables.experiments import Checkpoint as TrainerState
from models.tables.experiments import Experiment, Report, Unit
from models.tables.ledger import Fairness, Ledger, LedgerCheckpoint, LedgerTotals, Round
from tests.ledger.single_entry import link
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
    submit,
)
from tests.workers.epsilon_specs import by_record
from workers.context import WorkerContext
from workers.proof.signing import SigningKeyFile, sign_as_stored
from workers.run_unit import run_unit
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


# -- what a resumed run says of rows that were changed while no worker held them ------------------


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
    """The state of a run after some rounds, as a reader of the database may keep it."""

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


# -- the log of runs has exactly the checkpoints of each run, wherever its worker was lost --------


class KilledError(BaseException):
    """SIGKILL: nothing that a worker does about errors happens."""


class Commits:
    """The transactions of a worker's main thread, and what happens beside one of them."""

    def __init__(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = 0
        self._write = database.write
        self._acts: dict[tuple[str, int], Callable[[], None]] = {}
        monkeypatch.setattr(database, "write", self._counted)
        monkeypatch.setattr(workers.claim, "sleep", lambda _seconds: None)

    @contextmanager
    def beside(self, when: str, number: int, act: Callable[[], None]) -> Iterator[None]:
        """`act` at the begin, or just after the commit, of the transaction with this number, from
        1."""
        self.made, self._acts = 0, {(when, number): act}
        try:
            yield
        finally:
            self._acts = {}

    @contextmanager
    def _counted(self) -> Iterator[Session]:
        if threading.current_thread() is not threading.main_thread():
            with self._write() as session:
                yield session
            return
        self.made += 1
        acts = {when: act for (when, number), act in self._acts.items() if number == self.made}
        acts.get("begin", lambda: None)()
        with self._write() as session:
            yield session
        acts.get("after", lambda: None)()


@pytest.fixture
def commits(database, monkeypatch) -> Commits:
    """One round a flush, and a checkpoint with each."""
    monkeypatch.setattr(workers.run_loop.Pace, "rounds", lambda *_, **__: 1)
    monkeypatch.setattr(workers.run_loop, "CHECKPOINT_SECONDS", 0.0)
    return Commits(database, monkeypatch)


def kill() -> None:
    raise KilledError


def break_connection() -> None:
    raise OperationalError("COMMIT", {}, Exception("the server does not answer"))


def lose_lease(database: Database, submitted: Submitted) -> None:
    with database.write() as session:
        lost = update(Unit).where(Unit.id == submitted.unit_id, Unit.state == "leased")
        session.execute(lost.values(lease_until=datetime(2000, 1, 1, tzinfo=UTC)))


def small_run(database: Database, noise: str) -> Submitted:
    return submit(database, spec_with(training__rounds=2, privacy__noise=noise))


def faults(database: Database, context: WorkerContext, submitted: Submitted) -> Sequence[str]:
    """What is wrong with a run that has ended, but for who witnessed it."""
    found = judged(database, submitted, context)
    wrong = [f"{one.name}: {one.detail}" for one in found.checks if one.outcome != "pass"]
    status = experiment_of(database, submitted).status
    with database.read() as session:
        logged = [
            (one.kind, one.digest)
            for one in RunLogRepository(session).list(submitted.federation_id)
            if one.experiment_id == submitted.id
        ]
    if status != "succeeded":
        wrong.append(status)
    if [kind for kind, _ in logged] != [
        BEGUN,
        *(one.status for one in checkpoints_of(database, submitted)),
    ]:
        wrong.append(f"logged: {logged}")
    return [one for one in wrong if not one.startswith("checkpoints.witness")]


@pytest.mark.parametrize("noise", ["simulation", pytest.param("release", marks=pytest.mark.slow)])
def test_a_worker_lost_at_any_commit_leaves_no_run_that_its_log_calls_altered(
    database, context, commits, noise
):
    """What is killed before a commit leaves what is killed after the one before."""
    sweeper = Sweeper(context.settings, database, context.queue)

    def go_on(submitted: Submitted, *, swept: bool) -> None:
        lose_lease(database, submitted)
        if swept:
            sweeper.tick()
        run_unit(context, submitted.unit_id)

    found = {}
    whole = small_run(database, noise)
    with commits.beside("never", 0, kill):
        run_unit(context, whole.unit_id)
    found["in peace"], transactions = faults(database, context, whole), commits.made
    for number in range(1, transactions + 1):
        for swept in (True, False):
            submitted = small_run(database, noise)
            with commits.beside("after", number, kill), pytest.raises(KilledError):
                run_unit(context, submitted.unit_id)
            go_on(submitted, swept=swept)
            found["killed", number, swept] = faults(database, context, submitted)
        if noise == "release":
            continue
        # Not dead but slow: another worker ends the run before this one goes on.
        submitted = small_run(database, noise)
        with commits.beside("begin", number, lambda one=submitted: go_on(one, swept=True)):
            run_unit(context, submitted.unit_id)
        found["slow", number] = faults(database, context, submitted)
        if number > 1:
            submitted = small_run(database, noise)
            with commits.beside("after", number, break_connection):
                run_unit(context, submitted.unit_id)
            found["repeated", number] = faults(database, context, submitted)
    assert transactions > 5
    assert {place: wrong for place, wrong in found.items() if wrong} == {}


def test_what_was_signed_of_a_run_before_there_was_a_log_is_entered_with_it(database, context):
    submitted = small_run(database, "simulation")
    with database.write() as session:
        sign_as_stored(session, submitted.id, submitted.project_id, key=context.signing_key)
    run_unit(context, submitted.unit_id)
    assert [one.entries for one in checkpoints_of(database, submitted)] == [0, 2]
    assert faults(database, context, submitted) == []
