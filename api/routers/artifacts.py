"""Parameters that experiments start from."""

from functools import partial
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query, Request, Response
from starlette.requests import ClientDisconnect

from api.http.bodies import broke_off, media_type
from api.http.problems import ProblemError
from api.openapi import BINARY, located, problems
from api.schemas.base import PageParameters
from api.schemas.experiments import ArtifactBody, ArtifactPage
from api.services.artifacts import artifact_page, delete_artifact, find_artifact, store_artifact
from api.shared.security import ExperimentsReader, ExperimentsWriter
from fedaudit.spec.base import Text

router = APIRouter(prefix="/artifacts", tags=["artifacts"])

_BINARY = "application/octet-stream"
_UPLOAD: dict[str, Any] = {
    "requestBody": {"required": True, "content": {_BINARY: {"schema": BINARY}}}
}


@router.post(
    "",
    status_code=201,
    response_model=ArtifactBody,
    responses={
        **problems(409, 415),
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
        raise ProblemError(415, "unsupported-media-type", message)
    largest = call.resources.settings.max_artifact_bytes
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > largest:
                detail = f"the file is larger than {largest} bytes (FEDAUDIT_MAX_ARTIFACT_BYTES)"
                raise ProblemError(413, "payload-too-large", detail)
    except ClientDisconnect:
        raise broke_off() from None
    body, new = await run_sync(partial(store_artifact, call, bytes(data), name=name))
    response.status_code = 201 if new else 200
    response.headers["Location"] = f"/v1/artifacts/{body.id}"
    return body


@router.get("", responses=problems())
def list_artifacts(
    call: ExperimentsReader, parameters: Annotated[PageParameters, Query()]
) -> ArtifactPage:
    """The project's files of parameters, newest first, and the experiments that start from them."""
    return artifact_page(call, parameters)


@router.get("/{artifact_id}", responses=problems(404, 410))
def get_artifact(artifact_id: str, call: ExperimentsReader) -> ArtifactBody:
    """What is in a file of parameters."""
    return find_artifact(call, artifact_id)


@router.delete(
    "/{artifact_id}", name="delete_artifact", status_code=204, responses=problems(404, 410)
)
def remove_artifact(artifact_id: str, call: ExperimentsWriter) -> Response:
    """Delete a file of parameters. Experiments that still wait to start from it will fail."""
    delete_artifact(call, artifact_id)
    return Response(status_code=204)
