"""Between which limits a share lies that an attack has measured."""

from typing import Annotated

from pydantic import Field

from fedaudit.reports.document.part import Part

Share = Annotated[float, Field(ge=0, le=1)]


class ConfidenceLimits(Part):
    """Both limits of a two-sided interval."""

    low: Share
    high: Share
