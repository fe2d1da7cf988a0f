"""Files that runs start from, or leave: trained models and record tables."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from sqlalchemy.orm import Session
from starlette.responses import Response

from api.http.answers import as_file
from api.http.problems import ProblemError, conflict
from api.services.lookups import find_experiment, refuse_gone
from api.shared.security import Call
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.models import ArtifactStart
from infrastructure.storage import Storage, model_key, record_table_key
from models.repositories import ArtifactRepository, ReportRepository
from models.vocabulary import ENDED

_BLOCK_BYTES = 2**18
SAFETENSORS = "application/octet-stream"
"""No media type is registered for the format."""


def hold_start(session: Session, project_id: str, spec: ExperimentSpec) -> None:
    """Keep the parameters that a spec starts from until it is queued, which keeps them afterwards.
    Raises ProblemError where they expired, or were erased, since the spec was checked."""
    start = spec.model.start
    if isinstance(start, ArtifactStart):
        ArtifactRepository(session, project_id).hold(start.artifact)
        refuse_gone(session, project_id, "artifact", start.artifact)


def _model_section(call: Call, experiment_id: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What the report states of the model, and the model's layout. Raises ProblemError where there
    is no such experiment, or its model may not leave or is gone."""
    with call.reading() as session:
        experiment = find_experiment(session, call.caller, experiment_id)
        report = ReportRepository(session, call.project_id).get(experiment_id)
        if report is None:
            why = f"it is {experiment.status}"
            if experiment.status not in ENDED:
                why += "; ask again when it has succeeded"
            raise _stays(why)
        section: dict[str, Any] | None = report.document.get("model")
        if section is None:
            earlier = "it was trained by a version that kept no models; submit the spec again"
            raise _stays(report.document.get("model_reason") or earlier)
        refuse_gone(session, call.project_id, "model", experiment_id)
        return section, report.model_layout


def model_file(call: Call, experiment_id: str) -> Response:
    """The trained hypotheses as an attachment that is read while it is sent. Raises ProblemError
    where there is no such experiment, or its model may not leave; StorageError where the storage
    cannot answer."""
    section, _ = _model_section(call, experiment_id)
    blocks = _opened(call.resources.storage, model_key(call.project_id, experiment_id))
    answer = as_file(blocks, f"{experiment_id}-model.safetensors", SAFETENSORS)
    answer.headers["Content-Length"] = str(section["size_bytes"])
    return answer


def stored_layout(call: Call, experiment_id: str) -> dict[str, Any]:
    """The inputs and outputs of an experiment's model. Raises ProblemError as `model_file`."""
    _, layout = _model_section(call, experiment_id)
    if layout is None:
        raise _stays("it was trained by a version that kept no layout; submit the spec again")
    return layout


def _stays(why: str) -> ProblemError:
    return conflict(f"the model of this experiment cannot be had: {why}")


def record_table(call: Call, experiment_id: str) -> Iterator[bytes]:
    """The bytes of the table of what every single record spent, read while they are sent. Raises
    ProblemError where there is no such experiment, or it has none; StorageError where the storage
    cannot answer."""
    with call.reading() as session:
        experiment = find_experiment(session, call.caller, experiment_id)
        refuse_gone(session, call.project_id, "record-table", experiment.id)
    key = record_table_key(experiment.project_id, experiment.id)
    why = None
    if experiment.status != "succeeded":
        why = f"it is {experiment.status}"
    elif not call.resources.storage.holds(key):
        why = "its run left none, as those of record-personalised do"
    if why is not None:
        raise ProblemError(404, "not-found", f"the experiment has no record table: {why}")
    return _opened(call.resources.storage, key)


def _opened(storage: Storage, key: str) -> Iterator[bytes]:
    """A file in blocks. It is opened before the response begins: afterwards no error can be
    reported."""

    def blocks() -> Iterator[bytes]:
        with storage.local(key) as path, path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                yield block

    found = blocks()
    return chain([next(found, b"")], found)
