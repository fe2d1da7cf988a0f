"""Each service of the compose file starts with its own command and environment.

No container runs here: the commands are started with this environment's Python, and the two
servers that the file names are replaced by real ones of the tests.
"""

import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch

from benchmarks.served_api import http
from benchmarks.servers import free_port
from models.keys import create_key
from tests.cli.service import clean_environment, status
from tests.infrastructure.secrets_keys import secrets_key_in
from tests.packaging.compose import PASSWORDS, resolved_services
from tests.processes import completed
from tests.waiting import wait_until

SCRIPTS = Path(sys.executable).parent
DATABASE = f"postgresql://fedaudit:{PASSWORDS['POSTGRES_PASSWORD']}@postgres:5432/fedaudit"
BROKER = f"redis://:{PASSWORDS['REDIS_PASSWORD']}@redis:6379/0"
SCOPES = ("experiments:read", "experiments:write", "reports:read")


@pytest.fixture(scope="module")
def services():
    return resolved_services()


@pytest.fixture
def environment(services, empty_postgres_url, broker_url, tmp_path, signing_key_file):
    """The environment of a service, with the hosts and folders of a container replaced."""
    here = {
        DATABASE: empty_postgres_url,
        BROKER: broker_url,
        "/data": str(tmp_path / "data"),
        "/sources": str(tmp_path),
        "/run/secrets/signing-key": str(signing_key_file),
        "/run/secrets/secrets-key": str(secrets_key_in(tmp_path)),
    }

    def of(name: str) -> dict[str, str]:
        given = services[name]["environment"]
        assert set(here) <= set(given.values())
        return clean_environment(**{key: here.get(value, value) for key, value in given.items()})

    return of


def command(service: dict, *, port: int | None = None) -> list[str]:
    """A service's command, with this environment's programs (and a port that is free)."""
    first, *rest = service["command"]
    arguments = [str(port) if port and word == "8000" else word for word in rest]
    return [str(SCRIPTS / first), *arguments]


@contextmanager
def started(words: list[str], environment: dict[str, str], log: Path):
    """A process that is asked to end, and must, when the block is left."""
    with log.open("w") as output:
        process = subprocess.Popen(
            words, env=environment, cwd=log.parent, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield process
        assert process.poll() is None, log.read_text()
        process.terminate()
        # uvicorn ends with the signal itself, once it has shut down in order.
        assert process.wait(timeout=30) in (0, -signal.SIGTERM), log.read_text()
    finally:
        process.kill()
        process.wait()


def test_the_services_together_run_an_experiment(services, environment, tmp_path, small_spec):
    def ended(name: str, words: list[str] | None = None, **more: str) -> CompletedProcess[str]:
        words = words or command(services[name])
        return completed(words, env={**environment(name), **more}, cwd=tmp_path)

    migrated = ended("migrate")
    assert migrated.returncode == 0, migrated.stderr
    url = environment("api")["FEDAUDIT_DATABASE_URL"]
    key = create_key(url, project="p", scopes=SCOPES, name="tests")["key"]
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with ExitStack() as running, http(address, str(key)) as client:
        for name in ("api", "sweeper", "worker-cpu"):
            words = command(services[name], port=port)
            log = tmp_path / f"{name}.log"
            running.enter_context(started(words, environment(name), log))
        wait_until(lambda: status(f"{address}/health/ready") == 200, "a ready API", pause=0.1)
        posted = client.post("/v1/experiments", json=small_spec)
        assert posted.status_code == 202, posted.text
        experiment = f"/v1/experiments/{posted.json()['id']}"
        over = lambda: client.get(experiment).json()["status"] in ("succeeded", "failed")  # noqa: E731
        wait_until(over, "the end", pause=0.1)
        report = client.get(f"{experiment}/report").json()
        assert report["provenance"]["device"] == "cpu"

    # The health check of what serves no port.
    kind, first, *rest = services["sweeper"]["healthcheck"]["test"]
    assert kind == "CMD"
    check = [str(SCRIPTS / first), *rest]
    assert ended("sweeper", check).returncode == 0
    away = {"FEDAUDIT_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none"}
    assert ended("sweeper", check, **away).returncode != 0
    if not torch.cuda.is_available():
        without_gpu = ended("worker-gpu")
        assert without_gpu.returncode != 0
        assert "CUDA" in without_gpu.stderr
