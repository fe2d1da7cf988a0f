"""From what a caller sent to a spec."""

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


def parse_spec_text(text: str) -> ExperimentSpec:
    """The spec in a YAML or JSON text. Raises InvalidInputError."""
    return parse_spec(decode_text(text))


def decode_text(text: str) -> Any:
    """The value in a YAML or JSON text. Raises InvalidInputError where it is neither."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        fault = FieldError("", f"is neither YAML nor JSON: {' '.join(str(error).split())[:300]}")
        raise InvalidInputError([fault]) from None
