"""The comparison finds what differs, and only that."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.golden.collected import specs
from tests.golden.compared import differences

KEY = "ab" * 32
REPORT: dict[str, Any] = {
    "experiment": {"id": "01890000-0000-7000-8000-000000000000"},
    "privacy": {"epsilon_max": 1.0, "words": "an epsilon of 1"},
    "integrity": {"key_id": KEY, "ledger_hash": "cd" * 32},
}


def differing(folder: Path, *, figures: bool = False, **changes: Any) -> list[str]:
    """Where a report with changes differs from REPORT."""
    for side, report in (("base", REPORT), ("present", {**REPORT, **changes})):
        (folder / side).mkdir()
        (folder / side / "report.json").write_text(json.dumps(report))
        (folder / side / "said.txt").write_text(f"signed by {report['integrity']['key_id']}\n")
    found = differences(folder / "base", folder / "present", figures=figures)
    return [f"{name}:{one.path}" for name, listed in found.items() for one in listed]


def test_ids_keys_and_times_do_not_count(tmp_path: Path) -> None:
    other = {"key_id": "ef" * 32, "ledger_hash": "cd" * 32}
    experiment = {"id": "01890000-0000-7000-8000-00000000ffff"}
    assert differing(tmp_path, integrity=other, experiment=experiment) == []


@pytest.mark.parametrize(("run", "count"), [(1, 0), (2, 1)])
def test_what_a_log_of_runs_hashes_does_not_count(tmp_path: Path, run: int, count: int) -> None:
    """Its entries' digests are of identifiers; those of a ledger's rows are of what was spent."""
    for side, number, digest in (("base", 1, "12" * 32), ("present", run, "34" * 32)):
        entry = {"run": number, "kind": "begun", "digest": digest}
        (tmp_path / side).mkdir()
        content = json.dumps({"entries": [entry], "checkpoint": f"a note of {digest}"})
        (tmp_path / side / "log.json").write_text(content)
        (tmp_path / side / "row.json").write_text(json.dumps({"round": 1, "digest": digest}))
    found = differences(tmp_path / "base", tmp_path / "present", figures=False)
    assert len(found.pop("log.json", [])) == count
    assert list(found) == ["row.json"]


@pytest.mark.parametrize("epsilon", [1, 1.0000000000000002, None])
def test_a_planted_difference_is_found(tmp_path: Path, epsilon: float | None) -> None:
    privacy = {**REPORT["privacy"], "epsilon_max": epsilon}
    assert differing(tmp_path, privacy=privacy) == ["report.json:/privacy/epsilon_max"]


def test_a_ledger_hash_and_a_field_that_is_gone_are_found(tmp_path: Path) -> None:
    gone = {"key_id": KEY, "ledger_hash": KEY}
    found = differing(tmp_path, integrity=gone, experiment={}, figures=True)
    assert found == ["report.json:/experiment/id", "report.json:/integrity/ledger_hash"]


def test_sentences_count_unless_figures_are_asked_for(tmp_path: Path) -> None:
    privacy = {**REPORT["privacy"], "words": "epsilon is 1"}
    assert differing(tmp_path, privacy=privacy) == ["report.json:/privacy/words"]
    (tmp_path / "again").mkdir()
    assert differing(tmp_path / "again", privacy=privacy, figures=True) == []


def test_every_mechanism_method_and_attack_is_run() -> None:
    from fedaudit.privacy.mechanisms.registry import MECHANISMS
    from fedaudit.spec.attacks import AttackKind
    from fedaudit.spec.parse import parse_spec
    from tests.training.test_methods import method_names

    parsed = [parse_spec(one) for one in specs().values()]
    assert {one.privacy.mechanism for one in parsed} == {one.facts.name for one in MECHANISMS}
    assert {one.training.method.kind for one in parsed} == method_names()
    assert {kind for one in parsed for kind in (a.kind for a in one.attacks)} == set(
        get_args(AttackKind)
    )
