"""What generators of clients need of the OpenAPI document beyond its being valid.

They take a field's default for that of a class's attribute, and cannot where it is an object: the
field, and every operation that mentions it, is then left out of the client.
"""

import json
from collections.abc import Iterator
from typing import Any

_VALUES = ("const", "default", "enum", "example", "examples")
"""Members of a schema that hold values, in which nothing is a schema."""


def fit_for_generators(document: dict[str, Any]) -> None:
    """Change a document so that generators make a client of all of it."""
    _tell_object_defaults(document)
    _leave_out_item_schemas(document)


def _tell_object_defaults(document: dict[str, Any]) -> None:
    """Move defaults that are objects, or hold some, into the descriptions beside them."""
    for schema in list(_schemas(document)):
        if _holds_object(schema.get("default")):
            words = f"Unless given: `{json.dumps(schema.pop('default'))}`."
            schema["description"] = "\n\n".join(filter(None, (schema.get("description"), words)))


def _leave_out_item_schemas(document: dict[str, Any]) -> None:
    """Declare event streams as text: `itemSchema` is of OpenAPI 3.2 and unknown in 3.1."""
    for schema in list(_schemas(document)):
        if schema.pop("itemSchema", None) is not None:
            schema["schema"] = {"type": "string"}


def _schemas(part: Any, *, named: bool = False) -> Iterator[dict[str, Any]]:
    """Every object of the document that may be a schema; `named`: its members have names of their
    own, such as a property that is called `default`."""
    if isinstance(part, list):
        for item in part:
            yield from _schemas(item)
    elif isinstance(part, dict):
        if not named:
            yield part
        for name, inner in part.items():
            if named or name not in _VALUES:
                yield from _schemas(inner, named=name == "properties" and not named)


def _holds_object(value: Any) -> bool:
    inner = value if isinstance(value, list) else [value]
    return any(isinstance(one, dict) for one in inner)
