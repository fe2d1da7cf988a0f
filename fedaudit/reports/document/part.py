"""Base of all parts of a report document: closed, immutable, without NaN or infinities."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """One object of the document."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
