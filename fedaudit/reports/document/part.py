"""Base of all parts of a report document: closed, immutable, without NaN or infinities."""

from pydantic import BaseModel, ConfigDict, Field

WHERE_GIVEN = Field(exclude_if=lambda value: value is None)
"""A name, and no figure: the document leaves it out where there is none."""


class Part(BaseModel):
    """One object of the document."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
