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
NONE = {"mechanism": "none"}
NOISE = {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5, "unit": "record"}
ONE: dict[str, Any] = {"training__hypotheses": 1}
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
    ("changes", "field", "words"),
    [
        ({"training__method": "fine-tuning"}, "/federation/scoring", "{method: split"),
        ({**ONE, "training__method": "ditto"}, "/federation/scoring", "{method: split"),
        ({"training__method": "ditto", "federation": SPLIT}, "/training/hypotheses", "use 1"),
        ({"training__method": "q-ffl", "privacy": NONE}, "/training/hypotheses", "use 1"),
        ({**ONE, "training__method": "q-ffl"}, "/training/method/kind", "mechanism: none"),
        (
            {**ONE, "training__method": "q-ffl", "privacy": CENTRAL},
            "/training/method/kind",
            "mechanism: none",
        ),
        (
            {**ONE, "training__method": "local-only", "federation": SPLIT},
            "/training/method/kind",
            "mechanism: none",
        ),
        (
            {**ONE, "training__method": "local-only", "privacy": NONE},
            "/federation/scoring",
            "{method: split",
        ),
        (
            {**Q_FFL, "training__local__optimiser": "adam"},
            "/training/local/optimiser",
            "plain gradient descent",
        ),
        ({**Q_FFL, "training__local__momentum": 0.5}, "/training/local/momentum", "another method"),
        (
            {**Q_FFL, "training__local__schedule": {"kind": "cosine"}},
            "/training/local/schedule",
            "leave it out",
        ),
        (
            {"training__local": {"optimiser": "adam", "momentum": 0.5}},
            "/training/local/momentum",
            "use `sgd`",
        ),
        ({"training__local__momentum": 1}, "/training/local/momentum", "less than 1"),
        (
            {"training__local__schedule": {"warm_up": 30}},
            "/training/local/schedule/warm_up",
            "below `rounds` (30)",
        ),
        ({"training__server": {"optimiser": "yogi"}}, "/training/server/optimiser", "'momentum'"),
        (
            {"training__server": {"optimiser": "adam", "tau": 0}},
            "/training/server/tau",
            "greater than or equal to",
        ),
        (
            {"training__local__momentum": 0.5, "attacks": [{"kind": "gradient-leakage"}]},
            "/training/local/momentum",
            "leave the attack out",
        ),
        ({"training__method": "fedprox"}, "/training/method/kind", "'ditto'"),
        (
            {"training__method": {"kind": "ditto", "lambda": 1}},
            "/training/method/lambda",
            "unknown",
        ),
        (
            {**ONE, "training__method": "ditto", "federation": SPLIT, "fairness__noise": NOISE},
            "/fairness/noise/unit",
            "use the unit `client`",
        ),
    ],
)
def test_what_does_not_fit_is_refused_at_its_field(changes, field, words):
    found = {one.pointer: one.message for one in faults(groups_spec(**changes))}
    assert field in found
    assert words in found[field]


@pytest.mark.parametrize("kind", ["fine-tuning", "ditto", "local-only", "q-ffl"])
def test_records_with_budgets_have_no_other_method(kind: str) -> None:
    spec = records_spec()
    spec["training"]["method"] = kind
    assert "/training/method/kind" in {error.pointer for error in faults(spec)}
