"""What an operations team does to a service under work: two APIs and two workers on Postgres and
Valkey, one project's queue beside another's, keys exchanged, a backup, a rolling upgrade to a later
schema, and the backup restored. Nothing that was submitted is lost or differs by any of it."""

import io
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from zipfile import ZipFile

import psycopg
import pytest

import migrations
from benchmarks.served_api import served
from benchmarks.servers import Server, free_port
from fedaudit_client import Client
from fedaudit_client.errors import ProblemError, UnauthorisedError
from infrastructure.signing_keys import public_file
from models.database import HEAD
from models.keys import create_key
from models.values import SCOPES
from tests.api.service import settings_for
from tests.cli.service import status
from tests.deploy.test_backups import commands, run
from tests.house import PLACES
from tests.infrastructure.secrets_keys import secrets_key_in
from tests.preloaded import programs
from tests.waiting import wait_until
from tests.workers.admission import IN_BATCHES, spec_with
from tests.workers.processes import Process, Service, service
from tests.workers.receiver import Receiver, receiving

LATER = "9999"
REVISION = f'''"""A column that only the later version has."""
import sqlalchemy as sa
from alembic import op
revision, down_revision = "{LATER}", "{HEAD}"
def upgrade() -> None:
    op.add_column("experiments", sa.Column("drilled", sa.Integer(), nullable=True))
'''
SHORT = spec_with(training__rounds=30)
LONG = spec_with(training__rounds=2500, training__local=IN_BATCHES)
"""The second lasts until the new workers are there."""


@dataclass
class Drill:
    """The service, and what was done with it."""

    service: Service
    folder: Path
    postgres_url: str
    key: dict[str, str]
    """By project."""
    urls: list[str] = field(default_factory=list)

    def client(self, project: str, api: int = -1) -> Client:
        return Client(self.urls[api], self.key[project])

    def command(self, *words: str) -> str:
        """What `fedaudit WORDS` printed."""
        env = {**os.environ, **self.service.environment}
        done = programs().run(*words, env=env, cwd=self.folder, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def api(self, *, tree: Path | None = None) -> Process:
        """One more, ready."""
        port = str(free_port())
        self.urls.append(f"http://127.0.0.1:{port}")
        return self.service.start("api", "--port", port, tree=tree)


def await_ready(url: str) -> None:
    wait_until(lambda: status(f"{url}/health/ready") == 200, f"{url} to be ready", pause=0.1)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture
def drill(empty_postgres_url: str, broker_url: str, tmp_path: Path) -> Iterator[Drill]:
    migrations.upgrade(empty_postgres_url)
    made = {
        project: str(
            create_key(empty_postgres_url, project=project, scopes=SCOPES, name="t")["key"]
        )
        for project in ("many", "few")
    }
    with service(
        tmp_path,
        database_url=empty_postgres_url,
        broker_url=broker_url,
        data_dir=str(tmp_path / "data"),
        secrets_key_file=str(secrets_key_in(tmp_path)),
        webhooks_allow_private="true",
        stack_cells="1",
    ) as running:
        yield Drill(running, tmp_path, empty_postgres_url, made)


@pytest.fixture
def restored_url(postgres_server: Server, empty_postgres_url: str) -> Iterator[str]:
    """An empty database beside the other one."""
    name = f"{empty_postgres_url.rpartition('/')[2]}_restored"
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield empty_postgres_url.rpartition("/")[0] + f"/{name}"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_day_of_operations(drill: Drill, receiver: Receiver, restored_url: str) -> None:
    old = [drill.api(), drill.api()]
    workers = [drill.service.worker() for _ in range(2)]
    for url in drill.urls:
        await_ready(url)
    secret = hooked(drill, receiver)
    finished = turns_are_taken(drill)
    keys_are_exchanged(drill)
    long = drill.client("few", 1).submit(LONG)["id"]
    wait_until(lambda: drill.client("few", 0).get(long)["progress"]["round"] > 0, "a round")
    bundles = {id_: bundle(drill.client("few", 1), id_) for id_ in finished}
    run(drill.folder, commands("Postgres")[0], FEDAUDIT_DATABASE_URL=drill.postgres_url)
    assert drill.client("few", 1).get(long)["status"] == "running", "it was to be under way"
    upgraded(drill, [*old, *workers, drill.service.running[-1]])
    ended = drill.client("few").wait(long)
    assert ended["status"] == "succeeded", ended
    wait_until(lambda: len(receiver.received) == len(finished) + 1, "every webhook")
    assert len(set(receiver.ids)) == len(receiver.verified(secret))
    bundles[long] = bundle(drill.client("few"), long)
    verified(drill, bundles)
    restored(drill, restored_url, bundles, long)


def hooked(drill: Drill, receiver: Receiver) -> str:
    """The secret of a webhook that was exchanged; the sweeper has a new key above the old one."""
    client = drill.client("few")
    asked = {"url": receiver.url, "events": ["experiment.finished"]}
    made = client.ask("POST", "webhooks", json=asked)
    file = drill.folder / "secrets-key"
    new, old = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n", file.read_text()
    file.write_text(new + old)
    sweeper = drill.service.sweeper()
    wait_until(lambda: "sweeper ready" in sweeper.output, "a sweeper with both keys")
    rotation = f"webhooks/{made['id']}/rotate-secret?overlap_seconds=0"
    secret = client.ask("POST", rotation)["secret"]
    assert secret != made["secret"]
    return str(secret)


def turns_are_taken(drill: Drill) -> list[str]:
    """One experiment behind a queue of another project waits for no more than what runs; the ids of
    the few."""
    many = drill.client("many", 0)
    sweep = many.submit_sweep({"name": "q", "base": SHORT, "grid": {"seed": list(range(1, 9))}})
    one = drill.client("few", 1).submit(SHORT)["id"]
    few = drill.client("few", 0).wait(one)
    cells = [many.get(cell["experiment_id"]) for cell in many.wait_sweep(sweep["id"])["cells"]]
    assert {few["status"], *(cell["status"] for cell in cells)} == {"succeeded"}
    asked, began = datetime.fromisoformat(few["created_at"]), few["started_at"]
    between = [
        cell
        for cell in cells
        if asked < datetime.fromisoformat(cell["started_at"]) and cell["started_at"] < began
    ]
    # Each of two workers may have chosen its next one before.
    assert len(between) <= 2 < len(cells) - 2
    return [one]


def keys_are_exchanged(drill: Drill) -> None:
    """Of the API and of signatures, under the eyes of the other API and of running workers."""
    before, (first, second) = drill.key["few"], drill.urls
    with Client(first, before) as client:
        [mine] = client.ask("GET", "api-keys")["items"]
        rotation = f"api-keys/{mine['id']}/rotate-secret?overlap_seconds"
        drill.key["few"] = client.ask("POST", f"{rotation}=3600")["key"]
    for key in (before, drill.key["few"]):
        assert list(Client(second, key).list())
    with Client(first, drill.key["few"]) as client:
        drill.key["few"] = client.ask("POST", f"{rotation}=0")["key"]
    with pytest.raises(UnauthorisedError):
        list(Client(second, before).list())
    drill.command("signing-keys", "rotate")


def upgraded(drill: Drill, old: list[Process]) -> None:
    """A later version takes over, process by process, while the long run goes on."""
    tree = later_version(drill.folder)
    migrated = drill.service.start("migrations", "upgrade", tree=tree)
    assert migrated.popen.wait(60) == 0, migrated.output
    for url in drill.urls:
        assert [status(f"{url}/health/{of}") for of in ("ready", "live")] == [503, 200]
    with pytest.raises(ProblemError) as refused:
        drill.client("many", 0).submit(SHORT)
    assert refused.value.status == 503
    drill.api(tree=tree)
    drill.service.start("workers", "--device", "cpu", tree=tree)
    drill.service.start("workers.sweeper", tree=tree)
    await_ready(drill.urls[-1])
    for process in old:
        process.stop()
    submitted = drill.client("many").submit(SHORT)["id"]
    assert drill.client("many").wait(submitted)["status"] == "succeeded"


def later_version(folder: Path) -> Path:
    """This version with a later schema: what does not change is linked."""
    tree = folder / "later"
    tree.mkdir()
    for room, place in PLACES.items():
        if room in ("models", "migrations"):
            shutil.copytree(place / room, tree / room)
        else:
            (tree / room).symlink_to(place / room)
    (tree / "migrations/earlier/versions/9999_drilled.py").write_text(REVISION)
    database = tree / "models/database.py"
    database.write_text(database.read_text().replace(f'HEAD = "{HEAD}"', f'HEAD = "{LATER}"'))
    return tree


def bundle(client: Client, id_: str) -> bytes:
    """What verifies an experiment by itself."""
    file = io.BytesIO()
    client.download_bundle(id_, file)
    return file.getvalue()


def files(content: bytes) -> dict[str, bytes]:
    """By name, but for the log, which grows with every run on the data."""
    with ZipFile(io.BytesIO(content)) as found:
        return {name: found.read(name) for name in found.namelist() if name != "log.json"}


def verified(drill: Drill, bundles: dict[str, bytes]) -> None:
    """Each by itself, with the keys that are handed out."""
    keys = public_file(drill.folder / "signing-key.pem")
    for id_, content in bundles.items():
        path = drill.folder / f"{id_}.zip"
        path.write_bytes(content)
        drill.command("verify", str(path), "--public-key", str(keys))


def restored(drill: Drill, url: str, bundles: dict[str, bytes], long: str) -> None:
    """The backup in a service of its own: what had ended is the same, and what was under way ends
    with the ledger that it has in the other one."""
    run(drill.folder, commands("Postgres")[1], RESTORED_DATABASE_URL=url)
    assert migrations.current(url) == HEAD
    folder, before = drill.folder / "restored", drill.service.environment
    shutil.copytree(drill.folder / "data", folder / "data")
    server, _, number = before["FEDAUDIT_BROKER_URL"].rpartition("/")
    settings = {
        "broker_url": f"{server}/{(int(number) + 1) % 16}",
        "data_dir": str(folder / "data"),
        "signing_key_file": before["FEDAUDIT_SIGNING_KEY_FILE"],
    }
    api = served(settings_for(url, folder, **settings))
    with service(folder, database_url=url, **settings) as running, api as address:
        running.worker()
        running.sweeper()
        client = Client(address, drill.key["few"])
        assert client.wait(long)["status"] == "succeeded"
        for id_ in bundles.keys() - {long}:
            assert files(bundle(client, id_)) == files(bundles[id_])
        hashes = {
            one.report(long)["integrity"]["ledger_hash"] for one in (client, drill.client("few"))
        }
    assert len(hashes) == 1
