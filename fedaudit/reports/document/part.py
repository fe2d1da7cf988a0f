"""What every part of a report document is: closed, unchangeable, without NaN or infinities."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """One object of the document."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
