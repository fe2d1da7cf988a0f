"""Look up fields in a report of any version; a missing field or one of another type is None."""

import json
import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from fedaudit.privacy.guarantees.guarantee import number as shown
from fedaudit.reports.checks import value_at

Document = Mapping[str, Any]

NOT_STATED = "Not stated by this run"
"""Prefix of every text that a person has to replace."""


class ReadingPart(BaseModel):
    """A part of a reading that is JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ReportName(ReadingPart):
    """Which report was read."""

    experiment_id: str | None
    name: str | None
    spec_hash: str | None
    report_version: int | None


def report_name(document: Document) -> ReportName:
    """The fields that identify the report."""
    version = number_at(document, "report_version")
    return ReportName(
        experiment_id=text_at(document, "experiment", "id"),
        name=text_at(document, "experiment", "name"),
        spec_hash=text_at(document, "experiment", "spec_hash"),
        report_version=None if version is None else int(version),
    )


def text_at(document: Document, *path: str) -> str | None:
    """A non-empty text."""
    found = value_at(document, *path)
    return found if isinstance(found, str) and found else None


def number_at(document: Document, *path: str) -> float | None:
    """A finite number; counts stay integers."""
    found = value_at(document, *path)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return found if math.isfinite(found) else None


def texts_at(document: Document, *path: str) -> list[str]:
    """The texts of a list; empty where there is no list."""
    found = value_at(document, *path)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def parts_at(document: Document, *path: str) -> list[Document]:
    """The objects of a list; empty where there is no list."""
    found = value_at(document, *path)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def part_at(document: Document, *path: str) -> Document:
    """An object; empty where there is no object."""
    found = value_at(document, *path)
    return found if isinstance(found, Mapping) else {}


def figure(value: float | None) -> str:
    """A figure for a sentence; counts in full precision."""
    if value is None:
        return "unknown"
    return str(value) if isinstance(value, int) else shown(value)


def settings(part: Document) -> str:
    """An object of the spec in one line: `clip 1, noise "simulation"`."""
    return ", ".join(f"{name} {json.dumps(value)}" for name, value in part.items())
