"""One spec, submitted to the service and run in this process: every figure is the same."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from fedaudit.cli.run import LocalRun, run_locally
from fedaudit.privacy.mechanisms.registry import MECHANISMS
from fedaudit.reports.charts.report_charts import series_of
from fedaudit.spec.parse import parse_spec
from models.database import Database
from models.repositories import FairnessRepository, RoundRepository
from tests.api.service import Api, running_api, settings_for
from tests.spec.documents import BY_RECORD, gaussian
from tests.training.specs import groups_spec
from tests.training.test_methods import method_names
from tests.workers.serving import work

ROUNDS = 12
_ONE = {"training__hypotheses": 1}
_SPLIT = {
    "source": "synthetic-groups",
    "clients_per_group": [80, 20],
    "scoring": {"method": "split", "fraction": 0.5},
}
_REPORTED = {"training__clustering": {"method": "reported"}}
_TRAINING_BY_RECORD: dict[str, Any] = {
    **_ONE,
    "training__loss": "mse",
    "training__cohort": {"sampling": "poisson", "rate": 0.3},
    "training__local": {"steps": 2, "batch_size": 3, "step_size": 0.1},
}
_LAPLACE = {"mechanism": "laplace-l2", "noise_multiplier": 3.0}
_NONE = {"privacy": {"mechanism": "none"}}
_CENTRAL, _LOCAL = (gaussian(where, 2.0, delta=1e-4) for where in ("central", "local"))
_ADAPTIVE_CLIP = {"adaptive": {"initial": 1.0, "count_noise": 3.0}}


def small(**changes: Any) -> dict[str, Any]:
    """An experiment of a second, one group of which is too small to be shown in some rounds."""
    common = {"training__rounds": ROUNDS, "fairness__minimum_group_size": 8}
    return groups_spec(**{**common, **changes})


def by_record(**privacy: Any) -> dict[str, Any]:
    """Records with budgets of their own, and coins that decide who takes part."""
    return small(**_TRAINING_BY_RECORD, privacy={**BY_RECORD, **privacy})


def aimed(where: str, epsilon: float, **privacy: Any) -> dict[str, Any]:
    """Noise for a target."""
    target = {"epsilon": epsilon, "delta": 1e-4}
    return {"mechanism": f"gaussian-{where}", "clip": 1.0, "target": target, **privacy}


SPECS: Mapping[str, dict[str, Any]] = {
    "laplace-l2 adaptive": small(),
    "laplace-l2 fixed, with refusals": small(
        privacy={**_LAPLACE, "radius": 1.0, "clip": 0.4, "client_budget": 2.0}
    ),
    "laplace-l2 per layer": small(
        model={"kind": "mlp", "hidden": [3]}, privacy={**_LAPLACE, "per_layer": True, "clip": 2}
    ),
    "laplace-l2, some rounds validated": small(
        training__stopping={"patience": 1, "validate_every": 3}, training__rounds=40
    ),
    "gaussian-central fixed": small(**_REPORTED, privacy=_CENTRAL),
    "gaussian-central poisson, adaptive clip": small(
        **_REPORTED,
        training__cohort={"sampling": "poisson", "rate": 0.3},
        privacy={**_CENTRAL, "clip": _ADAPTIVE_CLIP, "accountant": "pld", "epsilon_budget": 4.0},
    ),
    "gaussian-central by blocks": small(
        **_ONE,
        training__cohort={"sampling": "allocation", "every": 3},
        privacy=aimed("central", 4.0, epsilon_budget=3.5),
    ),
    "gaussian-distance": small(
        **_ONE, privacy={"mechanism": "gaussian-distance", "noise_multiplier": 0.5, "clip": 1.0}
    ),
    "gaussian-local": small(**_ONE, privacy=aimed("local", 12.0)),
    "gaussian-local with a budget": small(**_ONE, privacy={**_LOCAL, "epsilon_budget": 6.0}),
    "record-personalised": by_record(),
    "record-personalised, filter": by_record(baseline="filter"),
    "record-personalised, privacy-free": by_record(baseline="privacy-free"),
    "record-personalised, FedAdam": small(
        **_TRAINING_BY_RECORD, privacy=BY_RECORD, training__server={"optimiser": "adam"}
    ),
    "none": small(**_NONE),
    "none, Adam, FedAvgM": small(
        **_NONE,
        training__server={"optimiser": "momentum"},
        training__local={"optimiser": "adam", "schedule": {"kind": "cosine", "warm_up": 2}},
    ),
    "ditto": small(**_ONE, federation=_SPLIT, training__method="ditto"),
    "fine-tuning of several, with patience": small(
        federation=_SPLIT,
        training__method={"kind": "fine-tuning", "steps": 2},
        training__stopping={"patience": 2},
    ),
    "q-ffl": small(**_ONE, **_NONE, training__method="q-ffl"),
    "local-only": small(
        **_ONE, **_NONE, federation=_SPLIT, training__method={"kind": "local-only", "steps": 5}
    ),
}


class Served:
    """The same experiment after a worker of the service ran it."""

    def __init__(self, api: Api, experiment_id: str) -> None:
        self._api = api
        self._id = experiment_id
        self.database = api.database

    def get(self, path: str) -> Any:
        """What is below the experiment, over HTTP."""
        answer = self._api.get(f"/v1/experiments/{self._id}/{path}")
        assert answer.status_code == 200, answer.text
        return answer

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get("report.json").json()
        return found

    def rounds(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """The stored figures of rounds, and of fairness."""
        with self.database.read() as session:
            rounds = RoundRepository(session).after(self._id)
            return rounds, FairnessRepository(session).after(self._id)


@contextmanager
def served(spec: dict[str, Any], url: str, folder: Path, **settings: Any) -> Iterator[Served]:
    """The spec as a worker of a service on this database ran it."""
    with running_api(settings_for(url, folder, **settings)) as api:
        experiment_id = api.submit(spec)["id"]
        work(api, experiment_id)
        assert api.stored(experiment_id).status == "succeeded"
        yield Served(api, experiment_id)


REFUSING = "laplace-l2 fixed, with refusals"
PLACES = [*((name, "sqlite") for name in SPECS), (REFUSING, "postgresql")]


@pytest.fixture(scope="module", params=PLACES, ids=", on ".join)
def both(request, sqlite_template, signing_key_file, tmp_path_factory):
    """A spec's run in this process, and that of the service."""
    (name, kind), folder = request.param, tmp_path_factory.mktemp("service")
    spec = SPECS[name]
    here = run_locally(parse_spec(spec), sources_dir=None, device="cpu", progress=lambda _: None)
    if kind == "sqlite":
        (folder / "service.db").write_bytes(sqlite_template.read_bytes())
        url = f"sqlite:///{folder}/service.db"
    else:
        url = request.getfixturevalue("production")["FEDAUDIT_DATABASE_URL"]
    with served(spec, url, folder, signing_key_file=signing_key_file) as there:
        yield here, there


Both = tuple[LocalRun, Served]


def test_reports_are_equal(both: Both) -> None:
    here, served = both
    mine, theirs = comparable(here.report), comparable(served.report)
    pairs = zip(mine.pop("limits"), theirs.pop("limits"), strict=True)
    [(unsigned, signed)] = [(one, other) for one, other in pairs if one != other]
    assert "not signed" in unsigned
    assert "signature" in signed
    assert mine.keys() == theirs.keys()
    for section in mine:
        assert mine[section] == theirs[section], section


def test_ledgers_are_equal(both: Both) -> None:
    here, served = both
    lines = [json.loads(json.dumps(line)) for line in here.ledger.lines()]
    assert bool(lines) == (here.report["utility"]["rounds"] > 0)
    stored = served.get("privacy-ledger.ndjson").text.splitlines()
    assert lines == [json.loads(line) for line in stored]


def test_rounds_and_their_fairness_are_equal_with_their_reasons_and_so_is_what_pages_draw(
    both: Both,
) -> None:
    here, served = both
    rounds, fairness = served.rounds()
    mine = [figures_of(figures) for figures in here.ledger.rounds]
    assert mine == [figures_of(row) for row in rounds]
    for figures in mine:
        nulls = {name for name, value in figures.items() if value is None}
        assert nulls == set(figures["reasons"])
    assert [*map(figures_of, here.ledger.fairness)] == [*map(figures_of, fairness)]
    assert series_of(rounds, fairness) == here.series


def test_what_the_service_keeps_of_it_is_verified(both: Both) -> None:
    verified = both[1].get("report/verification").json()
    assert verified["valid"], verified["checks"]


def figures_by_sql(database: Database, experiment_id: str) -> dict[str, Any]:
    """The report's privacy figures, from nothing but the ledger's view."""
    counted = "sum(CASE WHEN outcome = '{}' THEN 1 ELSE 0 END) AS {}"
    whole = f"""
        SELECT max(leakage_total) AS leakage_max, max(round) AS rounds,
               {counted.format("refused", "refusals")}, {counted.format("withheld", "withheld")}
        FROM privacy_ledger WHERE experiment_id = :id
        """
    per_subject = f"""
        SELECT max(leakage_total) AS total, {counted.format("released", "releases")}
        FROM privacy_ledger WHERE experiment_id = :id GROUP BY subject
        """
    per_cluster = """
        SELECT cluster, count(*) AS clients, max(leakage_total) AS leakage_max
        FROM (SELECT cluster, leakage_total,
                     row_number() OVER (PARTITION BY subject ORDER BY round DESC) AS newest
              FROM privacy_ledger WHERE experiment_id = :id AND outcome = 'released') AS releases
        WHERE newest = 1 GROUP BY cluster ORDER BY cluster
        """
    with database.read() as session:
        [figures], subjects, clusters = (
            [dict(row) for row in session.execute(text(query), {"id": experiment_id}).mappings()]
            for query in (whole, per_subject, per_cluster)
        )
    most = max(row["releases"] for row in subjects)
    more = {"participations_max": most, "subjects": subjects, "leakage_by_cluster": clusters}
    return {**figures, **more}


def test_figures_of_metric_privacy_follow_from_the_ledger_alone(both: Both) -> None:
    report = both[1].report
    privacy = report["privacy"]
    if privacy["leakage_max"] is not None and privacy["leakage_by_component"] is None:
        check_against_the_ledger(both[1].database, report)


def check_against_the_ledger(database: Database, report: dict[str, Any]) -> None:
    privacy = report["privacy"]
    figures = figures_by_sql(database, report["experiment"]["id"])
    nu = report["spec"]["privacy"]["noise_multiplier"]
    n = report["data"]["parameters"]
    for name in ("leakage_max", "refusals", "withheld", "participations_max"):
        assert figures[name] == privacy[name], name
    assert figures["rounds"] == report["utility"]["rounds"]
    for subject in figures["subjects"]:
        # Exactly, not approximately: the number of releases times n / nu.
        assert subject["total"] == subject["releases"] * n / nu
    totals = sorted(subject["total"] for subject in figures["subjects"])
    totals = [0.0] * (report["data"]["training_clients"] - len(totals)) + totals
    middle = len(totals) // 2
    median = totals[middle] if len(totals) % 2 else (totals[middle - 1] + totals[middle]) / 2
    assert median == pytest.approx(privacy["leakage_median"], rel=1e-15)
    for name, quantile in privacy["leakage_quantiles"].items():
        share = int(name.removeprefix("p")) / 100
        assert np.quantile(totals, share) == pytest.approx(quantile, rel=1e-12), name
    reported = [
        {name: row[name] for name in ("cluster", "clients", "leakage_max")}
        for row in privacy["leakage_by_cluster"]
    ]
    assert figures["leakage_by_cluster"] == reported


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
