"""The command line: every command by its name, and where it is."""

import os
import sys
from collections.abc import Callable
from errno import ENOSPC
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

from typer import Exit, Option, Typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from fedaudit import how_to_install
from fedaudit.cli.options import AsJson
from fedaudit.cli.output import CommandError, ExitCode, say, write_json, write_line


class Place(NamedTuple):
    """Where the Typer application is that has a command, or is the group of that name."""

    module: str
    """Below `fedaudit.cli`."""
    help: str
    """Also the help of a group; a test compares it with a command's own help."""


def _places() -> dict[str, Place]:
    table = Path(__file__).with_name("commands.txt").read_text("utf-8")
    rows = (line.split(" ", 2) for line in table.splitlines())
    return {name: Place(module, said) for name, module, said in rows}


EXTRAS = {"mlflow": "mlflow", **dict.fromkeys(("fairlearn", "sklearn", "torch"), "worker")}
"""The extra that brings a module; all others are those of `service`."""
PLACES = _places()
"""Keyed by the name of the command or group."""


class _Commands(TyperGroup):
    """Every command; a module is imported when one of its commands is called, and for no list."""

    _is_listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        return [*PLACES, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        place = PLACES.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        if self._is_listing:
            return TyperCommand(cmd_name, help=place.help)
        group = get_group(import_module(f"fedaudit.cli.{place.module}").app)
        found = group.commands.get(cmd_name, group)
        found.help = found.help or place.help
        return found

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._is_listing = True
        super().format_help(ctx, formatter)


app = Typer(
    name="fedaudit",
    cls=_Commands,
    help="Privacy and fairness audits of federated learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main(run: Callable[[], object] = app) -> NoReturn:
    """Run the command line; faults of the caller end it with a message and an exit code."""
    # Other projects have packages called `models` or `migrations` too: what PYTHONPATH names comes
    # after this package's folder, here and in every process that is started from here.
    if named := os.environ.get("PYTHONPATH"):
        ours = str(Path(__file__).parents[2])
        sys.path.insert(0, ours)
        os.environ["PYTHONPATH"] = os.pathsep.join((ours, named))
    # httpx would import its own command line, which takes nearly as long as the rest of it.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    try:
        run()
    except CommandError as error:
        say(f"fedaudit: {error}")
        sys.exit(error.code)
    except OSError as error:
        # Standard output has no name; where its disk is full, that is no fault of the program.
        if error.filename is None and error.errno != ENOSPC:
            raise
        say(f"fedaudit: cannot use {error.filename or 'standard output'}: {error.strerror}")
        sys.exit(ExitCode.USAGE)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if not missing or find_spec(missing) is not None:
            raise
        extra = EXTRAS.get(missing, "service")
        say(f"fedaudit: this needs {missing}: {how_to_install(extra)}")
        sys.exit(ExitCode.USAGE)
    except Exception as error:
        errors = sys.modules.get("fedaudit.spec.errors")  # imported where it can be raised
        if errors is None or not isinstance(error, errors.InvalidInputError):
            raise
        from fedaudit.cli.options import explain

        say(f"fedaudit: {explain(error.errors)}")
        sys.exit(ExitCode.USAGE)
    sys.exit(ExitCode.DONE)


def _print_version(asked: bool) -> None:
    if asked:
        version()
        raise Exit


@app.callback()
def options(
    *,
    _version: Annotated[
        bool, Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Privacy and fairness audits of federated learning."""


@app.command()
def version(*, as_json: AsJson = False) -> None:
    """Print the version."""
    from fedaudit import __version__

    if as_json:
        write_json({"version": __version__}, pretty=False)
    else:
        write_line(f"fedaudit {__version__}")


if __name__ == "__main__":
    main()
