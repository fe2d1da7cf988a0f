"""`fedaudit version` answers at once."""

import json
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from typer.core import TyperGroup
from typer.main import get_group

from fedaudit.cli.main import PLACES
from tests.processes import completed


def test_the_version_is_the_installed_one(installed_command, command):
    assert installed_command("version").stdout == f"fedaudit {version('fedaudit')}\n"
    assert command("--version").stdout == command("version").stdout
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


def test_a_run_loads_neither_the_client_nor_the_reports_of_other_trainings(tmp_path) -> None:
    spec = Path(__file__).parents[2] / "examples" / "synthetic-groups-k2.yaml"
    asked = ["fedaudit", "run", str(spec), "--out", str(tmp_path)]
    code = (
        f"import sys, contextlib, fedaudit.cli.main as cli\nsys.argv = {asked!r}\n"
        "with contextlib.suppress(SystemExit):\n    cli.main()\nprint(*sys.modules)"
    )
    command = [sys.executable, "-P", "-c", code]
    said = completed(command, check=True).stdout
    ours = {one for one in said.splitlines()[-1].split() if one.startswith("fedaudit")}
    assert not {"fedaudit_client", "fedaudit.reports.declared"} & ours
    assert "fedaudit.training.engine" in ours
    assert len(ours) <= 250
