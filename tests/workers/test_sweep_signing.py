"""A gate on what a sweep costs is signed over every run of it, whenever cells are tried again."""

import threading
from statistics import fmean, stdev
from typing import Any

import pytest
from celery.worker import state as celery_state

import workers.finish
import workers.run_loop
from fedaudit.reports.page.html import render
from models.repositories import ReportRepository, SweepRepository
from tests.api.service import Api, spec
from tests.training.specs import ran
from tests.workers.serving import failed_checks, work

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


@pytest.mark.both_databases
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
@pytest.mark.both_databases
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


# -- one spec with several seeds: how far its figures are chance in training ----------------------


SEEDS = 3
REPEATED = spec(
    repeats=SEEDS,
    training={"rounds": 6},
    gates=[
        {"figure": "sweep_log_ratio_max", "op": "le", "value": 1e9},
        {"figure": "sweep_log_ratio_max", "op": "le", "value": 1e9, "allow_simulation": True},
        {"figure": "sweep_epsilon_max", "op": "le", "value": 1e9},
        {
            **{"figure": "leakage_max", "op": "le", "value": 5.5},
            **{"allow_heuristic": True, "allow_simulation": True, "allow_degenerate": True},
        },
    ],
)


def document(api: Api, id_: str) -> dict[str, Any]:
    with api.database.read() as session:
        report = ReportRepository(session, api.project_id).get(id_)
    return dict(report.document)


def test_the_report_speaks_of_all_seeds(api: Api) -> None:
    made = api.submit(REPEATED)
    [sweep] = api.get("/v1/sweeps").json()["items"]
    assert sweep["progress"]["cells"] == SEEDS
    work(api, made["id"])
    body = api.get(f"/v1/sweeps/{sweep['id']}").json()
    assert body["progress"]["statuses"] == {"succeeded": SEEDS}
    ids = [cell["experiment_id"] for cell in body["cells"]]
    assert ids[0] == made["id"]
    report, others = document(api, ids[0]), [document(api, id_) for id_ in ids[1:]]
    repeats = report["repeats"]
    assert (repeats["seeds"], repeats["asked"]) == ([7, 8, 9], SEEDS)
    assert repeats["experiment_ids"] == ids
    losses = [one["utility"]["validation_loss"] for one in (report, *others)]
    found = repeats["metrics"]["validation_loss"]
    assert found["mean"] == pytest.approx(fmean(losses))
    assert found["standard_deviation"] == pytest.approx(stdev(losses))
    assert found["low"] < found["mean"] < found["high"]
    assert "equalized_odds_difference[group]" in repeats["metrics"]
    # A mean of costs is no bound.
    assert not {"leakage_max", "log_ratio_max", "epsilon_max"} & repeats["metrics"].keys()
    assert "Over 3 seeds its mean is" in report["verdict"]
    assert all(one["repeats"] is None and one["repeats_reason"] for one in others)
    # What all of them cost is in the report of each, and no gate takes it for less.
    assert report["sweep"]["id"] == sweep["id"]
    assert "costs that of all together" in report["verdict_parts"]["cost"]
    assert "if it was chosen among them" in others[0]["verdict_parts"]["cost"]
    # So do the limits, which claims for other tools repeat.
    assert "one of 3 cells of a sweep" in " ".join(others[0]["limits"])
    *lacking, of_all = report["gates"]
    assert [one["outcome"] for one in lacking] == ["insufficient_evidence"] * 3
    # One seed would meet the gate.
    together = report["sweep"]["sweep_leakage"]
    assert report["privacy"]["leakage_max"] < 5.5 < together
    assert (of_all["outcome"], of_all["value"]) == ("fail", together)
    figures = api.get(f"/v1/experiments/{ids[0]}").json()["figures"]
    assert (figures["leakage_max"], figures["leakage_median"]) == (together, None)
    assert failed_checks(api, ids[0]) == []
    page = api.get(f"/v1/experiments/{ids[0]}/report.html").text
    assert 'id="other-runs"' in page
    assert 'id="other-runs"' not in render({**report, "sweep": None, "repeats": None})
    here = ran(REPEATED)
    assert here.report["repeats"]["metrics"] == repeats["metrics"]
    for figure in ("sweep_log_ratio_max", "sweep_leakage", "sweep_epsilon_max"):
        assert here.report["sweep"][figure] == report["sweep"][figure]
    assert here.report["integrity"]["ledger_hash"] == report["integrity"]["ledger_hash"]


def test_a_worker_that_stops_and_goes_on_reports_the_same(api, monkeypatch):
    """The run that was asked for ends first, and its report waits for the others."""
    made = api.submit({**REPEATED, "training": {**REPEATED["training"], "rounds": 4}})
    monkeypatch.setattr(workers.run_loop.Pace, "rounds", lambda self, **_: 1)
    flush = workers.run_loop.RunLoop._flush
    flushes = iter(range(100))

    def stopping(self: Any, records: Any) -> None:
        flush(self, records)
        if next(flushes) == 2:
            celery_state.should_stop = 0

    monkeypatch.setattr(workers.run_loop.RunLoop, "_flush", stopping)
    work(api, made["id"])
    assert api.stored(made["id"]).status == "running"
    celery_state.should_stop = None
    work(api, made["id"])
    assert document(api, made["id"])["repeats"]["metrics"]["validation_loss"]["n"] == SEEDS


def test_seeds_that_fail_are_missing_with_a_reason(api, monkeypatch):
    made = api.submit({**REPEATED, "gates": [{**REPEATED["gates"][-1], "value": 1e9}]})
    with api.database.read() as session:
        place = SweepRepository(session, api.project_id).places([made["id"]]).get(made["id"])
        cells = SweepRepository(session, api.project_id).cells(place.sweep_id)
    assert api.post(f"/v1/experiments/{cells[1][1].id}/cancel").status_code == 200
    work(api, made["id"])
    report = document(api, made["id"])
    repeats = report["repeats"]
    assert repeats["seeds"] == [7, 9]
    assert repeats["reasons"]["seeds"].startswith("1 of 3 seeds have no report")
    # It passed by what all of them cost, to which the missing one would add.
    assert report["gates"][-1]["outcome"] == "pass"
    assert api.post(f"/v1/sweeps/{report['sweep']['id']}/retry").status_code == 409


def test_what_cannot_be_repeated_is_refused(api: Api) -> None:
    noised = spec(
        repeats=2,
        fairness={
            **spec()["fairness"],
            "noise": {"mechanism": "discrete-laplace", "epsilon": 1.0, "unit": "record"},
        },
        gates=[],
    )
    response = api.post("/v1/experiments", json=noised)
    assert response.status_code == 422
    assert "/repeats" in [one["pointer"] for one in response.json()["errors"]], response.text
    checked = api.post("/v1/experiments?validate_only=true", json=REPEATED).json()
    assert any("3 seeds are asked for" in one for one in checked["warnings"])
    assert api.counts()["experiments"] == 0


def test_seeds_that_diverge_are_missing_here_too() -> None:
    wild = {**spec(repeats=2, gates=[]), "privacy": {"mechanism": "none"}}
    local = {"step_size": 1e6}
    wild["training"] |= {"loss": "mse", "rounds": 100, "hypotheses": 1, "local": local}
    done = ran(wild)
    assert done.report["utility"]["stopped_by"] == "diverged"
    assert done.report["repeats"]["seeds"] == [7]
    assert done.report["repeats"]["reasons"]["seeds"].startswith("1 of 2 seeds")
