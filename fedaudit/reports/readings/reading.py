"""A report format, its templates, and escaped Markdown."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel

from fedaudit.number_text import plain
from fedaudit.privacy.accounting.privacy_events import adjacency_words, observer_words
from fedaudit.reports.checks import value_at
from fedaudit.reports.readings import facts
from fedaudit.reports.readings.facts import (
    NOT_STATED,
    Document,
    figure,
    number_at,
    part_at,
    parts_at,
    settings,
    text_at,
    texts_at,
)


@dataclass(frozen=True, kw_only=True)
class ReportReading:
    """A report in the form that one kind of recipient requires."""

    name: str
    """The name in addresses and on the command line."""
    title: str
    note: str
    """A description, shown on pages above the content."""
    as_of: date
    """The day on which it was compared with its source, which may have changed since."""
    make: Callable[[Document], dict[str, Any] | str]
    schema: type[BaseModel] | Mapping[str, Any] | None
    """The schema of the JSON, as a model or a JSON schema; None for Markdown."""


def rendered(template: str, document: Document, **given: Any) -> str:
    """A template of this folder as text. It has the look-ups of fields, of the report `d`, and
    `facts`, beside what is given."""
    return _environment().get_template(template).render(d=document, **given)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    made.filters |= {"observer": observer_words, "plain": plain}
    made.globals |= {
        "NOT_STATED": NOT_STATED,
        "adjacency_words": adjacency_words,
        "facts": facts,
        "figure": figure,
        "number": number_at,
        "part": part_at,
        "parts": parts_at,
        "settings": settings,
        "text": text_at,
        "texts": texts_at,
        "value": value_at,
    }
    return made


def bullets(items: Iterable[str]) -> list[str]:
    """A list of lines that are already Markdown."""
    return [f"- {item}" for item in items]
