"""The Celery worker of one device."""

import warnings

import structlog
from celery import Celery, signals
from celery.apps.worker import Worker
from celery.platforms import SecurityWarning

from infrastructure.logs import configure_logs
from infrastructure.queue import celery_app, queue_name
from workers.consumer import consumer_with
from workers.context import WorkerContext
from workers.tasks import register

log = structlog.get_logger()


def serve(context: WorkerContext) -> int:
    """Run units until a signal asks for the stop; returns the exit code."""
    app = celery_app(context.settings)
    register(app, context)
    signals.setup_logging.connect(
        lambda **_: configure_logs(context.settings.log_format), weak=False
    )
    signals.worker_ready.connect(
        lambda **_: log.info("worker ready", device=context.device), weak=False
    )
    if context.settings.embedded:
        # Whoever runs the service on a folder of theirs chose the user; JSON alone is accepted.
        warnings.filterwarnings("ignore", category=SecurityWarning)
    worker = _worker(app, context)
    try:
        worker.start()
    finally:
        context.heartbeat.end()
    log.info("worker stopped", device=context.device)
    return int(worker.exitcode or 0)


def _worker(app: Celery, context: WorkerContext) -> Worker:
    return app.Worker(
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
