"""Rounds, ledger and fairness: pages, filters, files, and what is confidential."""

import csv
import io
import json
from typing import Any

import pyarrow.parquet as pq
import pytest
from sqlalchemy import text

from api.schemas.experiment_tables import LedgerPage
from api.services.parquet_tables import parquet
from api.services.tables import page_reasons
from fedaudit.spec.metrics import METRICS
from fedaudit.stored import RoundRow
from models.repositories import RoundRepository
from tests.api.service import COUNTS, ROUNDS, SUBJECTS, Api, finished, play, spec

COLUMNS = [
    *("round", "release", "subject_kind", "subject", "observer", "component", "outcome", "epsilon"),
    *("delta", "adjacency", "radius", "leakage", "leakage_total", "guarantee"),
]


@pytest.fixture
def done(api: Api) -> str:
    """The path of a finished experiment."""
    id_ = finished(api)
    return f"/v1/experiments/{id_}"


def _pages(api: Api, path: str, **parameters: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    while True:
        response = api.get(path, params=parameters)
        assert response.status_code == 200, response.text
        page = response.json()
        if path.endswith("/privacy-ledger"):
            # Written from columns, and byte for byte what the schema would have written.
            assert LedgerPage.model_validate(page).model_dump_json().encode() == response.content
        assert len(page["items"]) <= parameters.get("limit", 100)
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        parameters["cursor"] = page["next_cursor"]


def test_rounds(api: Api, done: str) -> None:
    items = _pages(api, f"{done}/rounds", limit=2)
    assert [item["round"] for item in items] == [1, 2, 3]
    assert items[1]["selection_loss"] == 0.5
    assert items[1]["leakage_max"] == 2.0
    assert items[1]["cluster_sizes"] == [3, 2]
    assert items[1]["accuracy"] is None
    assert items[1]["reasons"]["accuracy"] == "the target is a number"


def test_clusters_of_rounds(api: Api) -> None:
    """In pages and in files; rounds of earlier versions say why they have none, and nothing of the
    plane that these kept."""
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
    lines = [json.loads(line) for line in api.get(f"{path}.ndjson").text.splitlines()]
    assert lines == [now, older]
    rows_read = list(csv.DictReader(io.StringIO(api.get(f"{path}.csv").text)))
    assert json.loads(rows_read[0]["leakage_by_cluster"]) == by_cluster
    assert rows_read[1]["leakage_by_cluster"] == ""
    table = pq.read_table(io.BytesIO(api.get(f"{path}.parquet").content)).to_pylist()
    assert [row["leakage_by_cluster"] for row in table] == [by_cluster, None]


def test_the_ledger_has_a_line_for_each_subject(api: Api, done: str) -> None:
    items = _pages(api, f"{done}/privacy-ledger")
    assert len(items) == ROUNDS * len(SUBJECTS)
    assert list(items[0]) == [*COLUMNS, "reason"]
    first, refused, withheld = items[3:6]
    # n / nu = 3 / 3; the second round's radius is 0.5.
    assert first == {
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
    }
    assert (refused["outcome"], withheld["outcome"]) == ("refused", "withheld")
    for line in (refused, withheld):
        assert (line["epsilon"], line["radius"], line["leakage"]) == (None, None, None)
        assert line["leakage_total"] == 1.0
        assert line["reason"]


def test_the_ledger_agrees_with_the_view(api_on_both: Api) -> None:
    items = _pages(api_on_both, f"/v1/experiments/{finished(api_on_both)}/privacy-ledger")
    with api_on_both.database.read() as session:
        rows = session.execute(
            text(f"SELECT {', '.join(COLUMNS)} FROM privacy_ledger ORDER BY round, subject_index")
        )
        seen = [dict(row) for row in rows.mappings()]
    assert [{name: item[name] for name in COLUMNS} for item in items] == seen


@pytest.mark.parametrize("limit", [1, 4, 9])
def test_pages_of_the_ledger_join_without_gaps(api: Api, done: str, limit: int) -> None:
    path = f"{done}/privacy-ledger"
    assert _pages(api, path, limit=limit) == _pages(api, path)


def test_the_ledger_of_one_client(api: Api, done: str) -> None:
    path = f"{done}/privacy-ledger"
    subject = _pages(api, path)[1]["subject"]
    lines = _pages(api, path, client=subject, limit=1)
    assert [line["outcome"] for line in lines] == ["released", "refused", "refused"]
    assert {line["subject"] for line in lines} == {subject}
    [line] = _pages(api, path, client=subject, round_from=2, round_to=2)
    assert line["round"] == 2
    assert _pages(api, path, client="nobody") == []
    assert _pages(api, path, round_from=4) == []


@pytest.mark.parametrize("table", ["rounds", "privacy-ledger", "fairness"])
def test_files_carry_what_pages_carry(api: Api, done: str, table: str) -> None:
    pages = _pages(api, f"{done}/{table}")
    for address, accept in (
        (f"{done}/{table}.ndjson", "*/*"),
        (f"{done}/{table}", "application/x-ndjson"),
    ):
        response = api.get(address, headers={"Accept": accept})
        assert response.headers["content-type"] == "application/x-ndjson"
        assert [json.loads(line) for line in response.text.splitlines()] == pages
    for address, accept in ((f"{done}/{table}.csv", "*/*"), (f"{done}/{table}", "text/csv")):
        response = api.get(address, headers={"Accept": accept})
        assert response.headers["content-type"].startswith("text/csv")
        assert f'-{table}.csv"' in response.headers["content-disposition"]
        rows = list(csv.DictReader(io.StringIO(response.text)))
        assert list(rows[0]) == list(pages[0])
        assert [int(row["round"]) for row in rows] == [line["round"] for line in pages]
        told = [row.get("epsilon") or None for row in rows]
        assert [told_one and float(told_one) for told_one in told] == [
            line.get("epsilon") for line in pages
        ]


@pytest.mark.parametrize("table", ["rounds", "privacy-ledger", "fairness"])
def test_parquet_carries_what_pages_carry(api: Api, done: str, table: str) -> None:
    pages = _pages(api, f"{done}/{table}")
    media_type = "application/vnd.apache.parquet"
    for address, accept in ((f"{done}/{table}.parquet", "*/*"), (f"{done}/{table}", media_type)):
        response = api.get(address, headers={"Accept": accept})
        assert response.headers["content-type"] == media_type
        assert f'-{table}.parquet"' in response.headers["content-disposition"]
        rows = pq.read_table(io.BytesIO(response.content)).to_pylist()
        for row in rows:
            if "reasons" in row:
                row["reasons"] = dict(row["reasons"])
        assert rows == pages


def test_csv_holds_no_formula_for_a_spreadsheet(api: Api) -> None:
    formulas = ("=1+1", "@SUM(1)", "-1+A1", "+A1", "=A1")
    shown = {"-3": "-3", **{formula: f"'{formula}" for formula in formulas}}
    table = [f"{client},{age},{age}" for client in shown for age in range(3)]
    assert api.settings.sources_dir is not None
    (api.settings.sources_dir / "rows.csv").write_text("\n".join(["who,age,charge", *table]))
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
    stored = [line["subject"] for line in _pages(api, path)]
    rows = list(csv.DictReader(io.StringIO(api.get(f"{path}.csv").text)))
    assert [row["subject"] for row in rows] == [shown[subject] for subject in stored]


def test_files_honour_the_filters(api: Api) -> None:
    id_ = finished(api)
    path = f"/v1/experiments/{id_}/privacy-ledger.ndjson"
    lines = api.get(f"{path}?round_from=2&round_to=2").text.splitlines()
    assert [json.loads(line)["round"] for line in lines] == [2, 2, 2]


def test_a_file_of_an_unknown_form_names_the_known_ones(api: Api) -> None:
    id_ = api.submit()["id"]
    response = api.get(f"/v1/experiments/{id_}/privacy-ledger.xlsx")
    assert response.status_code == 422
    assert "'csv', 'ndjson' or 'parquet'" in response.json()["errors"][0]["message"]


def test_an_experiment_without_rounds_has_empty_tables(api: Api) -> None:
    path = f"/v1/experiments/{api.submit()['id']}"
    for table in ("rounds", "privacy-ledger", "fairness"):
        assert _pages(api, f"{path}/{table}") == []
        assert api.get(f"{path}/{table}.ndjson").text == ""
        assert len(api.get(f"{path}/{table}.csv").text.splitlines()) == 1


def test_a_page_of_the_ledger_says_once_why_there_is_no_delta(api: Api) -> None:
    id_ = finished(api)
    done = f"/v1/experiments/{id_}"
    page = api.get(f"{done}/privacy-ledger").json()
    assert {(line["delta"], line["adjacency"]) for line in page["items"]} == {(None, None)}
    assert page["reasons"].keys() == {"salt", "delta", "adjacency"}
    assert "simulated" in page["reasons"].pop("salt")
    assert all("leakage" in reason for reason in page["reasons"].values())
    empty = api.get(f"/v1/experiments/{api.submit()['id']}/privacy-ledger").json()
    assert empty["reasons"].keys() == {"salt"}
    assert page_reasons([{"delta": 1e-5, "adjacency": "replace-one"}], salt=bytes(32)) == {}


def test_without_a_mechanism_the_figures_are_null_with_a_reason(api: Api) -> None:
    id_ = finished(api, {**spec(), "privacy": {"mechanism": "none"}, "gates": []})
    line = _pages(api, f"/v1/experiments/{id_}/privacy-ledger")[0]
    assert line["outcome"] == "released"
    assert line["guarantee"] == "none"
    assert [line[name] for name in ("epsilon", "leakage", "leakage_total")] == [None] * 3
    assert "no mechanism" in line["reason"]


# -- fairness --------------------------------------------------------------------------------------


def test_fairness_has_a_line_for_each_metric(api: Api, done: str) -> None:
    items = _pages(api, f"{done}/fairness", limit=4)
    assert len(items) == len(METRICS) * ROUNDS
    first = items[0]
    # Selection rates: 7 / 10 and 5 / 10.
    assert (first["round"], first["attribute"]) == (1, "group")
    assert first["metric"] == "demographic_parity_difference"
    assert first["value"] == pytest.approx(0.2)
    assert (first["reason"], first["interval"]) == (None, None)
    assert _pages(api, f"{done}/fairness", attribute="age") == []


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


def test_counts_come_once_over_pages(api: Api) -> None:
    id_ = finished(api)
    path, cursor, groups = f"/v1/experiments/{id_}/fairness", None, []
    while True:
        page = api.get(path, params={"limit": 5, **({"cursor": cursor} if cursor else {})}).json()
        groups += page["groups"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert [(group["round"], group["value"]) for group in groups] == [
        (number, value) for number in (1, 2, 3) for value in ("g1", "g2")
    ]


# -- tables as Parquet: what is written is read back, row group by row group ----------------------


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
