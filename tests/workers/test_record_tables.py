"""Record tables: stored by the worker before a run ends, and served by the API."""

import csv
import hashlib
import io
from typing import Any

import pytest

import workers.run_loop
from infrastructure.storage import Storage, StorageFullError, file_key
from models.repositories import ReportRepository
from models.values import SCOPES
from tests.api.service import Api, body_of
from tests.workers.admission import spec_with
from tests.workers.epsilon_specs import by_record, central, released
from tests.workers.serving import ended
from workers.context import WorkerContext
from workers.run_unit import run_unit

COLUMNS = ["client", "row", "budget", "rate", "left_out", "epsilon_final_model", "epsilon_server"]
NAMES = {"=cmd": "'=cmd", "-7": "-7", "b": "b"}
"""Of clients; and how a spreadsheet is shown them."""


@pytest.fixture
def people(api: Api) -> dict[str, Any]:
    """An experiment on three clients of twenty rows each, some of them held out."""
    names = list(NAMES)
    rows = [f"{names[row % 3]},{row % 7},{row % 7 + 1}" for row in range(60)]
    assert api.settings.sources_dir is not None
    (api.settings.sources_dir / "people.csv").write_text("\n".join(["who,x,y", *rows, ""]))
    federation = {
        "source": "table",
        "path": "people.csv",
        "client_key": "who",
        "target": "y",
        "validation_unit": "record",
    }
    return {**by_record(), "federation": federation}


def ran(api: Api, served: WorkerContext, spec: dict[str, Any]) -> str:
    """The path of an experiment that a worker took up."""
    return f"/v1/experiments/{ended(api, served, spec)}"


def stored_table(served: WorkerContext, api: Api, path: str) -> bytes:
    """The table's bytes in the storage."""
    key = file_key("record-table", api.project_id, path.rpartition("/")[2])
    with served.storage.local(key) as file:
        return file.read_bytes()


def test_the_table_has_a_line_for_each_record(api, served, people):
    path = ran(api, served, people)
    answer = api.get(f"{path}/record-table", key=api.key_with("ledger:read"))
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"].endswith('-record-table.csv"')
    assert answer.content == stored_table(served, api, path)
    records = list(csv.DictReader(io.StringIO(answer.text)))
    assert list(records[0]) == COLUMNS
    assert 30 < len(records) < 54  # of 60 rows, each is held out with chance 0.3
    assert {record["client"] for record in records} == set(NAMES.values())
    assert len({(record["client"], record["row"]) for record in records}) == len(records)
    for one in api.get(f"{path}/report.json").json()["privacy"]["epsilon"]:
        stated = max(float(record[f"epsilon_{one['observer']}"]) for record in records)
        assert stated == pytest.approx(one["value"], rel=1e-12)


def test_a_worker_lost_at_the_very_end_leaves_no_table_without_a_report(
    api: Api, served: WorkerContext, people: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any, **__: Any) -> None:
        raise SystemError("power cut")

    people = released(people)
    with monkeypatch.context() as patch:
        patch.setattr(workers.run_loop, "succeed", lost)
        path = ran(api, served, people)
    answer = api.get(f"{path}/record-table")
    assert answer.status_code == 404
    assert answer.json()["detail"] == "the experiment has no record table: it is running"
    before = stored_table(served, api, path)
    run_unit(served, api.stored(path.rpartition("/")[2]).unit_id)
    assert api.get(path).json()["status"] == "succeeded"
    assert api.get(f"{path}/record-table").content == before


def test_without_room_for_the_table_the_end_is_tried_again(api, served, people, monkeypatch):
    def full(*_: Any) -> None:
        raise StorageFullError("the storage is full")

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "writer", full)
        path = ran(api, served, people)
    assert api.get(path).json()["status"] == "running"
    run_unit(served, api.stored(path.rpartition("/")[2]).unit_id)
    assert api.get(path).json()["status"] == "succeeded"
    assert api.get(f"{path}/record-table").status_code == 200


# -- trained models: stored by the worker before a run ends, and served where they may leave ------


def test_a_model_that_may_leave_is_the_one_that_the_report_states(api, served):
    id_ = api.submit(released(central()))["id"]
    path = f"/v1/experiments/{id_}"
    waiting = body_of(api.get(f"{path}/model"), 409)
    assert "it is queued; ask again" in waiting["detail"]
    run_unit(served, api.stored(id_).unit_id)
    stated = api.get(f"{path}/report.json").json()["model"]
    answer = api.get(f"{path}/model", key=api.key_with("reports:read"))
    assert answer.status_code == 200, answer.text
    assert hashlib.sha256(answer.content).hexdigest() == stated["sha256"]
    assert len(answer.content) == stated["size_bytes"]
    assert answer.headers["content-disposition"].endswith('-model.safetensors"')
    # What the data decide of the layout needs the scope of federations.
    layout = body_of(api.get(f"{path}/model-layout", key=api.key_with("federations:read")))
    assert layout["features"] == [{"column": "x1"}, {"column": "x2"}]
    assert (layout["classes"], layout["target_scale"]) == (None, 1.0)
    others = api.key_with(*(scope for scope in SCOPES if scope != "federations:read"))
    assert api.get(f"{path}/model-layout", key=others).status_code == 403
    # As earlier versions left it: without a layout, and without a model.
    with api.database.write() as session:
        ReportRepository(session, api.project_id).get(id_).model_layout = None
    assert "kept no layout" in body_of(api.get(f"{path}/model-layout"), 409)["detail"]
    with api.database.write() as session:
        row = ReportRepository(session, api.project_id).get(id_)
        row.document = {name: row.document[name] for name in row.document if name[:5] != "model"}
    assert "kept no models" in body_of(api.get(f"{path}/model"), 409)["detail"]


def test_what_may_not_leave_is_not_stored_and_refused_with_the_reason(api, served):
    path = ran(api, served, spec_with())
    for file in ("model", "model-layout"):
        problem = body_of(api.get(f"{path}/{file}"), 409)
        assert problem["type"].endswith("/conflict")
        assert "set privacy.noise to release" in problem["detail"]
    assert not served.storage.holds(file_key("model", api.project_id, path.rpartition("/")[2]))
    problem = body_of(api.get(f"{path}/record-table"), 404)
    assert problem["type"].endswith("/not-found")
    assert "has no record table: its run left none" in problem["detail"]
