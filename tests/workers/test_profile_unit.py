"""Registered files are profiled by a worker: ready, rejected with reasons, or tried again."""

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from celery.worker import state as celery_state

from fedaudit.federations import load
from models.database import Database
from models.repositories import FederationRepository, UnitRepository
from tests.workers.admission import experiment_of, lose, spec_with, submit, unit_of, with_settings
from tests.workers.registering import KEY, REGISTRATION, Registered, federation_of, people, register
from workers.context import ProjectFiles, WorkerContext
from workers.run_unit import run_unit
from workers.sweeper import Sweeper


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_an_upload_becomes_ready(database: Database, context: WorkerContext, pack: Any) -> None:
    registered = register(database, pack(people(300)), storage=context.storage)
    run_unit(context, registered.unit_id)
    row = federation_of(database, registered)
    assert (row.status, row.reasons) == ("ready", None)
    assert row.profiled_at is not None
    assert (row.profile["rows"], row.profile["clients"]) == (300, 30)
    assert row.profile["attributes"]["sex"]["groups"] == {"F": 150, "M": 150}
    assert unit_of(database, registered).state == "done"


def test_a_second_cut_of_a_column_is_not_shown(database: Database, context: WorkerContext) -> None:
    def profile(edge: int, **fairness: Any) -> dict[str, Any]:
        asked = {"sensitive": ["x", "sex"], "edges": {"x": [edge]}, "minimum_group_size": 30}
        registered = register(
            database, people(300), storage=context.storage, fairness={**asked, **fairness}
        )
        run_unit(context, registered.unit_id)
        row = federation_of(database, registered)
        assert row.status == "ready"
        found: dict[str, Any] = row.profile["attributes"]
        return found

    first = profile(20)
    assert first["x"]["groups"] == {"<20": 140, ">=20": 160}
    moved = profile(21)
    assert set(moved["x"]["groups"].values()) == {None}
    assert "an earlier profile of these data" in moved["x"]["reasons"]["groups"]
    assert moved["sex"] == first["sex"]
    # The first profile had no rule, so that no rates were shown: the first that are stay the only.
    assert first["x"]["reasons"]["base_rates"].startswith("the target has 5 classes")
    judged = profile(20, favourable={"op": "ge", "value": 2})
    assert judged["x"]["groups"] == first["x"]["groups"]
    assert None not in judged["x"]["base_rates"].values()
    other = profile(20, favourable={"op": "ge", "value": 1})
    assert set(other["x"]["base_rates"].values()) == {None}
    assert profile(20) == first, "what was shown is shown again"


def test_data_that_cannot_be_used_is_rejected_with_row_and_column(database, context):
    data = people(300) + b"c1,seven,F,1\n"
    registered = register(database, data, storage=context.storage)
    run_unit(context, registered.unit_id)
    row = federation_of(database, registered)
    assert (row.status, row.profile) == ("rejected", {})
    assert row.reasons is not None
    ((pointer, message),) = [(one["pointer"], one["message"]) for one in row.reasons]
    assert pointer == "/federation/features/0"
    assert message.startswith("row 301 of column 'x' is not a number")
    assert "seven" not in message
    assert unit_of(database, registered).state == "done"


@pytest.mark.parametrize(
    ("registered_as", "stored", "uploaded", "stated"),
    [
        (people(300) + b"1,2\n", None, True, "'people.csv' has 2 cells in data row 301"),
        (people(301), people(300), False, "not what it was when it was registered"),
        (people(300), people(299), True, "no longer the file that was uploaded"),
    ],
    ids=["no table", "changed below the sources", "changed in the storage"],
)
def test_a_file_that_cannot_be_used_is_rejected(
    database: Database,
    context: WorkerContext,
    tmp_path: Path,
    registered_as: bytes,
    stored: bytes | None,
    uploaded: bool,
    stated: str,
) -> None:
    (tmp_path / "people.csv").write_bytes(stored or registered_as)
    registered = register(database, registered_as, storage=context.storage if uploaded else None)
    if uploaded and stored is not None:
        with context.storage.writer(KEY) as writer:
            writer.write(stored)
    run_unit(with_settings(context, sources_dir=tmp_path), registered.unit_id)
    (reason,) = federation_of(database, registered).reasons or []
    assert reason["pointer"] == "/federation/path"
    assert stated in reason["message"]


def test_a_worker_that_must_stop_gives_the_profile_back(database, context):
    registered = register(database, people(300), storage=context.storage)
    celery_state.should_stop = 0
    run_unit(context, registered.unit_id)
    unit = unit_of(database, registered)
    assert (unit.state, unit.attempts) == ("waiting", 0)
    assert federation_of(database, registered).status == "profiling"

    celery_state.should_stop = None
    run_unit(context, registered.unit_id)
    assert federation_of(database, registered).status == "ready"


def test_storage_that_fails_is_tried_again_and_rejected_at_last(database, context):
    registered = register(database, people(300), storage=context.storage, max_attempts=2)
    context.storage.delete(KEY)
    run_unit(context, registered.unit_id)
    assert federation_of(database, registered).status == "profiling"
    assert unit_of(database, registered).state == "waiting"
    run_unit(context, registered.unit_id)
    row = federation_of(database, registered)
    assert row.status == "rejected"
    assert "no fault of the data" in (row.reasons or [])[0]["message"]
    unit = unit_of(database, registered)
    assert unit.state == "failed"
    assert "StorageError" in (unit.last_error or "")


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "deleted"])
def test_whose_unit_or_federation_is_gone_meanwhile_writes_nothing(
    database, context, monkeypatch, lost
):
    def meanwhile(*_: Any, **__: Any) -> dict[str, Any]:
        with database.write() as session:
            if lost:
                UnitRepository(session).release(registered.unit_id, 1, count_attempt=True)
            else:
                federations = FederationRepository(session, registered.project_id)
                assert federations.mark_deleted(registered.federation_id)
        return {"rows": 1, "attributes": {}}

    registered = register(database, people(300), storage=context.storage)
    monkeypatch.setattr(load.RegisteredData, "profile", meanwhile)
    run_unit(context, registered.unit_id)
    row = federation_of(database, registered)
    assert (row.status, row.profile) == ("profiling" if lost else "deleted", {})
    assert unit_of(database, registered).state == ("waiting" if lost else "done")


def by_id(registered: Registered) -> dict[str, Any]:
    named = {"path": None, "id": registered.federation_id}
    return spec_with(federation={**REGISTRATION["federation"], **named}, training__rounds=2)


@pytest.mark.parametrize("uploaded", [True, False])
def test_experiments_train_on_a_federation_by_its_id(database, context, tmp_path, uploaded):
    (tmp_path / "people.csv").write_bytes(people(300))
    context = with_settings(context, sources_dir=tmp_path)
    registered = register(database, people(300), storage=context.storage if uploaded else None)
    run_unit(context, registered.unit_id)
    files = ProjectFiles(context, registered.project_id)
    submitted = submit(database, by_id(registered), open_upload=files.open)
    assert submitted.federation_id == registered.federation_id
    run_unit(context, submitted.unit_id)
    assert experiment_of(database, submitted).status == "succeeded"


def test_profiling_loads_no_torch(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_bytes(people(300))
    program = f"""
import sys
from pathlib import Path
import workers.app, workers.run_unit
from fedaudit.federations.load import RegisteredData
from fedaudit.federations.reading.source_files import Files
from fedaudit.spec.registration import parse_registration
from tests.workers.registering import REGISTRATION
RegisteredData(parse_registration(REGISTRATION), Files(Path({str(tmp_path)!r}))).profile()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_lost_worker_is_followed_by_another_until_the_federation_is_rejected(database, context):
    registered, other = (
        register(database, people(rows), storage=context.storage, max_attempts=attempts)
        for rows, attempts in ((300, 1), (301, 2))
    )
    for one in (registered, other):
        lose(database, one)
    assert Sweeper(context.settings, database, context.queue).tick()
    run_unit(context, other.unit_id)
    assert federation_of(database, other).status == "ready"
    row = federation_of(database, registered)
    assert row.status == "rejected"
    (reason,) = row.reasons or []
    assert "worker lost" in reason["message"]
