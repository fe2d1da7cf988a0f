"""Data of one's own over HTTP: uploaded, profiled by a real worker, trained on, and deleted."""

import io
from collections.abc import Iterator

import numpy as np
import pytest

from fedaudit.federations.reading.archives import UNSUSPICIOUS
from fedaudit_client.client import Client
from fedaudit_client.errors import ProblemError
from tests.cli.service import Service
from tests.end_to_end.federation_files import (
    CLIENTS,
    ROWS,
    SAMPLES,
    Json,
    Sample,
    csv_text,
    npz,
    zipped,
)

_GROUPS = {"sex": {"F", "M"}, "hand": {"L", "R"}, "rotated": {"no", "yes"}}


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[Client]:
    """A client of a running `fedaudit up`."""
    with Client(service.url, service.api_key) as client:
        yield client


def upload(client: Client, sample: Sample, content: bytes | None = None) -> Json:
    """The federation as it is once the worker has looked at it."""
    file = io.BytesIO(sample.content if content is None else content)
    federation = client.upload(file, sample.registration, file_name=sample.file_name)
    return client.profiled(federation["id"])


def train(client: Client, sample: Sample, federation_id: str) -> list[Json]:
    """The reports with one hypothesis and with two."""
    submitted = [
        client.submit(sample.spec(federation_id, hypotheses=hypotheses)) for hypotheses in (1, 2)
    ]
    ended = [client.wait(experiment["id"]) for experiment in submitted]
    assert [experiment["status"] for experiment in ended] == ["succeeded"] * 2, ended
    return [client.report(experiment["id"]) for experiment in ended]


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_format_is_profiled_and_trained_on(client: Client, kind: str) -> None:
    sample = SAMPLES[kind]()
    federation = upload(client, sample)
    assert federation["status"] == "ready", federation["reasons"]
    profile = federation["profile"]
    assert (profile["rows"], profile["clients"]) == (CLIENTS * ROWS, CLIENTS)
    [attribute] = sample.fairness["sensitive"]
    groups = profile["attributes"][attribute]["groups"]
    assert set(groups) == _GROUPS[attribute]
    assert sum(groups.values()) == CLIENTS * ROWS

    for hypotheses, report in enumerate(train(client, sample, federation["id"]), start=1):
        assert report["spec"]["training"]["hypotheses"] == hypotheses
        assert report["data"]["clients"] == CLIENTS
        assert report["privacy"]["leakage_max"] > 0
        [fairness] = report["fairness"]
        assert fairness["attribute"] == attribute
        assert {group["value"] for group in fairness["groups"]} == _GROUPS[attribute]
        for name, metric in fairness["metrics"].items():
            assert metric["value"] is not None or metric["reason"], name
        gap = fairness["metrics"]["equalized_odds_difference"]
        if kind == "leaf zip":  # the rows of "leaf json": a second disclosure would be a difference
            assert gap["value"] is None
            assert "suppressed" in gap["reason"], gap
        else:
            assert 0 <= gap["value"] <= 1


def test_a_small_group_is_a_warning_and_is_not_shown(client: Client) -> None:
    sample = SAMPLES["csv"]()
    rows = sample.content.replace(b",M,", b",X,", 3)
    federation = upload(client, sample, rows)
    assert federation["status"] == "ready"
    [warning] = federation["profile"]["warnings"]
    assert warning["pointer"] == "/fairness/sensitive/0"
    assert "'sex' has groups of fewer than 5 rows: 'X'" in warning["message"]
    assert federation["profile"]["attributes"]["sex"]["groups"]["X"] is None


def _changed(old: str, new: str) -> bytes:
    """The table with the first `old` behind its header replaced."""
    header, _, rows = csv_text().partition("\n")
    assert old in rows
    return f"{header}\n{rows.replace(old, new, 1)}".encode()


_FILE, _KEY, _TARGET = "/federation/path", "/federation/client_key", "/federation/target"


@pytest.mark.parametrize(
    ("kind", "content", "pointer", "says"),
    [
        pytest.param(
            "csv", lambda: _changed("\n", ",9\n"), _FILE, "6 cells in data row 1", id="ragged"
        ),
        pytest.param(
            "csv",
            lambda: _changed("office", "sea"),
            "/federation/features/1",
            "of column 'work' is not one of the 2 declared categories",
            id="undeclared category",
        ),
        pytest.param(
            "npz",
            lambda: npz(hand=np.array([{}] * CLIENTS * ROWS, dtype=object)),
            _FILE,
            "Python objects in the array 'hand'",
            id="pickled objects",
        ),
        pytest.param(
            "leaf zip",
            lambda: zipped({"0.json": bytes(UNSUSPICIOUS + 1)}),
            _FILE,
            "as an archive made to fill a memory would",
            id="zip bomb",
        ),
    ],
)
def test_bad_data_are_rejected_with_place_and_remedy(client, kind, content, pointer, says):
    federation = upload(client, SAMPLES[kind](), content())
    assert federation["status"] == "rejected"
    [reason] = federation["reasons"]
    assert reason["pointer"] == pointer
    assert says in reason["message"]
    with pytest.raises(ProblemError, match="was rejected"):
        client.submit(SAMPLES[kind]().spec(federation["id"], hypotheses=1))


def spent(client: Client, federation_id: str) -> float:
    """What experiments have spent of the leakage."""
    [budget] = client.budgets(federation_id)
    figure: float = budget["spent"]
    return figure


def test_a_deletion_leaves_budget_and_reports(client: Client) -> None:
    sample = SAMPLES["csv"]()
    content = sample.content.replace(b"town", b"city")
    sample = Sample(
        "cities.csv",
        content,
        {**sample.federation, "client_key": "city"},
        sample.fairness,
        sample.model,
    )
    id_ = upload(client, sample)["id"]
    reports = train(client, sample, id_)
    before = spent(client, id_)
    assert before > 0

    client.delete_federation(id_)
    assert client.federation(id_)["status"] == "deleted"
    assert client.federation(id_)["profile"] is None
    assert spent(client, id_) == before
    for report in reports:
        assert client.report(report["experiment"]["id"]) == report
    with pytest.raises(ProblemError, match="upload the file again"):
        client.submit(sample.spec(id_, hypotheses=1))

    again = upload(client, sample)
    assert (again["id"], again["status"]) == (id_, "ready")
    assert spent(client, id_) == before
    train(client, sample, id_)
    assert spent(client, id_) > before
