"""The thread that keeps a claim."""

import time

import pytest
from sqlalchemy.exc import OperationalError

from models.database import Database
from models.repositories import UnitRepository
from models.values import Claim
from tests.workers.admission import submit
from workers.claim import Lease, LeaseLostError

SECONDS = 0.6


def claimed(database: Database) -> Claim:
    submitted = submit(database)
    with database.write() as session:
        claim = UnitRepository(session).claim(
            submitted.unit_id, worker="one", devices={"auto"}, lease_seconds=SECONDS
        )
    assert claim is not None
    return claim


def taken_over(database: Database, claim: Claim) -> bool:
    with database.write() as session:
        units = UnitRepository(session)
        found = units.claim(claim.unit_id, worker="two", devices={"auto"}, lease_seconds=60)
    return found is not None


def test_progress_keeps_the_lease(database: Database) -> None:
    claim = claimed(database)
    with Lease(database, claim, seconds=SECONDS) as lease:
        for _ in range(15):
            time.sleep(0.1)
            lease.progressed()
            assert not taken_over(database, claim)


def test_a_main_thread_that_hangs_loses_it(database: Database) -> None:
    claim = claimed(database)
    with Lease(database, claim, seconds=SECONDS, silent_seconds=0.1) as lease:
        time.sleep(3 * SECONDS)
        assert taken_over(database, claim)
        time.sleep(0.1)
        with pytest.raises(LeaseLostError):
            raise lease.lose()


def test_a_lease_that_was_taken_over_is_noticed(database: Database) -> None:
    claim = claimed(database)
    with Lease(database, claim, seconds=SECONDS) as lease:
        with database.write() as session:
            assert UnitRepository(session).release(claim.unit_id, claim.fence, count_attempt=True)
        assert taken_over(database, claim)
        time.sleep(SECONDS)
        with pytest.raises(LeaseLostError, match="taken over"):
            lease.progressed()


def test_a_database_that_is_away_does_not_lose_it(database, monkeypatch):
    claim = claimed(database)

    def away(*_: object, **__: object) -> bool:
        raise OperationalError("UPDATE", {}, ConnectionError("away"))

    with Lease(database, claim, seconds=SECONDS) as lease:
        with monkeypatch.context() as outage:
            outage.setattr(UnitRepository, "renew", away)
            time.sleep(1.5 * SECONDS)
        for _ in range(5):
            time.sleep(0.1)
            lease.progressed()
        # It ran out meanwhile; nobody had taken it, so it was renewed.
        assert not taken_over(database, claim)
