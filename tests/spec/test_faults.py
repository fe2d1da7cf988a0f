"""Every fault names its field, as a JSON pointer into what was sent, and its remedy."""

import copy
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.spec.errors import json_pointer
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from tests.spec.documents import (
    HOSPITAL,
    IMAGES,
    TABLE,
    assert_refused,
    changed,
    fault,
    faults,
    gaussian,
)  # fmt: skip

GROUPS = changed(
    HOSPITAL,
    {
        "federation": {"source": "synthetic-groups"},
        "model": {"kind": "linear"},
        "fairness.sensitive": ["group"],
    },
)


LINEAR = changed(HOSPITAL, {"federation": {"source": "synthetic-linear"}, "fairness": {}})
PAIN = {"name": "pain", "kind": "categorical", "categories": ["none", "typical"]}
DEALT = changed(
    TABLE,
    {
        "federation.client_key": ...,
        "federation.partition": {"method": "dirichlet", "clients": 9, "alpha": 1},
    },
)
CUT = changed(TABLE, {"fairness": {"sensitive": ["a"], "edges": {"a": [1]}}})
NO_GROUPS = changed(HOSPITAL, {"fairness": {}})
NO_TARGET = changed(TABLE, {"federation.target": ...})
UNIT: dict[str, Any] = {"op": "ge", "value": 1}
SHARED = {"figure": "equalized_odds_ratio", **UNIT}
OF_SEX, BEAUTY = {**SHARED, "attribute": "sex"}, {**SHARED, "figure": "beauty"}
OF_STATE, OF_ZIP = ({**UNIT, "group": {name: "1"}} for name in ("state", "zip"))
OF_COST = {"figure": "leakage_max", **UNIT, "attribute": "state"}


@pytest.mark.parametrize(
    ("document", "path", "value", "message"),
    [
        # What is no such field, value or kind.
        (HOSPITAL, "colour", 1, "unknown field"),
        (HOSPITAL, "name", ..., "is required"),
        (HOSPITAL, "privacy.mechanism", ..., "is required; it says which kind"),
        (HOSPITAL, "privacy.mechanism", "gaussian", "'gaussian' is not offered; choose one of 'no"),
        (HOSPITAL, "training.clustering.method", "dbscan", "choose one of 'k-means', 'reported'"),
        (HOSPITAL, "privacy", 3, "must be an object with named fields"),
        (HOSPITAL, "gates", {}, "must be a list"),
        (HOSPITAL, "spec_version", 2, "must be 1"),
        (HOSPITAL, "name", 3, "must be a text; put it in quotes"),
        (HOSPITAL, "name", "", "is empty, or too short"),
        (HOSPITAL, "name", "a\x00b", "must not contain control characters"),
        (HOSPITAL, "name", "\ud800", "valid string"),
        # Numbers.
        (HOSPITAL, "seed", True, "must be a whole number"),
        (HOSPITAL, "seed", -1, "greater than or equal to 0"),
        (HOSPITAL, "seed", 2**53, "less than or equal to 9007199254740991"),
        (HOSPITAL, "seed", 10**400, "less than or equal to"),
        (HOSPITAL, "training.rounds", 10.5, "must be a whole number"),
        (HOSPITAL, "training.rounds", 0, "greater than or equal to 1"),
        (HOSPITAL, "privacy.noise_multiplier", float("nan"), "finite number"),
        (HOSPITAL, "federation.scale.latitude", float("inf"), "finite number"),
        (HOSPITAL, "federation.validation_fraction", 1.0, "less than 1"),
        # Paths and lists.
        (HOSPITAL, "federation.zip_table", "~/a", "relative path"),
        (HOSPITAL, "federation.conditions", [194, 194], "twice"),
        # What the parts must agree on.
        (HOSPITAL, "privacy.noise_multiplier", 0.0, "for no noise ask for `mechanism: none`"),
        (HOSPITAL, "privacy.noise_multiplier", 1e-310, "greater than or equal to 0.000000000001"),
        (HOSPITAL, "attacks", [{"kind": "membership"}] * 21, "at most 20"),
        (HOSPITAL, "privacy.clip", 1e-7, "below radius_floor"),
        (HOSPITAL, "training.hypotheses", 101, "ask for fewer hypotheses or a larger cohort"),
        (HOSPITAL, "training.local", {"steps": 3, "epochs": 1}, "either `epochs` or `steps`"),
        (HOSPITAL, "training.local", {"epochs": None}, "either `epochs` or `steps`"),
        (HOSPITAL, "training.loss", "cross-entropy", "use a `linear` or `mlp`"),
        (HOSPITAL, "fairness.sensitive", ["a", "a"], "twice"),
        (HOSPITAL, "fairness.favourable", {"op": "in", "value": 3}, "`in` takes a list"),
        (HOSPITAL, "fairness.favourable", {"op": "ge", "value": "a"}, "`ge` takes a number"),
        (HOSPITAL, "fairness.favourable", 3, "must be an object"),
        (HOSPITAL, "fairness.favourable", [], "at least 1 item"),
        (HOSPITAL, "fairness.favourable", [OF_ZIP], "'zip', not in `sensitive`"),
        (HOSPITAL, "fairness.favourable", [OF_STATE, OF_ZIP], "must all speak of one attribute"),
        (HOSPITAL, "decision.threshold", 0.1, "is a number"),
        (TABLE, "decision.threshold", 1, "below 1, or `base-rate`"),
        (TABLE, "decision.threshold", "base-rate", "no figure of laplace-l2 counts it; declare a"),
        (LINEAR, "federation.thetas", [[1.0], [1.0, 2.0]], "same length"),
        # Tables and images.
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
        (IMAGES, "model.kind", "linear", "images have classes"),
        (IMAGES, "federation.standardise", "client", "unknown field"),
        (HOSPITAL, "fairness.edges.state", [1], "leave `edges` to tables and image"),
        (CUT, "fairness.edges.b", [1], "'b', not in `sensitive`"),
        (CUT, "fairness.edges.a", [2, 1], "must rise"),
    ],
)
def test_a_fault_points_at_the_value_that_was_changed(document, path, value, message):
    moved = {
        "federation.partition": "/federation/client_key",
        "federation.scale.a.low": "/federation/scale/a/high",
        "federation.id": "/federation/path",
    }
    assert_refused(document, {path: value}, message, moved.get(path))


@pytest.mark.parametrize(
    ("document", "changes", "pointer", "message"),
    [
        (HOSPITAL, {"training.local": {"a/b~c": 1}}, "/training/local/a~1b~0c", "unknown field"),
        # The name of a field that is the value of another.
        (NO_TARGET, {"federation.client_key": "target"}, "/federation/target", "is required"),
        (HOSPITAL, {"tags": ["ok", "x" * 65]}, "/tags/1", "at most 64 characters"),
        (HOSPITAL, {"attacks": [{"kind": "luck"}]}, "/attacks/0/kind", "is not offered"),
        (HOSPITAL, {"model": {"kind": "logistic"}}, "/model/kind", "use a `linear` or `mlp`"),
        (LINEAR, {"model": {"kind": "cnn-femnist"}}, "/model/kind", "has no images"),
        (TABLE, {"model": {"kind": "linear"}}, "/model/kind", "use `logistic` or `mlp`"),
        (GROUPS, {"fairness.sensitive": ["state"]}, "/fairness/sensitive/0", "it has ['group']"),
        (LINEAR, {"fairness.sensitive": ["group"]}, "/fairness/sensitive/0", "it has none"),
        (NO_GROUPS, {"fairness.favourable": UNIT}, "/fairness/sensitive", "name a sensitive attri"),
        (HOSPITAL, {"fairness.favourable": [UNIT]}, "/fairness/favourable/0/group", "is required"),
        (HOSPITAL, {"gates": [OF_COST]}, "/gates/0/attribute", "leave it out"),
        (HOSPITAL, {"gates": [SHARED, OF_SEX]}, "/gates/1/attribute", "'sex' is not in"),
        (NO_GROUPS, {"gates": [SHARED]}, "/gates/0/figure", "name a sensitive one"),
        (HOSPITAL, {"gates": [BEAUTY]}, "/gates/0/figure", "'leakage_max', 'leakage_median'"),
    ],
)
def test_a_fault_names_field_and_remedy(document, changes, pointer, message):
    assert_refused(document, changes, message, pointer)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fairness.favourable": []}, "must have at least 1 item"),
        ({"privacy": gaussian("central", 1, delta=2)}, "must be less than 1"),
        (
            {"model": {"kind": "linear", "start": "ones"}},
            "must be 'zeros', 'normal', 'uniform' or {artifact: SHA-256}",
        ),
    ],
)
def test_a_fault_says_no_more_than_what_is_to_be_sent(changes, said):
    assert fault(changed(HOSPITAL, changes))[1] == said


@pytest.mark.parametrize(
    ("path", "value", "pointer"),
    [
        ("privacy.radius", 1e-320, "/privacy/radius"),
        ("privacy.radius_floor", 1e-320, "/privacy/radius_floor"),
        ("privacy.per_layer", 1, "/privacy/per_layer"),
        *(
            ("fairness.favourable", {"op": "ge", "value": value}, "/fairness/favourable/value")
            for value in (True, 10**400)
        ),
        ("fairness.favourable", {"op": "in", "value": [{}]}, "/fairness/favourable/value/0"),
    ],
)
def test_a_value_that_fits_none_of_several_types_is_pointed_at(path, value, pointer):
    found = {error.pointer for error in faults(changed(HOSPITAL, {path: value}))}
    assert pointer in found
    assert found <= {pointer, pointer.removesuffix("/0")}


@pytest.mark.parametrize("radius", [0, -1, True, "fixed", "1", 1e-13, None, float("nan")], ids=str)
def test_a_radius_is_refused_with_what_it_may_be(radius: object) -> None:
    assert_refused(HOSPITAL, {"privacy.radius": radius}, "`adaptive`, or a public distance")


def test_a_clip_below_the_floor_is_fine_where_the_radius_is_fixed() -> None:
    spec = parse_spec(changed(HOSPITAL, {"privacy.clip": 1e-7, "privacy.radius": 1e-7}))
    assert spec.privacy.mechanism == "laplace-l2"


@pytest.mark.parametrize("value", [{1: 2}, {"\ud800": 1}, {None: 1}, {(1, 2): 3}], ids=ascii)
def test_names_that_are_no_text_are_refused(value: dict[Any, Any]) -> None:
    for error in faults({**HOSPITAL, **value}):
        error.pointer.encode()
        error.message.encode()


def paths(value: Any, prefix: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list)
        else ()
    )  # fmt: skip
    return [prefix] + [found for name, item in items for found in paths(item, (*prefix, name))]


def resolve(document: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        step = part.replace("~1", "/").replace("~0", "~")
        document = document[int(step) if isinstance(document, list) else step]
    return document


FULL = parse_spec(HOSPITAL).model_dump(mode="json")
WRONG = b"no field takes bytes"


@given(st.sampled_from([path for path in paths(FULL) if path]))
def test_the_pointer_of_a_wrong_value_leads_to_it(path: tuple[str | int, ...]) -> None:
    document = copy.deepcopy(FULL)
    resolve(document, json_pointer(path[:-1], document))[path[-1]] = WRONG
    pointers = {error.pointer for error in faults(document)}
    if path[-1] in ("source", "kind", "mechanism", "method", "sampling"):
        assert "/" + "/".join(map(str, path)) in pointers
    else:
        assert [resolve(document, pointer) for pointer in pointers] == [WRONG]


@given(
    st.sampled_from(["", "/privacy", "/training", "/training/local", "/federation", "/fairness"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
)
def test_the_pointer_of_an_unknown_field_leads_to_it(where: str, name: str) -> None:
    document, unknown = copy.deepcopy(FULL), object()
    part = resolve(document, where)
    if name in part:
        return
    part[name] = unknown
    (error,) = faults(document)
    assert resolve(document, error.pointer) is unknown


@given(st.lists(st.text(max_size=5) | st.integers(0, 3), max_size=5))
def test_a_pointer_of_existing_steps_is_reversible(location: list[str | int]) -> None:
    document: Any = "leaf"
    for step in reversed(location):
        document = {step: document} if isinstance(step, str) else [document] * 4
    pointer = json_pointer(location, document)
    assert pointer.count("/") == len(location)
    assert resolve(document, pointer) == "leaf"


def test_the_json_schema_describes_the_spec() -> None:
    schema = ExperimentSpec.model_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for document in (HOSPITAL, TABLE, GROUPS, FULL):
        validator.validate(document)
    for changes in ({"seed": -1}, {"colour": 1}, {"privacy.noise_multiplier": 0}):
        assert not validator.is_valid(changed(HOSPITAL, changes))


# -- what tables and images may ask for, and with which models ------------------------------------


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


@pytest.mark.parametrize("source", ["synthetic-linear", "synthetic-groups"])
def test_synthetic_attributes_are_not_cut(source: str) -> None:
    changes = {"federation": {"source": source}, "fairness": {"sensitive": ["group"],
               "edges": {"group": [1]}, "favourable": {"op": "ge", "value": 1}}}  # fmt: skip
    pointers = {error.pointer for error in faults(changed(HOSPITAL, changes))}
    also = {"/fairness/sensitive/0"} if source == "synthetic-linear" else set()
    assert pointers == {"/fairness/edges/group", *also}
