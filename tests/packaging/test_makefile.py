"""`make demo` and `make test` each make the environment that they need, and no other."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.house import ROOT
from tests.processes import completed

PROJECTS = ("pyproject.toml", "setup.py")


@pytest.fixture
def checkout(tmp_path):
    """A folder with the Makefile, where the active Python has nothing installed."""
    for name in ("Makefile", *PROJECTS):
        # Older than any environment, however late this tree was checked out.
        os.utime(shutil.copy(ROOT / name, tmp_path / name), (1, 1))
    (tmp_path / "active").mkdir()
    activate(tmp_path, f'"{Path(sys.base_prefix) / "bin" / "python3"}" -S')
    return tmp_path


def activate(checkout, python):
    """Make a command the active Python."""
    program = checkout / "active" / "python3"
    program.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    program.chmod(0o755)


def planned(checkout, target, *settings):
    """What `make` would run, without running it."""
    names = ("PYTHON", "VENV", "MAKEFLAGS", "MAKELEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment["PATH"] = f"{checkout / 'active'}:/usr/bin:/bin"
    done = completed(["make", "--dry-run", target, *settings], cwd=checkout, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("target", ["demo", "test"])
def test_on_a_fresh_machine_the_environment_is_made_first(checkout, target):
    lines = planned(checkout, target)
    made, installed = lines.index("-m venv .venv"), lines.index("install --quiet --editable")
    assert made < installed < lines.index(".venv/bin/python", installed + 1)


@pytest.mark.parametrize("changed", PROJECTS)
def test_what_is_installed_is_installed_again_only_when_a_project_changed(checkout, changed):
    stamp = checkout / ".venv" / ".fedaudit-installed"
    stamp.parent.mkdir()
    stamp.touch()
    assert "pip install" not in planned(checkout, "test")
    os.utime(checkout / changed)
    os.utime(stamp, (2, 2))
    assert "pip install --quiet --editable" in planned(checkout, "test")


def test_an_environment_that_has_it_all_is_used_as_it_is(checkout):
    here = Path(sys.prefix)
    assert "pip install" not in planned(checkout, "test", f"VENV={here}")
    chosen = planned(checkout, "test", f"PYTHON={sys.executable}")
    assert chosen.startswith(f"{sys.executable} -m pytest")
    activate(checkout, f'"{sys.executable}"')
    assert planned(checkout, "test").startswith("python3 -m pytest")
