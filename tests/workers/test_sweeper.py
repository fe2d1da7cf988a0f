"""One sweeper, tick by tick, on both databases."""

import itertools
import math
import os
import threading
import time
from typing import Any

import pytest
import structlog
from sqlalchemy import update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

import workers.lost_rounds
import workers.run_loop
import workers.sweeper
from fedaudit.ledger.statements import Checkpoint, Envelope
from infrastructure.queue import Queue, QueueUnavailableError
from infrastructure.settings import Settings
from models.clock import seconds_from_now
from models.database import Database
from models.repositories import (
    ExperimentRepository,
    LedgerCheckpointRepository,
    LedgerRepository,
    SweeperLeaseRepository,
    UnitRepository,
)
from models.tables.experiments import Unit
from tests.workers.admission import (
    Submitted,
    cancel,
    ended_as,
    events_of,
    experiment_of,
    ledger_of,
    lose,
    ran,
    spec_with,
    submit,
    unit_of,
)
from workers.context import WorkerContext
from workers.run_unit import run_unit
from workers.sweeper import Sweeper, sweep


class RecordingQueue(Queue):
    """Remembers what was published; can be away."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.published: list[tuple[str, str]] = []
        self.away = False

    def publish_unit(self, unit_id: str, device: str) -> None:
        if self.away:
            raise QueueUnavailableError("away")
        self.published.append((unit_id, device))


@pytest.fixture
def queue(context: WorkerContext) -> RecordingQueue:
    return RecordingQueue(context.settings)


@pytest.fixture
def sweeper(context: WorkerContext, queue: RecordingQueue) -> Sweeper:
    # On a busy machine no message is sent again between two ticks.
    settings = context.settings.model_copy(update={"lease_seconds": 60.0})
    return Sweeper(settings, context.database, queue)


def test_what_waits_is_published_once(database, sweeper, queue):
    first, second = submit(database), submit(database, device="cpu")
    for _ in range(3):
        assert sweeper.tick()
    assert queue.published == [(first.unit_id, "auto"), (second.unit_id, "cpu")]
    assert unit_of(database, first).published_at is not None


def test_a_broker_that_fails_now_and_then_is_sent_every_message(
    database: Database, sweeper: Sweeper, queue: RecordingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = [submit(database).unit_id for _ in range(3)]
    publish, sends = queue.publish_unit, itertools.count(1)

    def every_second(unit_id: str, device: str) -> None:
        if next(sends) % 2 == 0:
            raise QueueUnavailableError("away")
        publish(unit_id, device)

    monkeypatch.setattr(queue, "publish_unit", every_second)
    for _ in submitted:
        assert sweeper.tick()
    assert queue.published == [(unit_id, "auto") for unit_id in submitted]


def test_what_was_published_before_the_clock_was_set_back_is_published_again(
    database: Database, sweeper: Sweeper, queue: RecordingQueue
) -> None:
    unit_id = submit(database).unit_id
    ahead = dict.fromkeys(("available_at", "published_at"), seconds_from_now(3600))
    with database.write() as session:
        session.execute(update(Unit).where(Unit.id == unit_id).values(**ahead))
    assert sweeper.tick()
    assert queue.published == [(unit_id, "auto")]


def test_a_unit_whose_message_was_lost_is_published_again_ever_more_rarely(
    database: Database, context: WorkerContext, queue: RecordingQueue
) -> None:
    settings = context.settings.model_copy(update={"lease_seconds": 0.3})
    sweeper = Sweeper(settings, database, queue)
    submitted = submit(database)
    for _ in range(60):
        sweeper.tick()
        threading.Event().wait(0.02)
    assert set(queue.published) == {(submitted.unit_id, "auto")}
    # After 0.1, 0.2, 0.4 ... seconds; every 0.1 seconds would make 12 and more.
    assert 3 <= len(queue.published) <= 11


@pytest.mark.parametrize("seconds", [0.0, 660.0], ids=["run out", "clock set back"])
def test_a_unit_that_lost_its_worker_is_taken_back_and_published_at_once(
    database, sweeper, queue, context, seconds
):
    submitted = submit(database)
    sweeper.tick()
    queue.published.clear()
    lose(database, submitted, seconds=seconds)
    with structlog.testing.capture_logs() as logs:
        sweeper.tick()
    [said] = [line for line in logs if line["event"] == "unit taken back"]
    assert (said["unit_id"], said["experiment_id"]) == (submitted.unit_id, submitted.id)
    assert queue.published == [(submitted.unit_id, "auto")]
    assert unit_of(database, submitted).state == "waiting"
    run_unit(context, submitted.unit_id)
    assert experiment_of(database, submitted).status == "succeeded"


def away(*_: object, **__: object) -> bool:
    raise OperationalError("UPDATE", {}, ConnectionError("away"))


@pytest.mark.parametrize("noticed", ["by a tick", "at the start"])
def test_after_an_outage_workers_have_a_lease_of_time_to_renew_theirs(
    database: Database,
    context: WorkerContext,
    queue: RecordingQueue,
    monkeypatch: pytest.MonkeyPatch,
    noticed: str,
) -> None:
    settings = context.settings.model_copy(update={"lease_seconds": 1000.0})
    sweeper = Sweeper(settings, database, queue)
    if noticed == "at the start":
        sweeper.renewed_by = math.inf
    submitted = submit(database)
    fence = lose(database, submitted)
    if noticed == "by a tick":
        with monkeypatch.context() as outage:
            outage.setattr(SweeperLeaseRepository, "acquire", away)
            with pytest.raises(OperationalError):
                sweeper.tick()
    for _ in range(2):
        assert sweeper.tick()
        assert unit_of(database, submitted).state == "leased"
    with database.write() as session:
        assert UnitRepository(session).renew(submitted.unit_id, fence, -1.0)
    later = time.monotonic() + 1000
    monkeypatch.setattr(workers.sweeper, "monotonic", lambda: later)
    assert sweeper.tick()
    assert unit_of(database, submitted).state == "waiting"


def test_after_the_last_attempt_the_experiment_fails(database: Database, sweeper: Sweeper) -> None:
    submitted = submit(database, max_attempts=2)
    for expected in ("waiting", "failed"):
        lose(database, submitted)
        sweeper.tick()
        assert unit_of(database, submitted).state == expected
    assert ended_as(database, submitted) == ("failed", "worker-lost")
    detail = experiment_of(database, submitted).status_detail
    assert detail == "worker lost in each of 2 attempts"
    assert events_of(database, submitted.id)[-1] == (
        "status.changed",
        {"status": "failed", "status_reason": "worker-lost"},
    )


def test_a_cancelled_experiment_ends_when_its_lost_worker_is_given_up(database, sweeper, context):
    submitted = submit(database)
    lose(database, submitted)
    assert cancel(database, submitted) == "cancelling"
    sweeper.tick()
    assert experiment_of(database, submitted).status == "cancelling"
    run_unit(context, submitted.unit_id)
    experiment = experiment_of(database, submitted)
    assert (experiment.status, experiment.rounds_done) == ("cancelled", 0)
    assert ledger_of(database, submitted) == []


@pytest.fixture
def lost_in_a_block(database: Database, context: WorkerContext, crash_in_block: Any) -> Submitted:
    """Two experiments whose last worker died after their noise was drawn, and before the flush."""
    crash_in_block(2)
    release = {"privacy__noise": "release"}
    specs = [spec_with(**release), spec_with(**release, privacy__noise_multiplier=4.0)]
    submitted = ran(database, context, *specs, max_attempts=2)
    lose(database, submitted)
    return submitted


def interrupted_entries(database: Database, experiment_id: str) -> int:
    with database.read() as session:
        return sum(row.interrupted for row in LedgerRepository(session).rows_after(experiment_id))


def signed_status(database: Database, experiment_id: str) -> list[str]:
    with database.read() as session:
        values = LedgerCheckpointRepository(session).envelopes(experiment_id)
    return [Checkpoint.of(Envelope.from_dict(value)).status for value in values]


@pytest.mark.both_databases
def test_a_ledger_that_refuses_its_lost_rounds_holds_up_no_other(
    database: Database,
    sweeper: Sweeper,
    lost_in_a_block: Submitted,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusing, sound = lost_in_a_block.experiment_ids
    store, attempts = workers.lost_rounds.store_totals, []

    def failing(session: Session, experiment_id: str, *arguments: Any) -> None:
        attempts.append(experiment_id)
        if experiment_id == refusing:
            raise ValueError("totals of another shape")
        store(session, experiment_id, *arguments)

    monkeypatch.setattr(workers.lost_rounds, "store_totals", failing)
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            assert sweeper.tick()
    # Once with its unit's end, and once by itself.
    assert sorted(attempts) == sorted([refusing, refusing, sound])
    refused = [one for one in logs if one["event"] == "lost rounds not entered"]
    assert [one["experiment_id"] for one in refused] == [refusing, refusing]
    for position in (0, 1):
        assert experiment_of(database, lost_in_a_block, position).status == "failed"
    # Its rows were inserted before it failed.
    assert interrupted_entries(database, refusing) == 0
    assert "failed" not in signed_status(database, refusing)
    assert interrupted_entries(database, sound) == 3
    assert signed_status(database, sound)[-1] == "failed"


@pytest.mark.both_databases
def test_a_unit_that_cannot_be_taken_back_holds_up_no_other(database, sweeper, queue, monkeypatch):
    broken, sound = submit(database), submit(database)
    for submitted in (broken, sound):
        lose(database, submitted)
        with database.write() as session:
            assert ExperimentRepository(session, submitted.project_id).start_each([submitted.id])
    sign, attempts = workers.sweeper.sign_as_stored, []

    def failing(session: Session, experiment_id: str, *arguments: Any, **options: Any) -> None:
        attempts.append(experiment_id)
        if experiment_id == broken.id:
            raise ValueError("no such names")
        sign(session, experiment_id, *arguments, **options)

    monkeypatch.setattr(workers.sweeper, "sign_as_stored", failing)
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            assert sweeper.tick()
    assert sorted(attempts) == sorted([broken.id, sound.id])
    assert [one["unit_id"] for one in logs if one["event"] == "unit not taken back"] == [
        broken.unit_id
    ]
    assert unit_of(database, broken).state == "leased"
    assert unit_of(database, sound).state == "waiting"
    assert (sound.unit_id, "auto") in queue.published


@pytest.mark.parametrize("cancelled", [False, True])
def test_others_may_write_while_lost_rounds_are_counted_for_the_first_time(
    database, sweeper, context, crash_in_block, monkeypatch, cancelled
):
    crash_in_block(2)
    spec, attempts = spec_with(privacy__noise="release"), 3 if cancelled else 2
    submitted = ran(database, context, spec, max_attempts=attempts)
    lose(database, submitted)
    if cancelled:
        sweeper.tick()
        cancel(database, submitted)
    build, written = workers.lost_rounds.build_metric_context, []

    def writing(*arguments: Any) -> Any:
        if not written:  # What it makes is kept.
            # On SQLite this fails where the sweeper holds the database.
            with database.write() as session:
                UnitRepository(session).create(submitted.project_id, "cpu")
        written.append(True)
        return build(*arguments)

    monkeypatch.setattr(workers.lost_rounds, "build_metric_context", writing)
    sweeper.tick()
    assert written
    assert interrupted_entries(database, submitted.id) == 3


def test_only_the_holder_of_the_duty_sweeps(database, sweeper, queue, context, monkeypatch):
    submit(database)
    with database.write() as session:
        SweeperLeaseRepository(session).acquire("sweeper", holder="another", lease_seconds=60)
    assert not sweeper.tick()
    assert queue.published == []
    with database.write() as session:
        SweeperLeaseRepository(session).release("sweeper", holder="another")
    assert sweeper.tick()
    # Another process of the same machine has it only once this one resigned.
    monkeypatch.setattr(os, "getpid", lambda: 0)
    other = Sweeper(context.settings, database, queue)
    assert not other.tick()
    sweeper.resign()
    assert other.tick()


def test_a_failed_tick_does_not_end_the_sweeper(database, queue, monkeypatch, sweeper):
    submitted = submit(database)
    faults = iter([OperationalError("SELECT", {}, ConnectionError("away")), KeyError("odd")])
    tick = Sweeper.tick
    stop = threading.Event()

    def failing(self: Sweeper) -> bool:
        for fault in faults:
            raise fault
        done = tick(self)
        stop.set()
        return done

    monkeypatch.setattr(Sweeper, "tick", failing)
    sweep(sweeper, stop, seconds=0.01)
    assert queue.published == [(submitted.unit_id, "auto")]
    # It has left the duty to others.
    with database.write() as session:
        duties = SweeperLeaseRepository(session)
        assert duties.acquire("sweeper", holder="b", lease_seconds=1)
        # The database's clock is set back by far more than a lease: its holder may be long dead.
        assert duties.acquire("sweeper", holder="b", lease_seconds=3600)
        assert not duties.acquire("sweeper", holder="c", lease_seconds=600)
        assert duties.acquire("sweeper", holder="c", lease_seconds=10)
