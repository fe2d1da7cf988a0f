"""The only task: a message wakes a worker for a unit."""

import structlog
from celery import Celery

from infrastructure.queue import RUN_UNIT
from workers.context import WorkerContext
from workers.run_unit import run_unit

log = structlog.get_logger()


def register(app: Celery, context: WorkerContext) -> None:
    """Let the app run units with the context."""

    @app.task(name=RUN_UNIT)  # type: ignore[untyped-decorator]  # celery has no types
    def _run(unit_id: str) -> None:
        try:
            run_unit(context, unit_id)
        except Exception:
            # The lease expires, and the sweeper then wakes a worker again.
            log.exception("unit left to its lease", unit_id=unit_id)
