"""`fedaudit run`: an experiment without a service."""

import csv
import hashlib
import io
import json
from collections import Counter

import pytest
import typer
import yaml
from rich.console import Console

from fedaudit.cli.summary import summary_table
from fedaudit.reports.report import Report


@pytest.fixture
def run(command, small_spec):
    """Runs the small spec with changes to its parts; gives the process and its report."""

    def call(*arguments, **changes):
        spec = {**small_spec, **changes}
        done = command("run", "-", "--json", *arguments, stdin=yaml.safe_dump(spec))
        assert done.stdout, done.stderr
        return done, json.loads(done.stdout)

    return call


def test_the_report_is_printed_as_json_alone(run):
    done, report = run()
    assert done.returncode == 0, done.stderr
    assert Report.model_validate(report).experiment.status == "succeeded"
    assert report["gate_outcome"] == "pass"
    assert done.stderr == ""  # no progress bar where nobody watches


def test_the_files_agree_with_each_other(run, tmp_path):
    done, report = run("--out", tmp_path / "results")
    results = tmp_path / "results"
    assert json.loads((results / "report.json").read_text()) == report
    assert report["integrity"]["ledger_hash"] in (results / "report.html").read_text()
    lines = [json.loads(line) for line in (results / "ledger.ndjson").read_text().splitlines()]
    assert len(lines) == 12 * 10
    releases = Counter(line["subject"] for line in lines if line["outcome"] == "released")
    per_release = 3 / 3  # slope of one feature, its second, and the intercept; over nu
    assert report["privacy"]["leakage_per_release"] == per_release
    assert report["privacy"]["participations_max"] == max(releases.values())
    assert report["privacy"]["leakage_max"] == max(line["leakage_total"] for line in lines)
    for line in lines:
        assert line["epsilon"] == pytest.approx(per_release / line["radius"])
    assert str(results) in done.stderr


def test_a_model_is_written_where_it_may_leave(run, tmp_path):
    done, report = run("--out", tmp_path / "kept")
    assert not (tmp_path / "kept" / "model.safetensors").exists()
    assert f"no model is written: {report['model_reason']}" in done.stderr
    privacy = {"mechanism": "laplace-l2", "noise_multiplier": 3, "radius": 1.0, "clip": 0.5}
    privacy["noise"] = "release"
    _, report = run("--out", tmp_path / "released", privacy=privacy, gates=[])
    model = (tmp_path / "released" / "model.safetensors").read_bytes()
    assert hashlib.sha256(model).hexdigest() == report["model"]["sha256"]
    layout = json.loads((tmp_path / "released" / "model-layout.json").read_text())
    assert [one["column"] for one in layout["features"]] == ["x1", "x2"]
    salt = json.loads((tmp_path / "released" / "ledger-salt.json").read_text())["salt"]
    assert len(bytes.fromhex(salt)) == 32
    assert salt not in json.dumps(report)
    assert not (tmp_path / "kept" / "ledger-salt.json").exists()
    assert "# Model card: small" in (tmp_path / "released" / "model-card.md").read_text()


def test_seeds_together_cost_no_more_than_their_budgets(run, small_spec):
    privacy = {"mechanism": "gaussian-local", "noise_multiplier": 20.0, "clip": 1.0, "delta": 1e-5}
    privacy["epsilon_budget"] = 0.5
    training = {**small_spec["training"], "hypotheses": 1}
    _, report = run(privacy=privacy, training=training, gates=[], repeats=2)
    [found] = report["sweep"]["epsilon"]
    assert 0.3 < found["value"] <= 0.5  # made-up data of each seed are of other people


def test_the_same_spec_gives_the_same_ledger(run, installed_command, small_spec):
    (_, first), (_, other) = run(), run(seed=4)
    # Of another process with another seed of hashes.
    second = json.loads(
        installed_command("run", "-", "--json", stdin=json.dumps(small_spec)).stdout
    )
    assert first["integrity"]["ledger_hash"] == second["integrity"]["ledger_hash"]
    assert first["integrity"]["ledger_hash"] != other["integrity"]["ledger_hash"]
    assert first["experiment"]["id"] != second["experiment"]["id"]


def test_a_failed_gate_exits_with_one(run):
    gate = {
        "figure": "leakage_max",
        "op": "le",
        "value": 0.5,
        "allow_heuristic": True,
        "allow_simulation": True,
    }
    done, report = run(gates=[gate])
    assert (done.returncode, report["gate_outcome"]) == (1, "fail")


def test_missing_evidence_exits_with_three(run):
    gate = {"figure": "leakage_max", "op": "le", "value": 100}
    done, report = run(gates=[gate])  # the guarantee is heuristic, which this gate does not allow
    assert (done.returncode, report["gate_outcome"]) == (3, "insufficient_evidence")


def test_a_diverged_run_exits_with_one(run, small_spec):
    training = {**small_spec["training"], "loss": "mse", "local": {"step_size": 1e6}}
    training |= {"rounds": 100, "hypotheses": 1}
    done, report = run(training=training, privacy={"mechanism": "none"}, gates=[])
    assert report["utility"]["stopped_by"] == "diverged"
    assert (done.returncode, report["experiment"]["status"]) == (1, "failed")
    assert "the run failed (diverged)" in done.stderr


def test_people_read_a_table(command, small_spec):
    done = command("run", "-", stdin=json.dumps(small_spec))
    assert done.returncode == 0
    for part in ("heuristic, not in force", "May it be released?", "Limits."):
        assert part in done.stdout
    assert "\x1b[" not in done.stdout


def test_a_device_that_is_not_there_is_refused(command, small_spec):
    done = command("run", "-", "--device", "cuda:99", stdin=json.dumps(small_spec))
    assert done.returncode == 2
    assert "device" in done.stderr
    assert "Traceback" not in done.stderr


def test_secret_noise_differs_from_run_to_run(run, small_spec):
    privacy = {**small_spec["privacy"], "noise": "release"}
    reports = [run(privacy=privacy, gates=[])[1] for _ in range(2)]
    assert all(report["experiment"]["status"] == "succeeded" for report in reports)
    hashes = {report["integrity"]["ledger_hash"] for report in reports}
    assert len(hashes) == 2


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


def test_data_are_found_beside_the_spec(command, small_spec, people, tmp_path):
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump({**small_spec, **people}))
    done = command("run", tmp_path / "spec.yaml")
    assert done.returncode == 0, done.stderr


def test_a_proposal_names_a_federation_of_the_service_alone(command, small_spec):
    spec = {**small_spec, "federation": {"id": "0" * 8 + "-0000-0000-0000-" + "0" * 12}}
    done = command("run", "-", stdin=yaml.safe_dump(spec))
    assert done.returncode == 2
    assert "/federation/id: leaves the columns to a registration" in done.stderr


def test_records_with_budgets_leave_groups_in_the_ledger_and_a_table(run, people, tmp_path):
    done, report = run("--sources-dir", tmp_path, "--out", tmp_path / "results", **people)
    assert done.returncode == 0, done.stderr
    lines = [
        json.loads(line)
        for line in (tmp_path / "results" / "ledger.ndjson").read_text().splitlines()
    ]
    groups = {line["subject"] for line in lines}
    assert {line["subject_kind"] for line in lines} == {"record_group"}
    seen = Counter(line["observer"] for line in lines)
    assert seen["final_model"] == 4 * len(groups)  # every round, whoever was drawn
    assert seen["server"] == report["privacy"]["participations_max"] * len(groups)
    last = {(line["observer"], line["subject"]): line["epsilon"] for line in lines}
    with (tmp_path / "results" / "record-table.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    assert {record["client"] for record in records} == {"'=cmd", "a", "b"}
    assert len(records) == 3 * 14  # of 20 rows each, 6 are held out
    for one in report["privacy"]["epsilon"]:
        of_groups = [value for (observer, _), value in last.items() if observer == one["observer"]]
        of_records = [float(record[f"epsilon_{one['observer']}"]) for record in records]
        assert max(of_groups) == one["value"]
        assert max(of_records) == pytest.approx(one["value"], rel=1e-12)
    for record in records:
        assert float(record["epsilon_final_model"]) <= float(record["budget"])


def test_an_alarm_exits_with_one_whatever_the_gates_say(monkeypatch, capsys, tmp_path, small_spec):
    from fedaudit.cli.output import ExitCode
    from fedaudit.cli.run import run as run_command
    from tests.attacks.doubles import ALARM, ATTACK, offer_looks

    looks = offer_looks(monkeypatch)
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump({**small_spec, "gates": [], "attacks": [ATTACK]}))
    for alarm, code in ((None, ExitCode.DONE), (ALARM, ExitCode.FAILED)):
        looks.alarm = alarm
        with pytest.raises(typer.Exit) as ended:
            run_command(str(path), as_json=True)
        assert ended.value.exit_code == code
        assert json.loads(capsys.readouterr().out)["gate_outcome"] is None


# -- reports for people ---------------------------------------------------------------------------


@pytest.fixture
def report(command, small_spec):
    return json.loads(command("run", "-", "--json", stdin=json.dumps(small_spec)).stdout)


def text(*reports):
    file = io.StringIO()
    Console(file=file, width=200).print(summary_table(reports))
    return file.getvalue()


def test_two_reports_are_shown_side_by_side(report):
    other = json.loads(json.dumps(report))
    other["experiment"]["name"] = "other"
    other["privacy"]["leakage_max"] = 77.5
    lines = text(report, other).splitlines()
    [names] = [line for line in lines if "small" in line]
    assert "other" in names
    [leakage] = [line for line in lines if "leakage, largest" in line]
    assert leakage.index(f"{report['privacy']['leakage_max']:.4g}") < leakage.index("77.5")


def test_a_missing_figure_gives_its_reason(report):
    report["privacy"]["leakage_max"] = None
    report["privacy"]["reasons"]["leakage_max"] = "nobody measured it"
    metric = report["fairness"][0]["metrics"]["equalized_odds_ratio"]
    metric.update(value=None, reason="a group without positives")
    assert "none: nobody measured it" in text(report)
    assert "none: a group without positives" in text(report)
