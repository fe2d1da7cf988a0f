"""One sweeper, tick by tick, on both databases."""

import threading

import pytest
from sqlalchemy.exc import OperationalError

from fedaudit.privacy.metric.leakage import leakage
from infrastructure.queue import Queue, QueueUnavailableError
from infrastructure.settings import Settings
from models.database import Database
from models.repositories import (
    ExperimentRepository,
    OutboxRepository,
    SweeperLeaseRepository,
    UnitRepository,
)
from models.tables.units import Unit
from tests.workers.admission import Submitted, events_of, experiment_of, submit
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
    return Sweeper(context.settings, context.database, queue)


def unit_of(database: Database, submitted: Submitted) -> Unit:
    with database.read() as session:
        unit = UnitRepository(session).get(submitted.unit_id)
    assert unit is not None
    return unit


def lose(database: Database, submitted: Submitted) -> int:
    """A worker claims the unit and is never heard of again; returns its fence."""
    with database.write() as session:
        claim = UnitRepository(session).claim(
            submitted.unit_id, worker="gone", devices={"auto"}, lease_seconds=0.0
        )
    assert claim is not None
    return claim.fence


def test_the_outbox_is_published_once(
    database: Database, sweeper: Sweeper, queue: RecordingQueue
) -> None:
    first, second = submit(database), submit(database, device="cpu")
    for _ in range(3):
        assert sweeper.tick()
    assert queue.published == [(first.unit_id, "auto"), (second.unit_id, "cpu")]
    assert unit_of(database, first).published_at is not None


def test_without_a_broker_messages_wait(
    database: Database, sweeper: Sweeper, queue: RecordingQueue
) -> None:
    submitted = submit(database)
    queue.away = True
    assert sweeper.tick()
    with database.write() as session:
        assert len(OutboxRepository(session).pending()) == 1
    queue.away = False
    sweeper.tick()
    assert queue.published == [(submitted.unit_id, "auto")]


def test_an_unknown_message_does_not_hold_up_the_others(
    database: Database, sweeper: Sweeper, queue: RecordingQueue
) -> None:
    first = submit(database)
    with database.write() as session:
        OutboxRepository(session).add(first.project_id, "carrier-pigeon", {})
    second = submit(database)
    sweeper.tick()
    assert [unit for unit, _ in queue.published] == [first.unit_id, second.unit_id]


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


def test_a_unit_that_lost_its_worker_is_taken_back_and_published_at_once(
    database: Database, sweeper: Sweeper, queue: RecordingQueue, context: WorkerContext
) -> None:
    submitted = submit(database)
    sweeper.tick()
    queue.published.clear()
    lose(database, submitted)
    sweeper.tick()
    assert queue.published == [(submitted.unit_id, "auto")]
    assert unit_of(database, submitted).state == "waiting"
    run_unit(context, submitted.unit_id)
    assert experiment_of(database, submitted).status == "succeeded"


def test_after_the_last_attempt_the_experiment_fails(database: Database, sweeper: Sweeper) -> None:
    submitted = submit(database, max_attempts=2)
    for expected in ("waiting", "failed"):
        lose(database, submitted)
        sweeper.tick()
        assert unit_of(database, submitted).state == expected
    experiment = experiment_of(database, submitted)
    assert (experiment.status, experiment.status_reason) == ("failed", "worker-lost")
    assert events_of(database, submitted.id)[-1] == (
        "status.changed",
        {"status": "failed", "status_reason": "worker-lost"},
    )


def test_a_cancelled_experiment_ends_when_its_lost_worker_is_given_up(
    database: Database, sweeper: Sweeper, context: WorkerContext
) -> None:
    submitted = submit(database)
    lose(database, submitted)
    with database.write() as session:
        ExperimentRepository(session, submitted.project_id).request_cancel(
            submitted.id, price=leakage
        )
    sweeper.tick()
    assert experiment_of(database, submitted).status == "cancelling"
    run_unit(context, submitted.unit_id)
    assert experiment_of(database, submitted).status == "cancelled"


def test_only_the_holder_of_the_duty_sweeps(
    database: Database, sweeper: Sweeper, queue: RecordingQueue
) -> None:
    submit(database)
    with database.write() as session:
        SweeperLeaseRepository(session).acquire("sweeper", holder="another", lease_seconds=60)
    assert not sweeper.tick()
    assert queue.published == []
    with database.write() as session:
        SweeperLeaseRepository(session).release("sweeper", holder="another")
    assert sweeper.tick()


def test_a_failed_tick_does_not_end_the_sweeper(
    database: Database,
    queue: RecordingQueue,
    monkeypatch: pytest.MonkeyPatch,
    sweeper: Sweeper,
) -> None:
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
        assert SweeperLeaseRepository(session).acquire("sweeper", holder="b", lease_seconds=1)
