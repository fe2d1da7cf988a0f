"""A group of commands whose modules are imported when one of them is called."""

from importlib import import_module
from typing import Any, NamedTuple

from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


class Place(NamedTuple):
    """Where the Typer application is that has a command, or is the group of that name."""

    module: str
    help: str
    """What the list of all commands says; a test compares it with the command's own help."""


def lazy_group(places: dict[str, Place]) -> type[TyperGroup]:
    """A class for `typer.Typer(cls=...)` with these commands; a list of them imports none."""

    class LazyGroup(TyperGroup):
        _is_listing = False

        def list_commands(self, ctx: Any) -> list[str]:
            return [*places, *super().list_commands(ctx)]

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            place = places.get(cmd_name)
            if place is None:
                return super().get_command(ctx, cmd_name)
            if self._is_listing:
                return TyperCommand(cmd_name, help=place.help)
            group = get_group(import_module(place.module).app)
            return group.commands.get(cmd_name, group)

        def format_help(self, ctx: Any, formatter: Any) -> None:
            self._is_listing = True
            super().format_help(ctx, formatter)

    return LazyGroup
