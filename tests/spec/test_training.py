"""Methods of training in a spec."""

import json
from typing import Any

import pytest

from fedaudit.spec.experiment import spec_hash
from fedaudit.spec.parse import parse_spec
from tests.spec.documents import canonical_bytes, faults
from tests.training.gaussian import CENTRAL, MOVES
from tests.training.personalised import records_spec
from tests.training.specs import groups_spec

SPLIT = {"source": "synthetic-groups", "scoring": {"method": "split"}}
ROWS = {**SPLIT, "validation_unit": "record"}
NONE = {"mechanism": "none"}
NOISE = {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5, "unit": "record"}
OF_CLIENTS = {**NOISE, "unit": "client", "max_rows_per_client": 5}
ONE: dict[str, Any] = {"training__hypotheses": 1}
LOCAL = "training__local__"
LOCAL_ONLY: dict[str, Any] = {**ONE, "training__method": "local-only"}
ADAM_WITH_MOMENTUM = {"optimiser": "adam", "momentum": 0.5}
ATTACKED = {"attacks": [{"kind": "gradient-leakage"}]}
Q_FFL: dict[str, Any] = {**ONE, "training__method": "q-ffl", "privacy": NONE}


def test_the_default_is_left_out_of_what_is_hashed() -> None:
    plain = parse_spec(groups_spec())
    for named in ("hypotheses", {"kind": "hypotheses"}):
        assert spec_hash(parse_spec(groups_spec(training__method=named))) == spec_hash(plain)
    defaults = {
        "training__server": {"optimiser": "average"},
        "training__local": {
            "step_size": 0.1,
            "momentum": 0,
            "schedule": {"kind": "constant", "warm_up": 0},
        },
    }
    assert canonical_bytes(parse_spec(groups_spec(**defaults))) == canonical_bytes(plain)
    moved = parse_spec(groups_spec(**MOVES["adam"]))
    assert parse_spec(json.loads(canonical_bytes(moved))) == moved
    other = parse_spec(groups_spec(federation=SPLIT, training__method="fine-tuning"))
    assert b'"kind":"fine-tuning"' in canonical_bytes(other)
    assert parse_spec(json.loads(canonical_bytes(other))) == other


@pytest.mark.parametrize(
    ("field", "words", "changes"),
    [
        ("federation.scoring", "{method: split", {"training__method": "fine-tuning"}),
        ("federation.scoring", "{method: split", {**ONE, "training__method": "ditto"}),
        ("federation.scoring", "{method: split", {**LOCAL_ONLY, "privacy": NONE}),
        ("training.hypotheses", "use 1", {"training__method": "ditto", "federation": SPLIT}),
        ("training.hypotheses", "use 1", {"training__method": "q-ffl", "privacy": NONE}),
        ("training.method.kind", "mechanism: none", {**ONE, "training__method": "q-ffl"}),
        ("training.method.kind", "mechanism: none", {**Q_FFL, "privacy": CENTRAL}),
        ("training.method.kind", "mechanism: none", {**LOCAL_ONLY, "federation": SPLIT}),
        ("training.method.kind", "'ditto'", {"training__method": "fedprox"}),
        ("training.method.lambda", "unknown", {"training__method": {"kind": "ditto", "lambda": 1}}),
        ("training.local.optimiser", "plain gradient", {**Q_FFL, f"{LOCAL}optimiser": "adam"}),
        ("training.local.momentum", "another method", {**Q_FFL, f"{LOCAL}momentum": 0.5}),
        ("training.local.schedule", "leave it", {**Q_FFL, f"{LOCAL}schedule": {"kind": "cosine"}}),
        ("training.local.momentum", "use `sgd`", {"training__local": ADAM_WITH_MOMENTUM}),
        ("training.local.momentum", "less than 1", {f"{LOCAL}momentum": 1}),
        ("training.local.momentum", "leave the attack out", {f"{LOCAL}momentum": 0.5, **ATTACKED}),
        ("training.local.schedule.warm_up", "(30)", {f"{LOCAL}schedule": {"warm_up": 30}}),
        ("training.server.optimiser", "'momentum'", {"training__server": {"optimiser": "yogi"}}),
        (
            "training.server.tau",
            "greater than or equal to",
            {"training__server": {"optimiser": "adam", "tau": 0}},
        ),
        (
            "federation.validation_unit",
            "disclose",
            {**ONE, "training__method": "ditto", "federation": ROWS},
        ),
        (
            "federation.validation_unit",
            "under `noise: release`",
            {**ONE, "training__method": "ditto", "federation": ROWS, "fairness__noise": OF_CLIENTS},
        ),
        (
            "fairness.noise.unit",
            "use the unit `client`",
            {**ONE, "training__method": "ditto", "federation": SPLIT, "fairness__noise": NOISE},
        ),
    ],
)
def test_what_does_not_fit_is_refused_at_its_field(field, words, changes):
    found = {one.pointer: one.message for one in faults(groups_spec(**changes))}
    assert words in found["/" + field.replace(".", "/")]


@pytest.mark.parametrize("kind", ["fine-tuning", "ditto", "local-only", "q-ffl"])
def test_records_with_budgets_have_no_other_method(kind: str) -> None:
    spec = records_spec()
    spec["training"]["method"] = kind
    assert "/training/method/kind" in {error.pointer for error in faults(spec)}
