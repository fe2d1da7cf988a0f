"""YAML of what is proposed, with the reasons as comments above the fields."""

import json
import re
from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

import yaml

from fedaudit.spec.errors import pointer

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def commented(
    value: Mapping[str, Any], reasons: Mapping[str, str], *above: str, indent: str = ""
) -> Iterator[str]:
    """The lines of a mapping. `reasons`: by the field's JSON pointer. `above`: the names of the
    fields that the mapping is within."""
    for name, one in value.items():
        where = pointer(*above, name)
        yield from comments(reasons.get(where, ""), indent)
        start = f"{indent}{flow(name)}:"
        if isinstance(one, Mapping) and one:
            yield start
            yield from commented(one, reasons, *above, name, indent=f"{indent}  ")
        elif isinstance(one, list) and any(f"{where}/{at}" in reasons for at in range(len(one))):
            yield start
            for at, item in enumerate(one):
                yield from comments(reasons.get(f"{where}/{at}", ""), f"{indent}  ")
                yield f"{indent}  - {flow(item)}"
        else:
            yield f"{start} {flow(one)}"


def comments(text: str, indent: str = "") -> Iterator[str]:
    """A text as lines of comments; a column's name in it may hold what would end a line."""
    start = f"{indent}# "
    yield from wrap(" ".join(text.split()), 100, initial_indent=start, subsequent_indent=start)


def flow(value: Any) -> str:
    """A value on one line; a text is quoted unless it is a plain word for every reader of YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(name)}: {flow(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, str) and _PLAIN.fullmatch(value) and yaml.safe_load(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)
