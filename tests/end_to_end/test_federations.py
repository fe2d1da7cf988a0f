"""Data of one's own over HTTP: uploaded, profiled by a real worker, trained on, and deleted."""

import io
from collections.abc import Iterator

import pytest

from fedaudit_client.client import Client
from fedaudit_client.errors import ProblemError
from tests.cli.service import Service
from tests.end_to_end.federation_files import CLIENTS, ROWS, SAMPLES, Json, Sample

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
