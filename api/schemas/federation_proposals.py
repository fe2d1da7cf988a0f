"""Bodies of proposals: which file is looked at, and what it seems to hold."""

from typing import Any, Self

from pydantic import BaseModel, model_validator

from api.schemas.base import Body
from fedaudit.spec.base import Text
from fedaudit.spec.errors import refuse_at
from fedaudit.spec.sources import FederationId, FilePath, below_the_sources


class ProposalRequest(Body):
    """A table to look at: below the sources folder, or that of a federation of the project."""

    path: FilePath | None = None
    """Below the sources folder."""
    id: FederationId | None = None
    """A federation whose file is there, also one that was rejected."""
    header: bool = True
    """Whether a CSV file's first line names its columns."""
    client_key: Text | None = None
    """The column that names clients, where it is known."""
    target: Text | None = None
    """The column to be predicted, where it is known."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.path is None) == (self.id is None):
            raise refuse_at("/path", "name the file by `path` or by `id`, one of the two")
        if self.path is not None:
            try:
                below_the_sources(self.path)
            except ValueError as error:
                raise refuse_at("/path", str(error)) from None
        return self


class ProposalBody(BaseModel):
    """A registration that parses as it is, for a person to read and correct."""

    registration: dict[str, Any]
    guesses: dict[str, str]
    """Why a field says what it says, by its pointer into the registration."""
    candidates: dict[str, list[str]]
    """Columns that may be `client_key`, `target` or `sensitive`, the likeliest first."""
    left_out: dict[str, str]
    """Why a column is no feature."""
    codes: dict[str, list[str]]
    """By column, the codes that want labels."""
    joinable: dict[str, dict[str, str]]
    """Attributes that several columns seem to hold together: each column, and its group."""
    rows: int
    """How many rows were read."""
    complete: bool
    """Whether these are all."""
    yaml: str
    """The registration as YAML, with the reasons as comments."""
