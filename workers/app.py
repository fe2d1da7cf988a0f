"""The Celery worker of one device."""

import os
import socket
from dataclasses import dataclass

import structlog
from celery import Celery, signals
from celery.apps.worker import Worker
from celery.worker import state

from infrastructure.logs import configure_logs
from infrastructure.queue import Queue, celery_app, queue_name
from infrastructure.settings import Settings
from models.database import Database

log = structlog.get_logger()


@dataclass(frozen=True)
class WorkerContext:
    """What a worker runs units with."""

    settings: Settings
    database: Database
    queue: Queue
    device: str
    """`cpu` or `cuda:N`."""

    @property
    def device_kind(self) -> str:
        """`cpu` or `cuda`."""
        return self.device.partition(":")[0]

    @property
    def name(self) -> str:
        """Who holds a lease, for people who look at the units."""
        return f"{socket.gethostname()}:{os.getpid()}:{self.device}"

    def stopping(self) -> bool:
        """Whether a signal asked this worker to stop after the work in hand."""
        return state.should_stop is not None or state.should_terminate is not None


def serve(context: WorkerContext) -> int:
    """Run units until a signal asks for the stop; returns the exit code."""
    from workers.tasks import register

    app = celery_app(context.settings)
    register(app, context)
    signals.setup_logging.connect(
        lambda **_: configure_logs(context.settings.log_format), weak=False
    )
    signals.worker_ready.connect(
        lambda **_: log.info("worker ready", device=context.device), weak=False
    )
    worker = _worker(app, context)
    worker.start()
    log.info("worker stopped", device=context.device)
    return int(worker.exitcode or 0)


def _worker(app: Celery, context: WorkerContext) -> Worker:
    return app.Worker(
        hostname=f"fedaudit@{context.name}",
        queues=[queue_name("auto"), queue_name(context.device_kind)],
        pool="solo",
        concurrency=1,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
    )
