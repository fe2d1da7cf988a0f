"""Options that several commands share, their values, and the files that they name."""

import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from fedaudit.cli.output import usage_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedaudit.ledger.statements import PublicKey
    from fedaudit.spec.errors import FieldError
    from fedaudit.spec.experiment import ExperimentSpec
    from fedaudit.spec.gates import PolicyFile

ReportForm = Literal["json", "html"]
TableName = Literal["ledger", "rounds", "fairness"]
TableForm = Literal["csv", "ndjson", "parquet"]
Decision = Literal["approved", "rejected", "needs-changes"]
NoiseMode = Literal["release", "simulation"]
AdjacencyName = Literal["add-or-remove-one", "replace-one"]

AsJson = Annotated[bool, Option("--json", help="Print JSON for programs.")]
DataDir = Annotated[
    Path | None,
    Option(
        "--data-dir",
        help="Where the embedded service keeps everything.",
        show_default="FEDAUDIT_DATA_DIR, else ~/.local/share/fedaudit",
    ),
]
SourcesDir = Annotated[
    Path | None, Option("--sources-dir", help="Specs name their files below this folder.")
]
Spec = Annotated[str, Argument(metavar="SPEC", help="A YAML or JSON file; - is stdin.")]
Artifacts = Annotated[
    list[Path] | None,
    Option("--artifact", help="A file that the spec's `start: {artifact: ...}` names by its hash."),
]
IdempotencyKey = Annotated[
    str | None, Option(help="Submitting again with the same key starts nothing new.")
]
Yes = Annotated[bool, Option("--yes", help="Without asking.")]
Out = Annotated[
    Path | None,
    Option(
        "--out",
        help="Write to this file; - is stdout.",
        callback=lambda out: None if out == Path("-") else out,
    ),
]
ExperimentId = Annotated[str, Argument(metavar="ID", help="The experiment's id.")]
Most = Annotated[int, Option("--most", min=1, max=10**9, help="How many to print.")]


STANDARD_INPUT = "-"
SOURCES_DIR = "FEDAUDIT_SOURCES_DIR"
_MAX_BYTES = 1 << 20


def read_value(source: str) -> Any:
    """The value in a YAML or JSON file, or on standard input for `-`.

    Raises CommandError where there is no such text, and InvalidInputError where it is neither.
    """
    from fedaudit.spec.parse import decode_text

    name = "standard input" if source == STANDARD_INPUT else source
    if source == STANDARD_INPUT:
        content = sys.stdin.buffer.read(_MAX_BYTES + 1)
    else:
        with Path(source).open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise usage_error(f"{name} is larger than 1 MiB; a spec is a short text")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise usage_error(f"{name} is not UTF-8 text; a spec is YAML or JSON") from None
    return decode_text(text)


def read_spec(source: str) -> "ExperimentSpec":
    """The experiment spec in a file, or on standard input, for a command that runs without the
    service. Raises as `read_value` does."""
    from fedaudit.spec.errors import error_at
    from fedaudit.spec.parse import parse_spec
    from fedaudit.spec.registration import waits_for_registration

    value = read_value(source)
    if waits_for_registration(value):
        raise error_at(
            "/federation/id",
            "leaves the columns to a registration, which the service alone knows: submit the spec, "
            "take the whole one from `fedaudit show EXPERIMENT --json`, and give it a `path` in "
            "place of the `id`",
        )
    return parse_spec(value)


def read_submission(source: str) -> Any:
    """The spec to be submitted, checked here unless it leaves columns to a registration that the
    service has. Raises as `read_value` does."""
    from fedaudit.spec.parse import parse_spec
    from fedaudit.spec.registration import waits_for_registration

    value = read_value(source)
    return value if waits_for_registration(value) else parse_spec(value).model_dump(mode="json")


def explain(errors: "Sequence[FieldError]") -> str:
    """Every fault on its own line: the field as a JSON pointer, and the remedy."""
    lines = [f"  {error.pointer or '(the whole)'}: {error.message}" for error in errors]
    return "\n".join(["what was given cannot be used:", *lines])


def sources_dir_of_environment() -> Path | None:
    """The folder below which specs name their files, where the environment has one."""
    named = os.environ.get(SOURCES_DIR)
    return Path(named) if named else None


def named_contents(artifacts: "Sequence[Path]") -> dict[str, bytes]:
    """The content of each file by its SHA-256."""
    contents = (path.read_bytes() for path in artifacts)
    return {hashlib.sha256(data).hexdigest(): data for data in contents}


def read_policies(source: str) -> "PolicyFile":
    """The policies in a file. Raises CommandError."""
    from fedaudit.spec.errors import InvalidInputError
    from fedaudit.spec.gates import parse_policies

    value = read_value(source)
    try:
        return parse_policies(value)
    except InvalidInputError as error:
        raise usage_error(f"--policy: {source}: {explain(error.errors)}") from None


def trusted_keys(path: Path | None) -> "Sequence[PublicKey]":
    """The public keys in the file that `--public-key` names; none without one. Raises
    CommandError."""
    from fedaudit.ledger.statements import public_keys_in

    if path is None:
        return ()
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES)
    try:
        return public_keys_in(content)
    except ValueError as error:
        raise usage_error(f"--public-key: {path}: {error}") from None


def check_device(device: str) -> None:
    """Raises a usage error for a GPU that torch does not find."""
    if device.startswith("cuda"):
        import torch

        if int(device.partition(":")[2] or 0) >= torch.cuda.device_count():
            raise usage_error(
                f"device {device}: no CUDA device is available here; take --device cpu"
            )
