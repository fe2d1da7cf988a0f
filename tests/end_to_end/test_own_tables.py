"""From a file of one's own to a signed-off report: by the pages without a script, and by commands.

One service for all; few rounds each. The browser walks one of the tables in tests/browser.
"""

import gzip
import json
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from benchmarks.usefulness import TABLES
from fedaudit.cli.main import main
from fedaudit_client.client import Client
from models.vocabulary import PROJECT_SCOPES
from tests.cli.service import Service
from tests.end_to_end.own_tables import OWN_TABLES, OwnTable
from tests.html_forms import form_fields

EXAMPLES = Path(__file__).parents[2] / "examples"
_WITHOUT_NOISE = {
    "/training/cohort/sampling": "fixed",
    "/training/cohort/clients": "21",
    "/privacy/mechanism": "none",
}


@pytest.fixture(scope="module")
def key(service: Service) -> str:
    """A key with every scope, of a person."""
    return service.key_with(*PROJECT_SCOPES, person="Ada Lovelace")


@pytest.fixture(scope="module")
def client(service: Service, key: str) -> Iterator[Client]:
    with Client(service.url, key) as client:
        yield client


@pytest.fixture(scope="module")
def visitor(service: Service, key: str) -> Iterator["Visitor"]:
    headers = {"Origin": service.url, "Accept": "text/html"}
    with httpx.Client(base_url=service.url, headers=headers, timeout=60) as pages:
        signed = pages.post("/sign-in", data={"key": key, "next": "/"})
        assert signed.status_code == 303, signed.text
        yield Visitor(pages)


class Visitor:
    """Somebody at a browser without scripts."""

    def __init__(self, pages: httpx.Client) -> None:
        self._pages = pages

    def see(self, path: str) -> str:
        answer = self._pages.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def form(self, path: str, action: str = "") -> dict[str, str]:
        return form_fields(self.see(path), action or path.partition("?")[0])

    def send(self, path: str, fields: dict[str, Any], **options: Any) -> str:
        """Where the form leads, once it was accepted."""
        answer = self._pages.post(path, data=fields, **options)
        assert answer.status_code == 303, re.findall(
            r'class="faults">.*?</ul>|<h1>.*?</h1>', answer.text, re.DOTALL
        )
        return str(answer.headers["location"]).partition("#")[0]


def registered(visitor: Visitor, table: OwnTable) -> str:
    """The path of the federation, after the corrections a person makes."""
    # The word of the session comes before the file, as the form has them.
    word = visitor.form("/federations/new")["csrf"]
    parts: list[Any] = [
        ("csrf", (None, word)),
        ("file", (f"{table.name}.csv", table.content(), "text/csv")),
    ]
    address = visitor.send("/federations/new", {}, files=parts)
    form = visitor.form(address)
    registration = yaml.safe_load(form["document"])
    table.registration(registration)
    form |= {"document": yaml.safe_dump(registration), "action": "register"}
    return visitor.send(address, form)


@pytest.mark.parametrize("name", OWN_TABLES)
def test_by_the_pages(visitor: Visitor, client: Client, name: str) -> None:
    table = OWN_TABLES[name]
    federation = registered(visitor, table)
    ready = client.profiled(federation.rpartition("/")[2])
    assert ready["status"] == "ready", ready["errors"]
    [link] = re.findall(r'href="(/experiments/new\?federation_id=[\w-]+)"', visitor.see(federation))
    form = visitor.form(link)
    assert form["/federation/source"] == ready["id"]
    assert form["/model/kind"] == ("linear" if table.number else "logistic")
    # As it begins; only that nothing can be learnt is looked at without noise.
    trained = {**form, **(_WITHOUT_NOISE if table.degenerate else {}), "action": "submit"}
    experiment = visitor.send("/experiments/new", trained)
    experiment_id = experiment.rpartition("/")[2]
    ended = client.wait(experiment_id)
    assert ended["status"] == "succeeded", ended["status_detail"]
    report = visitor.see(f"{experiment}/report")
    listed = visitor.see("/reports")
    row = listed.partition(f"{experiment}/report")[2].partition("</tr>")[0]
    assert ("model-degenerate" in row) is table.degenerate
    check(client, experiment_id, table)
    assert all(word in report for word in table.said)
    form = visitor.form(f"{experiment}/report", f"{experiment}/sign-offs")
    decision = {"decision": "rejected", "note": "No guarantee."}
    visitor.send(f"{experiment}/sign-offs", {**form, **decision})
    assert "by Ada Lovelace" in visitor.see(f"{experiment}/report")


REAL = ("income, 35 states, ranges", "adult, 15 occupations", "heart disease, 4 hospitals",
        "hospital charges, by provider", "digits, 100 made-up clients")  # fmt: skip


@pytest.mark.parametrize("name", [*REAL, "people"])
def test_the_form_of_a_real_table_submitted_unchanged_beats_a_constant(
    visitor: Visitor, client: Client, name: str, request: pytest.FixtureRequest
) -> None:
    if name == "people":
        file = EXAMPLES / "people.csv"
        registration = yaml.safe_load((EXAMPLES / "registrations/people.yaml").read_text())
    else:
        source = {**TABLES[name]}
        source.pop("zip_table", None)  # the file has coordinates
        file = request.getfixturevalue("data_dir") / source.pop("path")
        registration = {"name": name, "federation": source, "fairness": {}}
    content = file.read_bytes()
    if name.startswith("digits"):  # 784 columns; a third of the rows will do
        content = gzip.compress(b"".join(gzip.decompress(content).splitlines(keepends=True)[::3]))
    uploaded = client.upload(BytesIO(content), registration, file_name=file.name)
    ready = client.profiled(uploaded["id"])
    assert ready["status"] == "ready", ready["errors"]
    form = visitor.form(f"/experiments/new?federation_id={ready['id']}", "/experiments/new")
    experiment = visitor.send("/experiments/new", {**form, "action": "submit"})
    ended = client.wait(experiment.rpartition("/")[2])
    assert ended["status"] == "succeeded", ended["status_detail"]
    report = client.report(ended["id"])
    assert report["privacy"]["epsilon_max"] <= 3
    utility = report["utility"]
    assert utility["validation_loss"] < 0.95 * utility["baseline_loss"]
    assert utility["degenerate"] is not True


@pytest.mark.parametrize("name", ["useless", "one-hot", "skewed"])
def test_by_commands(service, key, client, name, tmp_path, monkeypatch, capsys):
    table = OWN_TABLES[name]
    monkeypatch.setenv("FEDAUDIT_URL", service.url)
    monkeypatch.setenv("FEDAUDIT_API_KEY", key)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> str:
        monkeypatch.setattr("sys.argv", ["fedaudit", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert ended.value.code in (0, None), said.err
        return said.out

    Path("table.csv").write_bytes(table.content(seed=1))
    call("federations", "scaffold", "table.csv", "--out", "table.yaml")
    registration = yaml.safe_load(Path("table.yaml").read_text())
    table.registration(registration)
    Path("table.yaml").write_text(yaml.safe_dump(registration))
    added = call("federations", "add", "table.csv", "--registration", "table.yaml", "--wait",
                 "--json")  # fmt: skip
    federation = json.loads(added)
    assert federation["status"] == "ready", federation["errors"]
    asked = ("--no-privacy",) if table.degenerate else ("--epsilon", "8", "--delta", "1e-3")
    Path("spec.yaml").write_text(call("propose", federation["id"], *asked))
    proposed = json.loads(call("propose", federation["id"], *asked, "--json"))
    assert "# " in Path("spec.yaml").read_text()
    assert yaml.safe_load(Path("spec.yaml").read_text())["training"] == proposed["spec"]["training"]
    assert all(entry["value"] <= 8 for entry in proposed["projection"]["epsilon"])
    same_shape_other_values(client, federation, registration, table, asked=proposed)
    experiment_id = json.loads(call("submit", "spec.yaml", "--wait", "--json"))["id"]
    assert json.loads(call("report", experiment_id))["experiment"]["id"] == experiment_id
    listed = json.loads(call("api", "GET", "reports"))["items"]
    found = {one["experiment"]["id"]: one for one in listed}
    assert (found[experiment_id]["degenerate"] is True) is table.degenerate
    check(client, experiment_id, table)
    note = ("--note", "No guarantee.")
    assert "Ada Lovelace" in call("sign-off", experiment_id, "--decision", "rejected", *note)


def check(client: Client, experiment_id: str, table: OwnTable) -> None:
    """The report says what the table is, and of a useless model that it is one."""
    report = client.report(experiment_id)
    assert [one["attribute"] for one in report["fairness"]] == list(table.sensitive)
    assert report["utility"]["degenerate"] in ((True,) if table.degenerate else (False, None))
    assert ("decides nothing" in report["verdict"]) is table.degenerate
    utility = report["utility"]
    if not table.degenerate:
        assert utility["validation_loss"] < utility["baseline_loss"]
        assert table.number or utility["accuracy"] > utility["baseline_accuracy"] + 0.1


def same_shape_other_values(
    client: Client, federation: Any, registration: Any, table: OwnTable, *, asked: Any
) -> None:
    """A proposal follows from sizes and declarations: other values change nothing of it."""
    content = BytesIO(table.content(seed=9))
    other = client.upload(content, registration, file_name="other.csv")
    client.profiled(other["id"])
    epsilon = asked["spec"]["privacy"].get("epsilon_max", 8)
    found = client.propose(
        other["id"],
        **({"privacy": "none"} if table.degenerate else {"epsilon": epsilon, "delta": 1e-3}),
    )
    text = json.dumps(found).replace(other["id"], federation["id"])
    assert json.loads(text) == asked
