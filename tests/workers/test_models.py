"""Trained models: stored by the worker before a run ends, and served where they may leave."""

import hashlib
from typing import Any

from infrastructure.storage import model_key
from models.repositories import ReportRepository
from models.vocabulary import SCOPES
from tests.api.service import Api
from tests.workers.admission import spec_with
from tests.workers.epsilon_specs import central
from workers.context import WorkerContext
from workers.run_unit import run_unit


def released() -> dict[str, Any]:
    """A spec whose model may leave."""
    spec = central()
    return {**spec, "privacy": {**spec["privacy"], "noise": "release"}}


def ran(api: Api, served: WorkerContext, spec: dict[str, Any]) -> str:
    """The path of an experiment that a worker took up."""
    id_ = api.submit(spec)["id"]
    run_unit(served, api.stored(id_).unit_id)
    return f"/v1/experiments/{id_}"


def test_the_file_is_the_one_that_the_report_states(api: Api, served: WorkerContext) -> None:
    path = ran(api, served, released())
    report = api.get(f"{path}/report.json").json()
    answer = api.get(f"{path}/model", key=api.key_with("reports:read"))
    assert answer.status_code == 200, answer.text
    assert hashlib.sha256(answer.content).hexdigest() == report["model"]["sha256"]
    assert len(answer.content) == report["model"]["size_bytes"]
    assert answer.headers["content-disposition"].endswith('-model.safetensors"')


def test_what_the_data_decide_of_the_layout_needs_the_scope_of_federations(api, served):
    path = ran(api, served, released())
    layout = api.get(f"{path}/model-layout", key=api.key_with("federations:read"))
    assert layout.status_code == 200, layout.text
    assert layout.json()["features"] == [{"column": "x1"}, {"column": "x2"}]
    assert (layout.json()["classes"], layout.json()["target_scale"]) == (None, 1.0)
    others = api.key_with(*(scope for scope in SCOPES if scope != "federations:read"))
    assert api.get(f"{path}/model-layout", key=others).status_code == 403
    kept = api.get(f"{ran(api, served, spec_with())}/model-layout")
    assert (kept.status_code, "set privacy.noise" in kept.json()["detail"]) == (409, True)
    with api.database.write() as session:
        row = ReportRepository(session, api.project_id).get(path.rpartition("/")[2])
        row.model_layout = None
    earlier = api.get(f"{path}/model-layout")
    assert (earlier.status_code, "kept no layout" in earlier.json()["detail"]) == (409, True)


def test_what_may_not_leave_is_not_stored_and_refused_with_the_reason(api, served):
    path = ran(api, served, spec_with())
    answer = api.get(f"{path}/model")
    assert answer.status_code == 409
    assert answer.json()["type"].endswith("/conflict")
    assert "set privacy.noise to release" in answer.json()["detail"]
    assert not served.storage.holds(model_key(api.project_id, path.rpartition("/")[2]))


def test_before_its_end_and_of_an_earlier_version_there_is_no_model(api, served):
    waiting = api.get(f"/v1/experiments/{api.submit(released())['id']}/model")
    assert waiting.status_code == 409
    assert "it is queued; ask again" in waiting.json()["detail"]
    id_ = ran(api, served, released()).rpartition("/")[2]
    with api.database.write() as session:
        row = ReportRepository(session, api.project_id).get(id_)
        row.document = {name: row.document[name] for name in row.document if name[:5] != "model"}
    earlier = api.get(f"/v1/experiments/{id_}/model")
    assert earlier.status_code == 409
    assert "kept no models" in earlier.json()["detail"]
