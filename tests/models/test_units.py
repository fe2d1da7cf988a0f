"""Units: who runs what, whatever the queue delivers and whoever wakes up late."""

from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import update

from infrastructure.settings import Settings
from models.clock import seconds_from_now
from models.database import Database
from models.repositories import UnitRepository
from models.repositories.units import MAX_LEASE_SECONDS
from models.tables.experiments import Unit
from tests.models.rows import add_project, at_once

_CPU = {"auto", "cpu"}


@dataclass(frozen=True)
class Units:
    """The repository, each of whose calls is a transaction."""

    database: Database

    def do(self, method: str, *arguments: Any, **options: Any) -> Any:
        with self.database.write() as session:
            return getattr(UnitRepository(session), method)(*arguments, **options)

    def waiting(self, *, device: str = "auto", max_attempts: int = 3) -> str:
        """The id of a new one, which was not published."""
        with self.database.write() as session:
            units, project = UnitRepository(session), add_project(session)
            id_ = units.create(project, device, max_attempts=max_attempts).id
            units.mark_published([id_], published=False)
            return id_

    def claim(self, unit_id: str, *, lease_seconds: float = 30) -> Any:
        asked = {"worker": "w", "devices": _CPU, "lease_seconds": lease_seconds}
        return self.do("claim", unit_id, **asked)

    def ids(self, method: str, *arguments: Any, **options: Any) -> list[str]:
        return [one.id for one in self.do(method, *arguments, **options)]

    def dated(self, unit_id: str, **times: float) -> None:
        """Set times of one, in seconds from now."""
        values = {name: seconds_from_now(seconds) for name, seconds in times.items()}
        with self.database.write() as session:
            session.execute(update(Unit).where(Unit.id == unit_id).values(**values))


@pytest.fixture
def units(database: Database) -> Units:
    return Units(database)


def test_of_many_claims_at_once_one_succeeds(units: Units) -> None:
    unit_id = units.waiting()
    claims = at_once(lambda _: units.claim(unit_id), 8)
    assert len(claims) == 8
    [claim] = [claim for claim in claims if claim is not None]
    assert (claim.fence, claim.attempts) == (1, 1)


def test_a_worker_takes_only_its_own_kind_of_unit(units: Units) -> None:
    assert units.claim(units.waiting(device="cuda")) is None
    assert units.claim(units.waiting(device="cpu")) is not None


def test_a_lease_that_ran_out_is_claimed_under_a_higher_fence(units: Units) -> None:
    unit_id = units.waiting()
    late, taken = units.claim(unit_id, lease_seconds=-1), units.claim(unit_id)
    assert taken.fence == late.fence + 1
    assert not units.do("hold", unit_id, late.fence)
    assert not units.do("renew", unit_id, late.fence, 30)
    assert not units.do("release", unit_id, late.fence, count_attempt=True)
    assert not units.do("finish", unit_id, late.fence, "done")
    assert units.do("hold", unit_id, taken.fence)
    assert units.do("get", unit_id).state == "leased"


def test_leases_are_judged_by_the_clock_of_the_database(units: Units) -> None:
    unit_id = units.waiting()
    claim = units.claim(unit_id, lease_seconds=-0.05)
    assert units.ids("reclaimable") == [unit_id]
    assert units.do("renew", unit_id, claim.fence, 30)
    assert units.ids("reclaimable") == []


def test_a_released_unit_waits_again(units: Units) -> None:
    unit_id = units.waiting()
    for count_attempt, attempts in ((False, 0), (True, 1), (False, 1)):
        fence = units.claim(unit_id).fence
        assert units.do("release", unit_id, fence, count_attempt=count_attempt)
        unit = units.do("get", unit_id)
        assert (unit.state, unit.attempts, unit.fence) == ("waiting", attempts, fence)


def test_lost_units_wait_again_and_then_fail(units: Units) -> None:
    other, unit_id = units.waiting(), units.waiting(max_attempts=3)
    assert units.claim(other, lease_seconds=-1) is not None
    for attempt, state in ((1, "waiting"), (2, "waiting"), (3, "failed")):
        assert units.claim(unit_id, lease_seconds=-1) is not None
        back = units.do("take_back", unit_id)
        assert (back.id, back.state, back.attempts) == (unit_id, state, attempt)
        assert units.do("take_back", unit_id) is None
    assert units.do("get", unit_id).last_error == "worker lost in each of 3 attempts"
    assert units.ids("reclaimable") == [other]


def test_a_claim_has_its_own_fence_where_the_unit_was_read_before(units: Units) -> None:
    unit_id = units.waiting()
    with units.database.write() as session:
        repository = UnitRepository(session)
        read = repository.get(unit_id)
        claim = repository.claim(unit_id, worker="w", devices=_CPU, lease_seconds=30)
        assert claim is read is not None
        assert (claim.fence, claim.attempts, claim.state) == (1, 1, "leased")


def test_units_that_were_never_published_come_first(units: Units) -> None:
    earlier, never = units.waiting(), units.waiting()
    units.dated(earlier, available_at=-90, published_at=-60)
    assert units.ids("stale_waiting", 30, limit=1) == [never]


def test_after_a_failed_attempt_a_unit_is_published_after_a_pause(units: Units) -> None:
    failed, stopped = units.waiting(), units.waiting()
    for unit_id, counts in ((failed, True), (stopped, False)):
        units.do("release", unit_id, units.claim(unit_id).fence, count_attempt=counts)
    assert units.ids("stale_waiting", 60) == [stopped]


def test_a_clock_that_was_set_back_keeps_no_unit_waiting(units: Units) -> None:
    unit_id = units.waiting()
    units.dated(unit_id, available_at=3600, published_at=3600)
    assert units.ids("stale_waiting", 60) == [unit_id]
    assert units.claim(unit_id) is not None


def test_a_clock_that_was_set_back_frees_the_units_of_lost_workers(units: Units) -> None:
    lost, held = units.waiting(), units.waiting()
    units.claim(lost, lease_seconds=MAX_LEASE_SECONDS + 60)
    units.claim(held, lease_seconds=MAX_LEASE_SECONDS - 60)
    assert units.do("take_back", held) is None
    back = units.do("take_back", lost)
    assert (back.id, back.state) == (lost, "waiting")
    bounds = Settings.model_fields["lease_seconds"].metadata
    assert max(getattr(bound, "le", 0) for bound in bounds) == MAX_LEASE_SECONDS


def test_a_unit_without_attempts_left_is_failed_rather_than_claimed(units: Units) -> None:
    unit_id = units.waiting(max_attempts=1)
    claim = units.claim(unit_id, lease_seconds=-1)
    assert units.claim(unit_id) is None
    units.do("release", unit_id, claim.fence, count_attempt=True)
    assert units.claim(unit_id) is None
    assert units.ids("reclaimable") == [unit_id]
    back = units.do("take_back", unit_id)
    assert (back.id, back.state) == (unit_id, "failed")


def test_units_that_the_queue_forgot_are_found(units: Units) -> None:
    unit_id = units.waiting()
    assert units.ids("stale_waiting", 60) == [unit_id], "it was never published"
    units.do("mark_published", [unit_id])
    assert units.ids("stale_waiting", 60) == []
    assert units.ids("stale_waiting", -1) == [unit_id]
    assert units.claim(unit_id) is not None
    assert units.ids("stale_waiting", -1) == []
