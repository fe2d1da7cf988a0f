"""A worker of a service, in the test's own process."""

from pathlib import Path
from typing import Any

from fedaudit.ledger.bundle import opened_bundle
from fedaudit.ledger.statements import PublicKey
from fedaudit.reports.verification.verification import Verification, verify
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


def ended(api: Api, served: WorkerContext, spec: dict[str, Any]) -> str:
    """The id of an experiment at which this worker had one attempt."""
    id_ = str(api.submit(spec)["id"])
    run_unit(served, api.stored(id_).unit_id)
    return id_


def succeeded(api: Api, served: WorkerContext, spec: dict[str, Any]) -> str:
    """The id of an experiment that this worker has run to its report."""
    id_ = ended(api, served, spec)
    assert api.stored(id_).status == "succeeded", api.stored(id_).status_detail
    return id_


def failed_checks(api: Api, experiment_id: str) -> list[str]:
    """The checks of its evidence that fail in the service."""
    checks = api.get(f"/v1/experiments/{experiment_id}/report/verification").json()["checks"]
    assert checks
    return [one["name"] for one in checks if one["outcome"] == "fail"]


def bundle_of(api: Api, experiment_id: str, folder: Path) -> Path:
    """Its bundle, exported into the folder."""
    path = folder / f"{experiment_id}.zip"
    path.write_bytes(api.get(f"/v1/experiments/{experiment_id}/bundle").content)
    return path


def judged_bundle(path: Path, *trusted: PublicKey) -> Verification:
    """What somebody who trusts these keys finds."""
    with opened_bundle(path) as evidence:
        return verify(evidence, trusted=trusted)
