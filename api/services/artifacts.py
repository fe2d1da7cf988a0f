"""Files that runs start from, or leave."""

from collections.abc import Iterator
from itertools import chain

from sqlalchemy.orm import Session

from api.services.lookups import refuse_gone
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.models import ArtifactStart
from infrastructure.storage import Storage
from models.repositories import ArtifactRepository

_BLOCK_BYTES = 2**18


def hold_start(session: Session, project_id: str, spec: ExperimentSpec) -> None:
    """Keep the parameters that a spec starts from until it is queued, which keeps them afterwards.
    Raises ProblemError where they expired, or were erased, since the spec was checked."""
    start = spec.model.start
    if isinstance(start, ArtifactStart):
        ArtifactRepository(session, project_id).hold(start.artifact)
        refuse_gone(session, project_id, "artifact", start.artifact)


def opened_file(storage: Storage, key: str) -> Iterator[bytes]:
    """A file in blocks. It is opened before the response begins: afterwards no error can be
    reported."""

    def blocks() -> Iterator[bytes]:
        with storage.local(key) as path, path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                yield block

    found = blocks()
    return chain([next(found, b"")], found)
