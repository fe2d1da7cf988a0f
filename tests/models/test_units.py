"""Units: who runs what, whatever the queue delivers and whoever wakes up late."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from sqlalchemy import update

from infrastructure.settings import Settings
from models.clock import seconds_from_now
from models.database import Database
from models.repositories import UnitRepository
from models.repositories.units import MAX_LEASE_SECONDS
from models.tables.experiments import Unit
from tests.models.rows import add_project, at_once

T = TypeVar("T")
_CPU = {"auto", "cpu"}


def _waiting(database: Database, *, device: str = "auto", max_attempts: int = 3) -> str:
    with database.write() as session:
        units = UnitRepository(session)
        return units.create(add_project(session), device, max_attempts=max_attempts).id


def _claim(database: Database, unit_id: str, *, lease_seconds: float = 30) -> Unit | None:
    with database.write() as session:
        return UnitRepository(session).claim(
            unit_id, worker="w", devices=_CPU, lease_seconds=lease_seconds
        )


def _unit(database: Database, unit_id: str) -> Unit:
    with database.read() as session:
        unit = UnitRepository(session).get(unit_id)
    assert unit is not None
    return unit


def _in_units(database: Database, call: Callable[[UnitRepository], T]) -> T:
    with database.write() as session:
        return call(UnitRepository(session))


def test_of_many_claims_at_once_one_succeeds(database: Database) -> None:
    unit_id = _waiting(database)
    claims = at_once(lambda _: _claim(database, unit_id), 8)
    assert len(claims) == 8
    [claim] = [claim for claim in claims if claim is not None]
    assert (claim.fence, claim.attempts) == (1, 1)


def test_a_worker_takes_only_its_own_kind_of_unit(database: Database) -> None:
    assert _claim(database, _waiting(database, device="cuda")) is None
    assert _claim(database, _waiting(database, device="cpu")) is not None


def test_a_lease_that_ran_out_is_claimed_under_a_higher_fence(database: Database) -> None:
    unit_id = _waiting(database)
    late = _claim(database, unit_id, lease_seconds=-1)
    taken = _claim(database, unit_id)
    assert taken.fence == late.fence + 1
    for call in (
        lambda units: units.hold(unit_id, late.fence),
        lambda units: units.renew(unit_id, late.fence, 30),
        lambda units: units.release(unit_id, late.fence, count_attempt=True),
        lambda units: units.finish(unit_id, late.fence, "done"),
    ):
        assert not _in_units(database, call)
    assert _in_units(database, lambda units: units.hold(unit_id, taken.fence))
    assert _unit(database, unit_id).state == "leased"


def test_leases_are_judged_by_the_clock_of_the_database(database: Database) -> None:
    unit_id = _waiting(database)
    claim = _claim(database, unit_id, lease_seconds=-0.05)
    assert [one.id for one in _in_units(database, lambda units: units.reclaimable())] == [unit_id]
    assert _in_units(database, lambda units: units.renew(unit_id, claim.fence, 30))
    assert _in_units(database, lambda units: units.reclaimable()) == []


def test_a_released_unit_waits_again(database: Database) -> None:
    unit_id = _waiting(database)
    for count_attempt, attempts in ((False, 0), (True, 1), (False, 1)):
        claim = _claim(database, unit_id)
        assert _in_units(
            database,
            lambda units, fence=claim.fence, count=count_attempt: units.release(
                unit_id, fence, count_attempt=count
            ),
        )
        unit = _unit(database, unit_id)
        assert (unit.state, unit.attempts, unit.fence) == ("waiting", attempts, claim.fence)


def test_lost_units_wait_again_and_then_fail(database: Database) -> None:
    other, unit_id = _waiting(database), _waiting(database, max_attempts=3)
    assert _claim(database, other, lease_seconds=-1) is not None
    for attempt in (1, 2):
        assert _claim(database, unit_id, lease_seconds=-1) is not None
        back = _in_units(database, lambda units: units.take_back(unit_id))
        assert (back.state, back.attempts) == ("waiting", attempt)
        assert _in_units(database, lambda units: units.take_back(unit_id)) is None
    assert _claim(database, unit_id, lease_seconds=-1) is not None
    back = _in_units(database, lambda units: units.take_back(unit_id))
    assert (back.state, back.id) == ("failed", unit_id)
    assert _unit(database, unit_id).last_error == "worker lost in each of 3 attempts"
    assert _in_units(database, lambda units: units.take_back(unit_id)) is None
    assert [one.id for one in _in_units(database, lambda units: units.reclaimable())] == [other]


def test_a_claim_has_its_own_fence_where_the_unit_was_read_before(database: Database) -> None:
    unit_id = _waiting(database)

    def claim_read(units: UnitRepository) -> Unit | None:
        read = units.get(unit_id)
        assert read is not None
        found = units.claim(unit_id, worker="w", devices=_CPU, lease_seconds=30)
        assert found is read
        return found

    claim = _in_units(database, claim_read)
    assert (claim.fence, claim.attempts, claim.state) == (1, 1, "leased")


def test_units_that_were_never_published_come_first(database: Database) -> None:
    earlier, never = _waiting(database), _waiting(database)
    ago = {"available_at": seconds_from_now(-90), "published_at": seconds_from_now(-60)}
    with database.write() as session:
        session.execute(update(Unit).where(Unit.id == earlier).values(**ago))
    [found] = _in_units(database, lambda units: units.stale_waiting(30, limit=1))
    assert found.id == never


def test_after_a_failed_attempt_a_unit_is_published_after_a_pause(database: Database) -> None:
    failed, stopped = _waiting(database), _waiting(database)
    for unit_id, counts in ((failed, True), (stopped, False)):
        fence = _claim(database, unit_id).fence
        release = partial(
            UnitRepository.release, unit_id=unit_id, fence=fence, count_attempt=counts
        )
        _in_units(database, release)
    found = _in_units(database, lambda units: units.stale_waiting(60))
    assert [unit.id for unit in found] == [stopped]


def test_a_clock_that_was_set_back_keeps_no_unit_waiting(database: Database) -> None:
    unit_id = _waiting(database)
    ahead = {"available_at": seconds_from_now(3600), "published_at": seconds_from_now(3600)}
    with database.write() as session:
        session.execute(update(Unit).where(Unit.id == unit_id).values(**ahead))
    stale = _in_units(database, lambda units: units.stale_waiting(60))
    assert [unit.id for unit in stale] == [unit_id]
    assert _claim(database, unit_id) is not None


def test_a_clock_that_was_set_back_frees_the_units_of_lost_workers(database: Database) -> None:
    lost, held = _waiting(database), _waiting(database)
    _claim(database, lost, lease_seconds=MAX_LEASE_SECONDS + 60)
    _claim(database, held, lease_seconds=MAX_LEASE_SECONDS - 60)
    assert _in_units(database, lambda units: units.take_back(held)) is None
    back = _in_units(database, lambda units: units.take_back(lost))
    assert (back.id, back.state) == (lost, "waiting")
    bounds = Settings.model_fields["lease_seconds"].metadata
    assert max(getattr(bound, "le", 0) for bound in bounds) == MAX_LEASE_SECONDS


def test_a_unit_without_attempts_left_is_failed_rather_than_claimed(database: Database) -> None:
    unit_id = _waiting(database, max_attempts=1)
    claim = _claim(database, unit_id, lease_seconds=-1)
    assert _claim(database, unit_id) is None
    _in_units(database, lambda units: units.release(unit_id, claim.fence, count_attempt=True))
    assert _claim(database, unit_id) is None
    assert [one.id for one in _in_units(database, lambda units: units.reclaimable())] == [unit_id]
    back = _in_units(database, lambda units: units.take_back(unit_id))
    assert (back.id, back.state) == (unit_id, "failed")


def test_units_that_the_queue_forgot_are_found(database: Database) -> None:
    unit_id = _waiting(database)
    stale = lambda seconds: _in_units(  # noqa: E731
        database, lambda units: [unit.id for unit in units.stale_waiting(seconds)]
    )
    assert stale(60) == [unit_id], "it was never published"
    _in_units(database, lambda units: units.mark_published([unit_id]))
    assert stale(60) == []
    assert stale(-1) == [unit_id]
    assert _claim(database, unit_id) is not None
    assert stale(-1) == []
