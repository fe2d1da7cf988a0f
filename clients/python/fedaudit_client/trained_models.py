"""Calls about files of parameters."""

from collections.abc import AsyncGenerator
from typing import IO

import httpx

from fedaudit_client.http.answers import Json, content, json_as, json_object, nothing
from fedaudit_client.http.calls import Calls, call, pages, steps, stream
from fedaudit_client.http.request import Request, experiment_path, path_part
from fedaudit_client.result_types import Artifact, ListedArtifact

_SENDING_SECONDS = 45.0
# The service answers an upload once the file is checked and stored.
_STORING_SECONDS = 600.0


class ModelCalls(Calls):
    """What can be done with models: fetch them, and bring parameters to start from."""

    @steps
    async def download_model(self, experiment_id: str, file: IO[bytes]) -> None:
        """Write the trained hypotheses into a file, as safetensors.

        Raises ConflictError where no guarantee in force covers them.
        """
        request = Request("GET", f"{experiment_path(experiment_id)}/model", content)
        await self._wire.download(request, file)

    @call
    def model_layout(self, experiment_id: str) -> Request[Json]:
        """What goes into the trained model and comes out: features, scales and classes, in order.

        Confidential. Raises ConflictError where no guarantee in force covers the model.
        """
        return Request("GET", f"{experiment_path(experiment_id)}/model-layout", json_object)

    @call
    def upload_artifact(self, file: IO[bytes], *, name: str | None = None) -> Request[Artifact]:
        """Upload parameters to start from, as safetensors; the answer is the artifact.

        `name` is what the list calls it.
        Repeating it does no harm: the same content is the same artifact.
        """
        return Request(
            "POST",
            "artifacts",
            json_as(Artifact),
            params={} if name is None else {"name": name},
            headers={"Content-Type": "application/octet-stream"},
            body={"content": file.read()},
            timeout=httpx.Timeout(_SENDING_SECONDS, read=_STORING_SECONDS),
            repeatable=True,
        )

    @stream
    def artifacts(self) -> AsyncGenerator[ListedArtifact, None]:
        """The project's files of parameters, newest first: name, hash, size, when and by whom they
        were sent, and which experiments start from them."""
        return pages(self._wire, "artifacts", {}, ListedArtifact)

    @call
    def artifact(self, artifact_id: str) -> Request[Artifact]:
        """What is in a file of parameters."""
        return Request("GET", _artifact(artifact_id), json_as(Artifact))

    @call
    def delete_artifact(self, artifact_id: str) -> Request[None]:
        """Delete a file of parameters."""
        return Request("DELETE", _artifact(artifact_id), nothing)


def _artifact(artifact_id: str) -> str:
    return f"artifacts/{path_part(artifact_id)}"
