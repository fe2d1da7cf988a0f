"""`fedaudit version` answers at once."""

import json
import sys
from importlib import import_module
from importlib.metadata import version

from typer.core import TyperGroup
from typer.main import get_group

from fedaudit.cli.main import PLACES
from tests.cli.service import SCRIPT
from tests.processes import completed


def test_the_version_is_the_installed_one(command):
    installed = completed([SCRIPT, "version"]).stdout
    assert installed == command("--version").stdout == f"fedaudit {version('fedaudit')}\n"
    assert json.loads(command("version", "--json").stdout) == {"version": version("fedaudit")}


def test_the_command_line_loads_nothing_heavy_before_a_command_needs_it():
    heavy = {"torch", "numpy", "pyarrow", "httpx", "rich.table", "yaml"}
    code = "import sys, fedaudit.cli.main; print(*{m for m in sys.modules})"
    loaded = completed([sys.executable, "-P", "-c", code], check=True).stdout.split()
    assert "typer" in loaded
    assert heavy.isdisjoint(loaded)


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    for name, place in PLACES.items():
        group = get_group(import_module(f"fedaudit.cli.{place.module}").app)
        found = group.commands.get(name, group)
        said = (found.help or "").split("\n\n")[0]
        # A group has no help of its own: it is given that of its place.
        assert " ".join(said.split()) == ("" if isinstance(found, TyperGroup) else place.help), name
