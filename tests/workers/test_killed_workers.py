"""A grid whose workers are killed: the drill itself, and that it notices what it looks for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.killed_workers import SYNTHETIC, Played, faults_alone, play
from benchmarks.sweep_evidence import CellEvidence, Rows, SweepEvidence, faults

SETTINGS = {"lease_seconds": "3", "max_attempts": "10"}
CELL = CellEvidence(
    position=0,
    experiment_id="a",
    status="succeeded",
    reason=None,
    ledger_hash="hash",
    attempts=2,
    verdict="valid",
    unproven=(),
    rounds_done=3,
    tables={name: Rows(3, 1, 3, 3, "content") for name in ("rounds", "ledger")},
)
SWEEP = SweepEvidence(
    cells=[CELL],
    attempts={2: 1},
    lost_leases=1,
    reserved=0.0,
    unsettled=0,
    spent={"release leakage": 2.0},
    table=[{"n": 1}],
    costs={"leakage": 2.0, "reasons": {}},
)


WITNESS = ("checkpoints.witness: unchecked",)


def cell_with(**changes: Any) -> SweepEvidence:
    return replace(SWEEP, cells=[replace(CELL, **changes)])


def ledger_of(*numbers: Any) -> SweepEvidence:
    return cell_with(tables={**CELL.tables, "ledger": Rows(*numbers)})


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (cell_with(status="failed", reason="worker-lost"), "cell 0: failed (worker-lost)"),
        (cell_with(ledger_hash="other"), "another ledger hash"),
        (cell_with(verdict="altered"), "its bundle is altered"),
        (cell_with(verdict="consistent", unproven=("ledger.entries: unchecked",)), "consistent"),
        (cell_with(verdict="consistent", unproven=WITNESS, attempts=1), "tried 1 times"),
        (cell_with(tables={}), "rounds is not of rounds 1 to 3: None"),
        (ledger_of(3, 1, 4, 3, "content"), "ledger is not of rounds 1 to 3"),
        (ledger_of(2, 1, 3, 2, "content"), "lacks rounds"),
        (ledger_of(4, 1, 3, 3, "content"), "has some twice"),
        (ledger_of(3, 1, 3, 3, "other"), "holds other figures"),
        (replace(SWEEP, unsettled=1), "1 reservations are held"),
        (replace(SWEEP, reserved=0.1), "0.1 is reserved"),
        (replace(SWEEP, spent={"release leakage": 4.0}), "4.0} is spent"),
        (replace(SWEEP, table=[{"n": 2}]), "another one than in peace"),
        (replace(SWEEP, costs={"leakage": 4.0, "reasons": {}}), "the sweep costs"),
    ],
)
def test_the_drill_notices(found: SweepEvidence, said: str) -> None:
    resumed = cell_with(verdict="consistent", unproven=WITNESS)
    assert faults(SWEEP, SWEEP) == faults(resumed, SWEEP) == []
    first = faults(found, SWEEP)[0]
    assert said in first


@pytest.mark.slow
def test_workers_killed_during_a_grid_lose_nothing_and_write_nothing_twice(tmp_path: Path) -> None:
    base = {**SYNTHETIC["base"], "training": {**SYNTHETIC["base"]["training"], "rounds": 600}}
    asked = {**SYNTHETIC, "base": base, "repeats": 3}

    def played(name: str, every: float | None) -> Played:
        return play(
            asked,
            tmp_path / name,
            sources=tmp_path,
            workers=3,
            every=every,
            seed=20,
            alone_every=6,
            settings=SETTINGS,
        )

    killed, peaceful = played("killed", 5.0), played("peaceful", None)
    assert killed.kills
    assert killed.evidence.lost_leases > 0
    assert faults(killed.evidence, peaceful.evidence) == []
    assert faults_alone(killed, sources=tmp_path) == []
