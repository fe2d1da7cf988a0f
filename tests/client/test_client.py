"""The client: its calls of a real server, its configuration, and answers that are no service's."""

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyarrow import parquet

import fedaudit
from fedaudit_client import GatesNotPassedError
from fedaudit_client.client import Client
from fedaudit_client.errors import NotConfiguredError, ProblemError, UnreachableError
from fedaudit_client.reports import ExportedTable
from models.values import SCOPES
from tests.api.service import ROUNDS, SPEC, SUBJECTS, Api, finish, spec
from tests.client.networks import answered
from tests.house import PLACES
from tests.processes import completed


@pytest.fixture
def live(service: tuple[Api, str]) -> tuple[Api, Client]:
    """An API, and a client of a real server on the same database."""
    api, url = service
    return api, Client(url, api.key)


def test_the_examples_of_the_readme_run(service, tmp_path, monkeypatch, capsys):
    api, url = service
    submit = Client.submit

    def submitted(client: Client, value: dict[str, Any]) -> dict[str, Any]:
        """Ended at once, as by a worker that is quick."""
        made = submit(client, value)
        finish(api, made["id"])
        return dict(made)

    monkeypatch.setattr(Client, "submit", submitted)
    monkeypatch.setenv("FEDAUDIT_URL", url)
    monkeypatch.setenv("FEDAUDIT_API_KEY", api.key)
    monkeypatch.chdir(tmp_path)
    Path("experiment.json").write_text(json.dumps(SPEC))
    known: dict[str, Any] = {}
    readme = (PLACES["fedaudit_client"] / "README.md").read_text()
    blocks = re.findall(r"```python\n(.+?)```", readme, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "README.md", "exec"), known)
    said = capsys.readouterr().out
    assert "status.changed {'status': 'succeeded'" in said
    assert known["report"]["verdict"] in said
    assert known["ended"]["gate_outcome"] == "pass"
    assert Path("ledger.parquet").read_bytes()[:4] == b"PAR1"


def test_a_pipeline_passes_only_with_gates_that_passed(live: tuple[Api, Client]) -> None:
    api, client = live
    assert client.project(SPEC)["projection"]["leakage_worst_case"] == 4.0
    id_, bare = (client.submit(spec(name="gates", **more))["id"] for more in ({}, {"gates": []}))
    for one in (id_, bare):
        finish(api, one)
    assert client.require_gates(id_)["outcome"] == "pass"
    gate = {"figure": "leakage_max", "op": "le", "value": 0.0}
    believed = {**gate, "allow_heuristic": True, "allow_simulation": True}
    for asked, outcome in (([believed], "fail"), ([gate], "insufficient_evidence")):
        with pytest.raises(GatesNotPassedError, match=f"leakage_max {outcome}") as caught:
            client.require_gates(id_, asked)
        assert caught.value.outcome == outcome
    with pytest.raises(GatesNotPassedError, match="has no gates"):
        client.require_gates(bare)


def test_lists_run_over_pages(live: tuple[Api, Client]) -> None:
    api, whole = live
    with Client(whole.url, api.key_with(*SCOPES, project="of pages")) as client:
        ids = [client.submit(spec(name=name))["id"] for name in ("a", "b", "a")]
        assert [item["id"] for item in client.list(limit=1)] == ids[::-1]
        found = client.list(name="a", limit=1, tag=None)
        assert [item["id"] for item in found] == [ids[2], ids[0]]
        assert list(client.list(**{"leakage_max[lte]": 1})) == []
        [federation] = client.items("federations")
        assert client.federation(federation["id"]) == federation
        total = {"book": "simulation", "figure": "leakage", "total": 21.0}
        [budget] = client.set_budget(federation["id"], total)
        assert client.budgets(federation["id"]) == [budget]
        path = f"federations/{federation['id']}/disclosure"
        policy = client.ask("PUT", path, json={"minimum_group_size": 2})
        assert client.ask("GET", path) == policy
        assert policy["minimum_group_size"] == 2


def test_a_ledger_becomes_a_table(live: tuple[Api, Client]) -> None:
    api, client = live
    id_ = api.submit(spec(name="ledger"))["id"]
    finish(api, id_)
    ledger = client.privacy_ledger(id_)
    table = ledger.to_arrow()
    for exported, rows in (
        (client.rounds(id_), ROUNDS),
        (client.fairness(id_), 6 * ROUNDS),
        (client.privacy_ledger(id_, round_from=2, round_to=2), len(SUBJECTS)),
        (ledger, ROUNDS * len(SUBJECTS)),
    ):
        assert exported.to_arrow().num_rows == rows
    assert list(ledger.to_pandas()["outcome"]) == table["outcome"].to_pylist()
    # The epsilon of metric privacy is another figure, and only in the files of the same name.
    stated = parquet.read_table(io.BytesIO(ledger.parquet))["epsilon"]
    assert table["epsilon"].null_count == table.num_rows
    assert table["metric_epsilon"] == stated
    assert stated.null_count < table.num_rows
    both = pa.table({"epsilon": [1.0, 2.0], "delta": [1e-5, None]})
    parquet.write_table(both, file := io.BytesIO())
    assert ExportedTable(file.getvalue()).to_arrow().to_pydict() == {
        "epsilon": [1.0, None],
        "metric_epsilon": [None, 2.0],
        "delta": [1e-5, None],
    }


class _Watched(io.BytesIO):
    """A file that notes how much of it is asked for at once."""

    largest_read = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.largest_read = max(self.largest_read, len(data))
        return data


def test_a_large_file_is_sent_as_it_is_read() -> None:
    sent: dict[str, Any] = {}

    def answer(request: httpx.Request) -> httpx.Response:
        sent["length"] = int(request.headers["Content-Length"])
        sent["head"] = request.content[:400]
        return httpx.Response(202, json={"id": "f", "status": "profiling"})

    size = 5_000_000
    with answered(answer) as client:
        made = client.upload(file := _Watched(bytes(size)), {"name": "n"}, file_name="größe.csv")
    assert made["status"] == "profiling"
    assert size < sent["length"] < size + 1000
    # The registration comes first.
    assert sent["head"].index(b'{"name": "n"}') < sent["head"].index("größe.csv".encode())
    assert 0 < file.largest_read <= 1_000_000


# -- refusals, and what is no configuration --------------------------------------------------------


def test_a_refusal_gives_status_type_and_fields(live: tuple[Api, Client]) -> None:
    _, client = live
    with pytest.raises(ProblemError) as caught:
        client.submit(spec(seed=-1, surprise=1))
    error = caught.value
    assert (error.status, error.slug) == (422, "validation-error")
    assert error.type.endswith("/validation-error")
    assert {fault.pointer for fault in error.errors} == {"/seed", "/surprise"}
    assert "/surprise: unknown field" in str(error)
    for name in ("../api-keys", "", "a/b", "?x", "\x00", "é"):
        with pytest.raises((ProblemError, UnreachableError)) as caught:
            client.report(name)
        assert getattr(caught.value, "status", 404) == 404


_HERE = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("url", "key", "error", "says"),
    [
        *(
            (_HERE, key, NotConfiguredError, "copy it anew")
            for key in ("", "caf\xe9", "a\nb", "\x00")
        ),
        *(
            (url, "k", UnreachableError, "address")
            for url in ("", "localhost:8000", "ftp://host", "http://", "http://[", "http://h:port")
        ),
        ("http://ada:sesame@127.0.0.1:1", "k", NotConfiguredError, "take these out"),
    ],
)
def test_what_is_no_address_or_key(url, key, error, says):
    with pytest.raises(error, match=says) as refused:
        Client(url, key)
    assert "sesame" not in str(refused.value)


def test_the_environment_configures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDAUDIT_URL", raising=False)
    monkeypatch.setenv("FEDAUDIT_API_KEY", "k")
    with pytest.raises(NotConfiguredError, match="FEDAUDIT_URL"):
        Client()
    monkeypatch.setenv("FEDAUDIT_URL", _HERE)
    monkeypatch.setenv("FEDAUDIT_API_KEY", " ")
    with pytest.raises(NotConfiguredError, match="FEDAUDIT_API_KEY"):
        Client()
    monkeypatch.setenv("FEDAUDIT_API_KEY", "k")
    Client().close()


def test_a_project_is_named_by_the_environment_or_the_call(live, monkeypatch):
    """A key opens one project: a call meant for another does nothing in this one."""
    api, client = live
    key = api.key_with("experiments:read", project="spät")
    monkeypatch.setenv("FEDAUDIT_PROJECT", "spät ")
    with Client(client.url, key) as named, Client(client.url, key, project="acme") as other:
        assert list(named.list()) == []
        with pytest.raises(ProblemError, match="Fedaudit-Project") as refused:
            list(other.list())
    assert refused.value.status == 422
    with pytest.raises(NotConfiguredError, match="FEDAUDIT_PROJECT"):
        Client(client.url, key, project="a\nb")


PROGRAM = """
import sys
import fedaudit
assert "httpx" not in sys.modules
from fedaudit import Client
assert "httpx" in sys.modules
"""


def test_the_client_is_at_the_door_and_costs_nothing_until_it_is_asked_for():
    assert fedaudit.Client is Client
    with pytest.raises(AttributeError, match="no attribute 'Clients'"):
        fedaudit.Clients  # noqa: B018
    done = completed([sys.executable, "-c", PROGRAM])
    assert done.returncode == 0, done.stderr


# -- answers of something else at the address ------------------------------------------------------


@pytest.mark.usefixtures("slept")
def test_another_service_is_recognised():
    for response in (
        httpx.Response(502, text="<html>Bad gateway</html>"),
        httpx.Response(200, json=["a", "list"]),
        httpx.Response(200, content=b"\xff"),
        httpx.Response(404, json={"detail": "Not Found"}),
    ):
        client = answered(lambda _, response=response: response)
        with client, pytest.raises(UnreachableError, match="fedaudit"):
            client.get("x")


_CALLS: dict[str, Callable[[Client], object]] = {
    "items": lambda client: list(client.items("reports")),
    "budgets": lambda client: client.budgets("f"),
    "profiled": lambda client: client.profiled("f"),
    "parquet": lambda client: client.rounds("e"),
    "gates": lambda client: client.require_gates("e"),
    "wait": lambda client: client.wait("e"),
    "ask": lambda client: client.ask("GET", "reports"),
    "rows": lambda client: list(client.rows("e", "rounds")),
}
_OF_ANY_JSON = ("ask", "rows")


@pytest.mark.parametrize("name", _CALLS)
@pytest.mark.parametrize("body", [b"<html>Welcome</html>", b'{"welcome": 1}'])
def test_a_foreign_answer_is_named_with_its_address(name: str, body: bytes) -> None:
    if name in _OF_ANY_JSON:
        body = body.replace(b"{", b"<")
    with (
        answered(lambda _: httpx.Response(200, content=body)) as client,
        pytest.raises(UnreachableError, match=r"http://service/v1/.*elcome"),
    ):
        _CALLS[name](client)
