"""Figures, times and names as people read them."""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fedaudit.number_text import NO_FIGURE as NONE
from fedaudit.number_text import bound_text as cost
from fedaudit.number_text import figure_text as figure
from fedaudit.number_text import room_text as room
from fedaudit.number_text import whole_text as whole
from fedaudit.reports.checks import value_at
from fedaudit.reports.page.html import capitalize_first, with_code

__all__ = ["NONE", "capitalize_first", "cost", "figure", "room", "whole", "with_code"]

FILTERS = (
    *("figure", "cost", "room", "small_number", "whole", "words", "with_code", "percent"),
    *("day", "moment", "iso", "place_words", "capitalize_first"),
)
"""The functions that templates use as filters."""


def small_number(value: float | None) -> str:
    """A constant such as a delta, as it was given: `1e-5`."""
    return NONE if value is None else re.sub(r"e-0+", "e-", f"{value:g}")


def percent(value: float | None) -> str:
    """A share of 1 as a percentage with one decimal."""
    return NONE if value is None or not math.isfinite(value) else f"{100 * value:.1f} %"


def words(name: str) -> str:
    """A name of the vocabulary, for people."""
    return name.replace("_", " ")


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 client`, `2 clients`."""
    return f"{whole(count)} {one if count == 1 else many or one + 's'}"


def day(time: datetime | None) -> str:
    """The date of a time."""
    return NONE if time is None else f"{time.day} {time:%b %Y}"


def moment(time: datetime | None) -> str:
    """A time to the minute, which is UTC throughout."""
    return NONE if time is None else f"{time.day} {time:%b %Y, %H:%M}"


def iso(time: datetime) -> str:
    """A time for the attribute `datetime`."""
    return time.isoformat(timespec="seconds")


def place_words(pointer: str, document: Any = None) -> str:
    """A JSON pointer for readers: `federation › scale › CRP (mg/l)`. An item of a list is called by
    its name in the document, and by its number, from 1, where it has none."""
    words = list[str]()
    for escaped in pointer.split("/")[1:]:
        step = escaped.replace("~1", "/").replace("~0", "~")
        around, document = document, value_at(document, step)
        if step.isdecimal() and not isinstance(around, Mapping):
            found = dict(enumerate(around)) if isinstance(around, list) else {}
            document = found.get(int(step))
            name = value_at(document, "name") or document
            step = name if isinstance(name, str) else str(int(step) + 1)
        words.append(step)
    return " › ".join(words)
