"""Files that runs leave: trained models and record tables."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from starlette.responses import StreamingResponse

from api.http.problems import ProblemError
from api.services.lookups import find_experiment, refuse_gone
from api.shared.resources import Resources
from api.shared.security import Caller
from infrastructure.storage import Storage, model_key, record_table_key
from models.repositories import ReportRepository
from models.repositories.experiments import ENDED
from models.tables.experiments import Experiment
from models.tables.reports import Report

_BLOCK_BYTES = 2**18
SAFETENSORS = "application/octet-stream"
"""The format has no media type of its own."""
_EARLIER = "it was trained by a version that kept no models; submit the spec again"


@dataclass(frozen=True)
class StoredModel:
    """A file that is about to be sent."""

    blocks: Iterator[bytes]
    file_name: str
    sha256: str
    """As the report states it."""
    size_bytes: int


def stored_model(resources: Resources, caller: Caller, experiment_id: str) -> StoredModel:
    """The file of an experiment's trained hypotheses, read while it is sent.

    Raises ProblemError where there is no such experiment, or its model may not leave; StorageError
    where the storage cannot answer.
    """
    with resources.database.read() as session:
        experiment = find_experiment(session, caller, experiment_id)
        report = ReportRepository(session, caller.project_id).get(experiment_id)
        section = _section(experiment, report)
        refuse_gone(session, caller.project_id, "model", experiment_id)
    blocks = _blocks(resources.storage, model_key(experiment.project_id, experiment.id))
    first = next(blocks, b"")  # opened before the response begins: an error cannot be told later
    return StoredModel(
        _joined(first, blocks),
        file_name=f"{experiment.id}-model.safetensors",
        sha256=section["sha256"],
        size_bytes=section["size_bytes"],
    )


def stored_layout(resources: Resources, caller: Caller, experiment_id: str) -> dict[str, Any]:
    """What goes into an experiment's model and comes out. Raises ProblemError as `stored_model`."""
    with resources.database.read() as session:
        experiment = find_experiment(session, caller, experiment_id)
        report = ReportRepository(session, caller.project_id).get(experiment_id)
        _section(experiment, report)
        refuse_gone(session, caller.project_id, "model", experiment_id)
        if report is None or report.model_layout is None:
            raise _stays("it was trained by a version that kept no layout; submit the spec again")
        return report.model_layout


def model_response(model: StoredModel) -> StreamingResponse:
    """The file as an attachment; its hash is that in the report."""
    headers = {
        "Content-Disposition": f'attachment; filename="{model.file_name}"',
        "Content-Length": str(model.size_bytes),
        "ETag": f'"{model.sha256}"',
        "Cache-Control": "no-store",
    }
    return StreamingResponse(model.blocks, media_type=SAFETENSORS, headers=headers)


def _section(experiment: Experiment, report: Report | None) -> dict[str, Any]:
    if report is None:
        why = f"it is {experiment.status}"
        if experiment.status not in ENDED:
            why += "; ask again when it has succeeded"
        raise _stays(why)
    section: dict[str, Any] | None = report.document.get("model")
    if section is None:
        raise _stays(report.document.get("model_reason") or _EARLIER)
    return section


def _blocks(storage: Storage, key: str) -> Iterator[bytes]:
    with storage.local(key) as path, path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            yield block


def _joined(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _stays(why: str) -> ProblemError:
    return ProblemError(409, "conflict", f"the model of this experiment cannot be had: {why}")


def record_table_of(storage: Storage, experiment: Experiment) -> Iterator[bytes]:
    """The bytes of an experiment's record table, read while they are sent.

    Raises ProblemError where it has none, StorageError where the storage cannot answer.
    """
    if experiment.status != "succeeded":
        raise _none(f"it is {experiment.status}")
    key = record_table_key(experiment.project_id, experiment.id)
    if not storage.holds(key):
        raise _none("its run left none, as those of record-personalised do")
    blocks = _blocks(storage, key)
    # Found and opened before the response begins, because errors cannot be reported after that.
    return chain([next(blocks, b"")], blocks)


def _none(why: str) -> ProblemError:
    return ProblemError(404, "not-found", f"the experiment has no record table: {why}")
