"""Requests within MLflow's limits, whatever a spec holds."""

import json

from fedaudit.publishing.mlflow_runs import (
    LONGEST_NAME,
    LONGEST_PARAMETER,
    allowed_name,
    allowed_parameters,
    batches,
    spec_parameters,
)
from fedaudit.publishing.published_figures import PublishedFigure


def test_names_are_mended_and_stay_different():
    kept = "rounds/fairness/sex/equalized_odds_difference"
    assert allowed_name(kept) == kept
    odd = ["a/b?", "a/b!", "a//b", "a/../b", "x" * 251, "x" * 252, "größe", "a/./b", ""]
    mended = [allowed_name(one) for one in odd]
    assert len(set(mended)) == len(odd)
    assert all(len(one) <= LONGEST_NAME for one in mended)
    assert not any({"", ".", ".."} & set(one.split("/")) for one in mended)


def test_long_values_end_with_the_hash_of_all_of_them():
    one, other = ("x" * LONGEST_PARAMETER + end for end in "ab")
    spec = {"privacy": {"noise": "release", "clip": None}, "features": [one], "drop": [other]}
    made = allowed_parameters(spec_parameters(spec))
    assert made["privacy.noise"] == "release"
    assert made["privacy.clip"] == "null"
    assert len(made["features"]) == LONGEST_PARAMETER
    assert "... sha256:" in made["features"]
    assert made["features"] != made["drop"]


def test_every_request_is_within_every_limit_and_nothing_is_lost():
    metrics = [PublishedFigure(f"rounds/{one % 7}", one / 3, one) for one in range(4321)]
    parameters = {f"p{one}": "𝄞" * 6000 for one in range(250)}
    tags = {f"t{one}": "𝄞" * 8000 for one in range(150)}
    made = list(batches(metrics, parameters, tags))
    for batch in made:
        assert len(batch.metrics) <= 1000
        assert len(batch.parameters) <= 100
        assert len(batch.tags) <= 100
        sent = {
            "run_id": "r" * 32,
            "metrics": [
                {
                    "key": one.name,
                    "value": one.value,
                    "timestamp": 1_900_000_000_000,
                    "step": one.round,
                    "model_id": "m" * 34,
                    "run_id": "r" * 32,
                }
                for one in batch.metrics
            ],
            "params": [{"key": key, "value": value} for key, value in batch.parameters],
            "tags": [{"key": key, "value": value} for key, value in batch.tags],
        }
        assert len(json.dumps(sent)) < 1_000_000
    assert [one for batch in made for one in batch.metrics] == metrics
    assert dict(one for batch in made for one in batch.parameters) == parameters
    assert dict(one for batch in made for one in batch.tags) == tags
