"""Runs that canaries attack, without the service around them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fedaudit.attacks.attack import AttackOutcome
from fedaudit.attacks.canaries.canary_attack import attack_by_canaries
from fedaudit.privacy.lower_bounds.e_values import EValue
from fedaudit.reports.sections.attacks import CanariesSection
from fedaudit.spec.attacks import CanariesSpec, CanaryUnit
from fedaudit.training.base.cell import Cell
from tests.attacks.attacked_runs import untrained
from tests.training.specs import cell, groups_spec

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
    return cell(groups_spec(**given))


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
    attacked: Cell,
    count: int,
    *,
    unit: CanaryUnit = "client",
    progress: Callable[[float], None] = lambda share: None,
    before: tuple[EValue, ...] = (),
) -> AttackOutcome:
    """What canaries find, `before`: after attacks on the same run with these e-values."""
    asked = CanariesSpec(unit=unit, count=count)
    run = replace(untrained(attacked), before=before)
    return attack_by_canaries(asked, run, progress=progress)


def section_of(attacked: Cell, count: int, **more: Any) -> CanariesSection:
    """What the report says of it."""
    section = outcome_of(attacked, count, **more).section
    assert isinstance(section, CanariesSection)
    return section
