"""Attacks by `fedaudit run`: what a report says of them, and of those that fail."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedaudit.attacks.attack_files import file_in, files_in, packed
from fedaudit.attacks.carried_out import AttackWatch
from fedaudit.cli.main import app
from fedaudit.cli.run import LocalRun
from fedaudit.reports.page.html import render
from fedaudit.reports.readings.readings import reading
from fedaudit.reports.verdict.verdict import concerns_of
from tests.api.service import spec
from tests.attacks.doubles import ALARM, ATTACK, Looks, offer_looks
from tests.training.specs import ran

ALLOWED = {"allow_heuristic": True, "allow_conditional": True, "allow_simulation": True}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return offer_looks(monkeypatch)


def run(**changes: Any) -> LocalRun:
    return ran(spec(**changes))


def test_what_an_attack_found_is_in_the_report_and_moves_nothing_of_the_run(looks: Looks) -> None:
    plain, attacked = run().report, run(attacks=[ATTACK]).report
    [section] = attacked["attacks"]
    assert section["status"] == "done"
    assert section["rounds"] == attacked["utility"]["rounds"]
    for name in ("privacy", "utility", "fairness"):
        assert attacked[name] == plain[name], name
    assert attacked["integrity"]["ledger_hash"] == plain["integrity"]["ledger_hash"]
    assert attacked["provenance"]["spec_hash"] != plain["provenance"]["spec_hash"]
    assert any("No attack was run" in one for one in plain["limits"])
    assert any("none of its figures is a guarantee" in one for one in attacked["limits"])
    assert json.loads(json.dumps(attacked)) == attacked


def test_an_alarm_stands_against_a_release_whatever_gates_allow(looks: Looks) -> None:
    looks.alarm = ALARM
    gate = {"figure": "leakage_max", "op": "le", "value": 1e9, **ALLOWED}
    report = run(attacks=[ATTACK], gates=[gate]).report
    assert report["verdict_parts"]["release"].startswith(
        "No: the attack cluster-membership contradicts the guarantee: claimed was at most an "
        "epsilon of 1"
    )
    assert report["verdict_parts"]["next"].startswith("Release nothing")
    assert concerns_of(report)[0] == "attack-raised-alarm"
    [judged] = report["gates"]
    assert judged["outcome"] == "insufficient_evidence"
    assert "contradicts the guarantee" in judged["reason"]
    # Every form states it to readers.
    page = render(report)
    assert "An attack raised an alarm." in page
    assert ALARM.evidence in page
    assert "Largest parameter" in page
    assert "It sees the trained hypotheses." in page
    assert "ALARM by the attack cluster" in str(reading(report, "model-card"))
    by_nist = json.dumps(reading(report, "nist-800-226"))
    assert "An alarm was raised by: cluster-membership" in by_nist
    looks.alarm = None
    [judged] = run(attacks=[ATTACK], gates=[gate]).report["gates"]
    assert judged["outcome"] == "pass"


def test_a_failing_attack_costs_neither_the_run_nor_words_of_its_data(looks, caplog):
    def fail() -> None:
        raise ValueError("client 17 earns 4,000")

    looks.between = fail
    done = run(attacks=[ATTACK, ATTACK])
    assert done.report["experiment"]["status"] == "succeeded"
    first, second = done.report["attacks"]
    assert first == second
    assert first["status"] == "not-done"
    assert "it failed with ValueError" in first["reason"]
    assert "4,000" not in json.dumps(done.report)
    assert "client 17" in caplog.text
    assert all(not one.files for one in done.attacks)
    # It was asked for, and yet nobody attacked the model.
    assert any("No attack was run" in one for one in done.report["limits"])
    assert "No attack was run" in json.dumps(reading(done.report, "nist-800-226"))


def test_what_the_caller_raises_ends_all_attacks(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_watch: AttackWatch, position: int, _done: float) -> None:
        if position == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(AttackWatch, "progressed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(attacks=[ATTACK] * 3)
    assert len(looks.looked) == 1


def test_repeats_are_attacked_on_the_first_seed(looks: Looks) -> None:
    report = run(attacks=[ATTACK], repeats=3, training={"rounds": 2}).report
    assert [one.run.spec.seed for one in looks.looked] == [7]
    assert any("on the first of the 3 seeds" in one for one in report["limits"])


def test_a_run_that_diverged_is_not_attacked(looks: Looks) -> None:
    wild = {**spec(attacks=[{"kind": "membership"}], gates=[]), "privacy": {"mechanism": "none"}}
    local = {"step_size": 1e6}
    wild["training"] |= {"loss": "mse", "rounds": 100, "hypotheses": 1, "local": local}
    report = ran(wild).report
    assert report["experiment"]["status"] == "failed"
    [attack] = report["attacks"]
    assert (attack["status"], attack["reason"]) == ("not-done", "training diverged")
    assert not looks.looked


def test_files_are_kept_as_one_archive_with_the_same_bytes(tmp_path: Path) -> None:
    files = [{"scores.csv": b"a\n", "one.png": b"\x89"}, {}, {"scores.csv": b"b\n"}]
    archive = tmp_path / "attack-files"
    archive.write_bytes(packed(files))
    assert archive.read_bytes() == packed([dict(reversed(one.items())) for one in files])
    assert [(one.position, one.name, one.size_bytes) for one in files_in(archive)] == [
        (0, "one.png", 1),
        (0, "scores.csv", 2),
        (2, "scores.csv", 2),
    ]
    assert file_in(archive, position=2, name="scores.csv") == b"b\n"
    assert file_in(archive, position=1, name="scores.csv") is None


@pytest.mark.parametrize(
    ("alarm", "fails", "code"), [(None, False, 0), (ALARM, False, 1), (None, True, 3)]
)
def test_the_command_shows_writes_and_ends_by_what_was_found(looks, tmp_path, alarm, fails, code):
    def fail() -> None:
        raise ValueError

    looks.alarm = alarm
    if fails:
        looks.between = fail
    source, out = tmp_path / "spec.json", tmp_path / "out"
    source.write_text(json.dumps(spec(attacks=[ATTACK])))
    ran = CliRunner().invoke(app, ["attack", str(source), "--json", "--out", str(out)])
    assert ran.exit_code == code, ran.output
    found = json.loads((out / "attacks.json").read_text())
    assert json.loads(ran.stdout) == found
    assert found["alarms"] == int(alarm is not None)
    assert (out / "attacks/0/scores.csv").exists() == (not fails)
    shown = CliRunner().invoke(app, ["attack", str(source)])
    assert found["attacks"][0]["statement"][:30] in " ".join(shown.output.split())
    assert ("Alarm." in shown.output) == (alarm is not None)
    source.write_text(json.dumps(spec()))
    none = CliRunner().invoke(app, ["attack", str(source)])
    assert "the spec asks for no attack" in str(none.exception)
