"""Erasing a federation: what tells of people goes, what was spent and signed stays."""

import json
import os
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text, update

from fedaudit.federations.load import RegisteredData
from fedaudit.ledger.statements import Envelope
from infrastructure.storage import Storage, StorageError
from models.repositories import (
    CheckpointRepository,
    FederationRepository,
    IdempotencyRepository,
    ServiceStateRepository,
)
from models.tables.accounts import IdempotencyKey
from models.tables.base import Base
from models.tables.experiments import Checkpoint, Experiment, Unit
from models.tables.federations import ErasedLedger, Federation
from models.tables.ledger import Ledger
from models.values import SCOPES, utc_now
from tests.api.ledgers.trainings import GAUSSIAN, declared, opened, post, reserve
from tests.api.service import Api
from tests.waiting import wait_until
from tests.workers.admission import spec_with
from tests.workers.epsilon_specs import by_record, central, local, released
from tests.workers.serving import bundle_of, judged_bundle, succeeded
from workers.context import WorkerContext
from workers.run_unit import run_unit
from workers.sweeper import Expiry, Sweeper

NAMES = [f"Klinik-Nord-{number}" for number in range(12)]
ROWS = [
    f"{NAMES[row % 12]},{'FM'[row // 12 % 2]},{row % 7},{row % 7 + row % 3}" for row in range(240)
]
CONTENT = "\n".join(["who,sex,x,y", *ROWS, ""]).encode()
FEDERATION: dict[str, Any] = {"source": "table", "client_key": "who", "target": "y"}
FAVOURABLE = {"op": "ge", "value": 4}
FAIRNESS = {"sensitive": ["sex"], "favourable": FAVOURABLE, "minimum_group_size": 2}


@pytest.fixture
def sweeper(api: Api, served: WorkerContext) -> Sweeper:
    return Sweeper(api.settings, api.database, served.queue)


def upload(api: Api, content: bytes = CONTENT) -> Any:
    described = json.dumps({"name": "clinics", "federation": FEDERATION, "fairness": FAIRNESS})
    files = [
        ("registration", (None, described, "application/json")),
        ("file", ("clinics.csv", content, "text/csv")),
    ]
    return api.post("/v1/federations", files=files)


def uploaded(api: Api, content: bytes = CONTENT) -> tuple[str, str]:
    """The ids of the federation, and of the unit that is to profile it."""
    answer = upload(api, content)
    assert answer.status_code in (200, 202), answer.text
    id_ = str(answer.json()["id"])
    with api.database.read() as session:
        unit_id = session.scalar(select(Federation.unit_id).where(Federation.id == id_))
    return id_, str(unit_id)


def register(api: Api, served: WorkerContext, content: bytes = CONTENT) -> str:
    """The id of the federation, uploaded and profiled."""
    id_, unit_id = uploaded(api, content)
    run_unit(served, unit_id)
    assert api.get(f"/v1/federations/{id_}").json()["status"] == "ready"
    return id_


def spec_on(federation_id: str, spec: dict[str, Any], **federation: Any) -> dict[str, Any]:
    source = {**FEDERATION, "id": federation_id, "validation_fraction": 0.25, **federation}
    return {**spec, "federation": source, "fairness": FAIRNESS}


def erase(api: Api, federation_id: str) -> Any:
    return api.post(f"/v1/federations/{federation_id}/erasure", json={"reference": "2026-117"})


def kept_text(api: Api) -> str:
    """All that the database holds, as text."""
    with api.database.read() as session:
        rows = [
            session.execute(select(table)).mappings().all() for table in Base.metadata.sorted_tables
        ]
    return "\n".join(str({**row}) for table in rows for row in table)


def files_naming(api: Api, name: bytes) -> list[Path]:
    """The database's own files that hold the name: SQLite's and its log; none of Postgres."""
    folder = Path(api.database.url.database or "").parent
    return [one for one in folder.glob("*.db*") if name in one.read_bytes()]


@pytest.mark.both_databases
def test_names_models_and_counts_go_and_spending_and_proofs_stay(api, served, sweeper, tmp_path):
    federation = register(api, served)
    model = succeeded(api, served, spec_on(federation, released(central())))
    by_silo = spec_on(federation, released(by_record()), validation_unit="record")
    records = succeeded(api, served, by_silo)
    clients = succeeded(api, served, spec_on(federation, released(local())))
    sweeper.tick()
    path = f"/v1/federations/{federation}"
    spent = api.get(f"{path}/budget").json()
    report = api.get(f"/v1/experiments/{model}/report.json").json()
    assert "Klinik-Nord" in kept_text(api)
    assert bool(files_naming(api, b"Klinik-Nord")) == (api.database.dialect == "sqlite")
    salts = [api.stored(one).ledger_salt for one in (model, clients)]
    assert [one for one in (str(salts[0]), "fedaudit-layout-1") if one not in kept_text(api)] == []

    answer = erase(api, federation)
    assert (answer.status_code, answer.json()["status"]) == (202, "erasing"), answer.text
    assert api.get(f"/v1/experiments/{model}/privacy-ledger").status_code == 409, "names are shown"
    sweeper.tick()
    done = api.get(f"{path}/erasure").json()
    assert (done["status"], done["files_left"]) == ("erased", 0)

    kept = kept_text(api)
    assert "fedaudit-layout-1" not in kept
    assert [one.name for one in files_naming(api, b"Klinik-Nord")] == []
    assert [text for text in ("Klinik-Nord", *map(str, salts)) if text in kept] == []
    assert [one for one in (api.settings.data_dir / "files").rglob("*") if one.is_file()] == []
    for gone in (f"{model}/model", f"{model}/model-layout", f"{records}/record-table"):
        refused = api.get(f"/v1/experiments/{gone}")
        assert (refused.status_code, refused.json()["reason"]) == (410, "erased"), gone
    assert api.get(path).json()["status"] == "erased"
    api.client.post("/sign-in", data={"key": api.key, "next": "/"})
    assert "The federation was erased" in api.client.get(f"/federations/{federation}").text
    for page in ("", "/report"):
        assert "The trained model was erased" in api.client.get(f"/experiments/{model}{page}").text
    assert api.get(f"{path}/budget").json() == spent
    assert api.get(f"/v1/experiments/{model}/report.json").json() == report
    for experiment in (model, records, clients):
        found = judged_bundle(bundle_of(api, experiment, tmp_path), served.signing_key.public)
        assert [one for one in found.checks if one.outcome != "pass"] == []
        assert found.verdict == "valid"
    envelope = Envelope.from_dict(done["receipt"])
    assert served.signing_key.public.verifies(envelope.signature, envelope.message)
    receipt = json.loads(envelope.payload)
    assert (receipt["reference"], receipt["removed"]["models"]) == ("2026-117", 3)
    assert sorted(receipt["ledgers"]) == sorted([model, clients])
    actions = [one["action"] for one in api.get("/v1/audit-log").json()["items"]]
    actions = [one for one in actions if one != "ledger.exported"]
    assert actions[:2] == ["erasure.completed", "federation.erased"]

    # Whoever may use the data again finds what was spent on them, and their old ledgers nameless.
    assert register(api, served) == federation
    assert api.get(f"{path}/budget").json() == spent
    succeeded(api, served, spec_on(federation, released(central())))
    lines = api.get(f"/v1/experiments/{clients}/privacy-ledger").json()["items"]
    assert {line["subject"].partition("-")[0] for line in lines} == {"erased"}


def test_an_erased_ledger_that_is_altered_afterwards_is_found(api, served, sweeper, tmp_path):
    federation = register(api, served)
    experiment = succeeded(api, served, spec_on(federation, released(local())))
    erase(api, federation)
    sweeper.tick()
    with api.database.write() as session:
        [row] = session.scalars(
            select(Ledger).where(Ledger.round == 2, Ledger.observer == "server")
        )
        row.releases = row.releases + 1
    found = judged_bundle(bundle_of(api, experiment, tmp_path), served.signing_key.public)
    assert found.verdict == "altered"
    assert "fail" in {one.outcome for one in found.checks if one.name == "erasure.ledger"}
    with api.database.write() as session:
        session.delete(session.get_one(ErasedLedger, experiment))
    found = judged_bundle(bundle_of(api, experiment, tmp_path), served.signing_key.public)
    assert "ledger.digests" in {one.name for one in found.checks if one.outcome == "fail"}


def test_what_still_needs_the_federation_refuses_the_erasure_and_changes_nothing(api, served):
    federation = register(api, served)
    waiting = api.submit(spec_on(federation, released(central())))["id"]
    before = api.counts()
    refused = erase(api, federation)
    assert (refused.status_code, refused.json()["needed_by"]) == (409, [waiting])
    assert api.counts() == before
    assert api.get(f"/v1/federations/{federation}").json()["status"] == "ready"
    others = api.key_with("federations:read", "federations:write", "experiments:read")
    body: dict[str, Any] = {"json": {}, "key": others}
    assert api.post(f"/v1/federations/{federation}/erasure", **body).status_code == 403


def test_a_sweeper_that_is_killed_between_any_two_steps_loses_nothing(
    api: Api, served: WorkerContext, sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = register(api, served)
    succeeded(api, served, spec_on(federation, released(central())))
    stored = Base.metadata.tables["federations"].c
    with api.database.read() as session:
        kept = session.scalar(select(stored.storage_key).where(stored.id == federation))
    erase(api, federation)
    delete = Storage.delete

    def fails(self: Storage, key: str) -> None:
        if key == kept:
            raise StorageError("away")
        delete(self, key)

    monkeypatch.setattr(Storage, "delete", fails)
    sweeper.tick()
    waiting = api.get(f"/v1/federations/{federation}/erasure").json()
    assert (waiting["status"], waiting["receipt"]) == ("erasing", None)
    with api.database.read() as session:
        [(_, age)] = ServiceStateRepository(session).figures()["erasure_oldest_seconds"]
        assert age > 0
    assert upload(api).status_code == 409, "registered while it is being erased"
    monkeypatch.undo()
    Sweeper(api.settings, api.database, served.queue).tick()
    # The duty is the first one's until it ends.
    sweeper.resign()
    Sweeper(api.settings, api.database, served.queue).tick()
    done = api.get(f"/v1/federations/{federation}/erasure").json()
    assert (done["status"], done["files_left"]) == ("erased", 0)
    assert erase(api, federation).status_code == 200, "an erasure is repeated without harm"


def test_projects_that_share_the_data_are_notified_and_keep_theirs(api, served, sweeper):
    assert api.settings.sources_dir is not None
    (api.settings.sources_dir / "clinics.csv").write_bytes(CONTENT)
    other = api.key_with(*SCOPES, project="another")
    spec = spec_on("", local())
    shared = {**spec, "federation": {**spec["federation"], "id": None, "path": "clinics.csv"}}
    theirs = api.submit(shared, key=other)["id"]
    run_unit(served, api.stored(theirs).unit_id)
    federation = register(api, served)
    mine = succeeded(api, served, spec_on(federation, local()))
    answer = erase(api, federation).json()
    sweeper.tick()
    assert (answer["other_projects"], "other-projects" in answer["remains"]) == (1, True)
    [entry] = [
        one
        for one in api.get("/v1/audit-log", key=other).json()["items"]
        if one["action"] == "federation.erased-elsewhere"
    ]
    assert entry["subject"] == api.stored(theirs).federation_id
    shown = [
        {line["subject"][:6] for line in api.get(f"{path}/privacy-ledger", key=key).json()["items"]}
        for path, key in ((f"/v1/experiments/{theirs}", other), (f"/v1/experiments/{mine}", ""))
    ]
    assert shown == [{"Klinik"}, {"erased"}]
    asked = {"name": "later", "path": "clinics.csv", "truth": "y", "prediction": "x"}
    audit = api.post("/v1/audits", json={**asked, "sensitive": ["sex"], "favourable": FAVOURABLE})
    assert (audit.status_code, "were erased" in audit.json()["detail"]) == (409, True)


@pytest.mark.both_databases
def test_a_ledger_of_a_training_elsewhere_loses_its_names_and_takes_no_more_rounds(
    api: Api, served: WorkerContext, sweeper: Sweeper, tmp_path: Path
) -> None:
    federation = register(api, served)
    ledger = opened(api, federation_id=federation)
    path = f"/v1/ledgers/{ledger}"
    assert reserve(api, ledger, 1, NAMES[:4])["admitted"] == NAMES[:4]
    answer = post(api, ledger, declared(1, NAMES[:3]), declared(2, NAMES[2:6]))
    assert answer.status_code in (200, 201), answer.text
    refused = erase(api, federation)
    assert (refused.status_code, refused.json()["needed_by"]) == (409, [ledger])
    sweeper.tick()
    assert erase(api, federation).status_code == 202
    gone = post(api, ledger, declared(3, NAMES[:2]))
    assert (gone.status_code, gone.json()["type"]) == (410, "/problems/gone")
    assert api.get(f"{path}/bundle").status_code == 409, "names are shown"
    sweeper.tick()
    assert "Klinik-Nord" not in kept_text(api)
    file = tmp_path / "ledger.zip"
    file.write_bytes(api.get(f"{path}/bundle").content)
    found = judged_bundle(file, served.signing_key.public)
    assert [one for one in found.checks if one.outcome != "pass"] == []
    assert found.verdict == "valid"
    assert api.get(f"{path}/privacy-ledger").json()["salt"] is None, "names can be tried"
    assert register(api, served) == federation
    assert post(api, ledger, declared(3, NAMES[:2])).status_code == 410, "it is taken up again"
    assert reserve_status(api, ledger) == 410


def reserve_status(api: Api, ledger: str) -> int:
    body = {"event": GAUSSIAN, "participants": NAMES[:2]}
    answer = api.post(f"/v1/ledgers/{ledger}/rounds/9/reservation", json=body)
    return int(answer.status_code)


# SQLite has one writer, so that nothing comes between.
@pytest.mark.both_databases
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_an_erasure_waits_for_the_profile_that_is_being_stored(api, served, monkeypatch):
    federation, unit_id = uploaded(api)
    set_ready, answers = FederationRepository.set_ready, list[Future[Any]]()
    waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted")

    def waiting() -> bool:
        with api.database.read() as session:
            return bool(session.scalar(waits))

    with ThreadPoolExecutor(1) as pool:

        def ready(*arguments: Any, **options: Any) -> bool:
            # The worker has locked its unit, and not yet the federation.
            answers.append(pool.submit(erase, api, federation))
            wait_until(waiting, "the erasure to wait")
            return set_ready(*arguments, **options)

        monkeypatch.setattr(FederationRepository, "set_ready", ready)
        run_unit(served, unit_id)
        assert [one.result().status_code for one in answers] == [202]
    assert api.get(f"/v1/federations/{federation}").json()["status"] == "erased"


# -- data that are laid out on disk while they are used -------------------------------------------


def test_what_earlier_versions_and_killed_processes_left_goes(api: Api, sweeper: Sweeper) -> None:
    scratch = api.settings.scratch_dir
    for name in ("used", "left"):
        (scratch / name).mkdir(parents=True)
        (scratch / name / "features.npy").write_bytes(b"half")
    os.utime(scratch / "left", (0, 0))
    sweeper.tick()
    assert [path.name for path in scratch.iterdir()] == ["used"]


class KilledError(BaseException):
    """What no worker survives to handle."""


def test_no_receipt_is_signed_while_a_worker_reads_the_data(api, served, sweeper, monkeypatch):
    erased: list[str] = []

    def erased_meanwhile(data: RegisteredData, fingerprint: str) -> None:
        id_ = str(data.registration.federation.id)
        assert erase(api, id_).is_success
        erased.append(id_)
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(RegisteredData, "profile", erased_meanwhile)
        with pytest.raises(KilledError):
            register(api, served)
    erasure = f"/v1/federations/{erased[0]}/erasure"
    sweeper.tick()
    assert api.get(erasure).json()["status"] == "erasing"
    with api.database.write() as session:
        session.execute(update(Unit).values(lease_until=Unit.created_at))
    sweeper.tick()
    assert api.get(erasure).json()["status"] == "erased"


# -- files whose time is over: removed, reported, and never what is still needed ------------------


def expire(api: Api, served: WorkerContext) -> None:
    """A sweeper's turn."""
    settings = api.settings.model_copy(update={"keep_results_days": 30})
    Expiry(settings, api.database, served.storage).expire()


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
