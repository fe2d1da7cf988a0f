"""The commands on federations, against a real service."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import typer
import yaml

from fedaudit.cli import federations
from tests.api.uploads import CONTENT, REGISTRATION, spec_of
from tests.cli.conftest import assert_refused


@pytest.fixture
def data(tmp_path):
    """A table of 40 clients."""
    path = tmp_path / "incomes.csv"
    path.write_bytes(CONTENT)
    return path


def _text(value):
    return yaml.safe_dump(value)


def test_a_federation_from_upload_to_removal(call, said, json_of, data):
    spec = _text(spec_of({"path": "elsewhere.csv"}, name="on incomes"))
    federation = json_of("federations", "add", data, "--spec", "-", "--wait", "--json", stdin=spec)
    id_ = federation["id"]
    assert (federation["status"], federation["name"]) == ("ready", "on incomes")
    assert federation["profile"]["rows"] == 120
    assert f"{id_}  ready " in said("federations", "list")
    shown = said("federations", "show", id_)
    for text in ("incomes.csv", "  group:", "a: 60", "median: 3.0", "income >= 50"):
        assert text in shown
    by_id = _text(spec_of({"id": id_}))
    assert json_of("submit", "-", "--wait", "--json", stdin=by_id)["federation_id"] == id_
    # A disclosure policy that refuses the spec, and is taken back.
    path = ("api", "PUT", f"federations/{id_}/disclosure", "--body", "-")
    policy = json_of(*path, stdin=_text({"minimum_group_size": 31, "edges": {}}))
    assert policy["minimum_group_size"] == 31
    assert_refused(call("submit", "-", stdin=by_id), "/fairness/minimum_group_size")
    assert_refused(call(*path, stdin="size: 3"), "/size")
    assert json_of(*path, stdin="{}")["minimum_group_size"] is None
    shown = said("federations", "show", id_)
    for text in ("unit_key client_key=client", "no total is set", "They count"):
        assert text in shown
    assert_refused(call("federations", "remove", id_), "--yes")
    said("federations", "remove", id_, "--yes")
    assert f"{id_}  deleted" in said("federations", "list")
    assert call("submit", "-", stdin=by_id).returncode == 2


def test_a_rejected_federation_exits_with_one_and_says_why(call, data):
    data.write_text(data.read_text().replace(",income", ",pay"))
    add = ("federations", "add", data, "--registration", "-", "--wait")
    added = call(*add, stdin=_text(REGISTRATION))
    assert_refused(added, "rejected", code=1)
    assert "/federation/target" in added.stdout


def test_what_is_wrong_is_reported_before_anything_is_sent(command, data):
    offline = {"FEDAUDIT_URL": "http://127.0.0.1:9", "FEDAUDIT_API_KEY": "fa_x"}
    without_key = {**REGISTRATION, "federation": {"source": "table", "target": "income"}}
    for path, registration, code, why in (
        (data, without_key, 2, "/federation/client_key"),
        (data.parent / "missing", REGISTRATION, 2, "No such file"),
        (data, REGISTRATION, 4, "127.0.0.1:9"),
    ):
        add = ("federations", "add", path, "--registration", "-")
        assert_refused(command(*add, stdin=_text(registration), env=offline), why, code=code)


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


def test_what_submission_refuses_is_not_said_to_be_useless(monkeypatch, capsys):
    for needs, said in (("submission refuses it", "fedaudit: subm"), ("more", "is expected: more")):
        found = {"spec": {}, "reasons": [], "expected_useful": False, "needs": needs}
        service = SimpleNamespace(propose=lambda _, found=found: found)
        monkeypatch.setattr(federations, "connected", lambda one=service: nullcontext(one))
        with pytest.raises(typer.Exit):
            federations.propose("x")
        assert said in capsys.readouterr().err


def test_scaffold_needs_no_service_and_writes_what_add_takes(command, data, tmp_path, said):
    scaffold, out = ("federations", "scaffold"), tmp_path / "proposed.yaml"
    done = command(*scaffold, data, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "--registration" in done.stderr
    assert yaml.safe_load(out.read_text())["federation"]["client_key"] == "client"
    assert_refused(command(*scaffold, data, "--out", out), "exists")
    assert_refused(command(*scaffold, tmp_path / "none.csv"), "none.csv")
    assert json.loads(command(*scaffold, data, "--json").stdout)["rows"] == 120
    said("federations", "add", data, "--registration", out, "--wait")


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
