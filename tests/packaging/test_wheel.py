"""The wheel carries every room: installed away from the checkout it serves and trains."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
import yaml
from packaging.requirements import Requirement

from tests.cli.service import clean_environment, running
from tests.house import PLACES, ROOT
from tests.processes import completed

EXAMPLES = ROOT / "examples" / "ci"


def run_github(environment: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Run the steps in a checkout; gives the job's exit code and all that was said.

    After a failure only the steps with `!cancelled()` run. What a step appends to GITHUB_ENV, later
    ones have.
    """
    kept, code, said = folder / "github-env", 0, ""
    kept.touch()
    [job] = _read("github-actions.yml")["jobs"].values()
    for step in job["steps"]:
        if "run" not in step:
            continue
        assert step.get("if") in (None, "${{ !cancelled() }}")
        if code and "if" not in step:
            continue
        added = dict(line.split("=", 1) for line in kept.read_text().splitlines())
        files = {"GITHUB_ENV": str(kept), "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
        done = _bash("-e", step["run"], {**environment, **files, **added}, folder)
        said += done.stdout + done.stderr
        code = code or done.returncode
    return code, said


def run_gitlab(environment: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Run the job's script in a checkout, all lines in one shell."""
    job = _read("gitlab-ci.yml")["audit"]
    lines = [*job["before_script"], *job["script"]]
    done = _bash("-eo", "\n".join(lines), {**job["variables"], **environment}, folder, "pipefail")
    return done.returncode, done.stdout + done.stderr


def _bash(
    option: str, script: str, environment: Mapping[str, str], folder: Path, *more: str
) -> subprocess.CompletedProcess[str]:
    return completed(
        ["bash", "--noprofile", "--norc", option, *more, "-c", script],
        env=dict(environment),
        cwd=folder,
    )


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text())
    return found


CLIENT = ROOT / "clients" / "python"
ROOMS = tuple(room for room, place in PLACES.items() if place == ROOT)
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")


def built(root: Path, rooms: tuple[str, ...], source: Path) -> Path:
    """The wheel of a distribution, built from a copy: a build leaves folders in its source."""
    for room in rooms:
        ignored = shutil.ignore_patterns("__pycache__", "*.compiled")
        shutil.copytree(root / room, source / room, ignore=ignored)
    if root == ROOT:
        shutil.copytree(
            CLIENT / "fedaudit_client", source / CLIENT.relative_to(ROOT) / "fedaudit_client"
        )
    for name in FILES:
        if (root / name).exists():
            shutil.copy(root / name, source)
    # To make the kernels fast takes twenty seconds; they compute the same without that.
    compiler = source / "cc"
    compiler.write_text('#!/bin/bash\nexec cc "${@/-O3/-O0}"\n')
    compiler.chmod(0o755)
    build = "from setuptools.build_meta import build_wheel; build_wheel('dist')"
    environment = {**os.environ, "CC": str(compiler)}
    done = completed([sys.executable, "-c", build], cwd=source, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = (source / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of the service."""
    return built(ROOT, ROOMS, tmp_path_factory.mktemp("source"))


def environment(folder: Path, wheel: Path, dependencies: Path | str) -> Path:
    """The commands of an environment with the wheel in it, and with the packages of a folder."""
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet")
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    # The .pth files of that folder are not read again, so the editable checkout stays out.
    packages = venv / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    (packages / "site-packages" / "dependencies.pth").write_text(f"{dependencies}\n")
    return venv / "bin"


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """With all dependencies of this environment."""
    return environment(tmp_path_factory.mktemp("installed"), wheel, sysconfig.get_path("purelib"))


@pytest.fixture(scope="module")
def pipeline(wheel, tmp_path_factory):
    """With what the wheel asks for without an extra, and nothing else."""
    folder = tmp_path_factory.mktemp("pipeline")
    (folder / "packages").mkdir()
    waiting = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    found = set()
    while waiting:
        needed = Requirement(waiting.pop())
        if needed.name in found or (needed.marker and not needed.marker.evaluate({"extra": ""})):
            continue
        found.add(needed.name)
        one = distribution(needed.name)
        waiting += one.requires or []
        for top in {file.parts[0] for file in one.files or []} - {"..", "__pycache__"}:
            place = folder / "packages" / top
            if not place.exists():
                place.symlink_to(one.locate_file(top))
    return environment(folder, wheel, folder / "packages")


def test_every_file_of_every_room_is_in_the_wheel_and_the_client_brings_nothing_else(
    wheel, tmp_path
):
    client = built(CLIENT, ("fedaudit_client",), tmp_path)
    rooms = {
        room: {
            str(path.relative_to(place))
            for path in (place / room).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".compiled"
        }
        for room, place in PLACES.items()
    }
    carried = set(zipfile.ZipFile(wheel).namelist())
    assert set().union(*rooms.values()) - carried == set()
    assert not any(name.startswith(("tests", "benchmarks")) for name in carried)
    alone = {name for name in zipfile.ZipFile(client).namelist() if ".dist-info/" not in name}
    assert alone == rooms["fedaudit_client"]


def test_the_checkout_does_not_leak_in(installed, tmp_path):
    # Found without an import: the service, which imports them all, is started by the same.
    code = "import sys; from importlib.util import find_spec as found;"
    code += "print(*(found(one).origin for one in sys.argv[1:]))"
    command = [installed / "python", "-P", "-c", code, *PLACES]
    found = completed(command, env=clean_environment(), cwd=tmp_path, check=True).stdout.split()
    assert len(found) == len(PLACES)
    for path in found:
        assert Path(path).is_relative_to(installed.parent)


@pytest.fixture(scope="module")
def service(installed, tmp_path_factory):
    """A service by the wheel, started among another project's packages of the same names."""
    folder = tmp_path_factory.mktemp("serving")
    for room in ROOMS[1:]:
        (folder / "theirs" / room).mkdir(parents=True)
        (folder / "theirs" / room / "__init__.py").write_text("raise ImportError('not ours')")
    options = {"data_dir": folder / "data", "script": installed / "fedaudit"}
    theirs = clean_environment(PYTHONPATH=str(folder / "theirs"))
    with running(environment=theirs, **options) as service:
        yield service


def test_it_serves_and_trains_away_from_the_checkout(installed, service, tmp_path, small_spec):
    (tmp_path / "spec.json").write_text(json.dumps(small_spec))
    script = installed / "fedaudit"

    def call(*arguments):
        return completed(
            [script, *arguments], env=clean_environment(**service.environment), cwd=tmp_path
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


@pytest.fixture
def checkout(wheel, pipeline, service, tmp_path, small_spec):
    """A repository with the files that the pipelines ask for, and their environment."""
    experiment = {**small_spec, "gates": []}
    (tmp_path / "experiment.yaml").write_text(json.dumps(experiment))
    (tmp_path / "ci").mkdir()
    shutil.copy(wheel, tmp_path / "ci")
    # The environment has no pip of its own, and what the wheel needs is there.
    commands = tmp_path / "commands"
    commands.mkdir()
    pip = f'exec "{sys.executable}" -m pip --python "{pipeline}/python" "$@" --no-index --no-deps'
    (commands / "pip").write_text(f"#!/bin/sh\n{pip}\n")
    (commands / "pip").chmod(0o755)
    path = f"{commands}:{pipeline}:/usr/bin:/bin"
    return clean_environment(
        **service.environment, PATH=path, FEDAUDIT_WHEEL=f"ci/{wheel.name}"
    ), tmp_path


def test_a_command_names_the_extra_that_it_lacks(pipeline, service, tmp_path):
    for command, said in (
        (("list",), ""),
        (("verify", "bundle.zip"), r"this needs \w+: pip install 'WHEEL\[service\]'"),
    ):
        done = completed(
            [pipeline / "fedaudit", *command],
            env=clean_environment(**service.environment),
            cwd=tmp_path,
        )
        assert (done.returncode, "Traceback" in done.stderr) == (2 if said else 0, False)
        assert re.search(said, done.stderr)


PASSED = {"figure": "participations_max", "op": "le", "value": 12}
UNDECIDED = {"figure": "leakage_max", "op": "le", "value": 100}
"""The noise is simulated, so that leakage is no evidence."""


def test_the_github_workflow_runs_as_written(checkout):
    environment, folder = checkout
    (folder / "policy.yaml").write_text(json.dumps({"gates": [PASSED, UNDECIDED]}))
    code, said = run_github({**environment, "GITHUB_SHA": "1" * 40}, folder)
    assert code == 3, said
    evidence = folder / "evidence"
    counted = ElementTree.parse(evidence / "gates.xml").getroot()
    assert (counted.get("tests"), counted.get("errors")) == ("2", "1")
    [undecided] = counted.iter("error")
    assert "heuristic" in undecided.get("message") or "simulated" in undecided.get("message")
    summary = (folder / "summary.md").read_text()
    assert summary == (evidence / "gates.md").read_text()
    assert summary.startswith("## There is not enough evidence for the gates\n")
    assert json.loads((evidence / "report.json").read_text())["report_version"] == 1
    assert (evidence / "report.html").stat().st_size > 1000
    first = json.loads((folder / "experiment.json").read_text())["id"]
    # Run again it gets an experiment of its own, as the first may have failed.
    again = {**environment, "GITHUB_SHA": "1" * 40, "GITHUB_RUN_ATTEMPT": "2"}
    assert run_github(again, folder)[0] == 3
    assert json.loads((folder / "experiment.json").read_text())["id"] != first
    (folder / "github-env").unlink()
    code, said = run_github({**again, "FEDAUDIT_API_KEY": "wrong"}, folder)
    assert (code != 0, said.count("the API key is unknown")) == (True, 1)


def test_the_gitlab_job_runs_as_written(checkout):
    environment, folder = checkout
    (folder / "policy.yaml").write_text(json.dumps({"gates": [PASSED]}))
    code, said = run_gitlab({**environment, "CI_COMMIT_SHA": "2" * 40}, folder)
    assert code == 0, said
    counted = ElementTree.parse(folder / "gates.xml").getroot()
    assert (counted.get("tests"), counted.get("failures")) == ("1", "0")
    assert (folder / "gates.md").read_text().startswith("## The gates passed\n")
    assert json.loads((folder / "report.json").read_text())["report_version"] == 1
