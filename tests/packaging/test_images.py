"""The image recipe and the compose file, read by the tools that would run them."""

import re
import tomllib

import pytest

from fedaudit import __version__
from tests.packaging.compose import PASSWORDS, ROOT, compose, resolved_services, tool
from tests.processes import completed

OURS = {"migrate", "api", "sweeper", "worker-cpu", "worker-gpu"}
RECIPE = (ROOT / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def services():
    return resolved_services()


def test_the_image_recipe_passes_the_linter_and_no_stage_runs_as_root():
    linted = completed([tool("hadolint"), str(ROOT / "Dockerfile")])
    assert linted.returncode == 0, linted.stdout
    for stage in RECIPE.split("\nFROM ")[2:]:
        users = [line for line in stage.splitlines() if line.startswith("USER ")]
        assert users[-1] == "USER 10001"


def test_the_worker_image_has_the_extra_and_the_torch_it_asks_for():
    api, worker = RECIPE.split(" AS api")[1].split(" AS worker")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["worker"]
    assert "[worker]" in worker
    assert "worker]" not in api
    [torch] = [one for one in extra if one.startswith("torch")]
    assert f'"{torch}"' in worker
    names = {re.split("[<>=]", one)[0] for one in extra}
    assert names == {"fedaudit[service]", "fairlearn", "scikit-learn", "torch"}


@pytest.mark.parametrize("missing", PASSWORDS)
def test_there_is_no_default_password(missing):
    given = {name: value for name, value in PASSWORDS.items() if name != missing}
    refused = compose("config", **given)
    assert refused.returncode != 0
    assert f"{missing} is missing a value" in refused.stderr


def test_the_example_settings_name_every_variable_that_is_read():
    named = compose("config", "--variables", **PASSWORDS)
    assert named.returncode == 0, named.stderr
    read = {line.split()[0] for line in named.stdout.splitlines()[1:] if line.strip()}
    lines = (ROOT / ".env.example").read_text().splitlines()
    assert read == {line.split("=")[0] for line in lines if line and not line.startswith("#")}
    assert {"POSTGRES_PASSWORD=", "REDIS_PASSWORD="} <= set(lines)


def test_the_service_waits_for_what_it_needs_and_only_one_profile_asks_for_a_gpu(services):
    for name in OURS - {"migrate"}:
        needed = {one: how["condition"] for one, how in services[name]["depends_on"].items()}
        assert needed == {
            "migrate": "service_completed_successfully",
            "postgres": "service_healthy",
            "redis": "service_healthy",
        }
    assert set(services["migrate"]["depends_on"]) == {"postgres"}
    [device] = services["worker-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])
    assert services["worker-gpu"]["profiles"] == ["gpu"]
    without = compose("config", "--services", **PASSWORDS).stdout.split()
    assert set(without) == {"postgres", "redis", *OURS - {"worker-gpu"}}


def test_no_image_floats_and_ours_are_of_this_version_without_rights(services):
    for name, service in services.items():
        tag = service["image"].rpartition(":")[2]
        assert tag not in ("", "latest")
        if name in OURS:
            assert (tag, service["cap_drop"]) == (__version__, ["ALL"])
            assert "privileged" not in service
