"""The parameters that a run starts from, where its spec names an artifact."""

import hashlib
from collections.abc import Callable
from dataclasses import replace

from fedaudit.networks.parameter_files import ParameterFileError, decode_tensors, hypotheses_of
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.model.starts import ArtifactStart
from fedaudit.training.base.cell import Cell

OpenArtifact = Callable[[str], bytes | None]
"""The content of an artifact by its id, its SHA-256; None where there is none."""

_POINTER = "/model/start/artifact"


def no_artifacts(artifact_id: str) -> None:
    """An `OpenArtifact` that has none."""


def with_start(cell: Cell, open_artifact: OpenArtifact) -> Cell:
    """The cell with the parameters that its spec starts from.

    Raises InvalidInputError where there is no such artifact, or its tensors are not those of the
    spec's model.
    """
    start = cell.spec.model.start
    if not isinstance(start, ArtifactStart):
        return cell
    data = open_artifact(start.artifact)
    if data is None:
        raise _fault(
            "is not known here; upload the file first (`fedaudit artifacts add FILE`), or hand it "
            "to `fedaudit run` by --artifact"
        )
    if hashlib.sha256(data).hexdigest() != start.artifact:
        raise _fault("is stored with another content than its id says; upload the file again")
    try:
        found = hypotheses_of(
            decode_tensors(data), cell.shape, hypotheses=cell.spec.training.hypotheses
        )
    except ParameterFileError as error:
        raise _fault(f"names a file that does not fit the spec: it {error}") from None
    return replace(cell, start=found)


def _fault(message: str) -> InvalidInputError:
    return InvalidInputError([FieldError(_POINTER, message, of_spec=True)])
