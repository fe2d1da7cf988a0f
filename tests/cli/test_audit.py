"""`fedaudit audit`: a file of predictions, in this process and without a service."""

import json
from pathlib import Path

import pytest

from fedaudit.reports.audit_report import AuditReport
from tests.audits.tables import people, write
from tests.cli.conftest import assert_refused

COLUMNS = ("--truth", "hired", "--prediction", "predicted", "--sensitive", "sex")


@pytest.fixture
def audit(command, tmp_path: Path):
    """Runs the command on a table of people."""
    table = write(tmp_path, people(300))

    def call(*arguments: object):
        return command("audit", table, *COLUMNS, "--favourable", "yes", *arguments)

    return call


def test_the_report_is_printed_and_written(audit, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("gates: [{figure: demographic_parity_difference, op: le, value: 0.99}]")
    done = audit("--json", "--out", tmp_path / "out", "--client-key", "town", "--policy", policy)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["gate_outcome"] == "pass"
    assert AuditReport.model_validate(report).data.clients == 30
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == report
    assert "Audit of predictions" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("figure", "bound", "code"),
    [("demographic_parity_difference", 0.001, 1), ("epsilon_max", 10, 3)],
)
def test_the_gates_of_a_policy_decide_the_exit_code(audit, tmp_path, figure, bound, code):
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"gates: [{{figure: {figure}, op: le, value: {bound}}}]")
    done = audit("--policy", policy)
    assert done.returncode == code, done.stderr
    assert "concerns fairness alone" in " ".join(done.stdout.split())


def test_faults_name_column_and_remedy(audit) -> None:
    assert_refused(audit("--sensitive", "gender"), "/sensitive/1", "no column 'gender'")


def test_a_file_that_is_not_there_is_no_matter_of_the_service(command) -> None:
    done = command("audit", "absent.csv", *COLUMNS, "--favourable", "yes")
    assert_refused(done, "'absent.csv' does not exist")
    assert "sources folder" not in done.stderr
