"""The API behind a real socket, in a thread of this process."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic, sleep

import httpx
import uvicorn

from api.app import create_app
from infrastructure.settings import Settings
from models.database import Database
from models.repositories import ApiKeyRepository, ProjectRepository

_START_SECONDS = 30.0


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
