"""The tools' own client libraries, each in an extra of this package."""

from importlib import import_module
from types import ModuleType
from typing import Literal

Extra = Literal["mlflow", "wandb", "openlineage"]

_MODULES: dict[Extra, str] = {
    "mlflow": "mlflow",
    "wandb": "wandb",
    "openlineage": "openlineage.client",
}


class PublishingError(Exception):
    """A report cannot be published; the message says why and what to change."""


class MissingExtraError(PublishingError):
    """The tool's client library is not installed; the message names the extra."""


def import_tool(extra: Extra) -> ModuleType:
    """The tool's client library. Raises MissingExtraError."""
    name = _MODULES[extra]
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"this needs the library {name}, which cannot be imported ({error}): install the "
            f"extra `{extra}`, as in pip install 'fedaudit[{extra}]'"
        ) from error
