"""A sweeper's process that is killed between two attempts, or within one, loses no event."""

from sqlalchemy import select, update

from infrastructure.secrets_key import SecretBox
from infrastructure.settings import Settings
from models.clock import seconds_from_now
from models.database import Database
from models.person import Actor
from models.repositories import AnnouncementRepository, ProjectRepository, WebhookEndpointRepository
from models.tables.accounts import WebhookDelivery
from tests.infrastructure.secrets_keys import secrets_key_in
from tests.waiting import wait_until
from tests.workers.processes import service
from tests.workers.receiver import receiving
from workers.webhooks import WebhookDispatcher

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def _announce(settings: Settings, database: Database, url: str) -> None:
    with database.write() as session:
        project_id = ProjectRepository(session).get_or_create("hospital").id
        WebhookEndpointRepository(session, project_id).add(
            url=url,
            events=["ledger.round_refused"],
            description="",
            secret=SecretBox(settings).encrypt(SECRET),
            by=Actor("key", "tests", None),
        )
        AnnouncementRepository(session, project_id).ledger_round_refused("a-ledger", round_=3)


def _state(database: Database) -> tuple[str, int]:
    with database.read() as session:
        columns = (WebhookDelivery.state, WebhookDelivery.attempts)
        state, attempts = session.execute(select(*columns)).one()
        return state, attempts


def test_killed_processes_lose_nothing_and_repeat_under_the_same_id(sqlite_url, tmp_path):
    values = {
        "database_url": sqlite_url,
        "broker_url": f"filesystem://{tmp_path}/queue",
        "secrets_key_file": str(secrets_key_in(tmp_path)),
        "webhooks_allow_private": "true",
    }
    database = Database(sqlite_url)
    with receiving() as receiver, service(tmp_path, **values) as running:
        settings = Settings(**values, data_dir=tmp_path)
        _announce(settings, database, receiver.url)
        receiver.answers = [500, None]
        first = running.sweeper()
        wait_until(lambda: _state(database) == ("waiting", 1), "a first, failed attempt")
        with database.write() as session:
            session.execute(update(WebhookDelivery).values(available_at=seconds_from_now()))
        wait_until(lambda: len(receiver.received) == 2, "a second attempt")
        first.kill()
        assert _state(database) == ("sending", 2)
        # Until its lease has run out it is nobody else's.
        other = WebhookDispatcher(settings, database)
        other.dispatch_due()
        assert (_state(database), len(receiver.received)) == (("sending", 2), 2)
        with database.write() as session:
            session.execute(update(WebhookDelivery).values(lease_until=seconds_from_now()))
        # Another process, here this one: its next look is all that is needed.
        other.dispatch_due()
        wait_until(lambda: _state(database) == ("delivered", 3), "an attempt by another process")
        assert len(set(receiver.ids)) == 1
        [payload] = {str(one["data"]) for one in receiver.verified(SECRET)}
        assert "a-ledger" in payload
    database.close()
