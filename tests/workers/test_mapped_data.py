"""Data are read while they are profiled, and mapped by all who plan or train on them, until they
are erased or deleted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from fedaudit.federations.load import RegisteredData
from fedaudit.federations.table import table_federation
from infrastructure.queue import Queue
from models.tables.experiments import Unit
from tests.api.service import Api, running_api, settings_for
from tests.workers import test_erasure
from tests.workers.epsilon_specs import local
from tests.workers.test_erasure import erase, ran, register, spec_on
from workers.context import WorkerContext
from workers.sweeper import Sweeper, tidy_maps


@pytest.fixture
def api(
    database_url: str, tmp_path: Path, signing_key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Api]:
    """One that lays out small files as well; the test runs once on each kind of database."""
    # Halves are no classes, so it is known beforehand that experiments regress them.
    header, _, rows = test_erasure.CONTENT.partition(b"\n")
    halves = header + b"\n" + rows.replace(b"\n", b".5\n")
    monkeypatch.setattr(test_erasure, "CONTENT", halves)
    monkeypatch.setattr(table_federation, "WORTH_A_MAP", 1)
    settings = settings_for(database_url, tmp_path, signing_key_file=signing_key_file)
    with running_api(settings) as api:
        yield api


def maps(api: Api) -> list[Path]:
    folder = api.settings.maps_dir
    return [] if folder is None else sorted(folder.glob("?" * 64 + "-*"))


def test_a_profiled_table_is_not_read_again_and_its_map_goes_with_it(api, monkeypatch):
    context = WorkerContext(api.settings, api.database, Queue(api.settings), "cpu")
    federation = register(api, context)
    assert len(maps(api)) == 1

    def read(*_: Any, **__: Any) -> None:
        raise AssertionError("the table was read")

    monkeypatch.setattr(table_federation, "load_table", read)
    experiment = ran(api, context, spec_on(federation, local()))
    assert api.get(f"/v1/experiments/{experiment}/report.json").status_code == 200
    tidy_maps(api.settings, api.database)
    assert len(maps(api)) == 1
    assert erase(api, federation).status_code == 202
    sweeper = Sweeper(api.settings, api.database, context.queue)
    sweeper.tick()
    assert not maps(api)


class KilledError(BaseException):
    """What no worker survives to handle."""


def test_no_receipt_is_signed_while_a_worker_reads_the_data(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may lay them out until then."""
    context = WorkerContext(api.settings, api.database, Queue(api.settings), "cpu")
    sweeper, erased = Sweeper(api.settings, api.database, context.queue), list[str]()

    def erased_meanwhile(data: RegisteredData, profile: dict[str, Any]) -> None:
        id_ = str(data.registration.federation.id)
        assert erase(api, id_).is_success
        erased.append(id_)
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(RegisteredData, "lay_out", erased_meanwhile)
        with pytest.raises(KilledError):
            register(api, context)
    erasure = f"/v1/federations/{erased[0]}/erasure"
    sweeper.tick()
    assert api.get(erasure).json()["status"] == "erasing"
    with api.database.write() as session:
        session.execute(update(Unit).values(lease_until=Unit.created_at))
    sweeper.tick()
    assert api.get(erasure).json()["status"] == "erased"
