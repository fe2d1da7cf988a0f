"""From what was typed into one field to the value of the spec's field.

Nothing is refused here: what cannot be read as a number goes on as it was typed, and the spec says
what is wrong with it.
"""

from collections.abc import Callable
from typing import Any

from api.pages.spec_form.field import Field, Kind
from api.pages.spec_form.layer_lines import layers_of
from api.pages.spec_form.typed_number import number

MISSING = object()
"""The value of a field that was left empty: the spec's default holds."""


def value_of(field: Field, typed: str) -> Any:
    """The JSON value, or MISSING."""
    if not typed and field.kind != "switch":  # a switch that is off sends nothing
        return MISSING
    return _READERS[field.kind](typed)


def parts(typed: str, between: str = ",") -> list[str]:
    """What stands between commas, without blanks around it; nothing between two is left out."""
    return [part.strip() for part in typed.split(between) if part.strip()]


_READERS: dict[Kind, Callable[[str], Any]] = {
    "text": str,
    "choice": str,
    "number": number,
    "numbers": lambda typed: [number(part) for part in parts(typed)],
    "vectors": lambda typed: [list(map(number, parts(one))) for one in parts(typed, ";")],
    "words": parts,
    "switch": bool,
    "layers": layers_of,
    "sets": lambda typed: [parts(one, "+") for one in parts(typed, ";")],
}
