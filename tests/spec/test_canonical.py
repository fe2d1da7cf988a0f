"""One form for all specs that mean the same."""

import hashlib
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.spec.experiment import spec_hash
from fedaudit.spec.parse import decode_text, parse_spec
from tests.spec.documents import HOSPITAL, TABLE, canonical_bytes, changed


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: reversed_keys(value[name]) for name in reversed(value)}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


def test_the_canonical_form_states_every_default() -> None:
    form = json.loads(canonical_bytes(parse_spec(HOSPITAL)))
    assert form["spec_version"] == 1
    assert form["seed"] == 0
    assert form["training"]["local"] == {
        "epochs": 1,
        "steps": None,
        "batch_size": None,
        "step_size": 0.1,
        "optimiser": "sgd",
    }
    assert form["training"]["clustering"] == {"method": "k-means", "empty_cluster": "keep"}
    assert form["privacy"]["radius"] == "adaptive"
    assert form["privacy"]["radius_floor"] == 1e-6
    assert form["fairness"]["intervals"]["samples"] == 1000
    assert form["federation"]["conditions"] == [194, 690, 292, 392]
    assert (form["attacks"], form["gates"], form["tags"]) == ([], [], [])


def test_the_canonical_form_is_a_spec_with_the_same_hash() -> None:
    for document in (HOSPITAL, TABLE):
        spec = parse_spec(document)
        again = parse_spec(decode_text(canonical_bytes(spec).decode()))
        assert again == spec
        assert spec_hash(again) == spec_hash(spec)
        assert parse_spec(spec.model_dump(mode="json")) == spec


@pytest.mark.parametrize(
    "changes",
    [
        {"privacy.noise_multiplier": 3.0},
        {"fairness.favourable": {"value": 7000.0, "op": "le"}},
        {"training.local": {"step_size": 0.1}},
        {"training.local": {}},
        {"seed": 0},
        {"federation.scale": {"latitude": 10, "average_total_payments": 1e4, "longitude": 100}},
        {"training.cohort": {"sampling": "fixed", "clients": 100}},
        {"fairness.reference_group": None},
        {"gates": []},
        {"decision": {"threshold": 0.5}},
        {"attacks": []},
        {"fairness.minimum_group_clients": 2},
    ],
    ids=str,
)
def test_what_means_the_same_has_the_same_hash(changes: dict[str, Any]) -> None:
    assert spec_hash(parse_spec(changed(HOSPITAL, changes))) == spec_hash(parse_spec(HOSPITAL))


def test_neither_order_nor_notation_matters() -> None:
    expected = spec_hash(parse_spec(HOSPITAL))
    for text in (
        json.dumps(HOSPITAL),
        json.dumps(HOSPITAL, indent="\t"),
        yaml.safe_dump(HOSPITAL),
        yaml.safe_dump(HOSPITAL, default_flow_style=True),
        json.dumps(reversed_keys(HOSPITAL)),
    ):
        assert spec_hash(parse_spec(decode_text(text))) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"name": "other"},
        {"tags": ["a"]},
        {"privacy.noise_multiplier": 3.0000000000000004},
        {"privacy.noise": "release"},
        {"model.start": "normal"},
        {"privacy": {"mechanism": "none"}},
        {"training.hypotheses": 4},
        {"training.local": {"steps": 1}},
        {"training.clustering": {"method": "reported"}},
        {"fairness.favourable": {"op": "ge", "value": 7000}},
        {"fairness.intervals": None},
        {"fairness.minimum_group_clients": 1},
        {"device": "cpu"},
    ],
    ids=str,
)
def test_what_means_something_else_has_another_hash(changes: dict[str, Any]) -> None:
    assert spec_hash(parse_spec(changed(HOSPITAL, changes))) != spec_hash(parse_spec(HOSPITAL))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (HOSPITAL, "d63882fd486bcb22d243fad5e39de77945760085ef35c46bddd488c6b80dcc7b"),
        (
            changed(TABLE, {"model.start": "normal"}),
            "80929ada351f03af99160493c09f80d046593b3ae4eef682b767ba6301d8e494",
        ),
    ],
    ids=["hospital", "table"],
)
def test_fields_that_came_later_leave_the_hash_of_earlier_specs(document, expected):
    """The hashes are those before `minimum_group_clients` and `start`. Change them only where every
    spec is meant to have another hash from then on."""
    spec = parse_spec(document)
    assert spec_hash(spec) == expected
    assert "minimum_group_clients" not in spec.model_dump(mode="json")["fairness"]
    assert "start" not in spec.model_dump(mode="json")["model"]


def test_the_hash_is_sha256_of_the_canonical_form() -> None:
    spec = parse_spec(HOSPITAL)
    assert spec_hash(spec) == hashlib.sha256(canonical_bytes(spec)).hexdigest()
    assert b" " not in canonical_bytes(spec)


def test_steps_take_the_place_of_epochs() -> None:
    local = parse_spec(changed(HOSPITAL, {"training.local": {"steps": 50}})).training.local
    assert (local.steps, local.epochs) == (50, None)


@given(
    seed=st.integers(0, 2**53 - 1),
    noise_multiplier=st.floats(1e-9, 1e12),
    step_size=st.floats(1e-9, 1e6),
)
def test_numbers_survive_canonicalisation(seed, noise_multiplier, step_size):
    changes = {
        "seed": seed,
        "privacy.noise_multiplier": noise_multiplier,
        "training.local": {"step_size": step_size},
    }
    spec = parse_spec(changed(HOSPITAL, changes))
    for text in (canonical_bytes(spec).decode(), json.dumps(spec.model_dump(mode="json"))):
        assert parse_spec(decode_text(text)) == spec
