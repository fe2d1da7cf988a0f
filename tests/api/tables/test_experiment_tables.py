"""Rounds, ledger and fairness: pages, filters, files, and what is confidential.

That the view of the database has the same lines is in tests/models/test_ledger_rows.py.
"""

import csv
import io
import json
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from api.schemas.experiment_tables import LedgerPage
from api.services.parquet_tables import parquet
from api.services.tables import page_reasons
from fedaudit.spec.metrics import METRICS
from fedaudit.stored import RoundRow
from models.repositories import LedgerRepository, RoundRepository, SubjectSetRepository
from models.repositories import ledger as stored_ledger
from models.tables.experiments import Experiment
from tests.api.service import COUNTS, ROUNDS, SUBJECTS, Api, body_of, finished, play, spec
from tests.models.rows import LAPLACE, ledger_row

TABLES = ("rounds", "privacy-ledger", "fairness")
CSV, NDJSON, PARQUET = "text/csv", "application/x-ndjson", "application/vnd.apache.parquet"


@pytest.fixture
def api(shared_api: Api) -> Api:
    """Each test reads its own experiments, or one that stays as it is."""
    return shared_api


@pytest.fixture(scope="module")
def done(shared_api: Api) -> str:
    return f"/v1/experiments/{finished(shared_api)}"


def _pages(api: Api, path: str, **parameters: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    while True:
        response = api.get(path, params=parameters)
        page = body_of(response)
        if path.endswith("/privacy-ledger"):
            # Written from columns, and byte for byte what the schema would have written.
            assert LedgerPage.model_validate(page).model_dump_json().encode() == response.content
        assert len(page["items"]) <= parameters.get("limit", 100)
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        parameters["cursor"] = page["next_cursor"]


def _lines(answer: Any) -> list[Any]:
    return [json.loads(line) for line in answer.text.splitlines()]


def _csv(answer: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(answer.text)))


def _parquet(answer: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(answer.content)).to_pylist()
    return [row | ({"reasons": dict(row["reasons"])} if "reasons" in row else {}) for row in rows]


def test_rounds_and_their_clusters(api: Api, done: str) -> None:
    """In pages and in files; rounds of earlier versions say why they have none, and nothing of the
    plane that these kept."""
    items = _pages(api, f"{done}/rounds", limit=2)
    assert [item["round"] for item in items] == [1, 2, 3]
    known = {"selection_loss": 0.5, "leakage_max": 2.0, "cluster_sizes": [3, 2], "accuracy": None}
    assert items[1].items() >= known.items()
    assert items[1]["reasons"]["accuracy"] == "the target is a number"
    id_ = api.submit()["id"]
    by_cluster = [{"cluster": 1, "clients": 3, "leakage_median": 0.5, "leakage_max": 1.0}]
    rows = [
        RoundRow(round=1, leakage_by_cluster=by_cluster, reasons={"plane": "real"}),
        RoundRow(round=2),
    ]
    with api.database.write() as session:
        RoundRepository(session, api.project_id).insert(id_, rows)
    path = f"/v1/experiments/{id_}/rounds"
    now, older = _pages(api, path)
    assert (now["leakage_by_cluster"], now["reasons"]) == (by_cluster, {})
    assert older["leakage_by_cluster"] is None
    assert "did not record it" in older["reasons"]["leakage_by_cluster"]
    assert _lines(api.get(f"{path}.ndjson")) == [now, older]
    written, nothing = (row["leakage_by_cluster"] for row in _csv(api.get(f"{path}.csv")))
    assert (json.loads(written), nothing) == (by_cluster, "")
    table = _parquet(api.get(f"{path}.parquet"))
    assert [row["leakage_by_cluster"] for row in table] == [by_cluster, None]


def test_the_ledger_has_a_line_for_each_subject(api: Api, done: str) -> None:
    items = _pages(api, f"{done}/privacy-ledger")
    assert len(items) == ROUNDS * len(SUBJECTS)
    first, refused, withheld = items[3:6]
    # n / nu = 3 / 3; the second round's radius is 0.5.
    expected = {
        "round": 2,
        "release": 0,
        "subject_kind": "client",
        "subject": first["subject"],
        "observer": "server",
        "component": "all",
        "outcome": "released",
        "epsilon": 2.0,
        "delta": None,
        "adjacency": None,
        "radius": 0.5,
        "leakage": 1.0,
        "leakage_total": 2.0,
        "guarantee": "heuristic",
        "reason": None,
        "noise": "simulation",
    }
    assert [*first.items()] == [*expected.items()]
    assert (refused["outcome"], withheld["outcome"]) == ("refused", "withheld")
    for line in (refused, withheld):
        assert (line["epsilon"], line["radius"], line["leakage"]) == (None, None, None)
        assert line["leakage_total"] == 1.0
        assert line["reason"]
    for limit in (1, 4, 9):
        assert _pages(api, f"{done}/privacy-ledger", limit=limit) == items
    # A page says once why there is no delta.
    page = api.get(f"{done}/privacy-ledger").json()
    assert {(line["delta"], line["adjacency"]) for line in page["items"]} == {(None, None)}
    assert page["reasons"].keys() == {"salt", "delta", "adjacency"}
    assert "simulated" in page["reasons"].pop("salt")
    assert all("leakage" in reason for reason in page["reasons"].values())
    assert page_reasons([{"delta": 1e-5, "adjacency": "replace-one"}], salt=bytes(32)) == {}


@pytest.mark.parametrize("table", TABLES)
def test_files_carry_what_pages_carry(api: Api, done: str, table: str) -> None:
    pages = _pages(api, f"{done}/{table}")
    for form, media_type in (("ndjson", NDJSON), ("csv", CSV), ("parquet", PARQUET)):
        for suffix, accept in ((f".{form}", "*/*"), ("", media_type)):
            file = api.get(f"{done}/{table}{suffix}", headers={"Accept": accept})
            assert file.headers["content-type"].partition(";")[0] == media_type
            assert f'-{table}.{form}"' in file.headers["content-disposition"]
            if form != "csv":
                assert {"ndjson": _lines, "parquet": _parquet}[form](file) == pages
                continue
            rows = _csv(file)
            assert list(rows[0]) == list(pages[0])
            assert [int(row["round"]) for row in rows] == [line["round"] for line in pages]
            epsilons = [row.get("epsilon") or None for row in rows]
            figures = [one and float(one) for one in epsilons]
            assert figures == [line.get("epsilon") for line in pages]
    if table == "privacy-ledger":
        later = _lines(api.get(f"{done}/{table}.ndjson?round_from=2&round_to=2"))
        assert later == [line for line in pages if line["round"] == 2]


def test_csv_holds_no_formula_for_a_spreadsheet(api: Api) -> None:
    formulas = ("=1+1", "@SUM(1)", "-1+A1", "+A1", "=A1")
    shown = {"-3": "-3", **{formula: f"'{formula}" for formula in formulas}}
    table = [f"{client},{age},{age}" for client in shown for age in range(3)]
    api.put_source("rows.csv", "\n".join(["who,age,charge", *table]).encode())
    source = {"source": "table", "path": "rows.csv", "client_key": "who", "target": "charge"}
    value = {
        "name": "formulas",
        "federation": {**source, "features": ["age"]},
        "model": {"kind": "linear"},
        "training": {"loss": "mse", "rounds": ROUNDS, "cohort": {"clients": 3}},
        "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3},
    }
    id_ = api.submit(value)["id"]
    play(api, id_)
    path = f"/v1/experiments/{id_}/privacy-ledger"
    rows = _csv(api.get(f"{path}.csv"))
    assert [row["subject"] for row in rows] == [shown[one["subject"]] for one in _pages(api, path)]


def test_an_experiment_without_rounds_has_empty_tables_and_files_known_forms(api: Api) -> None:
    path = f"/v1/experiments/{api.submit()['id']}"
    for table in TABLES:
        assert _pages(api, f"{path}/{table}") == []
        assert api.get(f"{path}/{table}.ndjson").text == ""
        assert len(api.get(f"{path}/{table}.csv").text.splitlines()) == 1
    [fault] = body_of(api.get(f"{path}/privacy-ledger.xlsx"), 422)["errors"]
    assert "'csv', 'ndjson' or 'parquet'" in fault["message"]
    assert api.get(f"{path}/privacy-ledger").json()["reasons"].keys() == {"salt"}


def test_without_a_mechanism_the_figures_are_null_with_a_reason(api: Api) -> None:
    id_ = finished(api, {**spec(), "privacy": {"mechanism": "none"}, "gates": []})
    line = _pages(api, f"/v1/experiments/{id_}/privacy-ledger")[0]
    assert (line["outcome"], line["guarantee"]) == ("released", "none")
    assert [line[name] for name in ("epsilon", "leakage", "leakage_total")] == [None] * 3
    assert "no mechanism" in line["reason"]


def test_fairness_has_a_line_for_each_metric_and_counts_come_once_over_pages(api, done):
    path = f"{done}/fairness"
    items = _pages(api, path, limit=4)
    assert len(items) == len(METRICS) * ROUNDS
    # Selection rates: 7 / 10 and 5 / 10.
    named = {"round": 1, "attribute": "group", "metric": "demographic_parity_difference"}
    assert items[0].items() >= {**named, "reason": None, "interval": None}.items()
    assert items[0]["value"] == pytest.approx(0.2)
    assert _pages(api, path, attribute="age") == []
    groups, query = [], {"limit": 5}
    while query.get("cursor", "") is not None:
        page = api.get(path, params=query).json()
        groups += [(group["round"], group["value"]) for group in page["groups"]]
        query["cursor"] = page["next_cursor"]
    assert groups == [(number, value) for number in (1, 2, 3) for value in ("g1", "g2")]


def test_counts_need_the_confidential_scope(api: Api, done: str) -> None:
    key = api.key_with("experiments:read", "reports:read")
    page = api.get(f"{done}/fairness", key=key).json()
    assert page["groups"] is None
    assert "ledger:read" in page["groups_reason"]
    for suffix in (".csv", ".ndjson"):
        assert "true_positives" not in api.get(f"{done}/fairness{suffix}").text
    page = api.get(f"{done}/fairness").json()
    assert page["groups_reason"] is None
    first = page["groups"][0]
    assert (first["attribute"], first["value"], first["count"]) == ("group", "g1", 10)
    names = ("true_positives", "false_positives", "true_negatives", "false_negatives")
    assert [first[name] for name in names] == COUNTS[0].tolist()
    assert first["selection_rate"] == 0.7
    assert first["true_positive_rate"] == pytest.approx(6 / 7)
    assert len(page["groups"]) == 2 * ROUNDS


def test_row_groups_leave_before_the_rest_is_read() -> None:
    asked = []

    def blocks() -> Any:
        for number in range(1, 4):
            asked.append(number)
            yield [{"round": number, "cluster_sizes": [number, 1]}]

    pieces = parquet(blocks(), what="rounds")
    first = next(pieces)
    assert asked == [1]
    read = pq.ParquetFile(io.BytesIO(first + b"".join(pieces))).read()
    assert read["round"].to_pylist() == [1, 2, 3]
    assert read["cluster_sizes"].to_pylist()[2] == [3, 1]


# -- one client's history is what the whole ledger says of the client -----------------------------

LONGER = 10
"""Rounds."""
CLIENTS = 6
"""That are drawn."""
_LAYERS = {**LAPLACE, "components": [{"name": "layer-1", "n": 24}, {"name": "layer-2", "n": 3}]}


def _stored(api: Api, *, inputs: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The ledger of an experiment with rounds of three clients, some of them repeated, and the
    names of the clients."""
    id_: str = api.submit(spec(training={"rounds": LONGER}))["id"]
    with api.database.read() as session:
        names = SubjectSetRepository(session).names(api.stored(id_).subject_set_id)
    rng, releases, rows = np.random.default_rng(7), np.zeros(len(names), np.int32), []
    parts = len(inputs["components"] or [0])
    places = [(number, again) for number in range(1, LONGER + 1) for again in range(1 + number % 2)]
    for number, again in places:
        drawn = np.sort(rng.choice(CLIENTS, 3, replace=False)).astype(np.int32)
        outcomes = np.array([0, 0, number % 3])
        releases[drawn[outcomes == 0]] += 1
        radii = np.where(np.repeat(outcomes, parts) == 0, rng.lognormal(size=3 * parts), np.nan)
        columns = {"subjects": drawn, "outcomes": outcomes, "radii": radii, "inputs": inputs}
        rows.append(ledger_row(number, release=again, releases=releases[drawn], **columns))
    with api.database.write() as session:
        ledger = LedgerRepository(session, api.project_id)
        ledger.insert(id_, rows)
        ledger.put_totals(id_, releases=releases, refusals=0, withheld=0)
        session.get_one(Experiment, id_).rounds_done = LONGER
    return f"/v1/experiments/{id_}/privacy-ledger", names


@pytest.mark.parametrize("inputs", [LAPLACE, _LAYERS], ids=["whole", "layers"])
def test_histories_are_those_of_the_whole_ledger(api_on_both, inputs, monkeypatch):
    api = api_on_both
    monkeypatch.setattr(stored_ledger, "_ROWS_AT_ONCE", 4)
    path, names = _stored(api, inputs=inputs)
    everything = _pages(api, path)
    for client in names[:CLIENTS]:
        expected = [line for line in everything if line["subject"] == client]
        assert expected
        assert _pages(api, path, client=client) == expected
        assert _pages(api, path, client=client, limit=1) == expected
        between = [line for line in expected if 3 <= line["round"] <= 8]
        assert _pages(api, path, client=client, round_from=3, round_to=8) == between
    assert _pages(api, path, client="nobody") == []
    assert _pages(api, path, round_from=LONGER + 1) == []
