"""The commands that speak to a service, against a real one."""

import csv
import io
import json
from contextlib import nullcontext

import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from fedaudit.cli import attack
from fedaudit.cli.main import app
from tests.house import ROOT


@pytest.fixture(scope="module")
def service(running_service):
    """In the project that keys are of unless another is named."""
    return running_service


@pytest.fixture
def finished(call, small_spec):
    """An experiment that has ended; every test may ask for it, and it runs once."""
    done = call(
        "submit",
        "-",
        "--wait",
        "--json",
        "--idempotency-key",
        "one",
        stdin=yaml.safe_dump(small_spec),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_submit_prints_the_warnings_of_the_service(call, service):
    examples = ROOT / "examples"
    added = call("federations", "add", examples / "people.csv", "--wait", "--json",
                 "--spec", examples / "people.yaml")  # fmt: skip
    federation = json.loads(added.stdout)["id"]
    assert call("budget", federation, "--set", "leakage=40").returncode == 0
    spec = yaml.safe_load((examples / "people.yaml").read_text("utf-8"))
    spec["federation"] = {"id": federation, **spec["federation"]}
    del spec["federation"]["path"]
    done = call("submit", "-", stdin=yaml.safe_dump(spec))
    assert done.returncode == 0, done.stderr
    assert "mind: the noise is simulated" in done.stderr or "release book" in done.stderr


def test_the_same_key_starts_nothing_new(call, finished, small_spec):
    again = call("submit", "-", "--json", "--idempotency-key", "one", stdin=json.dumps(small_spec))
    assert json.loads(again.stdout)["id"] == finished["id"]
    small_spec["seed"] += 1
    other = call("submit", "-", "--idempotency-key", "one", stdin=json.dumps(small_spec))
    assert other.returncode in {1, 2}
    assert "idempotency-mismatch" in other.stderr


def test_watch_gives_every_event(call, finished):
    done = call("watch", finished["id"], "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    rounds = [event["data"]["round"] for event in events if event["type"] == "round.completed"]
    assert rounds[-1] == 12
    assert events[-1]["data"]["status"] == "succeeded"


def test_the_report_in_other_forms(call, finished, tmp_path):
    page = call("report", finished["id"], "--format", "html", "--out", tmp_path / "page.html")
    assert (page.returncode, page.stdout) == (0, "")
    assert "<html" in (tmp_path / "page.html").read_text()
    whole = call("report", finished["id"], "--format", "html", "--appendix").stdout
    marked = "<!--appendix-->"
    assert marked in (tmp_path / "page.html").read_text()
    assert marked not in whole
    assert (
        call("report", finished["id"], "--out", "-").stdout == call("report", finished["id"]).stdout
    )
    assert "--appendix: goes with" in call("report", finished["id"], "--appendix").stderr
    unwritable = call("report", finished["id"], "--out", tmp_path / "none" / "x")
    assert unwritable.returncode == 2
    assert "cannot write" in unwritable.stderr


def test_every_export_holds_the_same_ledger(call, finished, tmp_path):
    lines = call("export", finished["id"], "--what", "ledger", "--format", "ndjson").stdout
    rows = [json.loads(line) for line in lines.splitlines()]
    assert len(rows) == 12 * 10
    table = call("export", finished["id"], "--what", "ledger", "--format", "csv").stdout
    read = list(csv.DictReader(io.StringIO(table)))
    assert [(row["subject"], float(row["epsilon"])) for row in read] == [
        (row["subject"], row["epsilon"]) for row in rows
    ]
    file = tmp_path / "ledger.parquet"
    done = call("export", finished["id"], "--what", "ledger", "--format", "parquet", "--out", file)
    assert done.returncode == 0, done.stderr
    assert pq.read_table(file).to_pylist() == rows
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.parquet"]
    for what in ("rounds", "fairness"):
        done = call("export", finished["id"], "--what", what, "--format", "ndjson")
        assert {json.loads(line)["round"] for line in done.stdout.splitlines()} == set(range(1, 13))


def test_keys(call, service, command):
    made = command(
        *("keys", "create", "--scopes", "experiments:read", "--scope", "federations:read"),
        *("--person", "Ada Lovelace", "--person-role", "officer"),
        *("--data-dir", service.data_dir, "--json"),
    )
    key = json.loads(made.stdout)
    assert (key["project"], key["scopes"]) == ("default", ["experiments:read", "federations:read"])
    listed = call("api", "GET", "api-keys").stdout
    [found] = [one for one in json.loads(listed)["items"] if one["id"] == key["id"]]
    assert found["person"] == {"name": "Ada Lovelace", "email": None, "role": "officer"}
    assert key["key"] not in listed
    reader = {**service.environment, "FEDAUDIT_API_KEY": key["key"]}
    nameless = command(
        *("keys", "create", "--project", "default", "--scopes", "experiments:read"),
        *("--person-role", "officer", "--data-dir", service.data_dir),
    )
    assert nameless.returncode == 2
    assert "give --person as well" in nameless.stderr
    # A scope that it lacks.
    assert command("api", "GET", "api-keys", env=reader).returncode == 2
    delete = ("api", "DELETE", f"api-keys/{key['id']}")
    assert "say --yes" in call(*delete).stderr
    assert call(*delete, "--yes").returncode == 0
    refused = command("watch", "x", env=reader)
    assert refused.returncode == 2
    assert "unauthorised" in refused.stderr


def test_a_key_for_a_folder_without_a_service(command, tmp_path):
    strange = tmp_path / "strange"
    done = command("keys", "create", "--scope", "experiments:read", "--data-dir", strange)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"fedaudit: no service keeps its data in {strange}; name its folder with --data-dir, or "
        "start one there with `fedaudit up`"
    ]
    strange.mkdir()
    (strange / "fedaudit.db").write_bytes(b"no database" * 100)
    done = command("keys", "create", "--scope", "experiments:read", "--data-dir", strange)
    assert done.returncode == 1
    assert "file is not a database" in done.stderr
    assert "sqlalche" not in done.stderr


def test_any_call_of_the_interface(call, finished, service, tmp_path):
    found = call("api", "GET", "reports?leakage_max[lte]=1e9&attribute=group&limit=1")
    assert [one["experiment"]["id"] for one in json.loads(found.stdout)["items"]]
    saved = call("api", "GET", f"experiments/{finished['id']}/report.html", "--out", "page.html")
    assert saved.returncode == 0, saved.stderr
    content = tmp_path / "parameters"
    content.write_bytes(b"none")
    sent = call("api", "POST", "artifacts", "--content", content)
    assert (sent.returncode, "safetensors" in sent.stderr) == (2, True)
    for path in (f"{service.url}/v1/experiments", "../metrics", "http:x", "experiments#x"):
        refused = call("api", "GET", path)
        assert (refused.returncode, "no path below /v1" in refused.stderr) == (2, True)
    missing = call("api", "POST", "artifacts", "--content", tmp_path / "nothing")
    assert (missing.returncode, "cannot use" in missing.stderr) == (2, True)


@pytest.mark.parametrize("name", ["watch", "budget"])
def test_an_unknown_id(call, name):
    done = call(name, "01a1fd00-26ef-7556-9470-d9e64452ed02")
    assert done.returncode == 2
    assert "not-found" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_service_at_the_address(command):
    away = {"FEDAUDIT_URL": "http://127.0.0.1:9", "FEDAUDIT_API_KEY": "fa_x"}
    done = command("watch", "some-id", env=away)
    assert done.returncode == 4
    assert "127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_address_given(command):
    done = command("watch", "some-id")
    assert done.returncode == 2
    assert "FEDAUDIT_URL is not set" in done.stderr


def test_a_run_is_attacked_alike_by_its_spec_and_after_its_end(call, finished, small_spec):
    """Two real kinds, carried out by the service's own worker."""
    attacks = [{"kind": "cluster-membership"}, {"kind": "membership"}]
    spec = {**small_spec, "name": "attacked", "attacks": attacks}
    asked = call("submit", "-", "--wait", "--json", stdin=json.dumps(spec))
    report = json.loads(call("report", json.loads(asked.stdout)["id"], "--format", "json").stdout)
    assert [one["status"] for one in report["attacks"]] == ["done", "done"]
    later = call(
        *("attack", finished["id"], "--attacks", "-", "--wait", "--json", "--out", "found"),
        stdin=yaml.safe_dump(attacks),
    )
    assert later.returncode == 0, later.stderr
    found = json.loads(later.stdout)
    assert found["basis"] == "repeated"
    assert [one["section"] for one in found["items"]] == report["attacks"]
    names = [file["name"] for one in found["items"] for file in one["files"]]
    assert all(name in later.stderr for name in names)
    assert len(names) == 3
    page = call("report", finished["id"], "--format", "html").stdout
    assert "Attacked after the report was signed" in page
    verified = call("verify", finished["id"])
    assert "ok    later_attacks.chain" in verified.stdout
    assert "attacked later, 1: membership done" in verified.stdout


def test_ids_and_specs_are_not_confused(call, finished):
    for wrong, why in (
        (("attack", finished["id"]), "name the attacks on that run by --attacks"),
        (("attack", "spec.yaml", "--attacks", "-"), "spec.yaml is no id of a run"),
        (("attack", finished["id"], "--attacks", "-", "--device", "cpu"), "trained here"),
    ):
        done = call(*wrong, stdin="[{kind: membership}]")
        assert (done.returncode, why in " ".join(done.stderr.split())) == (2, True), done.stderr
    nothing = call("attack", finished["id"], "--attacks", "-", stdin="{attacks: []}")
    assert (nothing.returncode, "the list is empty" in nothing.stderr) == (2, True)
    faulty = call("attack", finished["id"], "--attacks", "-", stdin="[{kind: gradient-leakage}]")
    assert (faulty.returncode, "/attacks/0/kind" in faulty.stderr) == (2, True)


@pytest.mark.parametrize(
    ("status", "alarm", "code"),
    [("succeeded", {"claim": "Less.", "evidence": "More."}, 1), ("succeeded", None, 0),
     ("failed", None, 3)],
)  # fmt: skip
def test_how_attacks_on_a_run_end(monkeypatch, tmp_path, status, alarm, code):
    id_ = "0190a6c2-0000-7000-8000-000000000000"
    section = {"kind": "canaries", "status": "done", "alarm": alarm, "statement": "What it tried."}
    item = {"position": 0, "section": section, "files": [{"name": "scores.csv"}]}
    found = {
        "id": "later",
        "number": 1,
        "status": status,
        "status_detail": None,
        "status_reason": "worker-lost",
        "items": [item] if status == "succeeded" else [],
        "alarms": int(alarm is not None),
    }

    class Service:
        def attack(self, *_: object) -> object:
            return {**found, "status": "queued"}

        def wait_attack(self, *_: object) -> object:
            return found

        def call(self, _method: str, path: str) -> list[bytes]:
            return [path.encode()]

    monkeypatch.setattr(attack, "connected", lambda: nullcontext(Service()))
    (tmp_path / "attacks.yaml").write_text("attacks: [{kind: canaries}]")
    asked = ["attack", id_, "--attacks", str(tmp_path / "attacks.yaml"), "--wait"]
    done = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "out")])
    assert done.exit_code == code, done.output
    assert json.loads((tmp_path / "out" / "attacks.json").read_text()) == found
    for one in found["items"]:
        path = f"attacks/{one['position']}/scores.csv"
        later = f"experiments/{id_}/attacks/later/later/0/scores.csv"
        assert (tmp_path / "out" / path).read_text() == later
    said = "1 of 1 attacks raised an alarm" if alarm else "What it tried." if not code else "failed"
    assert said in done.output
