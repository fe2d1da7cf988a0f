"""Files of parameters, stored under the hash of their content and listed; and files that runs
leave: trained models and record tables."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from sqlalchemy.orm import Session
from starlette.responses import Response

from api.http.answers import as_file
from api.http.problems import ProblemError, conflict, invalid, not_found
from api.schemas.base import PageParameters
from api.schemas.experiments import (
    ArtifactBody,
    ArtifactPage,
    ArtifactUser,
    ListedArtifact,
    TensorBody,
)
from api.services.lookups import find_experiment, list_page, refuse_gone
from api.shared.security import Call, refuse_over_stored
from fedaudit.networks.parameter_files import ParameterFileError, check_tensors, decode_tensors
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.models import ArtifactStart
from infrastructure.storage import (
    Storage,
    artifact_key,
    model_key,
    record_table_key,
    stored_artifact,
)
from models.repositories import ArtifactRepository, ExpiredFileRepository, ReportRepository
from models.tables.federations import Artifact
from models.vocabulary import ENDED

_USERS_SHOWN = 20
_ID = re.compile(r"[0-9a-f]{64}")


def artifact_page(call: Call, parameters: PageParameters) -> ArtifactPage:
    """The project's files, newest first, and the experiments that start from them."""
    with call.reading() as session:
        artifacts = ArtifactRepository(session, call.project_id)

        def bodies(rows: Sequence[Artifact]) -> list[ListedArtifact]:
            uses = artifacts.uses([row.sha256 for row in rows])
            found = []
            for row in rows:
                users = uses.get(row.sha256, ())
                shown = [ArtifactUser.of(one) for one in users[:_USERS_SHOWN]]
                found.append(ListedArtifact.of(row, id=row.sha256, uses=len(users), used_by=shown))
            return found

        return list_page(ArtifactPage, "artifacts", parameters, artifacts.list, bodies)


def store_artifact(
    call: Call, data: bytes, *, name: str | None = None
) -> tuple[ArtifactBody, bool]:
    """The artifact, now in the project's list, and whether it is new there. Raises ProblemError for
    a file that holds no hypotheses, or more than the project may store, StorageError where it
    cannot be stored."""
    body = _body(data)
    key = artifact_key(call.project_id, body.id)
    _take_back(call, body.id)
    new = not call.resources.storage.holds(key)
    if new:
        with call.resources.storage.writer(key) as file:
            file.write(data)
    try:
        with call.writing() as session:
            ArtifactRepository(session, call.project_id).enter(
                body.id,
                name=name,
                size_bytes=body.size_bytes,
                hypotheses=body.hypotheses,
                parameters=body.parameters,
                created_by=call.caller.actor,
            )
            if new:
                refuse_over_stored(session, call.project_id, call.resources.settings)
    except ProblemError:
        call.resources.storage.delete(key)
        raise
    return body, new


def find_artifact(call: Call, artifact_id: str) -> ArtifactBody:
    """The project's artifact. Raises ProblemError where it has none of this id, or no longer."""
    data = None
    if _ID.fullmatch(artifact_id):
        with call.reading() as session:
            refuse_gone(session, call.project_id, "artifact", artifact_id)
        data = stored_artifact(call.resources.storage, call.project_id, artifact_id)
    if data is None:
        raise not_found("artifact")
    return _body(data)


def delete_artifact(call: Call, artifact_id: str) -> None:
    """Remove the project's artifact. Raises ProblemError where it has none of this id."""
    find_artifact(call, artifact_id)
    call.resources.storage.delete(artifact_key(call.project_id, artifact_id))
    with call.writing() as session:
        ArtifactRepository(session, call.project_id).remove(artifact_id)


def hold_start(session: Session, project_id: str, spec: ExperimentSpec) -> None:
    """Keep the parameters that a spec starts from until it is queued, which keeps them afterwards.
    Raises ProblemError where they expired, or were erased, since the spec was checked."""
    start = spec.model.start
    if isinstance(start, ArtifactStart):
        ArtifactRepository(session, project_id).hold(start.artifact)
        refuse_gone(session, project_id, "artifact", start.artifact)


def _take_back(call: Call, artifact_id: str) -> None:
    """A file that is sent again is no longer gone. Raises ProblemError while the earlier one is
    still being erased."""
    with call.writing() as session:
        gone = ExpiredFileRepository(session, call.project_id)
        found = gone.get("artifact", artifact_id)
        if found is None:
            return
        if found.reason == "erased" and found.removed_at is None:
            raise conflict(
                "this file is being erased with a federation; send it again in a moment, if you "
                "may still use it"
            )
        gone.forget("artifact", artifact_id)


def _body(data: bytes) -> ArtifactBody:
    try:
        tensors = decode_tensors(data)
        hypotheses = check_tensors(tensors)
    except ParameterFileError as error:
        raise invalid("", str(error)) from None
    return ArtifactBody(
        id=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        hypotheses=hypotheses,
        parameters=sum(tensor.size for tensor in tensors.values()) // hypotheses,
        tensors=[
            TensorBody(name=name, shape=list(tensors[name].shape)) for name in sorted(tensors)
        ],
    )


_BLOCK_BYTES = 2**18
SAFETENSORS = "application/octet-stream"
"""No media type is registered for the format."""


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
