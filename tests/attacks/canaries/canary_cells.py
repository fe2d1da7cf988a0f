"""Runs that canaries attack, without the service around them."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from fedaudit.attacks.attack import AttackedRun, AttackOutcome
from fedaudit.attacks.canaries.canary_attack import attack_by_canaries
from fedaudit.federations.load import load_federation
from fedaudit.reports.sections.attacks import CanariesSection
from fedaudit.runs.run import new_run
from fedaudit.spec.attacks import CanariesSpec, CanaryUnit
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.rounds import FinalResult
from tests.training.specs import groups_spec

CENTRAL = {"mechanism": "gaussian-central", "noise_multiplier": 1.0, "clip": 1.0, "delta": 1e-5}
LOCAL = {**CENTRAL, "mechanism": "gaussian-local"}
RECORDS = {
    "mechanism": "record-personalised",
    "budgets": {"distribution": "three-levels"},
    "epsilon_min": 4.0,
    "epsilon_max": 4.0,
    "delta": 1e-5,
}
COINS = {"sampling": "poisson", "rate": 1.0}


def canary_cell(privacy: dict[str, Any], **changes: Any) -> Cell:
    """50 clients train a model of 161 parameters for two rounds."""
    given: dict[str, Any] = {
        "model": {"kind": "mlp", "hidden": [40]},
        "training__loss": "mse",
        "training__rounds": 2,
        "training__hypotheses": 1,
        "training__cohort": {"clients": 50},
        "privacy": privacy,
        **changes,
    }
    spec = parse_spec(groups_spec(**given))
    return Cell(spec, load_federation(spec, sources_dir=None))


def record_cell(**changes: Any) -> Cell:
    """100 clients of ten records; all records in every step."""
    return canary_cell(
        changes.pop("privacy", RECORDS),
        **{
            "federation__validation_unit": "record",
            "training__cohort": COINS,
            "training__local": {"steps": 2, "step_size": 0.01},
            **changes,
        },
    )


def outcome_of(
    cell: Cell,
    count: int,
    *,
    unit: CanaryUnit = "client",
    progress: Callable[[float], None] = lambda share: None,
) -> AttackOutcome:
    """What canaries find."""
    run = new_run(cell, experiment_id="1", started_at=datetime(2026, 1, 1, tzinfo=UTC))
    attacked = AttackedRun(run, _result(), device="cpu")
    return attack_by_canaries(CanariesSpec(unit=unit, count=count), attacked, progress=progress)


def section_of(cell: Cell, count: int, *, unit: CanaryUnit = "client") -> CanariesSection:
    """What the report says of it."""
    section = outcome_of(cell, count, unit=unit).section
    assert isinstance(section, CanariesSection)
    return section


def _result() -> FinalResult:
    import numpy as np

    return FinalResult(
        stopped_by="rounds",
        rounds=2,
        best_round=2,
        hypotheses=np.zeros((1, 161), dtype=np.float32),
        selection_loss=1.0,
        validation_loss=1.0,
        accuracy=None,
        fairness={},
        single_row_clients=0,
        collapsed_rounds=0,
    )
