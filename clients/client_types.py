"""`make client-types`: the client's result types, from the service's own OpenAPI document."""

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from api.app import create_app
from infrastructure.settings import Settings

FILE = Path(__file__).parent / "python/fedaudit_client/result_types.py"
_TYPES = """
Submitted Experiment Validation Federation Erasure Budget GatesEvaluation NewKey Key SignOff
Artifact ListedArtifact SigningKey ListedReport Audit LaterAttacks AuditVerification SubmittedSweep
Sweep ListedSweep SweepValidation SweepTable Progress Actor Projection Fault GateResult
VerificationCheck SweepProgress SweepCell SweepEpsilon SweepCosts SweepFacts FigureSpread SweepRow
"""
"""What calls of the client answer with, and the parts of it that have a name."""
_OTHERWISE = {
    "Experiment": "ListedExperimentBody",
    "Fault": "AuditFault",
    "GateResult": "GateSection",
    "ListedReport": "ReportBody",
    "VerificationCheck": "Check",
}
"""Schemas that have neither a type's name nor its name with `Body`."""
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_HEAD = '''\
"""The shapes of the service's answers: plain dictionaries, for type checkers and editors.

Written by `make client-types` from the service's OpenAPI document. Those of large answers; a newer
service may add fields. Times are texts, as `2026-11-22T20:45:07Z`.
"""
# ruff: noqa: E501, UP013
# fmt: off

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict
'''


def written(schemas: Mapping[str, Any]) -> str:
    """The module, of the schemas of an OpenAPI document. Raises KeyError for a missing one."""
    names = {}
    for name in _TYPES.split():
        schema = _OTHERWISE.get(name, f"{name}Body")
        names[schema if schema in schemas else name] = name
    done: dict[str, str] = {}
    for schema in names:
        _write(schema, schemas, names, done)
    return "\n".join([_HEAD, *done.values(), ""])


def _write(
    schema: str, schemas: Mapping[str, Any], names: Mapping[str, str], done: dict[str, str]
) -> None:
    """Add a type to `done`, after the types that it is made of."""
    said = schemas[schema]
    for part in _references(said):
        if part in names and part not in done:
            _write(part, schemas, names, done)
    name = names[schema]
    fields = [
        f'"{field}": {_type(one, schemas, names)}'.replace(" ", "\0")
        for field, one in said["properties"].items()
    ]
    lines = textwrap.wrap(", ".join(fields), 94, break_long_words=False, break_on_hyphens=False)
    body = "\n".join(f"    {line}" for line in lines).replace("\0", " ")
    about = said["description"].split(". ")[0].split("\n\n")[0].replace("\n", " ").rstrip(".")
    done[schema] = f'{name} = TypedDict("{name}", {{  # {about}\n{body},\n}})'


def _references(said: Any) -> Iterator[str]:
    if isinstance(said, dict):
        if "$ref" in said:
            yield said["$ref"].rpartition("/")[2]
        for one in said.values():
            yield from _references(one)
    elif isinstance(said, list):
        for one in said:
            yield from _references(one)


def _type(said: Mapping[str, Any], schemas: Mapping[str, Any], names: Mapping[str, str]) -> str:
    if "$ref" in said:
        schema = said["$ref"].rpartition("/")[2]
        return names.get(schema) or _type(schemas[schema], schemas, names)
    if "anyOf" in said or "oneOf" in said:
        each = (_type(one, schemas, names) for one in said.get("anyOf") or said["oneOf"])
        return " | ".join(dict.fromkeys(each))
    if "enum" in said or "const" in said:
        return f"Literal[{', '.join(map(repr, said.get('enum') or [said['const']]))}]"
    if said.get("type") == "array":
        return f"Sequence[{_type(said.get('items', {}), schemas, names)}]"
    if said.get("type") == "object":
        values = said.get("additionalProperties")
        of = _type(values, schemas, names) if isinstance(values, dict) else "Any"
        return f"Mapping[str, {of}]"
    return _PLAIN.get(said.get("type", ""), "Any")


if __name__ == "__main__":
    FILE.write_text(written(create_app(Settings()).openapi()["components"]["schemas"]), "utf-8")
