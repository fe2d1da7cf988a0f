"""Parameters that experiments start from, stored under the hash of their content and listed."""

import hashlib
import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import Query, Request, Response

from api.http.bodies import media_type, read_body
from api.http.problems import ProblemError, conflict, invalid, not_found
from api.openapi import BINARY, Router, located, problems
from api.schemas.base import PageParameters, of_row
from api.schemas.experiments import ArtifactBody, ArtifactPage, ListedArtifact, TensorBody
from api.services.lookups import list_page, refuse_gone
from api.shared.security import Call, ExperimentsReader, ExperimentsWriter, refuse_over_stored
from fedaudit.networks.parameter_files import ParameterFileError, check_tensors, decode_tensors
from fedaudit.spec.base import Text
from infrastructure.storage import file_key, stored_artifact
from models.repositories import ArtifactRepository, ExpiredFileRepository
from models.tables.federations import Artifact

router = Router(prefix="/artifacts", tags=["artifacts"])

_USERS_SHOWN = 20
_ID = re.compile(r"[0-9a-f]{64}")
_BINARY = "application/octet-stream"
_UPLOAD: dict[str, Any] = {
    "requestBody": {"required": True, "content": {_BINARY: {"schema": BINARY}}}
}


@router.post(
    "",
    status_code=201,
    response_model=ArtifactBody,
    responses={
        **problems(409),
        **located(200, "Stored before.", "artifact", model=ArtifactBody),
        **located(201, "Stored.", "artifact"),
    },
    openapi_extra=_UPLOAD,
)
async def upload_artifact(
    *,
    request: Request,
    call: ExperimentsWriter,
    response: Response,
    name: Annotated[Text | None, Query(description="What the list calls the file.")] = None,
) -> ArtifactBody:
    """Upload a safetensors file of hypotheses; its id is the hash of its content.

    Tensors are float32 and called `hypotheses.J.P.weight` and `hypotheses.J.P.bias`, as those of a
    trained model are. Whether they are those of a spec's model is checked with the spec.
    """
    if media_type(request) != _BINARY:
        message = f"send the file as it is, with the header Content-Type: {_BINARY}"
        raise ProblemError("unsupported-media-type", message)
    body, new = await run_sync(partial(_store, call, await read_body(request), name=name))
    response.status_code = 201 if new else 200
    response.headers["Location"] = f"/v1/artifacts/{body.id}"
    return body


@router.get("")
def list_artifacts(call: ExperimentsReader, parameters: PageParameters) -> ArtifactPage:
    """The project's files of parameters, newest first, and the experiments that start from them."""
    with call.reading() as session:
        artifacts = ArtifactRepository(session, call.project_id)

        def bodies(rows: Sequence[Artifact]) -> list[ListedArtifact]:
            uses = artifacts.uses([row.sha256 for row in rows])
            found = []
            for row in rows:
                users = uses.get(row.sha256, ())
                made = {"id": row.sha256, "uses": len(users), "used_by": users[:_USERS_SHOWN]}
                found.append(of_row(ListedArtifact, row, **made))
            return found

        return list_page(ArtifactPage, "artifacts", parameters, artifacts.list, bodies)


@router.get("/{artifact_id}", responses=problems(410))
def get_artifact(artifact_id: str, call: ExperimentsReader) -> ArtifactBody:
    """What is in a file of parameters."""
    data = None
    if _ID.fullmatch(artifact_id):
        with call.reading() as session:
            refuse_gone(session, call.project_id, "artifact", artifact_id)
        data = stored_artifact(call.resources.storage, call.project_id, artifact_id)
    if data is None:
        raise not_found("artifact")
    return _body(data)


@router.delete("/{artifact_id}", status_code=204, responses=problems(410))
def delete_artifact(artifact_id: str, call: ExperimentsWriter) -> None:
    """Delete a file of parameters. Experiments that still wait to start from it will fail."""
    get_artifact(artifact_id, call)
    call.resources.storage.delete(file_key("artifact", call.project_id, artifact_id))
    with call.writing() as session:
        ArtifactRepository(session, call.project_id).remove(artifact_id)


def _store(call: Call, data: bytes, *, name: str | None) -> tuple[ArtifactBody, bool]:
    """The artifact, now in the project's list, and whether it is new there. Raises ProblemError for
    a file that holds no hypotheses, or more than the project may store, StorageError where it
    cannot be stored."""
    body = _body(data)
    key = file_key("artifact", call.project_id, body.id)
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
