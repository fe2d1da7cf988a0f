"""A federation's budget: never passed by many callers at once, nor by workers that are killed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.served_api import http
from fedaudit.federations.load import load_federation
from fedaudit.privacy.accounting.accountant import composed_epsilon
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.records import spending_of
from tests.api.service import Api, running_api, served, settings_for, spec
from tests.spec.documents import gaussian
from tests.waiting import wait_until
from tests.workers.processes import Service, service

SUBMISSIONS, COVERED = 16, 3
ROUNDS = 800
"""As many as a worker needs some seconds for: it is killed in between."""
ENDED = ("succeeded", "failed", "cancelled")
_EPSILON = {"delta": 1e-5, "adjacency": "replace-one", "observer": "final_model"}


def leaking() -> dict[str, Any]:
    """Every training client takes part in every round: the worst case is what happens."""
    made = spec(training={"rounds": ROUNDS, "cohort": {"clients": 20}}, gates=[])
    privacy = {"mechanism": "laplace-l2", "noise_multiplier": 3.0, "noise": "release"}
    return {**made, "privacy": privacy}


def composing() -> dict[str, Any]:
    """The same under a trusted server."""
    privacy = gaussian("central", 8.0, delta=1e-6, noise="release")
    made = leaking()
    return {**made, "privacy": privacy, "training": {**made["training"], "hypotheses": 1}}


@dataclass(frozen=True)
class Bounded:
    """A federation with a total for just so many runs of a spec."""

    api: Api
    spec: dict[str, Any]
    path: str
    setting: dict[str, Any]

    def budget(self) -> dict[str, Any]:
        """The bounded budget as it is now."""
        items = self.api.get(self.path).json()["items"]
        [found] = (one for one in items if one["total"] is not None)
        return dict(found)


def _total(figure: str, value: dict[str, Any]) -> float:
    if figure == "leakage":
        # n / nu = 3 / 3, in every round.
        return float(COVERED * ROUNDS)
    parsed = parse_spec(value)
    plan = spending_of(parsed, load_federation(parsed, sources_dir=None))
    curve = plan.curve("final_model", plan.steps)
    return composed_epsilon(COVERED * curve, _EPSILON["delta"])


@pytest.fixture(params=[("leakage", "postgres_url"), ("epsilon", "sqlite_url")])
def bounded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bounded]:
    figure, database_url = request.param[0], request.getfixturevalue(request.param[1])
    # More attempts than kills: a unit that is lost for good would say nothing about budgets.
    settings = settings_for(database_url, tmp_path, max_attempts=10)
    value = leaking() if figure == "leakage" else composing()
    with running_api(settings) as api:
        first = api.submit({**value, "privacy": {**value["privacy"], "noise": "simulation"}})
        api.post(f"/v1/experiments/{first['id']}/cancel")
        path = f"/v1/federations/{first['federation_id']}/budget"
        setting = {"book": "release", "figure": figure, "total": _total(figure, value)}
        if figure == "epsilon":
            setting |= _EPSILON
        assert api.request("PUT", path, json=setting).status_code == 200
        yield Bounded(api, value, path, setting)


def submit_all_at_once(bounded: Bounded) -> list[Any]:
    """The answers to as many requests, each on a connection of its own."""

    def submit(_: int) -> Any:
        with http(url, bounded.api.key) as client:
            return client.post("/v1/experiments", json=bounded.spec)

    with served(bounded.api) as url, ThreadPoolExecutor(SUBMISSIONS) as pool:
        return list(pool.map(submit, range(SUBMISSIONS)))


def play_and_kill(bounded: Bounded, started: Service, *, kills: int) -> list[dict[str, Any]]:
    """Let workers run what was admitted and kill them in the middle; gives the experiments."""
    api = bounded.api

    def listed() -> list[dict[str, Any]]:
        items = api.get("/v1/experiments?limit=100").json()["items"]
        return [one for one in items if one["spec"]["privacy"]["noise"] == "release"]

    def rounds() -> int:
        return sum(one["progress"]["round"] for one in listed())

    started.sweeper()
    for _ in range(kills):
        before, worker = rounds(), started.worker()
        wait_until(lambda before=before: rounds() > before, "rounds of a new worker", pause=0.2)
        worker.kill()
        assert not all(one["status"] in ENDED for one in listed()), "it was to be under way"
        assert bounded.budget()["spent"] <= bounded.setting["total"] * (1 + 1e-9)
    started.worker()
    wait_until(lambda: all(one["status"] in ENDED for one in listed()), "the end of all", pause=0.2)
    return listed()


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_killed_workers_pass_no_budget(bounded: Bounded, tmp_path: Path, kills: int) -> None:
    answers = submit_all_at_once(bounded)
    assert sum(one.status_code == 202 for one in answers) == COVERED
    settings = bounded.api.settings
    options = {"database_url": settings.database_url, "broker_url": settings.broker_url}
    with service(tmp_path, **{name: str(value) for name, value in options.items()}) as started:
        ended = play_and_kill(bounded, started, kills=kills)
    assert len(ended) == COVERED
    # Where rounds were lost they were spent, and there is not room for all of them to the end.
    stopped = [one for one in ended if one["status"] != "succeeded"]
    assert {one["status_reason"] for one in stopped} <= {"budget-exhausted"}
    budget = bounded.budget()
    assert budget["reserved"] == pytest.approx(0, abs=1e-6)
    assert 0 < budget["spent"] <= budget["total"] * (1 + 1e-9)
