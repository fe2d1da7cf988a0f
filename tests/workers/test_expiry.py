"""Files whose time is over: removed, told of, and never what somebody still needs."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from infrastructure.storage import Storage, StorageError
from models.clock import utc_now
from models.repositories import CheckpointRepository, IdempotencyRepository
from models.tables.accounts import IdempotencyKey
from models.tables.experiments import Checkpoint, Experiment
from tests.api.service import Api, running_api, settings_for
from tests.workers.admission import spec_with
from tests.workers.epsilon_specs import by_record, central, released
from tests.workers.serving import succeeded
from workers.context import WorkerContext
from workers.sweeper import Expiry


@pytest.fixture
def api(database_url: str, tmp_path: Path, signing_key_file: Path) -> Iterator[Api]:
    settings = settings_for(
        database_url, tmp_path, signing_key_file=signing_key_file, keep_results_days=30
    )
    with running_api(settings) as api:
        yield api


def expire(api: Api, served: WorkerContext) -> None:
    """A sweeper's turn."""
    Expiry(api.settings, api.database, served.storage).expire()


def stored_files(api: Api) -> list[Path]:
    return [one for one in (api.settings.data_dir / "files").rglob("*") if one.is_file()]


def age(api: Api, *ids: str, days: int = 31) -> None:
    """These experiments ended so long ago."""
    with api.database.write() as session:
        ended = utc_now() - timedelta(days=days)
        session.execute(update(Experiment).where(Experiment.id.in_(ids)).values(finished_at=ended))


def test_old_results_expire_and_say_so_and_reports_stay(api, served, monkeypatch):
    model, records = (
        succeeded(api, served, released(central())),
        succeeded(api, served, by_record()),
    )
    none, new = succeeded(api, served, spec_with()), succeeded(api, served, released(central()))
    report = api.get(f"/v1/experiments/{model}/report.json").content
    age(api, model, records, none)
    delete = Storage.delete
    monkeypatch.setattr(Storage, "delete", lambda *_: (_ for _ in ()).throw(StorageError("away")))
    expire(api, served)
    monkeypatch.setattr(Storage, "delete", delete)
    for path in (f"{model}/model", f"{records}/record-table"):
        gone = api.get(f"/v1/experiments/{path}")
        assert (gone.status_code, gone.json()["reason"]) == (410, "expired"), gone.text
        assert "30 days (FEDAUDIT_KEEP_RESULTS_DAYS)" in gone.json()["detail"]
    left = stored_files(api)
    expire(api, served)
    assert len(left) - len(stored_files(api)) == 2, "what the storage refused is removed later"
    api.client.post("/sign-in", data={"key": api.key, "next": "/"})
    for page in ("", "/report"):
        shown = api.client.get(f"/experiments/{model}{page}").text
        assert "The trained model expired on" in shown
        assert "Save the model" not in shown
    assert api.get(f"/v1/experiments/{new}/model").status_code == 200
    assert api.get(f"/v1/experiments/{none}/model").status_code == 409, "there never was one"
    assert api.get(f"/v1/experiments/{model}/report.json").content == report
    assert api.get(f"/v1/experiments/{model}/report/verification").json()["valid"]
    entries = [
        (one["subject"], one["details"]["files"])
        for one in api.get("/v1/audit-log", params={"action": "files.expired"}).json()["items"]
    ]
    assert sorted(entries) == [("model", 1), ("record-table", 1)]


def test_checkpoints_of_runs_that_ended_and_old_repeats_are_forgotten(api, served):
    ended, running = succeeded(api, served, spec_with()), api.submit(spec_with())["id"]
    age(api, ended, days=8)
    with api.database.write() as session:
        for id_ in (ended, running):
            CheckpointRepository(session, api.project_id).put(id_, round=1, data=b"state")
        key_id = api.get("/v1/api-keys").json()["items"][0]["id"]
        for name in ("old", "new"):
            IdempotencyRepository(session).add(
                project_id=api.project_id,
                api_key_id=key_id,
                route="r",
                key=name,
                body_hash="x",
                resource_id="x",
            )
        long_ago = utc_now() - timedelta(days=31)
        old = IdempotencyKey.key == "old"
        session.execute(update(IdempotencyKey).where(old).values(created_at=long_ago))
    expire(api, served)
    with api.database.read() as session:
        assert list(session.scalars(select(Checkpoint.experiment_id))) == [running]
        assert session.scalar(select(func.count()).select_from(IdempotencyKey)) == 1
