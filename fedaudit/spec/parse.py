"""Parse what a caller sent as a spec."""

import json
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import Any, assert_never

import yaml

from fedaudit.spec.base import is_stored
from fedaudit.spec.errors import InvalidInputError, error_at, of_spec, raise_errors, validated
from fedaudit.spec.experiment import ADMITTED, ExperimentSpec
from fedaudit.spec.gates import refuse_percentages
from fedaudit.spec.privacy import (
    LEAST_CLIP,
    GaussianCentral,
    GaussianDistance,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    RecordPersonalised,
)


def parse_spec(value: object) -> ExperimentSpec:
    """The spec in a decoded JSON or YAML value. Raises InvalidInputError naming every field that is
    wrong by itself, or else every one that does not fit another."""
    spec = validated(ExperimentSpec, value)
    # What was stored can be read, and is not trained (`Cell`).
    if not (isinstance(value, dict) and is_stored(value)):
        refuse_small_clip(spec)
        refuse_percentages(spec.gates)
    return spec


def refuse_small_clip(spec: ExperimentSpec) -> None:
    """Raises InvalidInputError where a clip is so small that an update could pass it."""
    privacy, at = spec.privacy, "/privacy/clip"
    match privacy:
        case NoMechanism():
            return
        case LaplaceL2() | GaussianDistance() | GaussianLocal() | RecordPersonalised():
            clip = privacy.clip
        case GaussianCentral():
            clip = privacy.initial_clip
            if privacy.adaptive_clip is not None:
                at += "/adaptive/initial"
        case _:
            assert_never(privacy)
    if clip is not None and clip < LEAST_CLIP:
        message = (
            f"must be at least {LEAST_CLIP:g}: 32-bit numbers below have too few digits to keep an "
            "update within it; use a larger clip, and a larger `training.local.step_size` or scale "
            "where updates are that small"
        )
        raise error_at(at, message, of_spec=True)


def refuse_retired_training(spec: ExperimentSpec) -> None:
    """Raises InvalidInputError where a stored spec asks for what no run is trained with."""
    raise_errors(of_spec(spec.retired_training()))


def parse_admitted(value: object) -> ExperimentSpec:
    """The spec of an experiment that was admitted, perhaps by an earlier version, to be read and
    not run: what is refused since then stays readable. Raises InvalidInputError. The document does
    not prove admission, since anyone can write it: it must come from a store."""
    return validated(ExperimentSpec, value, context=ADMITTED)


def decode_text(text: str) -> Any:
    """The value in a YAML or JSON text.

    Raises InvalidInputError where it is neither, gives a name twice or uses YAML aliases.
    """
    try:
        if text.lstrip().startswith(("{", "[")):
            with suppress(json.JSONDecodeError):  # YAML's flow style begins alike
                return json.loads(text, object_pairs_hook=_distinct)
        return yaml.load(text, Loader=_Loader)
    except _NOT_READ as error:
        raise _fault(f"is neither YAML nor JSON: {' '.join(str(error).split())[:300]}") from None


_NOT_READ = (
    yaml.YAMLError,
    ValueError,
    RecursionError,
    # What the parser raises for values that do not fit their tag, such as `!!bool x`.
    ArithmeticError,
    AttributeError,
    LookupError,
)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _fault(f"{first_repeated(pairs)!r} is given twice; keep one")
    return value


def first_repeated(pairs: Sequence[tuple[str, Any]]) -> str:
    """The first repeated name of an object, in linear time.

    Raises StopIteration where no name is repeated.
    """
    times = Counter(name for name, _ in pairs)
    return next(name for name, _ in pairs if times[name] > 1)


def _fault(message: str) -> InvalidInputError:
    return error_at("", message)


_MAX_DIGITS = 1000


class _Loader(yaml.SafeLoader):
    """Safe YAML without repeated names or aliases. Aliases are refused because a few lines of text
    can represent gigabytes by them."""

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

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        # In base 60 (`1:59:59`) its digits take time that grows with their square.
        if ":" in node.value and len(node.value) > _MAX_DIGITS:
            line = node.start_mark.line + 1
            raise _fault(
                f"line {line}: a number in base 60 of {len(node.value)} characters; shorten it"
            )
        found: int = super().construct_yaml_int(node)
        return found


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)

# YAML 1.1 takes 1e-6 for a text; JSON and YAML 1.2 for a number.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)
