"""The service at FEDAUDIT_URL, and what its errors mean for a command."""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from fedaudit.cli.display.output import say
from fedaudit.cli.failures import CommandError, ExitCode, usage_error
from fedaudit_client.client import Client
from fedaudit_client.errors import NotConfiguredError, ProblemError, UnreachableError

MAX_PAGE = 1000
"""What the service gives at once."""
_CONFLICT, _TOO_MANY, _SERVER_ERROR = 409, 429, 500
_IDEMPOTENCY_KEY = re.compile("[ -~]{1,255}")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_Item = TypeVar("_Item")


@contextmanager
def connected() -> Iterator[Client]:
    """A client of the service at FEDAUDIT_URL; its errors become CommandErrors."""
    try:
        with Client.from_environment() as client:
            yield client
    except NotConfiguredError as error:
        raise usage_error(str(error)) from None
    except UnreachableError as error:
        raise CommandError(str(error), ExitCode.UNREACHABLE) from None
    except ProblemError as error:
        raise CommandError(str(error), _exit_code(error.status)) from None


def _exit_code(status: int) -> ExitCode:
    if status >= _SERVER_ERROR or status == _TOO_MANY:
        return ExitCode.UNREACHABLE
    return ExitCode.FAILED if status == _CONFLICT else ExitCode.USAGE


def first_of(found: Iterable[_Item], most: int, *, what: str) -> list[_Item]:
    """The first ones, at most so many; says so where there are more."""
    items = list(islice(found, most + 1))
    if len(items) > most:
        say(f"there are more {what} than the {most} shown; raise --most, or narrow the list")
    return items[:most]


def is_id(text: str) -> bool:
    """Whether a text has the form of an id that the service gives."""
    return _ID.fullmatch(text) is not None


def checked_key(key: str | None) -> None:
    """Raises CommandError for an idempotency key that the service would refuse."""
    if key is not None and not _IDEMPOTENCY_KEY.fullmatch(key):
        raise usage_error("--idempotency-key: give 1 to 255 printable ASCII characters")


def confirm(question: str, *, command: str) -> None:
    """Go on if the answer is yes. Raises CommandError where it is not, or nothing can be asked."""
    if not sys.stdin.isatty():
        raise usage_error(f"{command}: standard input is no terminal to ask at; say --yes")
    say(f"{question} [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was done")


_CONDITION = re.compile(r"\s*([a-z_]+)\s*(<=|>=|=)\s*(.+?)\s*", re.DOTALL)
_SIDES = {"<=": "[lte]", ">=": "[gte]", "=": ""}


def query_parameter(condition: str) -> tuple[str, str]:
    """The query parameter that a condition stands for, and its value."""
    found = _CONDITION.fullmatch(condition)
    if found is None:
        raise usage_error(
            f"--where: {condition!r} is no condition; write NAME=VALUE, FIGURE<=VALUE or "
            "FIGURE>=VALUE"
        )
    name, sign, value = found.groups()
    return f"{name}{_SIDES[sign]}", value
