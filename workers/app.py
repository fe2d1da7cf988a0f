"""The Celery worker of one device, and its only task: a message wakes it for a unit."""

import gc
import warnings
from typing import Any

import structlog
from celery import Celery, signals
from celery.apps.worker import Worker
from celery.platforms import SecurityWarning
from celery.worker.consumer import Consumer

from infrastructure.logs import configure_logs
from infrastructure.queue import RUN_UNIT, celery_app, queue_name
from workers.context import WorkerContext
from workers.health import Heartbeat
from workers.turns import Turns, run_next

log = structlog.get_logger()

_BEAT_SECONDS = 2.0
_YOUNG_OBJECTS = 10_000
"""Made before they are looked at for garbage."""


def consumer_with(heartbeat: Heartbeat) -> type[Consumer]:
    """The class of a consumer that gives signs of life only while it is listening."""

    class _Beating(Consumer):  # type: ignore[misc]  # celery has no types
        # Redis: kombu's event loop, whose timers stop when the connection is lost. A loop that
        # watches no socket, or may not fetch, receives nothing.
        def register_with_event_loop(self, hub: Any) -> None:
            super().register_with_event_loop(hub)
            hub.call_repeatedly(_BEAT_SECONDS, self._beat_where_heard, hub)

        # A folder: Celery's own loop, which calls this on each turn.
        def perform_pending_operations(self) -> None:
            if self.hub is None and self.connection:
                heartbeat.beat()
            super().perform_pending_operations()

        def _beat_where_heard(self, hub: Any) -> None:
            channel = self.task_consumer and self.task_consumer.channel
            if channel and hub.readers and channel.qos.can_consume():
                heartbeat.beat()

    return _Beating


def register(app: Celery, context: WorkerContext) -> None:
    """Let the app run units with the context."""
    turns = Turns(context.database, ("auto", context.device_kind))

    @app.task(name=RUN_UNIT)  # type: ignore[untyped-decorator]  # celery has no types
    def _run(unit_id: str) -> None:
        try:
            run_next(context, turns, unit_id)
        except Exception:
            # The lease expires, and the sweeper then wakes a worker again.
            log.exception("unit left to its lease", unit_id=unit_id)


def serve(context: WorkerContext) -> int:
    """Run units until a signal asks for the stop; returns the exit code."""
    app = celery_app(context.settings)
    register(app, context)
    signals.setup_logging.connect(
        lambda **_: configure_logs(context.settings.log_format), weak=False
    )
    signals.worker_ready.connect(lambda **_: _ready(context), weak=False)
    if context.settings.embedded:
        # The operator who runs the service on a folder chose the user; only JSON is accepted.
        warnings.filterwarnings("ignore", category=SecurityWarning)
    worker: Worker = app.Worker(
        hostname=f"fedaudit@{context.name}",
        queues=[queue_name("auto"), queue_name(context.device_kind)],
        pool="solo",
        consumer_cls=consumer_with(context.heartbeat),
        concurrency=1,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
    )
    try:
        worker.start()
    finally:
        context.heartbeat.end()
    log.info("worker stopped", device=context.device)
    return int(worker.exitcode or 0)


def _ready(context: WorkerContext) -> None:
    """The first sign of life: a unit may begin before the loop's own, and end without a broker."""
    # What the libraries made stays, and need not be gone through again for garbage: with Python's
    # own numbers that is a tenth of what a short run costs.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS)
    context.heartbeat.beat()
    log.info("worker ready", device=context.device)
