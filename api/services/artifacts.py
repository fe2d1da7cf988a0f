"""Files of parameters: checked, stored under the hash of their content, and listed."""

import hashlib
import re
from collections.abc import Sequence

from sqlalchemy.orm import Session

from api.http.problems import ProblemError, conflict, invalid, not_found
from api.schemas.base import PageParameters
from api.schemas.experiments import (
    ArtifactBody,
    ArtifactPage,
    ArtifactUser,
    ListedArtifact,
    TensorBody,
)
from api.services.lookups import list_page, refuse_gone
from api.shared.resources import Resources
from api.shared.security import Caller, refuse_over_stored
from fedaudit.networks.parameter_files import ParameterFileError, check_tensors, decode_tensors
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.models import ArtifactStart
from infrastructure.storage import artifact_key, stored_artifact
from models.repositories import ArtifactRepository, ExpiredFileRepository
from models.tables.federations import Artifact

_USERS_SHOWN = 20
_ID = re.compile(r"[0-9a-f]{64}")


def artifact_page(resources: Resources, caller: Caller, parameters: PageParameters) -> ArtifactPage:
    """The project's files, newest first, and the experiments that start from them."""
    with resources.database.read() as session:
        artifacts = ArtifactRepository(session, caller.project_id)

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
    resources: Resources, caller: Caller, data: bytes, *, name: str | None = None
) -> tuple[ArtifactBody, bool]:
    """The artifact, now in the project's list, and whether it is new there. Raises ProblemError for
    a file that holds no hypotheses, or more than the project may store, StorageError where it
    cannot be stored."""
    body = _body(data)
    key = artifact_key(caller.project_id, body.id)
    _take_back(resources, caller, body.id)
    new = not resources.storage.holds(key)
    if new:
        with resources.storage.writer(key) as file:
            file.write(data)
    try:
        with resources.database.write() as session:
            ArtifactRepository(session, caller.project_id).enter(
                body.id,
                name=name,
                size_bytes=body.size_bytes,
                hypotheses=body.hypotheses,
                parameters=body.parameters,
                created_by=caller.actor,
            )
            if new:
                refuse_over_stored(session, caller.project_id, resources.settings)
    except ProblemError:
        resources.storage.delete(key)
        raise
    return body, new


def find_artifact(resources: Resources, caller: Caller, artifact_id: str) -> ArtifactBody:
    """The project's artifact. Raises ProblemError where it has none of this id, or no longer."""
    data = None
    if _ID.fullmatch(artifact_id):
        with resources.database.read() as session:
            refuse_gone(session, caller.project_id, "artifact", artifact_id)
        data = stored_artifact(resources.storage, caller.project_id, artifact_id)
    if data is None:
        raise not_found("artifact")
    return _body(data)


def delete_artifact(resources: Resources, caller: Caller, artifact_id: str) -> None:
    """Remove the project's artifact. Raises ProblemError where it has none of this id."""
    find_artifact(resources, caller, artifact_id)
    resources.storage.delete(artifact_key(caller.project_id, artifact_id))
    with resources.database.write() as session:
        ArtifactRepository(session, caller.project_id).remove(artifact_id)


def hold_start(session: Session, project_id: str, spec: ExperimentSpec) -> None:
    """Keep the parameters that a spec starts from until it is queued, which keeps them afterwards.
    Raises ProblemError where they expired, or were erased, since the spec was checked."""
    start = spec.model.start
    if isinstance(start, ArtifactStart):
        ArtifactRepository(session, project_id).hold(start.artifact)
        refuse_gone(session, project_id, "artifact", start.artifact)


def _take_back(resources: Resources, caller: Caller, artifact_id: str) -> None:
    """A file that is sent again is no longer gone. Raises ProblemError while the earlier one is
    still being erased."""
    with resources.database.write() as session:
        gone = ExpiredFileRepository(session, caller.project_id)
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
