"""Files of parameters that experiments start from."""

from datetime import datetime

from pydantic import BaseModel

from api.schemas.actors import ActorBody


class TensorBody(BaseModel):
    """One tensor of the file."""

    name: str
    shape: list[int]


class ArtifactBody(BaseModel):
    """A file of parameters, in safetensors."""

    id: str
    """The SHA-256 of its content, by which a spec names it in `model.start.artifact`."""
    size_bytes: int
    hypotheses: int
    """Of how many hypotheses it has the parameters."""
    parameters: int
    """Of each hypothesis."""
    tensors: list[TensorBody]


class ArtifactUser(BaseModel):
    """An experiment that starts from a file of parameters."""

    id: str
    name: str
    status: str


class ListedArtifact(BaseModel):
    """A file of parameters in the project's list."""

    id: str
    """The SHA-256 of its content."""
    name: str | None
    """What whoever sent it called it."""
    size_bytes: int
    hypotheses: int
    parameters: int
    created_at: datetime
    created_by: ActorBody | None
    uses: int
    """How many experiments start from it."""
    used_by: list[ArtifactUser]
    """The newest of them, at most 20."""


class ArtifactPage(BaseModel):
    """Some files of parameters."""

    items: list[ListedArtifact]
    next_cursor: str | None
