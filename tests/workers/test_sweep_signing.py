"""A gate on what a sweep costs is signed over every run of it, whenever cells are tried again."""

import threading
from typing import Any

import pytest

import workers.finish
import workers.run_loop
from models.repositories import SweepRepository
from tests.api.service import Api, spec
from tests.workers.serving import work

pytestmark = pytest.mark.both_databases

FIXED = {"radius": 1, "clip": 0.5, "noise": "release"}
ALIKE = {"tags": [["a"], ["b"], ["c"]]}
SUM = "sweep_log_ratio_max"


def searched(api: Api) -> tuple[str, dict[str, Any]]:
    """The path of a sweep with one cell left, and that cell: its gate passes while it is alone."""
    base = spec(privacy=FIXED, training={"hypotheses": 1}, gates=[])
    alone = api.post("/v1/sweeps?validate_only=true", json={"name": "one", "base": base}).json()
    gate = {"figure": SUM, "op": "le", "value": alone["costs"]["log_ratio_max"]}
    asked = {"name": "search", "base": {**base, "gates": [gate]}, "grid": ALIKE}
    made = api.post("/v1/sweeps", json=asked).json()
    first, *others = made["cells"]
    for other in others:
        api.post(f"/v1/experiments/{other['experiment_id']}/cancel")
    return f"/v1/sweeps/{made['id']}", first


def tried(api: Api, cell: dict[str, Any]) -> dict[str, Any]:
    """A worker's attempt at the cell; its report."""
    work(api, cell["experiment_id"])
    report: dict[str, Any] = api.get(f"/v1/experiments/{cell['experiment_id']}/report.json").json()
    return report


def test_a_report_of_a_sweep_that_grew_meanwhile_is_made_again(api, monkeypatch):
    path, cell = searched(api)
    make, signed = workers.run_loop.report_of, []

    def report_of(*arguments: Any, **options: Any) -> Any:
        made = make(*arguments, **options)
        signed.append(made.document["gates"][0]["outcome"])
        if len(signed) == 1:
            assert api.post(f"{path}/retry").status_code == 202
        return made

    monkeypatch.setattr(workers.run_loop, "report_of", report_of)
    report = tried(api, cell)
    assert signed == ["pass", "fail"]
    assert report["gates"][0]["outcome"] == "fail"
    # With all rounds that this run might have played, which it then did not.
    assert report["sweep"][SUM] >= api.get(path).json()["costs"]["log_ratio_max"]
    assert report["sweep"]["tries"] == 5
    assert "the 5 runs that the sweep had when this report was signed" in report["verdict"]


# SQLite has one writer, so that nothing comes between.
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_no_retry_begins_while_a_pass_is_being_stored(api, monkeypatch):
    path, cell = searched(api)
    worker, waiting = threading.get_ident(), threading.Event()
    hold, index = SweepRepository.hold, workers.finish.report_index
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(api.post(f"{path}/retry")))

    def held(self: SweepRepository, sweep_id: str) -> None:
        if threading.get_ident() != worker:
            waiting.set()
        hold(self, sweep_id)

    def indexed(document: Any) -> Any:
        # The worker has looked at the sweep, and has stored nothing yet.
        asking.start()
        assert waiting.wait(60)
        return index(document)

    monkeypatch.setattr(SweepRepository, "hold", held)
    monkeypatch.setattr(workers.finish, "report_index", indexed)
    report = tried(api, cell)
    asking.join()
    assert report["gates"][0]["outcome"] == "pass"
    assert (answers[0].status_code, report["sweep"]["tries"]) == (409, 3)
    assert "the report of cell 1 passed a gate" in answers[0].json()["detail"]
