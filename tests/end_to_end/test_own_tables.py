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
from fedaudit_client.client import Client
from models.values import PROJECT_SCOPES
from tests.cli.service import Service, clean_environment
from tests.end_to_end.own_tables import OWN_TABLES, OwnTable
from tests.html_forms import form_fields
from tests.preloaded import programs

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
    if name.startswith(("adult", "digits")):  # megabytes, of which a third will do
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
def test_a_proposal_by_command_is_trained_and_follows_from_no_value(
    service: Service, key: str, client: Client, name: str, tmp_path: Path
) -> None:
    """It follows from sizes and declarations: another table of the same shape changes nothing."""
    table, environment = OWN_TABLES[name], {"FEDAUDIT_URL": service.url, "FEDAUDIT_API_KEY": key}

    def call(*words: str, stdin: str = "") -> str:
        more = {"env": clean_environment(**environment), "cwd": tmp_path, "timeout": 120}
        done = programs().run(*words, stdin=stdin, **more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def added(seed: int) -> str:
        (tmp_path / "table.csv").write_bytes(table.content(seed=seed))
        add = ("federations", "add", "table.csv", "--registration", "table.yaml")
        federation = json.loads(call(*add, "--wait", "--json"))
        assert federation["status"] == "ready", federation["errors"]
        return str(federation["id"])

    (tmp_path / "table.csv").write_bytes(table.content(seed=1))
    registration = yaml.safe_load(call("federations", "scaffold", "table.csv"))
    table.registration(registration)
    (tmp_path / "table.yaml").write_text(yaml.safe_dump(registration))
    first, second = added(1), added(9)
    asked = ("--no-privacy",) if table.degenerate else ("--epsilon", "8", "--delta", "1e-3")
    found = call("propose", first, *asked, "--json")
    assert call("propose", second, *asked, "--json").replace(second, first) == found
    proposed, spec = json.loads(found), call("propose", first, *asked)
    assert "# " in spec
    assert yaml.safe_load(spec)["training"] == proposed["spec"]["training"]
    assert all(entry["value"] <= 8 for entry in proposed["projection"]["epsilon"])
    check(client, json.loads(call("submit", "-", "--wait", "--json", stdin=spec))["id"], table)


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
