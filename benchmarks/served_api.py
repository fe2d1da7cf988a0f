"""The API behind a real socket, in a thread of this process or in one of its own."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import httpx
import uvicorn

from api.app import create_app
from infrastructure.settings import Settings
from models.database import Database
from models.repositories import ApiKeyRepository, ProjectRepository

_HERE = Path(__file__).parent.parent
_START_SECONDS = 60.0


def make_key(
    database: Database, project: str, scopes: Sequence[str], *, name: str
) -> tuple[str, str]:
    """The id of a project, which is created where it does not exist, and a new key of it."""
    with database.write() as session:
        project_id = ProjectRepository(session).get_or_create(project).id
        keys = ApiKeyRepository(session)
        return project_id, keys.create(project_id=project_id, name=name, scopes=scopes)[1]


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """The address of a server on a free port; the database must be migrated."""
    bound = socket.create_server(("127.0.0.1", 0))
    # Opened anew by its number it knows that it speaks TCP, and asyncio then sends without delay.
    with socket.socket(fileno=bound.detach()) as listener:
        app = create_app(settings)
        config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=2)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        deadline = monotonic() + _START_SECONDS
        while not server.started and monotonic() < deadline:
            sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            app.state.resources.stopping.set()
            server.should_exit = True
            thread.join(10)


def http(url: str, key: str) -> httpx.Client:
    """A plain HTTP client of a served API."""
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False)


@contextmanager
def served_apart(
    database_url: str, scopes: Sequence[str], *, sources: Path | None = None, tree: Path = _HERE
) -> Iterator[tuple[str, str, int]]:
    """The address of an API process on this server, a key, and the process.

    `sources`: the folder of its sources; `tree`: of which commit the process is.
    """
    _migrate(database_url, tree)
    database = Database(database_url)
    key = make_key(database, "benchmark", scopes, name="benchmark")[1]
    database.close()
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "FEDAUDIT_DATA_DIR": folder,
            "FEDAUDIT_DATABASE_URL": database_url,
            "FEDAUDIT_BROKER_URL": f"filesystem://{folder}/queue",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(tree),
        }
        if sources is not None:
            environment["FEDAUDIT_SOURCES_DIR"] = str(sources)
        command = [sys.executable, "-P", "-m", "api", "--port", str(port)]
        silent = subprocess.DEVNULL
        process = subprocess.Popen(command, env=environment, cwd=tree, stdout=silent, stderr=silent)
        try:
            url = f"http://127.0.0.1:{port}"
            await_ready(url)
            yield url, key, process.pid
        finally:
            process.terminate()
            process.wait(20)


def _migrate(database_url: str, tree: Path) -> None:
    """By the tree's own migrations, of which another one may have more."""
    code = "import sys, migrations; migrations.upgrade(sys.argv[1])"
    command = [sys.executable, "-P", "-c", code, database_url]
    subprocess.run(command, check=True, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)})


def await_ready(url: str) -> None:
    """Wait until a service can be used. Raises httpx.HTTPError after a minute."""
    deadline = monotonic() + _START_SECONDS
    while True:
        try:
            httpx.get(f"{url}/health/ready", trust_env=False).raise_for_status()
        except httpx.HTTPError:
            if monotonic() > deadline:
                raise
            sleep(0.1)
        else:
            return
