"""Commands that are one call of the client: a row each, and what makes a command of a row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from fedaudit.cli.connection import confirm, connected
from fedaudit.cli.display.output import say, write_each
from fedaudit.cli.options import AsJson, OverlapHours, Yes
from fedaudit_client.client import Client


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
        said: str | Callable[[Any], str] = "",
        question: Callable[..., str] | None = None,
        **takes: Given | str,
    ) -> None:
        """Add the command that gives each parameter of `takes` by its name to `call`.

        That is a method of the client, or a function that takes a client before them.

        A parameter that is a text is an option with this help. `line` words the answer, or each
        item of a list, for people; without it the answer is JSON. `said` is a remark for them: of
        the answer, or with the parameters' names in braces. `question`, called as `call` is, says
        what to ask first, unless `--yes` is given.
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
            if found is not None:
                write_each(found, line, as_json=as_json)
            remark = said.format(**given) if isinstance(said, str) else said(found)
            if remark and not as_json:
                say(remark)

        parameters = {
            name: option(one) if isinstance(one, str) else one for name, one in takes.items()
        }
        parameters |= {"yes": Given(Yes, False)} if question else {}
        parameters |= {"as_json": Given(AsJson, False)} if line else {}
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
