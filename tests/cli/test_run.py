"""`fedaudit run`: an experiment without a service."""

import csv
import hashlib
import io
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import typer
import yaml
from rich.console import Console

from fedaudit.cli.output import ExitCode
from fedaudit.cli.run import run as run_command
from fedaudit.cli.summary import summary_table
from fedaudit.reports.report import Report
from tests.api.service import SPEC
from tests.attacks.doubles import ALARM, ATTACK, offer_looks
from tests.cli.conftest import assert_refused
from tests.cli.service import clean_environment
from tests.spec.documents import gaussian

PROVEN = {"figure": "leakage_max", "op": "le", "value": 20}


@pytest.fixture
def run(command, small_spec):
    """Runs the small spec with changes to its parts; gives the process and its report."""

    def call(*arguments, **changes):
        spec = {**small_spec, **changes}
        done = command("run", "-", "--json", *arguments, stdin=yaml.safe_dump(spec))
        assert done.stdout, done.stderr
        return done, json.loads(done.stdout)

    return call


def of_ledger(folder: Path):
    return [json.loads(line) for line in (folder / "ledger.ndjson").read_text().splitlines()]


@pytest.mark.parametrize(
    ("gates", "code", "outcome"),
    [
        ({}, 0, "pass"),
        ({"gates": [{**SPEC["gates"][0], "value": 0.5}]}, 1, "fail"),
        # The guarantee is heuristic, which this gate does not allow.
        ({"gates": [PROVEN]}, 3, "insufficient_evidence"),
    ],
)
def test_the_report_is_printed_as_json_alone_and_gates_decide_the_exit_code(
    run, gates, code, outcome
):
    done, report = run(**gates)
    assert (done.returncode, report["gate_outcome"]) == (code, outcome)
    assert Report.model_validate(report).experiment.status == "succeeded"
    assert done.stderr == ""  # no progress bar where nobody watches


def test_the_files_agree_with_each_other(run, tmp_path):
    results = tmp_path / "results"
    done, report = run("--out", results)
    assert json.loads((results / "report.json").read_text()) == report
    assert report["integrity"]["ledger_hash"] in (results / "report.html").read_text()
    lines = of_ledger(results)
    assert len(lines) == 12 * 10
    releases = Counter(line["subject"] for line in lines if line["outcome"] == "released")
    per_release = 3 / 3  # slope of one feature, its second, and the intercept; over nu
    assert report["privacy"]["leakage_per_release"] == per_release
    assert report["privacy"]["participations_max"] == max(releases.values())
    assert report["privacy"]["leakage_max"] == max(line["leakage_total"] for line in lines)
    for line in lines:
        assert line["epsilon"] == pytest.approx(per_release / line["radius"])
    assert str(results) in done.stderr
    assert f"no model is written: {report['model_reason']}" in done.stderr
    assert not {"model.safetensors", "ledger-salt.json"} & {one.name for one in results.iterdir()}


def test_a_model_is_written_where_it_may_leave_and_secret_noise_differs(run, tmp_path):
    privacy = {"mechanism": "laplace-l2", "noise_multiplier": 3, "radius": 1.0, "clip": 0.5}
    released = {"privacy": {**privacy, "noise": "release"}, "gates": []}
    _, report = run("--out", tmp_path / "released", **released)
    model = (tmp_path / "released" / "model.safetensors").read_bytes()
    assert hashlib.sha256(model).hexdigest() == report["model"]["sha256"]
    layout = json.loads((tmp_path / "released" / "model-layout.json").read_text())
    assert [one["column"] for one in layout["features"]] == ["x1", "x2"]
    salt = json.loads((tmp_path / "released" / "ledger-salt.json").read_text())["salt"]
    assert len(bytes.fromhex(salt)) == 32
    assert salt not in json.dumps(report)
    assert "# Model card: small" in (tmp_path / "released" / "model-card.md").read_text()
    _, again = run(**released)
    assert again["experiment"]["status"] == "succeeded"
    # Not the hashes of ledger and model, in which there is something of each run.
    assert again["utility"]["validation_loss"] != report["utility"]["validation_loss"]


def test_seeds_together_cost_no_more_than_their_budgets(run, small_spec):
    privacy = gaussian("local", 20.0, epsilon_budget=0.5)
    training = {**small_spec["training"], "hypotheses": 1}
    _, report = run(privacy=privacy, training=training, gates=[], repeats=2)
    [found] = report["sweep"]["epsilon"]
    assert 0.3 < found["value"] <= 0.5  # made-up data of each seed are of other people


PROGRAM = """
import sys, fedaudit.cli.main as cli
sys.argv = ["fedaudit", "run", "spec.json", "--json", "--out", "kept"]
try:
    cli.main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_process_of_its_own_imports_little_and_has_the_same_ledger(run, small_spec, tmp_path):
    """With another seed of hashes, and with a standard output on which nothing can be written."""
    (tmp_path / "spec.json").write_text(json.dumps(small_spec))
    command = [sys.executable, "-P", "-c", PROGRAM]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, cwd=tmp_path, env=clean_environment(), check=False, stdout=full,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert_refused(done, "cannot use standard output: No space left on device")
    second = json.loads((tmp_path / "kept" / "report.json").read_text())
    (_, first), (_, other) = run(), run(seed=4)
    assert first["integrity"]["ledger_hash"] == second["integrity"]["ledger_hash"]
    assert first["integrity"]["ledger_hash"] != other["integrity"]["ledger_hash"]
    assert first["experiment"]["id"] != second["experiment"]["id"]
    ours = {one for one in done.stderr.split() if one.startswith("fedaudit")}
    assert not {"fedaudit_client", "fedaudit.reports.declared"} & ours
    assert "fedaudit.training.engine" in ours
    assert len(ours) <= 250


def test_a_diverged_run_exits_with_one(run, small_spec):
    training = {**small_spec["training"], "loss": "mse", "local": {"step_size": 1e6}}
    training |= {"rounds": 100, "hypotheses": 1}
    done, report = run(training=training, privacy={"mechanism": "none"}, gates=[])
    assert report["utility"]["stopped_by"] == "diverged"
    assert (done.returncode, report["experiment"]["status"]) == (1, "failed")
    assert "the run failed (diverged)" in done.stderr


def test_a_full_disk_is_said_and_loses_no_report(command, tmp_path, small_spec):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.json").symlink_to("/dev/full")
    done = command("run", "-", "--json", "--out", "out", stdin=json.dumps(small_spec))
    assert_refused(done, "cannot write out/report.json: No space left on device")
    assert json.loads(done.stdout)["experiment"]["status"] == "succeeded"


@pytest.fixture
def people(tmp_path):
    """A table of three clients, one with a name that a spreadsheet would run."""
    rows = [
        f"{'=cmd' if row % 3 == 0 else 'ab'[row % 3 - 1]},{row % 7},{row % 5},{row % 7 + 1}"
        for row in range(60)
    ]
    (tmp_path / "people.csv").write_text("\n".join(["who,x,epsilon,y", *rows, ""]))
    return {
        "federation": {
            "source": "table",
            "path": "people.csv",
            "client_key": "who",
            "target": "y",
            "features": ["x"],
            "validation_unit": "record",
        },
        "training": {
            "loss": "mse",
            "rounds": 4,
            "cohort": {"sampling": "poisson", "rate": 0.5},
            "local": {"steps": 3, "optimiser": "adam"},
        },
        "privacy": {
            "mechanism": "record-personalised",
            "budgets": {"distribution": "bounded-pareto"},
            "delta": 1e-3,
        },
        "fairness": {},
        "gates": [],
    }


def test_data_are_found_beside_the_spec_and_people_read_a_table(
    command, small_spec, people, tmp_path
):
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump({**small_spec, **people}))
    done = command("run", tmp_path / "spec.yaml", "--sources-dir", tmp_path / "none")
    assert_refused(
        done, f"below {tmp_path / 'none'}; correct its path, or name its folder by --sour"
    )
    done = command("run", tmp_path / "spec.yaml")
    assert done.returncode == 0, done.stderr
    for part in ("formal, not in force", "May it be released?", "Limits."):
        assert part in done.stdout
    assert "\x1b[" not in done.stdout


def test_records_with_budgets_leave_groups_in_the_ledger_and_a_table(run, people, tmp_path):
    done, report = run("--sources-dir", tmp_path, "--out", tmp_path / "results", **people)
    assert done.returncode == 0, done.stderr
    lines = of_ledger(tmp_path / "results")
    groups = {line["subject"] for line in lines}
    assert {line["subject_kind"] for line in lines} == {"record_group"}
    seen = Counter(line["observer"] for line in lines)
    assert seen["final_model"] == 4 * len(groups)  # every round, whoever was drawn
    assert seen["server"] == report["privacy"]["participations_max"] * len(groups)
    last = {(line["observer"], line["subject"]): line["epsilon"] for line in lines}
    with (tmp_path / "results" / "record-table.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    assert {record["client"] for record in records} == {"'=cmd", "a", "b"}
    # Of 60 rows, each distinct one is held out by a coin.
    assert 20 < len({(one["client"], one["row"]) for one in records}) == len(records) < 60
    for one in report["privacy"]["epsilon"]:
        of_groups = [value for (observer, _), value in last.items() if observer == one["observer"]]
        of_records = [float(record[f"epsilon_{one['observer']}"]) for record in records]
        assert max(of_groups) == one["value"]
        assert max(of_records) == pytest.approx(one["value"], rel=1e-12)
    for record in records:
        assert float(record["epsilon_final_model"]) <= float(record["budget"])


def test_an_alarm_exits_with_one_whatever_the_gates_say(monkeypatch, capsys, tmp_path, small_spec):
    looks = offer_looks(monkeypatch)
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump({**small_spec, "gates": [], "attacks": [ATTACK]}))
    for alarm, code in ((None, ExitCode.DONE), (ALARM, ExitCode.FAILED)):
        looks.alarm = alarm
        with pytest.raises(typer.Exit) as ended:
            run_command(str(path), as_json=True)
        assert ended.value.exit_code == code
        assert json.loads(capsys.readouterr().out)["gate_outcome"] is None


def test_reports_are_shown_side_by_side_with_the_reasons_of_what_is_missing(run):
    def text(*reports):
        file = io.StringIO()
        Console(file=file, width=200).print(summary_table(reports))
        return file.getvalue()

    _, report = run()
    other = json.loads(json.dumps(report))
    other["experiment"]["name"] = "other"
    other["privacy"]["leakage_max"] = 77.5
    lines = text(report, other).splitlines()
    [names] = [line for line in lines if "small" in line]
    assert "other" in names
    [leakage] = [line for line in lines if "leakage, largest" in line]
    assert leakage.index(f"{report['privacy']['leakage_max']:.4g}") < leakage.index("77.5")
    other["privacy"]["leakage_max"] = None
    other["privacy"]["reasons"]["leakage_max"] = "nobody measured it"
    metric = other["fairness"][0]["metrics"]["equalized_odds_ratio"]
    metric.update(value=None, reason="a group without positives")
    for reason in ("none: nobody measured it", "none: a group without positives"):
        assert reason in text(other)
