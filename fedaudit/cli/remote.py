"""The service at FEDAUDIT_URL, and commands that are one call of its client: a row each."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter, Signature
from itertools import islice
from typing import Annotated, Any, TypeVar

import typer

from fedaudit.cli.options import AsJson, OverlapHours, Yes
from fedaudit.cli.output import CommandError, ExitCode, say, usage_error, write_each
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


@dataclass(frozen=True)
class Given:
    """One parameter of a command, as Typer has to know it."""

    kind: Any
    """Its type, annotated with `typer.Option` or `typer.Argument`."""
    default: Any = Parameter.empty


def argument(metavar: str, words: str) -> Given:
    """A text that has to be given."""
    return Given(Annotated[str, typer.Argument(metavar=metavar, help=words)])


def option(words: str, *names: str, kind: Any = str | None, default: Any = None) -> Given:
    """A text that may be given, or what `kind` is."""
    return Given(Annotated[kind, typer.Option(*names, help=words)], default)


OVERLAP = Given(OverlapHours, 24)


class Commands:
    """The commands of a group, or those of no group, as `app` has them."""

    def __init__(self, app: typer.Typer, group: str = "") -> None:
        self.app, self._group = app, group

    def add(
        self,
        name: str,
        words: str,
        call: str | Callable[..., Any],
        /,
        *,
        line: Callable[[Any], str] | None = None,
        show: Callable[[Client, Any], None] | None = None,
        said: str | Callable[[Any], str] = "",
        question: Callable[..., str] | None = None,
        **takes: Given | str,
    ) -> None:
        """Add the command that gives each parameter of `takes` by its name to `call`.

        That is a method of the client, or a function that takes a client before them.

        A parameter that is a text is an option with this help. For people `line` words the answer,
        or each item of a list, or `show` prints it; without both the answer is JSON. `said` is a
        remark: of the answer, or with the parameters' names in braces. `question`, called as
        `call` is, says what to ask first, unless `--yes` is given.
        """
        whole_name = f"{self._group} {name}".strip()
        if isinstance(call, str) and not hasattr(Client, call):
            raise AttributeError(f"{whole_name}: the client has no call {call!r}")

        def command(*, as_json: bool = False, yes: bool = True, **given: Any) -> None:
            with connected() as client:
                if question is not None and not yes:
                    confirm(question(client, **given), command=whole_name)
                if isinstance(call, str):
                    found = getattr(client, call)(**given)
                else:
                    found = call(client, **given)
                if found is not None and not isinstance(found, Mapping):
                    found = list(found)
                if show is not None and not as_json:
                    show(client, found)
            if found is not None and (show is None or as_json):
                write_each(found, line, as_json=as_json)
            remark = said.format(**given) if isinstance(said, str) else said(found)
            if remark and not as_json:
                say(remark)

        parameters = {
            name: option(one) if isinstance(one, str) else one for name, one in takes.items()
        }
        parameters |= {"yes": Given(Yes, False)} if question else {}
        parameters |= {"as_json": Given(AsJson, False)} if line or show else {}
        vars(command)["__signature__"] = Signature(
            [
                Parameter(name, Parameter.KEYWORD_ONLY, annotation=one.kind, default=one.default)
                for name, one in parameters.items()
            ]
        )
        self.app.command(name, help=words)(command)


def group(app: typer.Typer, name: str) -> Commands:
    """A group of commands below an application."""
    made = typer.Typer(no_args_is_help=True)
    app.add_typer(made, name=name)
    return Commands(made, name)
