"""A worker of a service, in the test's own process."""

from infrastructure.queue import Queue
from tests.api.service import Api
from workers.context import WorkerContext
from workers.run_unit import run_unit


def worker_of(api: Api) -> WorkerContext:
    """What a worker of the service has."""
    return WorkerContext(api.settings, api.database, Queue(api.settings), "cpu")


def work(api: Api, experiment_id: str) -> None:
    """One attempt of a worker at the experiment's unit."""
    run_unit(worker_of(api), api.stored(experiment_id).unit_id)
