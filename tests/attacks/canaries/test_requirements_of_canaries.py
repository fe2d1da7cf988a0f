"""What canaries require: each fault with its field and the remedy."""

from typing import Any

import pytest

from fedaudit.attacks.canaries.requirements_of_canaries import faults
from fedaudit.spec.attacks.attack_part import AttackedSpec
from fedaudit.spec.attacks.canaries_spec import CanariesSpec, CanaryUnit
from fedaudit.training.base.cell import Cell
from tests.attacks.canaries.canary_cells import CENTRAL, LOCAL, RECORDS, canary_cell, record_cell

LINEAR = {"model": {"kind": "linear", "intercept": False}}


def _faults(cell: Cell, count: int, unit: CanaryUnit = "client") -> list[tuple[str, str]]:
    spec = CanariesSpec(unit=unit, count=count)
    return [(fault.pointer, fault.message) for fault in faults(spec, cell, pointer="/attacks/0")]


def test_no_more_canaries_than_there_are() -> None:
    [(pointer, message)] = _faults(canary_cell(CENTRAL), 51)
    assert pointer == "/attacks/0/count"
    assert "more than the clients that train; lower `count`" in message
    assert _faults(canary_cell(CENTRAL), 50) == []
    [(_, message)] = _faults(record_cell(), 5000, "record")
    assert "records" in message


def test_in_a_small_model_canaries_collide() -> None:
    small = canary_cell(CENTRAL, **LINEAR)
    assert small.shape.n < 11
    [(pointer, message)] = _faults(small, 30)
    assert pointer == "/attacks/0/count"
    assert "collide" in message
    assert f"lower `count` to {small.shape.n}" in message
    assert _faults(small, small.shape.n) == [] or small.shape.n < 2
    # Each upload is a release of its own, with room for its one canary.
    assert _faults(canary_cell(LOCAL, **LINEAR), 30) == []
    room = 100 * record_cell(**LINEAR).shape.n
    assert _faults(record_cell(**LINEAR), room // 2, "record") == []
    assert "collide" in _faults(record_cell(**LINEAR), 450, "record")[0][1] or room >= 450


@pytest.mark.parametrize(
    ("privacy", "unit", "pointer"),
    [
        (CENTRAL, "record", "/attacks/0/unit"),
        (LOCAL, "record", "/attacks/0/unit"),
        ({"mechanism": "none"}, "record", "/attacks/0/unit"),
        (
            {**CENTRAL, "clip": {"adaptive": {"initial": 1.0, "count_noise": 5.0}}},
            "client",
            "/privacy/clip",
        ),
        (
            {"mechanism": "laplace-l2", "noise_multiplier": 1.0, "per_layer": True},
            "client",
            "/privacy/per_layer",
        ),
    ],
)
def test_a_spec_that_disagrees_is_told_where(
    privacy: dict[str, Any], unit: CanaryUnit, pointer: str
) -> None:
    assert _disagreements(canary_cell(privacy), unit) == [pointer]


def test_clients_that_send_no_plain_updates_have_no_canaries() -> None:
    cell = canary_cell({"mechanism": "none"}, training__method={"kind": "q-ffl", "q": 1.0})
    assert _disagreements(cell, "client") == ["/training/method/kind"]


def test_records_have_a_unit_and_no_baseline() -> None:
    assert _disagreements(record_cell(), "record") == []
    assert _disagreements(record_cell(), "client") == ["/attacks/0/unit"]
    batch = {"training__local": {"steps": 2, "batch_size": 4, "step_size": 0.01}}
    other = record_cell(privacy={**RECORDS, "baseline": "uniform"}, **batch)
    assert _disagreements(other, "record") == ["/privacy/baseline"]


def _disagreements(cell: Cell, unit: CanaryUnit) -> list[str]:
    spec = cell.spec
    attacked = AttackedSpec(
        federation=spec.federation, model=spec.model, training=spec.training, privacy=spec.privacy
    )
    found = CanariesSpec(unit=unit, count=2).disagreements(attacked, pointer="/attacks/0")
    return [(one.context or {})["pointer"] for one in found]
