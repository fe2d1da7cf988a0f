"""The thread that keeps a claim."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from infrastructure.settings import Settings
from models.database import Database
from models.repositories import UnitRepository
from models.tables.experiments import Unit
from models.values import SCOPES
from tests.api.service import Api, spec
from tests.workers.admission import submit
from workers.claim import Lease, LeaseLostError
from workers.context import WorkerContext
from workers.health import Heartbeat, unwell
from workers.turns import Turns, run_next

SECONDS = 0.6


def claimed(database: Database) -> Unit:
    submitted = submit(database)
    with database.write() as session:
        claim = UnitRepository(session).claim(
            submitted.unit_id, worker="one", devices={"auto"}, lease_seconds=SECONDS
        )
    assert claim is not None
    return claim


def taken_over(database: Database, claim: Unit) -> bool:
    with database.write() as session:
        units = UnitRepository(session)
        found = units.claim(claim.id, worker="two", devices={"auto"}, lease_seconds=60)
    return found is not None


def test_progress_keeps_the_lease(database: Database) -> None:
    claim = claimed(database)
    with Lease(database, claim, seconds=SECONDS) as lease:
        for _ in range(15):
            time.sleep(0.1)
            lease.progressed()
            assert not taken_over(database, claim)


def test_a_main_thread_that_hangs_loses_it(database: Database, monkeypatch) -> None:
    monkeypatch.setattr("workers.claim._SILENT_LEASES", 0.1 / SECONDS)
    claim = claimed(database)
    with Lease(database, claim, seconds=SECONDS) as lease:
        time.sleep(3 * SECONDS)
        assert taken_over(database, claim)
        time.sleep(0.1)
        with pytest.raises(LeaseLostError):
            raise lease.lose()


def test_a_lease_that_was_taken_over_is_noticed(database: Database) -> None:
    claim = claimed(database)
    with Lease(database, claim, seconds=SECONDS) as lease:
        with database.write() as session:
            assert UnitRepository(session).release(claim.id, claim.fence, count_attempt=True)
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


# -- whose unit a worker runs next ----------------------------------------------------------------


@pytest.fixture
def began(monkeypatch: pytest.MonkeyPatch, served: WorkerContext) -> list[str]:
    """The units that were run, in order; each is done at once."""
    ran: list[str] = []

    def run(context: WorkerContext, unit_id: str) -> bool:
        ran.append(unit_id)
        with context.database.write() as session:
            waits = update(Unit).where(Unit.id == unit_id, Unit.state == "waiting")
            return bool(session.execute(waits.values(state="done")).rowcount)  # type: ignore[attr-defined]

    monkeypatch.setattr("workers.turns.run_unit", run)
    return ran


def units(api: Api, count: int, *, key: str | None = None) -> list[str]:
    """The units of so many experiments, oldest first."""
    mine = api if key is None else replace(api, key=key)
    ids = [mine.submit(spec(seed=seed))["id"] for seed in range(count)]
    return [str(api.stored(one).unit_id) for one in ids]


def woken(served: WorkerContext, *unit_ids: str) -> None:
    """The messages of these units, one after the other."""
    turns = Turns(served.database, ("auto", "cpu"))
    for unit_id in unit_ids:
        run_next(served, turns, unit_id)


def change(api: Api, unit_id: str, **values: str) -> None:
    with api.database.write() as session:
        session.execute(update(Unit).where(Unit.id == unit_id).values(**values))


def test_a_project_waits_for_one_unit_of_another_and_not_for_its_queue(api, served, began):
    many = units(api, 6)
    one = units(api, 1, key=api.key_with(*SCOPES, project="theirs"))
    # Messages come in the order of submission.
    woken(served, *many, *one)
    assert began == [many[0], *one, *many[1:]]


def test_what_takes_seconds_comes_before_what_takes_hours(api, served, began):
    runs = units(api, 3)
    change(api, runs[2], kind="profile")
    woken(served, *runs)
    assert began == [runs[2], runs[0], runs[1]]


def test_a_project_that_runs_nothing_comes_first_and_a_lost_unit_last(api, served, began):
    mine, theirs = units(api, 2), units(api, 1, key=api.key_with(*SCOPES, project="theirs"))
    change(api, mine[0], state="leased")
    woken(served, mine[1])
    assert began == theirs
    # Where nothing waits, the unit of the message is tried.
    woken(served, mine[1], mine[0])
    assert began == [*theirs, mine[1], mine[0]]


# -- signs of life: files that running processes have locked ---------------------------------------


_NOBODY = "no worker of this machine has given a sign of life in {} (FEDAUDIT_DATA_DIR)"
_BEAT_AND_DIE = """
import os, sys
from pathlib import Path
from infrastructure.settings import Settings
from workers.health import Heartbeat
Heartbeat(Settings(data_dir=Path(sys.argv[1]))).beat()
os._exit(1)
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path)


@pytest.fixture
def heartbeat(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Heartbeat:
    """Of this process, without a pause between two signs."""
    monkeypatch.setattr("workers.health._PAUSE_SECONDS", 0.0)
    return Heartbeat(settings)


def files(settings: Settings) -> list[Path]:
    return list((settings.data_dir / "workers").glob("*"))


def test_a_beating_worker_is_well_until_it_ends(settings: Settings, heartbeat: Heartbeat) -> None:
    assert unwell(settings) == _NOBODY.format(settings.data_dir)
    heartbeat.beat()
    assert unwell(settings) is None
    # One that lost its file makes another.
    [sign] = files(settings)
    sign.unlink()
    heartbeat.beat()
    assert unwell(settings) is None
    heartbeat.end()
    assert unwell(settings) == _NOBODY.format(settings.data_dir)


def test_a_silent_worker_is_unwell(settings: Settings, heartbeat: Heartbeat) -> None:
    heartbeat.beat()
    [sign] = files(settings)
    age = 3 * settings.lease_seconds + 5
    for given in (-age, age):  # ago, or ahead of a clock that was set back
        os.utime(sign, (time.time() + given,) * 2)
        assert f"worker {os.getpid()} has given no sign of life" in (unwell(settings) or "")
    heartbeat.beat()
    assert unwell(settings) is None


def test_a_dead_worker_is_none_and_its_file_the_next_ones(settings, heartbeat):
    subprocess.run([sys.executable, "-c", _BEAT_AND_DIE, settings.data_dir], check=False)
    assert unwell(settings) == _NOBODY.format(settings.data_dir)
    heartbeat.beat()
    other = Heartbeat(settings)
    other.beat()
    assert len(files(settings)) == 2
    assert unwell(settings) is None
