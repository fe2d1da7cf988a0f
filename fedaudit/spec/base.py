"""What every part of a spec has in common."""

import ast
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema

from fedaudit.spec.errors import Refusals, refuse_all

# NUL cannot be stored in a Postgres text, and other control characters have no place in a name.
Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]

# Canonical JSON (RFC 8785) represents integers exactly only within 53 bits.
MAX_INTEGER = 2**53 - 1


@cache
def _texts_of(module: str) -> dict[str, dict[str, str]]:
    """The texts below the fields of a module's classes, by class and field."""
    classes = ast.walk(ast.parse(inspect.getsource(sys.modules[module])))
    return {
        one.name: {
            field.target.id: inspect.cleandoc(text.value.value)
            for field, text in pairwise(one.body)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        }
        for one in classes
        if isinstance(one, ast.ClassDef)
    }


STANDS_FOR = "x-stands-for"


def stands_for(model: type[BaseModel]) -> WithJsonSchema:
    """Annotates a document that was validated as this model when it was stored, and is returned
    unchanged. The OpenAPI document refers to the schema for requests, so clients have one type."""
    return WithJsonSchema({STANDS_FOR: model.__name__})


FILLED = "filled"
"""Annotates a field whose default follows from another part of the spec: the JSON schema does not
require it."""


class Described(BaseModel):
    """Fields have the texts below them as descriptions in the JSON schema. Pydantic's own setting
    reads the source of every class at its import, a tenth of the time in which the API starts."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        described: dict[str, str] = {}
        for one in reversed(cls.__mro__[: cls.__mro__.index(Described)]):
            texts = _texts_of(one.__module__).get(one.__name__, {})
            described |= {name: texts.get(name, "") for name in inspect.get_annotations(one)}
        resolved = handler.resolve_ref_schema(schema)
        properties = resolved["properties"]
        for name, text in described.items():
            found = cls.model_fields.get(name)
            if text and found is not None:
                properties[found.alias or name].setdefault("description", text)
            if found is not None and FILLED in found.metadata:
                resolved["required"].remove(name)
        return schema


class SpecPart(Described):
    """A part of a spec: unknown fields, NaN, infinities and silent conversions are refused."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, validate_default=True
    )

    def faults(self) -> Refusals:
        """What of the part does not go together, though each field is valid."""
        yield from ()

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse_all(self.faults())
        return self


@dataclass(frozen=True)
class InForm:
    """Annotates a field that is in the form; the others are set in a document only. The spec
    decides what may be typed, and for which choices the field counts. On a union it describes the
    choice between its members."""

    label: str
    initial: str = ""
    """What the form begins with; a switch is on where it is not empty."""
    hint: str = ""
    words: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Texts of choices; with one for `""` a spec may leave the field out."""
    only: tuple[str, ...] = ()
    """Choices made elsewhere in the form for which alone the field counts."""
    left_out: tuple[str, ...] = ()
    """Choices that the form does not offer."""


UPLOADED = "uploaded"
"""The choice of a registered federation, for `InForm.only`."""

_ALWAYS_STORED = {
    "spec_version",
    "name",
    "seed",
    "tags",
    "federation",
    "model",
    "training",
    "privacy",
    "fairness",
    "attacks",
    "gates",
    "device",
}
"""What every stored spec has, and none that a person wrote: every default written out."""


def is_stored(value: Mapping[str, Any]) -> bool:
    """Whether every field that specs always had is written out. If so, a field that came later is
    missing because the spec is older, or has the value that is not stored: it must not be filled
    with anything else."""
    return value.keys() >= _ALWAYS_STORED
