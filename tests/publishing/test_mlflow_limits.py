"""Requests within MLflow's limits, whatever a spec holds."""

import json

from fedaudit.publishing.mlflow_runs import (
    LONGEST_NAME,
    LONGEST_PARAMETER,
    LONGEST_TAG,
    MOST_METRICS,
    MOST_PARAMETERS,
    MOST_TAGS,
    allowed,
    allowed_name,
    batched,
    spec_parameters,
)


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
    made = allowed(spec_parameters(spec), LONGEST_PARAMETER)
    assert made["privacy.noise"] == "release"
    assert made["privacy.clip"] == "null"
    assert len(made["features"]) == LONGEST_PARAMETER
    assert "... sha256:" in made["features"]
    assert made["features"] != made["drop"]


def test_every_request_is_within_every_limit_and_nothing_is_lost():
    value = {"value": 1 / 3, "timestamp": 1_900_000_000_000, "step": 12345, "model_id": "m" * 34}
    metrics = [{"key": "n" * LONGEST_NAME, "run_id": "r" * 32, **value} for _ in range(4321)]
    parameters = [{"key": "n" * LONGEST_NAME, "value": "𝄞" * LONGEST_PARAMETER}] * 25
    tags = [{"key": "n" * LONGEST_NAME, "value": "𝄞" * LONGEST_TAG}] * 15
    for sent, most in ((metrics, MOST_METRICS), (parameters, MOST_PARAMETERS), (tags, MOST_TAGS)):
        requests = list(batched(sent, most))
        assert all(len(one) <= most for one in requests)
        assert all(len(json.dumps({"run_id": "r" * 32, "tags": one})) < 10**6 for one in requests)
        assert [one for request in requests for one in request] == sent
