"""From what a caller sent to a spec."""

import json
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import Any

import yaml
from pydantic import ValidationError

from fedaudit.spec.errors import FieldError, InvalidInputError, field_errors
from fedaudit.spec.experiment import ExperimentSpec


def parse_spec(value: object) -> ExperimentSpec:
    """The spec in a decoded JSON or YAML value. Raises InvalidInputError naming the fields."""
    try:
        return ExperimentSpec.model_validate(value)
    except ValidationError as error:
        raise InvalidInputError(field_errors(error, value)) from None


def decode_text(text: str) -> Any:
    """The value in a YAML or JSON text.

    Raises InvalidInputError where it is neither, gives a name twice or uses YAML aliases.
    """
    try:
        if text.lstrip().startswith(("{", "[")):
            with suppress(json.JSONDecodeError):  # YAML's flow style begins alike
                return json.loads(text, object_pairs_hook=_distinct)
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _fault(f"is neither YAML nor JSON: {' '.join(str(error).split())[:300]}") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _fault(f"{first_repeated(pairs)!r} is given twice; keep one")
    return value


def first_repeated(pairs: Sequence[tuple[str, Any]]) -> str:
    """The first name of an object that stands in it more than once, in linear time.

    Raises StopIteration where every name stands in it once.
    """
    times = Counter(name for name, _ in pairs)
    return next(name for name, _ in pairs if times[name] > 1)


def _fault(message: str) -> InvalidInputError:
    return InvalidInputError([FieldError("", message)])


class _Loader(yaml.SafeLoader):
    """Safe YAML in which a name is given once and nothing stands for something else.

    Aliases are refused because a text of a few lines can stand for gigabytes by them.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
            raise _fault(f"line {line}: aliases (`*name`) are not supported; write the value out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    line = key.start_mark.line + 1
                    raise _fault(f"line {line}: {key.value!r} is given twice; keep one")
                seen.add(key.value)
        return super().construct_mapping(node, deep)


# YAML 1.1 takes 1e-6 for a text; JSON and YAML 1.2, rightly, for a number.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)
