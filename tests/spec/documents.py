"""A complete spec to change one thing in."""

import copy
from typing import Any

import rfc8785

from fedaudit.spec.attacks import AttackSpec
from fedaudit.spec.errors import FieldError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from tests.refusals import refused_by

HOSPITAL: dict[str, Any] = {
    "name": "hospital",
    "federation": {"source": "hospital-charges", "path": "charges/four.csv.gz"},
    "model": {"kind": "mlp", "hidden": [2]},
    "training": {"loss": "rmse", "hypotheses": 5, "rounds": 500, "cohort": {"clients": 100}},
    "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3},
    "fairness": {"sensitive": ["state"], "favourable": {"op": "le", "value": 7000}},
}


def canonical_bytes(spec: ExperimentSpec) -> bytes:
    """What is hashed of a spec."""
    encoded: bytes = rfc8785.dumps(spec.model_dump(mode="json"))
    return encoded


TABLE: dict[str, Any] = {
    **HOSPITAL,
    "federation": {"source": "table", "path": "a.csv", "client_key": "who", "target": "income"},
    "model": {"kind": "logistic"},
    "training": {"loss": "cross-entropy", "rounds": 5, "cohort": {"clients": 10}},
    "fairness": {},
}

IMAGES: dict[str, Any] = {
    **TABLE,
    "federation": {"source": "images", "path": "a.npz"},
    "model": {"kind": "cnn-femnist"},
}


POISSON = {"sampling": "poisson", "rate": 0.1}
BY_RECORD: dict[str, Any] = {
    "mechanism": "record-personalised",
    "budgets": {"distribution": "three-levels"},
    "delta": 1e-3,
}
"""Budgets of records, drawn."""


def gaussian(where: str, noise_multiplier: float, **privacy: Any) -> dict[str, Any]:
    """The mechanism `gaussian-central` or `gaussian-local` in a spec."""
    named = {"mechanism": f"gaussian-{where}", "noise_multiplier": noise_multiplier}
    return {**named, "clip": 1.0, "delta": 1e-5, **privacy}


def changed(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The document with values set at dotted paths, of which parents are made; `...` removes a
    field."""
    result = copy.deepcopy(document)
    for path, value in changes.items():
        part: Any = result
        *parents, last = path.split(".")
        for parent in parents:
            part = part.setdefault(parent, {})
        if value is ...:
            del part[last]
        else:
            part[last] = value
    return result


def faults(value: object) -> list[FieldError]:
    """What is refused in a value."""
    return refused_by(parse_spec, value)


def fault(value: object) -> tuple[str, str]:
    """Pointer and message of the one thing that is refused in a value."""
    (found,) = faults(value)
    return found.pointer, found.message


def assert_refused(
    document: dict[str, Any], changes: dict[str, Any], message: str, pointer: str | None = None
) -> None:
    """One thing is refused of a changed document: where it was changed, if nothing else is said."""
    found, said = fault(changed(document, changes))
    assert found == (pointer or "/" + next(iter(changes)).replace(".", "/"))
    assert message in said


def refusals(
    asked: AttackSpec, spec: ExperimentSpec, *, pointer: str = "/attacks/0"
) -> dict[str, str]:
    """Field and message of every fault of an attack that a spec asks for."""
    found = asked.disagreements(spec, pointer=pointer)
    return {(one.context or {})["pointer"]: one.message() for one in found}
