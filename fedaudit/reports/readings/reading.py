"""A report format: one object, defined beside the code that makes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from fedaudit.reports.readings.document_fields import Document


@dataclass(frozen=True, kw_only=True)
class ReportReading:
    """A report in the form that one kind of recipient requires."""

    name: str
    """The name in addresses and on the command line."""
    title: str
    """The title on pages."""
    note: str
    """A description, shown on pages above the content."""
    make: Callable[[Document], dict[str, Any] | str]
    """Makes the format from a stored report: JSON-able values, or Markdown."""
    schema: type[BaseModel] | Mapping[str, Any] | None
    """The schema of the JSON, as a model or a JSON schema; None for Markdown."""
