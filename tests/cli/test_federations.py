"""The commands on federations, against a real service."""

import json
from contextlib import nullcontext

import pytest
import yaml

from fedaudit.cli import federations

REGISTRATION = {
    "name": "incomes",
    "federation": {"source": "table", "client_key": "client", "target": "income"},
    "fairness": {"sensitive": ["group"], "favourable": {"op": "ge", "value": 50}},
}
SPEC = {
    "name": "on incomes",
    "federation": {**REGISTRATION["federation"], "path": "elsewhere.csv"},
    "model": {"kind": "linear"},
    "training": {"loss": "rmse", "rounds": 2, "cohort": {"clients": 5}},
    "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3},
    "fairness": {**REGISTRATION["fairness"], "intervals": None},
}


@pytest.fixture
def data(tmp_path):
    """A table of 40 clients."""
    rows = [
        f"c{client},{'a' if client % 2 else 'b'},{client},{10 * row + client}"
        for client in range(40)
        for row in range(4)
    ]
    path = tmp_path / "incomes.csv"
    path.write_text("\n".join(["client,group,age,income", *rows, ""]))
    return path


def test_a_federation_from_upload_to_removal(call, data):
    added = call("federations", "add", data, "--spec", "-", "--wait", "--json", stdin=_text(SPEC))
    assert added.returncode == 0, added.stderr
    federation = json.loads(added.stdout)
    assert (federation["status"], federation["name"]) == ("ready", "on incomes")
    assert federation["profile"]["rows"] == 160
    assert f"{federation['id']}  ready " in call("federations", "list").stdout
    shown = call("federations", "show", federation["id"]).stdout
    for text in ("incomes.csv", "  group:", "a: 80", "median: 4.0", "income >= 50"):
        assert text in shown
    by_id = {**SPEC, "federation": {**REGISTRATION["federation"], "id": federation["id"]}}
    trained = call("submit", "-", "--wait", "--json", stdin=_text(by_id))
    assert trained.returncode == 0, trained.stderr
    assert json.loads(trained.stdout)["federation_id"] == federation["id"]
    _bind_and_free(call, federation["id"], by_id)
    shown = call("federations", "show", federation["id"]).stdout
    for text in ("unit_key client_key=client", "no total is set", "They count"):
        assert text in shown
    asked = call("federations", "remove", federation["id"])
    assert asked.returncode == 2
    assert "--yes" in asked.stderr
    assert call("federations", "remove", federation["id"], "--yes").returncode == 0
    assert f"{federation['id']}  deleted" in call("federations", "list").stdout
    assert call("submit", "-", stdin=_text(by_id)).returncode == 2


def _bind_and_free(call, federation_id, spec):
    """Sets a disclosure policy that refuses the spec, and takes it back."""
    policy = _text({"minimum_group_size": 31, "edges": {}})
    path = ("api", "PUT", f"federations/{federation_id}/disclosure", "--body", "-")
    done = call(*path, stdin=policy)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["minimum_group_size"] == 31
    refused = call("submit", "-", stdin=_text(spec))
    assert refused.returncode == 2
    assert "/fairness/minimum_group_size" in refused.stderr
    wrong = call(*path, stdin="size: 3")
    assert (wrong.returncode, "/size" in wrong.stderr) == (2, True)
    done = call(*path, stdin="{}")
    assert json.loads(done.stdout)["minimum_group_size"] is None


def test_a_rejected_federation_exits_with_one_and_says_why(call, data):
    data.write_text(data.read_text().replace(",income", ",pay"))
    added = call(
        "federations", "add", data, "--registration", "-", "--wait", stdin=_text(REGISTRATION)
    )
    assert added.returncode == 1
    assert "rejected" in added.stderr
    assert "/federation/target" in added.stdout


def test_what_is_wrong_is_reported_before_anything_is_sent(command, call, data):
    offline = {"FEDAUDIT_URL": "http://127.0.0.1:9", "FEDAUDIT_API_KEY": "fa_x"}
    wrong = _text({**REGISTRATION, "federation": {"source": "table", "target": "income"}})
    refused = command("federations", "add", data, "--registration", "-", stdin=wrong, env=offline)
    assert refused.returncode == 2
    assert "/federation/client_key" in refused.stderr
    missing = call(
        "federations",
        "add",
        data.parent / "missing",
        "--registration",
        "-",
        stdin=_text(REGISTRATION),
    )
    assert missing.returncode == 2
    assert "No such file" in missing.stderr
    right = command(
        "federations", "add", data, "--registration", "-", stdin=_text(REGISTRATION), env=offline
    )
    assert right.returncode == 4


def _text(value):
    return yaml.safe_dump(value)


def test_the_file_is_closed_once_it_is_sent(data, tmp_path, monkeypatch, capsys):
    class Service:
        def upload(self, content, value, *, file_name):
            self.content = content
            return {"id": "x", "status": "profiling"}

        def profiled(self, federation_id):
            assert self.content.closed
            return {"id": federation_id, "status": "ready"}

    monkeypatch.setattr(federations, "connected", lambda: nullcontext(Service()))
    registration = tmp_path / "registration.yaml"
    registration.write_text(_text(REGISTRATION))
    federations.federations_add(data, registration=str(registration), wait=True, as_json=True)
    assert json.loads(capsys.readouterr().out)["status"] == "ready"


def test_scaffold_needs_no_service_and_writes_what_add_takes(command, data, tmp_path, call):
    out = tmp_path / "proposed.yaml"
    done = command("federations", "scaffold", str(data), "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "--registration" in done.stderr
    assert yaml.safe_load(out.read_text())["federation"]["client_key"] == "client"
    again = command("federations", "scaffold", str(data), "--out", str(out))
    assert (again.returncode, "exists" in again.stderr) == (2, True)
    assert command("federations", "scaffold", str(tmp_path / "none.csv")).returncode == 2
    printed = command("federations", "scaffold", str(data), "--json")
    assert json.loads(printed.stdout)["rows"] == 160
    added = call("federations", "add", str(data), "--registration", str(out), "--wait")
    assert added.returncode == 0, added.stderr


def test_what_is_long_is_shortened_and_warnings_are_legible(capsys):
    groups = {"a": 80, "b": None, **{f"g{place}": None for place in range(12)}}
    hidden = {"of": "record", "groups": groups, "protecting": ["b"], "reasons": {"groups": "small"}}
    profile = {
        "rows": 160,
        "features": [f"x{place}" for place in range(20)],
        "attributes": {"group": hidden},
        "warnings": [{"pointer": "/fairness/sensitive/0", "message": "few rows"}],
    }
    known = {"name": "incomes", "reasons": [], "profile": profile, "warnings": ["seen before"]}
    federations.show(known)
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    for line in (
        "rows: 160",
        "- x11",
        "- and 8 more",
        "a: 80",
        "b: null",
        "and 2 more: '...'",
        "groups: small",
        "Warning. seen before",
        "Warning. /fairness/sensitive/0: few rows",
    ):
        assert line in shown
    assert "- x12" not in shown
