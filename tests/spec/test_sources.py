"""What tables and images may ask for, and with which models."""

from typing import Any

import pytest

from tests.spec.documents import HOSPITAL, IMAGES, TABLE, assert_refused, changed, faults

PAIN = {"name": "pain", "kind": "categorical", "categories": ["none", "typical"]}
LINEAR = changed(
    TABLE,
    {"federation": {"source": "synthetic-linear"}, "model.kind": "linear", "training.loss": "rmse"},
)
DEALT = changed(
    TABLE,
    {
        "federation.client_key": ...,
        "federation.partition": {"method": "dirichlet", "clients": 9, "alpha": 1},
    },
)
CUT = changed(TABLE, {"fairness": {"sensitive": ["a"], "edges": {"a": [1]}}})


@pytest.mark.parametrize(
    ("feature", "pointer", "says"),
    [
        ({**PAIN, "categories": None}, "", "go with"),
        ({"name": "a", "categories": ["b"]}, "", "go with"),
        ({**PAIN, "categories": ["a", "a"]}, "", "names a value twice"),
        ({**PAIN, "categories": [1]}, "/categories/0", "put it in quotes"),
        ({**PAIN, "fill": "none"}, "", "`fill` is"),
        ({**PAIN, "missing": "constant", "fill": "severe"}, "", "one of `categories`"),
        ({"name": "a", "missing": "constant", "fill": "b"}, "", "must be a number"),
        ({"name": "a", "kind": "text"}, "/kind", "numeric"),
        ({"kind": "numeric"}, "/name", "is required"),
        (3, "", "must be an object"),
    ],
)
def test_a_fault_of_a_feature_is_named_by_its_place(feature: Any, pointer: str, says: str) -> None:
    changes = {"federation.features": ["first", feature]}
    assert_refused(TABLE, changes, says, f"/federation/features/1{pointer}")


@pytest.mark.parametrize(
    ("document", "path", "value", "says"),
    [
        (TABLE, "federation.features", [], "at least 1 item"),
        (TABLE, "federation.features", "some", "must be 'all'"),
        (TABLE, "federation.scale.a", 0, "greater than 0"),
        (TABLE, "federation.scale.a", "2", "must be a number"),
        (TABLE, "federation.scale.a", {"low": 1, "high": 1}, "must lie above `low`"),
        (TABLE, "federation.scale.a", {"low": -1e308, "high": 1e308}, "finite"),
        (TABLE, "federation.scale.a.low", 1, "is required"),
        (TABLE, "federation.client_key", ..., "or say under `partition`"),
        (TABLE, "federation.partition", {"method": "iid", "clients": 3}, "one of the two"),
        (DEALT, "federation.partition.method", "sorted", "'iid', 'dirichlet', 'shards', 'column'"),
        (DEALT, "federation.partition.clients", 1, "greater than or equal to 2"),
        (DEALT, "federation.partition.alpha", 0, "greater than or equal to 0.000001"),
        (TABLE, "federation.standardise", "row", "'global', 'client' or 'ranges'"),
        (TABLE, "federation.path", ..., "neither is given"),
        (TABLE, "federation.id", "018f5d3e-0000-7000-8000-000000000000", "both are given"),
        (TABLE, "model.kind", "cnn-femnist", "table has no images"),
        (LINEAR, "model.kind", "cnn-femnist", "synthetic-linear has no images"),
        (IMAGES, "model.kind", "linear", "images have classes"),
        (IMAGES, "federation.standardise", "client", "unknown field"),
        (HOSPITAL, "fairness.edges.state", [1], "leave `edges` to tables and image"),
        (CUT, "fairness.edges.b", [1], "'b', not in `sensitive`"),
        (CUT, "fairness.edges.a", [2, 1], "must rise"),
    ],
)
def test_a_fault_of_a_source_names_its_field(document, path, value, says):
    moved = {
        "federation.partition": "/federation/client_key",
        "federation.scale.a.low": "/federation/scale/a/high",
        "federation.id": "/federation/path",
    }
    assert_refused(document, {path: value}, says, moved.get(path))


@pytest.mark.parametrize("source", ["synthetic-linear", "synthetic-groups"])
def test_synthetic_attributes_are_not_cut(source: str) -> None:
    changes = {"federation": {"source": source}, "fairness": {"sensitive": ["group"],
               "edges": {"group": [1]}, "favourable": {"op": "ge", "value": 1}}}  # fmt: skip
    pointers = {error.pointer for error in faults(changed(HOSPITAL, changes))}
    also = {"/fairness/sensitive/0"} if source == "synthetic-linear" else set()
    assert pointers == {"/fairness/edges/group", *also}
