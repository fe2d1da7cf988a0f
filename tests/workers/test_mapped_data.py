"""Data are read while they are profiled, mapped by whoever trains on them, and planned from their
index by whoever submits, until they are erased or deleted."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from sqlalchemy import update

from fedaudit.federations.table import table_federation
from infrastructure.queue import Queue
from infrastructure.storage import Storage, StorageError, table_index_key
from models.tables.experiments import Unit
from models.tables.federations import Federation
from tests.api.service import Api, running_api, settings_for
from tests.workers import test_erasure
from tests.workers.epsilon_specs import local
from tests.workers.test_erasure import erase, ran, register, spec_on
from workers.context import WorkerContext
from workers.profile_unit import ProfileRun
from workers.run_unit import run_unit
from workers.sweeper import Sweeper
from workers.upkeep import tidy_maps


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


def has_index(api: Api, federation: str) -> bool:
    with api.database.read() as session:
        row = session.get_one(Federation, federation)
    return Storage(api.settings.storage_url).holds(table_index_key(row.project_id, federation))


def test_a_submission_opens_no_file_that_was_indexed(api, monkeypatch):
    """In another scale than was registered, on a machine to which nothing was laid out."""
    context = WorkerContext(api.settings, api.database, Queue(api.settings), "cpu")
    federation = register(api, context)
    shutil.rmtree(api.settings.maps_dir or Path())
    tiny = {"scale": {"x": 1e-40}}
    with monkeypatch.context() as patched:

        def opened(*_: Any, **__: Any) -> None:
            raise AssertionError("the file was opened")

        patched.setattr(table_federation, "open_source", opened)
        submitted = api.submit(spec_on(federation, local(), scale={"x": 7}))
        assert api.post("/v1/experiments", json=spec_on(federation, local(), **tiny)).is_error
    run_unit(context, api.stored(str(submitted["id"])).unit_id)
    assert api.stored(str(submitted["id"])).status == "succeeded"
    refused = api.post("/v1/experiments", json=spec_on(federation, local(), **tiny))
    assert "does not fit a 32-bit number" in refused.text
    assert has_index(api, federation)
    assert erase(api, federation).status_code == 202
    Sweeper(api.settings, api.database, context.queue).tick()
    assert not has_index(api, federation)


def test_an_index_goes_with_its_federation(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where that is deleted while a worker is about to keep it."""
    context = WorkerContext(api.settings, api.database, Queue(api.settings), "cpu")
    federation = register(api, context)
    assert has_index(api, federation)
    assert api.request("DELETE", f"/v1/federations/{federation}").status_code == 204
    assert not has_index(api, federation)
    store = ProfileRun._store_index

    def deleted_meanwhile(run: ProfileRun, row: Federation, place: BinaryIO) -> None:
        assert api.request("DELETE", f"/v1/federations/{federation}").status_code == 204
        store(run, row, place)

    monkeypatch.setattr(ProfileRun, "_store_index", deleted_meanwhile)
    with pytest.raises(AssertionError):
        register(api, context)
    assert not has_index(api, federation)


class KilledError(BaseException):
    """What no worker survives to handle."""


@pytest.mark.parametrize("way", ["erased", "deleted"])
def test_what_a_killed_worker_kept_outlives_neither_receipt_nor_deletion(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """No receipt is signed while a worker may still keep an index, and what it kept goes; beside
    it there is nothing with a name."""
    context = WorkerContext(api.settings, api.database, Queue(api.settings), "cpu")
    sweeper = Sweeper(api.settings, api.database, context.queue)
    store, killed, temporary = ProfileRun._store_index, list[tuple[str, str]](), tmp_path / "tmp"
    temporary.mkdir()

    def gone_meanwhile(run: ProfileRun, row: Federation, place: BinaryIO) -> None:
        assert list(temporary.iterdir()) == []
        path = f"/v1/federations/{row.id}"
        gone = erase(api, row.id) if way == "erased" else api.request("DELETE", path)
        assert gone.is_success, gone.text
        sweeper.tick()
        store(run, row, place)
        killed.append((row.id, run._claim.unit_id))
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(temporary))
        patched.setattr(ProfileRun, "_store_index", gone_meanwhile)
        with pytest.raises(KilledError):
            register(api, context)
    [(federation, unit_id)] = killed
    sweeper.tick()
    assert has_index(api, federation)
    erasure = f"/v1/federations/{federation}/erasure"
    assert way == "deleted" or api.get(erasure).json()["status"] == "erasing"
    with api.database.write() as session:
        session.execute(update(Unit).values(lease_until=Unit.created_at))
    sweeper.tick()
    assert way == "deleted" or api.get(erasure).json()["status"] == "erased"
    if way == "deleted":
        with api.database.write() as session:
            session.execute(update(Unit).values(available_at=Unit.created_at))
        run_unit(context, unit_id)
    assert not has_index(api, federation)


def test_a_storage_that_fails_leaves_the_table_to_be_read(api, monkeypatch):
    def fails(*_: Any) -> None:
        raise StorageError("the storage is full")

    context = WorkerContext(api.settings, api.database, Queue(api.settings), "cpu")
    monkeypatch.setattr(ProfileRun, "_store_index", fails)
    federation = register(api, context)
    assert not has_index(api, federation)
    shutil.rmtree(api.settings.maps_dir or Path())
    assert api.submit(spec_on(federation, local(), scale={"x": 7}))["status"] == "queued"
