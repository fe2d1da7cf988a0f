"""The commands that speak to a service, against a real one."""

import json
from contextlib import nullcontext

import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from fedaudit.cli import attack
from fedaudit.cli.main import app
from tests.cli.conftest import assert_refused
from tests.house import ROOT


@pytest.fixture(scope="module")
def service(running_service):
    """In the project that keys are of unless another is named."""
    return running_service


@pytest.fixture
def finished(json_of, small_spec):
    """An experiment that has ended; every test may ask for it, and it runs once."""
    once = ("--wait", "--json", "--idempotency-key", "one")
    return json_of("submit", "-", *once, stdin=yaml.safe_dump(small_spec))


def test_submit_prints_the_warnings_of_the_service(call, said, json_of):
    table, example = (ROOT / "examples" / name for name in ("people.csv", "people.yaml"))
    federation = json_of("federations", "add", table, "--wait", "--json", "--spec", example)["id"]
    said("budget", federation, "--set", "leakage=40")
    spec = yaml.safe_load(example.read_text("utf-8"))
    spec["federation"] = {"id": federation, **spec["federation"]}
    del spec["federation"]["path"]
    done = call("submit", "-", stdin=yaml.safe_dump(spec))
    assert done.returncode == 0, done.stderr
    assert "mind: the noise is simulated" in done.stderr or "release book" in done.stderr


def test_the_same_key_starts_nothing_new(call, json_of, finished, small_spec):
    once = ("--idempotency-key", "one")
    again = json_of("submit", "-", "--json", *once, stdin=json.dumps(small_spec))
    assert again["id"] == finished["id"]
    small_spec["seed"] += 1
    other = call("submit", "-", *once, stdin=json.dumps(small_spec))
    assert other.returncode in {1, 2}
    assert "idempotency-mismatch" in other.stderr


def test_watch_gives_every_event(said, finished):
    lines = said("watch", finished["id"], "--json").splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    rounds = [event["data"]["round"] for event in events if event["type"] == "round.completed"]
    assert rounds[-1] == 12
    assert events[-1]["data"]["status"] == "succeeded"


def test_the_report_in_other_forms(call, said, finished, tmp_path):
    report = ("report", finished["id"])
    assert said(*report, "--format", "html", "--out", tmp_path / "page.html") == ""
    page, whole = (
        (tmp_path / "page.html").read_text(),
        said(*report, "--format", "html", "--appendix"),
    )
    assert "<html" in page
    assert ("<!--appendix-->" in page, "<!--appendix-->" in whole) == (True, False)
    assert said(*report, "--out", "-") == said(*report)
    assert "--appendix: goes with" in call(*report, "--appendix").stderr
    assert_refused(call(*report, "--out", tmp_path / "none" / "x"), "cannot write")


def test_every_export_holds_the_same_ledger(said, finished, tmp_path):
    def export(what, form, *more):
        return said("export", finished["id"], "--what", what, "--format", form, *more)

    rows = [json.loads(line) for line in export("ledger", "ndjson").splitlines()]
    assert len(rows) == 12 * 10
    assert len(export("ledger", "csv").splitlines()) == 1 + len(rows)
    file = tmp_path / "ledger.parquet"
    export("ledger", "parquet", "--out", file)
    assert pq.read_table(file).to_pylist() == rows
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.parquet"]
    for what in ("rounds", "fairness"):
        lines = export(what, "ndjson").splitlines()
        assert {json.loads(line)["round"] for line in lines} == set(range(1, 13))


def test_keys(call, said, json_of, service, command):
    create = ("keys", "create", "--data-dir", service.data_dir)
    key = json_of(
        *(*create, "--scopes", "experiments:read", "--scope", "federations:read"),
        *("--person", "Ada Lovelace", "--person-role", "officer", "--json"),
    )
    assert (key["project"], key["scopes"]) == ("default", ["experiments:read", "federations:read"])
    listed = said("api", "GET", "api-keys")
    [found] = [one for one in json.loads(listed)["items"] if one["id"] == key["id"]]
    assert found["person"] == {"name": "Ada Lovelace", "email": None, "role": "officer"}
    assert key["key"] not in listed
    reader = {**service.environment, "FEDAUDIT_API_KEY": key["key"]}
    nameless = command(*create, "--scopes", "experiments:read", "--person-role", "officer")
    assert_refused(nameless, "give --person as well")
    # A scope that it lacks.
    assert command("api", "GET", "api-keys", env=reader).returncode == 2
    delete = ("api", "DELETE", f"api-keys/{key['id']}")
    assert "say --yes" in call(*delete).stderr
    said(*delete, "--yes")
    assert_refused(command("watch", "x", env=reader), "unauthorised")


def test_a_key_for_a_folder_without_a_service(command, tmp_path):
    strange = tmp_path / "strange"
    create = ("keys", "create", "--scope", "experiments:read", "--data-dir", strange)
    absent = f"no service keeps its data in {strange}; name its folder with --data-dir or FEDAUDIT"
    nothing = f"no signing key at {strange}/signing-key.pem; name its service's folder with --data"
    for typed, why, code in (
        (create, absent, 2),
        (("signing-keys", "compromised", "x", "--data-dir", strange), absent, 2),
        (("signing-keys", "rotate", "--data-dir", strange), nothing, 2),
        (("worker", "--device", "cpu", "--data-dir", strange), absent, 1),
    ):
        assert_refused(command(*typed), why, code=code)
        assert not strange.exists()
    strange.mkdir()
    (strange / "fedaudit.db").write_bytes(b"no database" * 100)
    done = command(*create)
    assert_refused(done, "file is not a database", code=1)
    assert "sqlalche" not in done.stderr


def test_any_call_of_the_interface(call, said, json_of, finished, service, tmp_path):
    found = json_of("api", "GET", "reports?leakage_max[lte]=1e9&attribute=group&limit=1")
    assert [one["experiment"]["id"] for one in found["items"]]
    said("api", "GET", f"experiments/{finished['id']}/report.html", "--out", "page.html")
    content = tmp_path / "parameters"
    content.write_bytes(b"none")
    send = ("api", "POST", "artifacts", "--content")
    assert_refused(call(*send, content), "safetensors")
    assert_refused(call(*send, tmp_path / "nothing"), "cannot use")
    for path in (f"{service.url}/v1/experiments", "../metrics", "http:x", "experiments#x"):
        assert_refused(call("api", "GET", path), "no path below /v1")


def test_what_is_not_there(call, command):
    unknown = "01a1fd00-26ef-7556-9470-d9e64452ed02"
    for name in ("watch", "budget"):
        assert_refused(call(name, unknown), "not-found")
    away = {"FEDAUDIT_URL": "http://127.0.0.1:9", "FEDAUDIT_API_KEY": "fa_x"}
    assert_refused(command("watch", unknown, env=away), "127.0.0.1:9", code=4)
    assert_refused(command("watch", unknown), "FEDAUDIT_URL is not set")


def test_a_run_is_attacked_alike_by_its_spec_and_after_its_end(
    call, said, json_of, finished, small_spec
):
    """Two real kinds, carried out by the service's own worker."""
    attacks = [{"kind": "cluster-membership"}, {"kind": "membership"}]
    spec = {**small_spec, "name": "attacked", "attacks": attacks}
    asked = json_of("submit", "-", "--wait", "--json", stdin=json.dumps(spec))
    report = json_of("report", asked["id"], "--format", "json")
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
    page = said("report", finished["id"], "--format", "html")
    assert "Attacked after the report was signed" in page
    verified = call("verify", finished["id"]).stdout
    assert "ok    later_attacks.chain" in verified
    assert "attacked later, 1: membership done" in verified


def test_ids_and_specs_are_not_confused(call, finished):
    on_run, from_input = ("attack", finished["id"]), ("--attacks", "-")
    for arguments, given, why in (
        (on_run, "", "name the attacks on that run by --attacks"),
        (("attack", "spec.yaml", *from_input), "", "spec.yaml is no id of a run"),
        ((*on_run, *from_input, "--device", "cpu"), "[{kind: membership}]", "trained here"),
        ((*on_run, *from_input), "{attacks: []}", "the list is empty"),
        ((*on_run, *from_input), "[{kind: gradient-leakage}]", "/attacks/0/kind"),
    ):
        assert_refused(call(*arguments, stdin=given), why)


@pytest.mark.parametrize(
    ("status", "alarm", "code", "said"),
    [
        ("succeeded", {"claim": "Less.", "evidence": "More."}, 1, "1 of 1 attacks raised an alarm"),
        ("succeeded", None, 0, "What it tried."),
        ("failed", None, 3, "failed"),
    ],
)
def test_how_attacks_on_a_run_end(monkeypatch, tmp_path, status, alarm, code, said):
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
    assert said in done.output
    assert json.loads((tmp_path / "out" / "attacks.json").read_text()) == found
    if found["items"]:
        written = (tmp_path / "out" / "attacks/0/scores.csv").read_text()
        assert written == f"experiments/{id_}/attacks/later/later/0/scores.csv"
