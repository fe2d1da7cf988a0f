"""The log of runs has exactly the checkpoints of each run, wherever its worker was lost."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

import workers.claim
import workers.run_loop
from fedaudit.ledger.run_log import BEGUN
from models.database import Database
from models.repositories import RunLogRepository
from models.tables.experiments import Unit
from tests.workers.admission import Submitted, experiment_of, spec_with, submit
from tests.workers.test_signing import checkpoints_of, judged
from workers.context import WorkerContext
from workers.proof.signing import sign_as_stored
from workers.run_unit import run_unit
from workers.sweeper import Sweeper


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
