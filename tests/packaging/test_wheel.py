"""The wheel carries every room: installed away from the checkout it serves and trains."""

import json
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import httpx
import pytest

from tests.cli.service import clean_environment, running

ROOT = Path(__file__).parents[2]
ROOMS = ("fedaudit", "models", "infrastructure", "api", "workers", "migrations")
FILES = ("pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy: a build leaves folders in its source."""
    source = tmp_path_factory.mktemp("source")
    for room in ROOMS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / room, source / room, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, source)
    build = ("-m", "build", "--wheel", "--no-isolation", "--outdir", str(source / "dist"))
    built = subprocess.run(
        [sys.executable, *build, str(source)], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    [path] = (source / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """An environment with the wheel in it; its dependencies are this environment's."""
    folder = tmp_path_factory.mktemp("installed")
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet")
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    # The .pth files of that folder are not read again, so the editable checkout stays out.
    packages = venv / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    dependencies = sysconfig.get_path("purelib")
    (packages / "site-packages" / "dependencies.pth").write_text(f"{dependencies}\n")
    return venv / "bin"


def test_every_file_of_every_room_is_in_the_wheel(wheel):
    carried = set(zipfile.ZipFile(wheel).namelist())
    here = {
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert here - carried == set()
    assert not any(name.startswith(("tests", "benchmarks")) for name in carried)


def test_the_checkout_does_not_leak_in(installed, tmp_path):
    code = (
        f"import {', '.join(ROOMS)}; print(*({', '.join(f'{room}.__file__' for room in ROOMS)},))"
    )
    found = subprocess.run(
        [installed / "python", "-P", "-c", code],
        env=clean_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert len(found) == len(ROOMS)
    for path in found:
        assert Path(path).is_relative_to(installed.parent)


def test_it_serves_and_trains_away_from_the_checkout(installed, tmp_path, small_spec):
    (tmp_path / "spec.json").write_text(json.dumps(small_spec))
    script = installed / "fedaudit"
    with running(data_dir=tmp_path / "data", script=script) as service:

        def call(*arguments):
            return subprocess.run(
                [script, *arguments],
                env=clean_environment(**service.environment),
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )

        done = call("submit", "spec.json", "--wait", "--json")
        assert done.returncode == 0, done.stderr
        experiment = json.loads(done.stdout)["id"]
        page = call("report", experiment, "--format", "html")
        assert page.stdout.lower().startswith("<!doctype html>")
        report = json.loads(call("report", experiment).stdout)
        assert report["integrity"]["ledger_hash"] in page.stdout
        plainly = {"trust_env": False, "follow_redirects": True}
        for path in ("/docs", "/openapi.json", "/"):
            assert httpx.get(f"{service.url}{path}", **plainly).status_code == 200
