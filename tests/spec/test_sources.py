"""What tables and images may ask for, and with which models."""

from typing import Any

import pytest

from tests.spec.documents import HOSPITAL, IMAGES, TABLE, changed, fault, faults

PAIN = {"name": "pain", "kind": "categorical", "categories": ["none", "typical"]}
LINEAR = {"source": "synthetic-linear"}


def table(**fields: Any) -> dict[str, Any]:
    return changed(TABLE, {f"federation.{name}": value for name, value in fields.items()})


@pytest.mark.parametrize(
    ("document", "pointer", "says"),
    [
        (table(features=[{**PAIN, "categories": None}]), "/federation/features/0", "go with"),
        (table(features=[{"name": "a", "categories": ["b"]}]), "/federation/features/0", "go with"),
        (
            table(features=[{**PAIN, "categories": ["a", "a"]}]),
            "/federation/features/0",
            "names a value twice",
        ),
        (table(features=["a", {**PAIN, "fill": "none"}]), "/federation/features/1", "`fill` is"),
        (
            table(features=[{**PAIN, "missing": "constant", "fill": "severe"}]),
            "/federation/features/0",
            "one of `categories`",
        ),
        (
            table(features=[{"name": "a", "missing": "constant", "fill": "b"}]),
            "/federation/features/0",
            "must be a number",
        ),
        (table(features=[{"name": "a", "kind": "text"}]), "/federation/features/0/kind", "numeric"),
        (table(features=[{"kind": "numeric"}]), "/federation/features/0/name", "is required"),
        (table(features=[{**PAIN, "categories": [1]}]), "/federation/features/0/categories/0",
         "put it in quotes"),
        (table(features=[3]), "/federation/features/0", "must be an object"),
        (table(features=[]), "/federation/features", "at least 1 item"),
        (table(features="some"), "/federation/features", "must be 'all'"),
        (table(scale={"a": 0}), "/federation/scale/a", "greater than 0"),
        (table(scale={"a": "2"}), "/federation/scale/a", "must be a number"),
        (table(scale={"a": {"low": 1, "high": 1}}), "/federation/scale/a", "must lie above `low`"),
        (table(scale={"a": {"low": -1e308, "high": 1e308}}), "/federation/scale/a", "finite"),
        (table(scale={"a": {"low": 1}}), "/federation/scale/a/high", "is required"),
        (table(client_key=...), "/federation/client_key", "or say under `partition`"),
        (
            table(partition={"method": "iid", "clients": 3}),
            "/federation/client_key",
            "one of the two",
        ),
        (
            table(client_key=..., partition={"method": "sorted"}),
            "/federation/partition/method",
            "'iid', 'dirichlet', 'shards', 'column'",
        ),
        (
            table(client_key=..., partition={"method": "iid", "clients": 1}),
            "/federation/partition/clients",
            "greater than or equal to 2",
        ),
        (
            table(client_key=..., partition={"method": "dirichlet", "clients": 9, "alpha": 0}),
            "/federation/partition/alpha",
            "greater than or equal to 0.000001",
        ),
        (table(standardise="row"), "/federation/standardise", "'global', 'client' or 'ranges'"),
        (table(path=...), "/federation/path", "neither is given"),
        (table(id="018f5d3e-0000-7000-8000-000000000000"), "/federation/path", "both are given"),
        (changed(TABLE, {"model": {"kind": "cnn-femnist"}}), "/model/kind", "table has no images"),
        (
            changed(HOSPITAL, {"federation": LINEAR, "fairness": {},
                               "model": {"kind": "cnn-femnist"}}),
            "/model/kind",
            "synthetic-linear has no images",
        ),
        (changed(IMAGES, {"model": {"kind": "linear"}}), "/model/kind", "images have classes"),
        (
            changed(IMAGES, {"federation.standardise": "client"}),
            "/federation/standardise",
            "unknown field",
        ),
        (
            changed(HOSPITAL, {"fairness.edges": {"state": [1]}}),
            "/fairness/edges/state",
            "leave `edges` to tables and image",
        ),
        (
            changed(TABLE, {"fairness": {"sensitive": ["a"], "edges": {"b": [1]}}}),
            "/fairness/edges/b",
            "'b', not in `sensitive`",
        ),
        (
            changed(TABLE, {"fairness": {"sensitive": ["a"], "edges": {"a": [2, 1]}}}),
            "/fairness/edges/a",
            "must rise",
        ),
    ],
)  # fmt: skip
def test_a_fault_of_a_source_names_its_field(document, pointer, says):
    found, message = fault(document)
    assert found == pointer
    assert says in message


@pytest.mark.parametrize("source", ["synthetic-linear", "synthetic-groups"])
def test_synthetic_attributes_are_not_cut(source: str) -> None:
    changes = {"federation": {"source": source}, "fairness": {"sensitive": ["group"],
               "edges": {"group": [1]}, "favourable": {"op": "ge", "value": 1}}}  # fmt: skip
    pointers = {error.pointer for error in faults(changed(HOSPITAL, changes))}
    also = {"/fairness/sensitive/0"} if source == "synthetic-linear" else set()
    assert pointers == {"/fairness/edges/group", *also}
