"""What a reading of a report is: one object, beside the code that makes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from fedaudit.reports.readings.document_fields import Document


@dataclass(frozen=True, kw_only=True)
class ReportReading:
    """A report in the form that one of its readers has to fill."""

    name: str
    """In addresses and on the command line."""
    title: str
    """On pages."""
    note: str
    """On pages, above the reading: what it is."""
    make: Callable[[Document], dict[str, Any] | str]
    """The reading of a stored report: JSON-able values, or Markdown."""
    schema: type[BaseModel] | Mapping[str, Any] | None
    """The form of the JSON, as a model or a JSON schema; None for Markdown."""
