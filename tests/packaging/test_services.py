"""Each service of the compose file starts with its own command and environment.

No container runs here: the commands are started with this environment's Python, and the two
servers that the file names are replaced by real ones of the tests.
"""

import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.cli.service import clean_environment
from tests.infrastructure.secrets_keys import secrets_key_in
from tests.packaging.compose import PASSWORDS, resolved_services
from tests.processes import completed
from tests.waiting import wait_until

SCRIPTS = Path(sys.executable).parent
DATABASE = f"postgresql://fedaudit:{PASSWORDS['POSTGRES_PASSWORD']}@postgres:5432/fedaudit"
BROKER = f"redis://:{PASSWORDS['REDIS_PASSWORD']}@redis:6379/0"
SCOPES = "experiments:read,experiments:write,reports:read"


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


def answer(url: str, **headers: str) -> httpx.Response | None:
    try:
        return httpx.get(url, headers=headers, timeout=5, trust_env=False)
    except httpx.HTTPError:
        return None


def test_the_services_together_run_an_experiment(services, environment, tmp_path, small_spec):
    migrated = completed(command(services["migrate"]), env=environment("migrate"), cwd=tmp_path)
    assert migrated.returncode == 0, migrated.stderr
    created = completed(
        [SCRIPTS / "fedaudit", "keys", "create", "--project", "p", "--scopes", SCOPES],
        env=environment("api"),
        check=True,
    )
    headers = {"Authorization": f"Bearer {created.stdout.strip()}"}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with ExitStack() as running:
        for name in ("api", "sweeper", "worker-cpu"):
            words = command(services[name], port=port)
            log = tmp_path / f"{name}.log"
            running.enter_context(started(words, environment(name), log))
        ready = lambda: (one := answer(f"{url}/health/ready")) and one.status_code == 200  # noqa: E731
        wait_until(ready, "a ready API", pause=0.1)
        posted = httpx.post(
            f"{url}/v1/experiments", json=small_spec, headers=headers, trust_env=False
        )
        assert posted.status_code == 202, posted.text
        experiment = f"{url}/v1/experiments/{posted.json()['id']}"

        def ended():
            status = answer(experiment, **headers).json()["status"]
            return status if status in {"succeeded", "failed"} else None

        assert wait_until(ended, "the end", pause=0.1) == "succeeded"
        report = answer(f"{experiment}/report", **headers).json()
        assert report["provenance"]["device"] == "cpu"


@pytest.mark.parametrize("name", ["sweeper"])
def test_the_health_check_of_what_serves_no_port(services, environment, tmp_path, name):
    kind, *words = services[name]["healthcheck"]["test"]
    assert kind == "CMD"
    check = [str(SCRIPTS / words[0]), *words[1:]]
    known = environment(name)
    subprocess.run(command(services["migrate"]), env=known, capture_output=True, check=True)
    assert subprocess.run(check, env=known, capture_output=True, check=False).returncode == 0
    away = {**known, "FEDAUDIT_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none"}
    assert subprocess.run(check, env=away, capture_output=True, check=False).returncode != 0


def test_a_gpu_worker_without_a_gpu_says_so_and_ends(services, environment, tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    subprocess.run(command(services["migrate"]), env=environment("migrate"), check=True)
    ended = completed(command(services["worker-gpu"]), env=environment("worker-gpu"), cwd=tmp_path)
    assert ended.returncode != 0
    assert "CUDA" in ended.stderr
