"""`fedaudit replay`: a spec beside its neighbour, in a process of its own."""

import json
from typing import Any

import pytest
import typer
import yaml

from fedaudit.attacks.replay import replay as replays
from fedaudit.attacks.replay.replay_finding import ReplayFinding, ReplayReport
from fedaudit.cli.attack import replay as replay_command
from fedaudit.cli.output import ExitCode
from tests.cli.conftest import Command
from tests.spec.documents import BY_RECORD, gaussian
from tests.training.specs import groups_spec


def small(**changes: Any) -> str:
    given = {
        "privacy": gaussian("central", 2, clip=0.1, delta=1e-4),
        "training__clustering": {"method": "reported"},
        "training__cohort": {"clients": 6},
        "training__rounds": 4,
        **changes,
    }
    return yaml.safe_dump(groups_spec(**given))


def test_a_spec_without_a_fault_is_replayed_and_nothing_is_found(command: Command) -> None:
    done = command("replay", "-", "--json", stdin=small())
    assert done.returncode == ExitCode.DONE, done.stderr
    report = json.loads(done.stdout)
    assert report["findings"] == []
    assert report["broken"] is None
    assert report["rounds"] == 4
    assert report["checks"]["distance of neighbouring sums"] == 2 * 4  # values, and rows
    assert "validation_loss, of those held out" in report["unprotected"]
    answer = command("replay", "-", "--rounds", "2", stdin=small())
    assert answer.returncode == ExitCode.DONE, answer.stderr
    said = " ".join(answer.stdout.split())
    assert "2 rounds beside a neighbour in which a client that trains has other values" in said
    assert "Nothing found" in said


@pytest.mark.parametrize(
    "changes",
    [
        {"privacy": {"mechanism": "gaussian-distance", "noise_multiplier": 1, "clip": 1.0}},
        {
            "privacy": {**BY_RECORD, "baseline": "privacy-free"},
            "training__loss": "mse",
            "training__cohort": {"sampling": "poisson", "rate": 0.5},
            "training__local": {"steps": 2, "batch_size": 3},
        },
    ],
)
def test_nothing_found_is_no_evidence_where_nothing_is_bounded(command: Command, changes) -> None:
    done = command("replay", "-", "--rounds", "2", stdin=small(training__hypotheses=1, **changes))
    assert done.returncode == ExitCode.NO_EVIDENCE, done.stderr
    assert "There is no guarantee that a round could break." in done.stdout


def test_a_finding_has_an_exit_code_of_its_own(monkeypatch, capsys, tmp_path):
    finding = ReplayFinding(
        stage="noise", check="noise added", round=3, allowed="1", measured="0.5", times=2
    )
    report = ReplayReport(
        findings=(finding,),
        mechanism="gaussian-central",
        neighbours="a client that trains has other values",
        rounds=4,
        checks={"noise added": 4},
        unprotected=(),
        tests=3,
    )
    monkeypatch.setattr(replays, "replay", lambda *_, **__: report)
    (tmp_path / "spec.yaml").write_text(small())
    for as_json in (True, False):
        with pytest.raises(typer.Exit) as ended:
            replay_command(str(tmp_path / "spec.yaml"), as_json=as_json, rounds=4)
        assert ended.value.exit_code == ExitCode.FOUND
        said = capsys.readouterr().out
        assert "noise added" in said
        assert ('"broken": "noise"' if as_json else "Broken at: noise") in said
