"""What every part of a spec has in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# NUL cannot be stored in a Postgres text, and other control characters have no place in a name.
Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]

# Canonical JSON (RFC 8785) represents integers exactly only within 53 bits.
MAX_INTEGER = 2**53 - 1


class SpecPart(BaseModel):
    """A part of a spec: unknown fields, NaN, infinities and silent conversions are refused."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        validate_default=True,
        use_attribute_docstrings=True,
    )
