"""Reading what the caller names: a spec, or any other YAML or JSON file."""

import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.cli.failures import usage_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedaudit.spec.errors import FieldError
    from fedaudit.spec.experiment import ExperimentSpec

STANDARD_INPUT = "-"
SOURCES_DIR = "FEDAUDIT_SOURCES_DIR"
_MAX_BYTES = 1 << 20


def read_value(source: str) -> Any:
    """The value in a YAML or JSON file, or on standard input for `-`.

    Raises CommandError where there is no such text, and InvalidInputError where it is neither.
    """
    from fedaudit.spec.parse import decode_text

    return decode_text(_read_text(source))


def read_spec(source: str) -> "ExperimentSpec":
    """The experiment spec in a file, or on standard input. Raises as `read_value` does."""
    from fedaudit.spec.parse import parse_spec

    return parse_spec(read_value(source))


def read_submission(source: str) -> Any:
    """The spec to be submitted, checked here unless it leaves columns to a registration that the
    service has. Raises as `read_value` does."""
    from fedaudit.spec.parse import parse_spec
    from fedaudit.spec.registration import waits_for_registration

    value = read_value(source)
    return value if waits_for_registration(value) else parse_spec(value).model_dump(mode="json")


def _read_text(source: str) -> str:
    name = "standard input" if source == STANDARD_INPUT else source
    try:
        if source == STANDARD_INPUT:
            content = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(source).open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise usage_error(f"{name} is larger than 1 MiB; a spec is a short text")
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise usage_error(f"{name} is not UTF-8 text; a spec is YAML or JSON") from None
    except OSError as error:
        raise usage_error(f"cannot read {name}: {error.strerror}") from None


def explain(errors: "Sequence[FieldError]") -> str:
    """Every fault on a line of its own: the field as a JSON pointer, and the remedy."""
    lines = [f"  {error.pointer or '(the whole)'}: {error.message}" for error in errors]
    return "\n".join(["what was given cannot be used:", *lines])


def sources_dir_of_environment() -> Path | None:
    """The folder below which specs name their files, where the environment has one."""
    named = os.environ.get(SOURCES_DIR)
    return Path(named) if named else None


def named_contents(artifacts: "Sequence[Path]") -> dict[str, bytes]:
    """The content of each file by its SHA-256. Raises CommandError where one cannot be read."""
    found = {}
    for path in artifacts:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise usage_error(f"--artifact: cannot read {path}: {error.strerror}") from None
        found[hashlib.sha256(data).hexdigest()] = data
    return found
