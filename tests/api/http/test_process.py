"""The API as a process: what it loads, how it is started and how it ends."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.api.service import Api, running_api, settings_for
from tests.processes import completed

HEAVY = (
    *("torch", "pandas", "pyarrow", "celery", "workers", "matplotlib", "sklearn", "fairlearn"),
    "scipy.special",
)


def _environment(api: Api) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FEDAUDIT_")}
    settings = api.settings
    return {
        **kept,
        "FEDAUDIT_DATABASE_URL": settings.database_url,
        "FEDAUDIT_BROKER_URL": settings.broker_url,
        "FEDAUDIT_DATA_DIR": str(settings.data_dir),
    }


def test_starting_loads_nothing_heavy(tmp_path: Path, sqlite_url: str) -> None:
    code = (
        "import sys, api.__main__\n"
        "from api.app import create_app\n"
        "from infrastructure.settings import Settings\n"
        "create_app(Settings()).openapi()\n"
        f"print([name for name in sys.modules if name in {HEAVY!r}])"
    )
    with running_api(settings_for(sqlite_url, tmp_path)) as api:
        environment = _environment(api)
    done = completed([sys.executable, "-P", "-c", code], env=environment, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"


def test_serving_every_call_and_sweeping_need_no_torch(tmp_path: Path, sqlite_url: str) -> None:
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['torch', 'fairlearn', 'pandas', 'sklearn']))\n"
        "import workers.sweeper\n"
        "from tests.api.service import *\n"
        "import pathlib\n"
        f"with running_api(settings_for({sqlite_url!r}, pathlib.Path({str(tmp_path)!r}))) as api:\n"
        "    id_ = api.submit()['id']\n"
        "    finish(api, id_)\n"
        "    for rest in ('', '/rounds', '/privacy-ledger', '/fairness', '/report.html',\n"
        "                 '/report/verification', '/events'):\n"
        "        assert api.get(f'/v1/experiments/{id_}{rest}').status_code == 200, rest\n"
        "print('served')"
    )
    done = completed([sys.executable, "-c", code], cwd=Path(__file__).parents[3])
    assert done.stdout.splitlines()[-1:] == ["served"], done.stderr


@pytest.fixture
def queued(tmp_path: Path, sqlite_url: str) -> tuple[dict[str, str], str, str]:
    """The environment of a service, a key, and the id of a queued experiment."""
    with running_api(settings_for(sqlite_url, tmp_path)) as api:
        return _environment(api), api.key, api.submit()["id"]


def test_it_serves_a_socket_it_is_given_and_ends_with_streams_open(queued, tmp_path):
    environment, key, experiment_id = queued
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "api", "--fd", str(listener.fileno())],
            env=environment,
            pass_fds=[listener.fileno()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        port = listener.getsockname()[1]
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(
        base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False
    ) as http:
        with http.stream("GET", f"/v1/experiments/{experiment_id}/events", timeout=60) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: status.changed"
            process.send_signal(signal.SIGTERM)
            # The stream ends well instead of being cut off.
            assert "id: 1" in list(lines)
        output, errors = process.communicate(timeout=30)
    assert process.returncode in (0, -signal.SIGTERM)
    assert output == ""
    assert "Traceback" not in errors
    assert "Finished server process" in errors
