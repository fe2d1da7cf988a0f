"""One spec, submitted to the service and run in this process: every figure is the same."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from fedaudit.cli.run import LocalRun, run_locally
from fedaudit.privacy.mechanisms.registry import MECHANISMS
from fedaudit.reports.charts.report_charts import series_of
from fedaudit.spec.parse import parse_spec
from infrastructure.queue import Queue
from models.database import Database
from models.repositories import FairnessRepository, RoundRepository
from tests.api.service import Api, running_api, settings_for
from tests.training.specs import groups_spec
from tests.training.test_methods import method_names
from workers.context import WorkerContext
from workers.run_unit import run_unit

ROUNDS = 12
_EPSILON = {"noise_multiplier": 2.0, "clip": 1.0, "delta": 1e-4}
_ONE = {"training__hypotheses": 1}
_SPLIT = {
    "source": "synthetic-groups",
    "clients_per_group": [80, 20],
    "scoring": {"method": "split", "fraction": 0.5},
}
_REPORTED = {"training__clustering": {"method": "reported"}}
_BY_RECORD: dict[str, Any] = {
    **_ONE,
    "training__loss": "mse",
    "training__cohort": {"sampling": "poisson", "rate": 0.3},
    "training__local": {"steps": 2, "batch_size": 3, "step_size": 0.1},
}


def small(**changes: Any) -> dict[str, Any]:
    """An experiment of a second, one group of which is too small to be shown in some rounds."""
    common = {"training__rounds": ROUNDS, "fairness__minimum_group_size": 8}
    return groups_spec(**{**common, **changes})


def by_record(**privacy: Any) -> dict[str, Any]:
    """Records with budgets of their own, and coins that decide who takes part."""
    budgets = {"budgets": {"distribution": "three-levels"}, "delta": 1e-3}
    return small(**_BY_RECORD, privacy={"mechanism": "record-personalised", **budgets, **privacy})


SPECS: Mapping[str, dict[str, Any]] = {
    "laplace-l2 adaptive": small(),
    "laplace-l2 fixed, with refusals": small(
        privacy={
            "mechanism": "laplace-l2",
            "noise_multiplier": 3.0,
            "radius": 1.0,
            "clip": 0.4,
            "client_budget": 2.0,
        }
    ),
    "laplace-l2 per layer": small(
        model={"kind": "mlp", "hidden": [3]},
        privacy={"mechanism": "laplace-l2", "noise_multiplier": 3.0, "per_layer": True, "clip": 2},
    ),
    "laplace-l2, some rounds validated": small(
        training__stopping={"patience": 1, "validate_every": 3}, training__rounds=40
    ),
    "gaussian-central fixed": small(
        **_REPORTED, privacy={"mechanism": "gaussian-central", **_EPSILON}
    ),
    "gaussian-central poisson, adaptive clip": small(
        **_REPORTED,
        training__cohort={"sampling": "poisson", "rate": 0.3},
        privacy={
            "mechanism": "gaussian-central",
            **_EPSILON,
            "clip": {"adaptive": {"initial": 1.0, "count_noise": 3.0}},
            "accountant": "pld",
            "epsilon_budget": 4.0,
        },
    ),
    "gaussian-central by blocks": small(
        **_ONE,
        training__cohort={"sampling": "allocation", "every": 3},
        privacy={
            "mechanism": "gaussian-central",
            "clip": 1.0,
            "target": {"epsilon": 4.0, "delta": 1e-4},
            "epsilon_budget": 3.5,
        },
    ),
    "gaussian-distance": small(
        **_ONE, privacy={"mechanism": "gaussian-distance", "noise_multiplier": 0.5, "clip": 1.0}
    ),
    "gaussian-local": small(
        **_ONE,
        privacy={
            "mechanism": "gaussian-local",
            "clip": 1.0,
            "target": {"epsilon": 12.0, "delta": 1e-4},
        },
    ),
    "gaussian-local with a budget": small(
        **_ONE, privacy={"mechanism": "gaussian-local", **_EPSILON, "epsilon_budget": 6.0}
    ),
    "record-personalised": by_record(),
    "record-personalised, filter": by_record(baseline="filter"),
    "record-personalised, privacy-free": by_record(baseline="privacy-free"),
    "record-personalised, FedAdam": small(
        **_BY_RECORD,
        privacy={
            "mechanism": "record-personalised",
            "budgets": {"distribution": "three-levels"},
            "delta": 1e-3,
        },
        training__server={"optimiser": "adam"},
    ),
    "none": small(privacy={"mechanism": "none"}),
    "none, Adam, FedAvgM": small(
        privacy={"mechanism": "none"},
        training__server={"optimiser": "momentum"},
        training__local={"optimiser": "adam", "schedule": {"kind": "cosine", "warm_up": 2}},
    ),
    "ditto": small(**_ONE, federation=_SPLIT, training__method="ditto"),
    "fine-tuning of several, with patience": small(
        federation=_SPLIT,
        training__method={"kind": "fine-tuning", "steps": 2},
        training__stopping={"patience": 2},
    ),
    "q-ffl": small(**_ONE, privacy={"mechanism": "none"}, training__method="q-ffl"),
    "local-only": small(
        **_ONE,
        federation=_SPLIT,
        privacy={"mechanism": "none"},
        training__method={"kind": "local-only", "steps": 5},
    ),
}


class Served:
    """The same experiment after a worker of the service ran it."""

    def __init__(self, api: Api, experiment_id: str) -> None:
        self._api = api
        self._id = experiment_id
        self._path = f"/v1/experiments/{experiment_id}"

    @property
    def report(self) -> dict[str, Any]:
        """The report, over HTTP."""
        found: dict[str, Any] = self._api.get(f"{self._path}/report.json").json()
        return found

    @property
    def verified(self) -> dict[str, Any]:
        """What the service checked of ledger and report."""
        found: dict[str, Any] = self._api.get(f"{self._path}/report/verification").json()
        return found

    @property
    def ledger(self) -> list[dict[str, Any]]:
        """The ledger's lines, over HTTP."""
        answer = self._api.get(f"{self._path}/privacy-ledger.ndjson")
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]

    def rounds(self, database: Database) -> tuple[Sequence[Any], Sequence[Any]]:
        """The stored figures of rounds, and of fairness."""
        with database.read() as session:
            rounds = RoundRepository(session).after(self._id)
            return rounds, FairnessRepository(session).after(self._id)


@pytest.fixture(scope="module", params=list(SPECS))
def both(request, sqlite_template, signing_key_file, tmp_path_factory):
    """A spec's run in this process, and that of the service, with its database."""
    spec, folder = SPECS[request.param], tmp_path_factory.mktemp("service")
    here = run_locally(parse_spec(spec), sources_dir=None, device="cpu", progress=lambda _: None)
    database_file = folder / "service.db"
    database_file.write_bytes(sqlite_template.read_bytes())
    settings = settings_for(f"sqlite:///{database_file}", folder, signing_key_file=signing_key_file)
    with running_api(settings) as api:
        experiment_id = api.submit(spec)["id"]
        context = WorkerContext(api.settings, api.database, Queue(api.settings), "cpu")
        run_unit(context, api.stored(experiment_id).unit_id)
        assert api.stored(experiment_id).status == "succeeded"
        yield here, Served(api, experiment_id), api.database


Both = tuple[LocalRun, Served, Database]


def test_reports_are_equal(both: Both) -> None:
    here, served, _ = both
    mine, theirs = comparable(here.report), comparable(served.report)
    pairs = zip(mine.pop("limits"), theirs.pop("limits"), strict=True)
    [(unsigned, signed)] = [(one, other) for one, other in pairs if one != other]
    assert "not signed" in unsigned
    assert "signature" in signed
    assert mine.keys() == theirs.keys()
    for section in mine:
        assert mine[section] == theirs[section], section


def test_ledgers_are_equal(both: Both) -> None:
    here, served, _ = both
    lines = [json.loads(json.dumps(line)) for line in here.ledger.lines()]
    assert bool(lines) == (here.report["utility"]["rounds"] > 0)
    assert lines == served.ledger


def test_rounds_are_equal_with_their_reasons(both: Both) -> None:
    here, served, database = both
    stored, _ = served.rounds(database)
    mine = [figures_of(figures) for figures in here.ledger.rounds]
    assert mine == [figures_of(row) for row in stored]
    for figures in mine:
        nulls = {name for name, value in figures.items() if value is None}
        assert nulls == set(figures["reasons"])


def test_fairness_of_rounds_is_equal(both: Both) -> None:
    here, served, database = both
    _, stored = served.rounds(database)
    mine = [figures_of(figures) for figures in here.ledger.fairness]
    assert mine == [figures_of(row) for row in stored]


def test_what_the_service_keeps_of_it_is_verified(both: Both) -> None:
    _, served, _ = both
    assert served.verified["valid"], served.verified["checks"]


def test_pages_draw_the_same_series(both: Both) -> None:
    here, served, database = both
    assert series_of(*served.rounds(database)) == here.series


def comparable(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report without ids, times, links and signature."""
    kept: dict[str, Any] = json.loads(json.dumps(report))
    for section, names in {
        "experiment": ("id",),
        "provenance": ("started_at", "finished_at"),
        "integrity": ("chain_head", "key_id", "claims_key_id", "run", "signature", "reasons"),
    }.items():
        for name in names:
            kept[section].pop(name, None)
    return kept


def figures_of(row: object) -> dict[str, Any]:
    """Every field of a round's figures, as JSON has them."""
    return {name: _plain(value) for name, value in vars(row).items()}


def _plain(value: Any) -> Any:
    if hasattr(value, "as_dict"):
        value = value.as_dict()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return json.loads(json.dumps(value))


def test_every_mechanism_and_method_is_compared() -> None:
    parsed = [parse_spec(spec) for spec in SPECS.values()]
    assert {one.privacy.mechanism for one in parsed} == {one.facts.name for one in MECHANISMS}
    assert {one.training.method.kind for one in parsed} == method_names()
