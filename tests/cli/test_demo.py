"""`make demo`: what it shows, keeps and leaves behind."""

import json
import subprocess
import sys

import pytest
import yaml

from fedaudit.cli.demo import _proposed
from fedaudit.cli.output import CommandError
from fedaudit.cli.remote import connected
from tests.cli.service import clean_environment
from tests.house import ROOT
from tests.processes import completed

EXAMPLES = ROOT / "examples"
TABLE, REGISTRATION = EXAMPLES / "clinics.csv", EXAMPLES / "registrations" / "clinics.yaml"


def test_the_table_is_what_its_script_writes(tmp_path):
    script = tmp_path / "clinics.py"
    script.write_text((EXAMPLES / "clinics.py").read_text())
    subprocess.run([sys.executable, str(script)], check=True)
    assert (tmp_path / "clinics.csv").read_bytes() == TABLE.read_bytes()


def test_experiments_over_http_and_a_model_that_may_leave(tmp_path, small_spec):
    for name, hypotheses in (("one", 1), ("two", 2)):
        training = {**small_spec["training"], "hypotheses": hypotheses}
        spec = {**small_spec, "name": name, "training": training}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(spec))
    # The urls of another service must not draw the demonstration there.
    environment = clean_environment(
        FEDAUDIT_DATABASE_URL="postgresql://nobody@127.0.0.1:9/none",
        FEDAUDIT_BROKER_URL="redis://127.0.0.1:9/0",
        TMPDIR=str(tmp_path),
    )
    own = ("--table", str(TABLE), "--registration", str(REGISTRATION))
    demo = ("-P", "-m", "fedaudit.cli.demo", "--out", "output", *own, "one.yaml", "two.yaml")
    done = completed([sys.executable, *demo], env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "output").iterdir()}
    reports = {f"{name}.{form}" for name in ("one", "two", "clinics") for form in ("json", "html")}
    assert names == {*reports, "model.safetensors", "model-layout.json"}
    [row, _] = [line for line in done.stdout.splitlines() if "equalized_odds_difference  " in line]
    for name in ("one", "two"):
        report = json.loads((tmp_path / "output" / f"{name}.json").read_text())
        value = report["fairness"][0]["metrics"]["equalized_odds_difference"]["value"]
        assert f"{value:.3f}" in row
    assert done.stdout.count("passed at ") == 6
    released = json.loads((tmp_path / "output" / "clinics.json").read_text())
    assert released["guarantee"]["in_force"]
    assert released["privacy"]["epsilon_max"] <= 2
    assert released["utility"]["accuracy"] > released["utility"]["baseline_accuracy"] + 0.1
    assert "Yes, by the gates that its submitter set" in done.stdout
    assert list(tmp_path.glob("fedaudit-demo-*")) == []
    assert "the service has stopped" in done.stderr


def test_a_table_that_is_rejected_is_named_with_its_fault(running_service, tmp_path):
    short = tmp_path / "short.csv"
    short.write_text("".join(TABLE.open().readlines()[:1]))
    meaning = yaml.safe_load(REGISTRATION.read_text())
    service = running_service.in_project("demo")
    with (
        pytest.raises(CommandError, match=r"short\.csv: /federation/\w+: .+"),
        connected(service.url, service.api_key) as client,
    ):
        _proposed(client, short, meaning)
