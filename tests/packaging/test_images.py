"""The image recipe and the compose file, read by the tools that would run them."""

import re
import tomllib

import pytest

from fedaudit import __version__
from tests.packaging.compose import PASSWORDS, ROOT, compose, resolved_services, tool
from tests.processes import completed

OURS = {"migrate", "api", "sweeper", "worker-cpu", "worker-gpu"}


@pytest.fixture(scope="module")
def services():
    return resolved_services()


def test_the_image_recipe_passes_the_linter():
    linted = completed([tool("hadolint"), str(ROOT / "Dockerfile")])
    assert linted.returncode == 0, linted.stdout


def test_the_worker_image_has_the_extra_and_the_torch_it_asks_for():
    api, worker = (ROOT / "Dockerfile").read_text().split(" AS api")[1].split(" AS worker")
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]["worker"]
    assert "[worker]" in worker
    assert "worker]" not in api
    [torch] = [one for one in extra if one.startswith("torch")]
    assert f'"{torch}"' in worker
    assert {re.split("[<>=]", one)[0] for one in extra} == {
        "fedaudit[service]",
        "fairlearn",
        "scikit-learn",
        "torch",
    }


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
    offered = {line.split("=")[0] for line in lines if line and not line.startswith("#")}
    assert read == offered
    assert {"POSTGRES_PASSWORD=", "REDIS_PASSWORD="} <= set(lines)


def test_the_service_waits_for_what_it_needs(services):
    for name in OURS - {"migrate"}:
        needed = {one: how["condition"] for one, how in services[name]["depends_on"].items()}
        assert needed == {
            "migrate": "service_completed_successfully",
            "postgres": "service_healthy",
            "redis": "service_healthy",
        }
    assert set(services["migrate"]["depends_on"]) == {"postgres"}


def test_only_the_gpu_profile_asks_for_a_gpu(services):
    [device] = services["worker-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])
    assert services["worker-gpu"]["profiles"] == ["gpu"]
    without = compose("config", "--services", **PASSWORDS).stdout.split()
    assert set(without) == {"postgres", "redis", "migrate", "api", "sweeper", "worker-cpu"}


def test_nothing_floats_and_nothing_runs_as_root(services):
    for name, service in services.items():
        tag = service["image"].rpartition(":")[2]
        assert tag
        assert tag != "latest"
        if name in OURS:
            assert service["cap_drop"] == ["ALL"]
            assert "privileged" not in service
    stages = (ROOT / "Dockerfile").read_text().split("\nFROM ")[1:]
    for stage in stages[1:]:
        users = [line for line in stage.splitlines() if line.startswith("USER ")]
        assert users[-1] == "USER 10001"


def test_the_images_are_of_this_version(services):
    assert {services[name]["image"].rpartition(":")[2] for name in OURS} == {__version__}
