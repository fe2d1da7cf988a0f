"""The service at FEDAUDIT_URL, and any call of its interface."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option, Typer

from fedaudit.cli.options import Out, Yes, read_value
from fedaudit.cli.output import CommandError, ExitCode, say, usage_error, whole_file
from fedaudit_client.client import Client
from fedaudit_client.errors import NotConfiguredError, ProblemError, UnreachableError

MAX_PAGE = 1000
"""What the service gives at once."""
_CONFLICT, _TOO_MANY, _SERVER_ERROR = 409, 429, 500
_IDEMPOTENCY_KEY = re.compile("[ -~]{1,255}")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@contextmanager
def connected(url: str | None = None, api_key: str | None = None) -> Iterator[Client]:
    """A client of a service, that at FEDAUDIT_URL by default; its errors become CommandErrors."""
    try:
        with Client(url, api_key) as client:
            yield client
    except NotConfiguredError as error:
        raise usage_error(str(error)) from None
    except UnreachableError as error:
        raise CommandError(str(error), ExitCode.UNREACHABLE) from None
    except ProblemError as error:
        code = ExitCode.FAILED if error.status == _CONFLICT else ExitCode.USAGE
        if error.status >= _SERVER_ERROR or error.status == _TOO_MANY:
            code = ExitCode.UNREACHABLE
        raise CommandError(str(error), code) from None


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


app = Typer()


@app.command()
def api(
    method: Annotated[Method, Argument(metavar="METHOD", help="As GET.")],
    path: Annotated[
        str, Argument(metavar="PATH", help="Below /v1, with its query: as ledgers/ID.")
    ],
    *,
    body: Annotated[
        str | None, Option(metavar="FILE", help="YAML or JSON, sent as JSON; - is stdin.")
    ] = None,
    content: Annotated[
        Path | None, Option(metavar="FILE", help="A file that is sent as it is.")
    ] = None,
    out: Out = None,
    yes: Yes = False,
) -> None:
    """Make any call of the HTTP interface, and print its answer. A DELETE asks first."""
    if method == "DELETE" and not yes:
        confirm(f"DELETE {path} for good?", command="api DELETE")
    value = None if body is None else read_value(body)
    data = None if content is None else content.read_bytes()
    with connected() as client, whole_file(out) as file:
        try:
            file.writelines(client.call(method, path, json=value, content=data))
        except ValueError as error:
            raise usage_error(f"PATH: {error}") from None
        if out is None and sys.stdout.isatty():
            file.write(b"\n")
