"""Whose client: the same word is not the same client."""

import re
from typing import Any

import pytest

from fedaudit.privacy.unit_key import PATTERN, unit_key, unit_key_words
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.table import Table

DEALT = {"client_key": None, "partition": {"method": "iid", "clients": 30}}


def spec(federation: dict[str, Any], **changes: Any) -> ExperimentSpec:
    table = {"source": "table", "path": "a.csv", "client_key": "town", "target": "y"}
    return parse_spec(
        {
            "name": "whose",
            "federation": {**table, "features": ["x"], **federation},
            "model": {"kind": "linear"},
            "training": {"loss": "mse", "rounds": 1, "cohort": {"clients": 2}},
            "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 1},
            **changes,
        }
    )


def key(federation: dict[str, Any], **changes: Any) -> str:
    found = unit_key(spec(federation, **changes), "client")
    assert re.fullmatch(PATTERN, found)
    return found


def test_a_column_names_clients_however_it_is_given() -> None:
    by_column = {"client_key": None, "partition": {"method": "column", "column": "town"}}
    assert key({}) == key(by_column) == key({}, seed=5) == "client_key=town"
    by_id = {"path": None, "id": "00000000-0000-7000-8000-000000000000"}
    assert key({**by_id, "scale": {"x": 2}}) == key({})
    assert len(key({"client_key": "t" * 200})) < 255
    assert unit_key(spec({}), "record") == unit_key(spec(DEALT), "record") == "row"


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"federation": {"partition": {"method": "iid", "clients": 31}}},
        {"federation": {"partition": {"method": "shards", "clients": 30}}},
        {"federation": {"features": [{"name": "x", "missing": "drop-row"}]}},
        {"model": {"kind": "logistic"}, "training": {"loss": "cross-entropy", "rounds": 1}},
    ],
)
def test_what_deals_rows_otherwise_makes_other_clients(change: dict[str, Any]) -> None:
    federation = {**DEALT, **change.pop("federation", {})}
    if "training" in change:
        change["training"] = {**change["training"], "cohort": {"clients": 2}}
    assert key(federation, **change) != key(DEALT, seed=0)


def test_what_does_not_deal_rows_makes_the_same_clients() -> None:
    labels = {"y": {"1": "granted"}}
    same = {**DEALT, "scale": {"x": 3}, "validation_fraction": 0.4, "labels": labels}
    assert key(same, seed=2, name="other") == key(DEALT, seed=2)


def test_a_partition_says_that_its_clients_are_nobody() -> None:
    dealt = Table.model_validate({"source": "table", "path": "a", "target": "y", **DEALT})
    [limit] = dealt.traits.data_limits
    assert "made up" in limit
    assert unit_key_words(key(DEALT)).startswith("clients that partition")
