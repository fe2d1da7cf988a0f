"""Named layers, and what training starts from."""

from typing import Any

import pytest

from fedaudit.networks.shape import are_layers_of, layer_sizes, network_shape
from fedaudit.runs.experiment_plan import PlanLimits, check_limits
from fedaudit.spec.disclosure import DisclosurePolicy, spec_faults
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import spec_hash
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.registration import departures, parse_registration
from tests.spec.documents import HOSPITAL, IMAGES, TABLE, changed, fault
from tests.training.specs import cell, groups_spec

CONVOLUTION = {"kind": "convolution", "filters": 4, "size": 3}
POOLING = {"kind": "max-pooling", "size": 2}
FLATTEN, RELU, DENSE = {"kind": "flatten"}, {"kind": "relu"}, {"kind": "dense", "units": 5}


def images(*layers: dict[str, Any], given: Any = (9, 8, 2)) -> dict[str, Any]:
    model = {"kind": "layers", "layers": list(layers)}
    if given is not None:
        model["input"] = list(given)
    return changed(IMAGES, {"model": model})


def rows(*layers: dict[str, Any]) -> dict[str, Any]:
    return changed(TABLE, {"model": {"kind": "layers", "layers": list(layers)}})


NINE, MANY = {**CONVOLUTION, "size": 9}, {**CONVOLUTION, "filters": 1024}
SEVEN = {"kind": "average-pooling", "size": 7}
FLAT = images(FLATTEN, DENSE)
SEVERAL = changed(TABLE, {"training.hypotheses": 2})


def test_layers_that_fit_are_a_spec_which_says_what_it_means() -> None:
    spec = parse_spec(images(CONVOLUTION, RELU, POOLING, FLATTEN, DENSE, {"kind": "gelu"}))
    again = parse_spec(spec.model_dump(mode="json"))
    assert again == spec
    assert spec_hash(again) == spec_hash(spec)
    assert spec.model.image == (9, 8, 2)
    shape = network_shape(spec.model, features=144, classes=3)
    # 4 filters of 3 by 3 by 2; 7 by 6 maps pooled to 3 by 3; 36 numbers to 5, and these to 3.
    assert layer_sizes(shape) == (4 * (18 + 1), 5 * (36 + 1), 3 * (5 + 1))
    assert are_layers_of(spec.model, layer_sizes(shape))
    assert not are_layers_of(spec.model, (76, 186, 18))


def test_layers_over_rows_take_as_many_numbers_as_the_data_have() -> None:
    spec = parse_spec(rows(DENSE, {"kind": "tanh"}))
    assert layer_sizes(network_shape(spec.model, features=7, classes=2)) == (5 * 8, 6)
    assert are_layers_of(spec.model, (40, 6))
    assert not are_layers_of(spec.model, (41, 6))


@pytest.mark.parametrize(
    ("document", "pointer", "message"),
    [
        (images(CONVOLUTION, RELU, DENSE), "/model/layers/2", "put `flatten` before"),
        (images(CONVOLUTION, POOLING), "/model/layers/1", "end with `flatten`"),
        (images(DENSE), "/model/layers/0", "maps of 9 by 8 with 2 channels; put `flatten` before"),
        (images(FLATTEN, FLATTEN, DENSE), "/model/layers/1", "leave it out"),
        (images(FLATTEN, DENSE, CONVOLUTION), "/model/layers/2", "is given a row"),
        (images(NINE, FLATTEN), "/model/layers/0", "9 by 9 does not fit maps of 9 by 8"),
        (images(CONVOLUTION, SEVEN, FLATTEN), "/model/layers/1", "does not fit maps of 7 by 6"),
        (images(CONVOLUTION, FLATTEN, given=None), "/model/layers/0", "channels in `input`"),
        (rows(RELU), "/model/layers", "no layer with parameters"),
        (images(MANY, FLATTEN, given=(1024, 1024, 1)), "/model/layers/0", "16777216 are allowed"),
        (rows({"kind": "dropout"}), "/model/layers/0/kind", "is not offered"),
        (rows({"kind": "dense", "units": 0}), "/model/layers/0/units", "greater than or equal"),
        (rows(), "/model/layers", "at least 1"),
        (changed(rows(DENSE), {"model.input": [9, 8]}), "/model/input", "at least 3"),
        (changed(FLAT, {"federation": TABLE["federation"]}), "/model/kind", "has no images"),
        (changed(rows(DENSE), {"model.start": "zeros"}), "/model/start", "use `uniform`"),
        (changed(HOSPITAL, {"model.start": "zeros"}), "/model/start", "use `uniform`"),
        (changed(SEVERAL, {"model.start": "zeros"}), "/model/start", "`uniform` or `normal`"),
        (changed(TABLE, {"model.start": "glorot"}), "/model/start", "'uniform' or {artifact"),
    ],
)
def test_what_does_not_fit_is_named(document: dict[str, Any], pointer: str, message: str) -> None:
    where, what = fault(document)
    assert where == pointer
    assert message in what


def test_the_bound_on_models_is_held_against_before_anything_is_built() -> None:
    wide = {"kind": "dense", "units": 4096}
    large = cell(groups_spec(model={"kind": "layers", "layers": [wide, RELU] * 25}))
    with pytest.raises(InvalidInputError, match=r"/training/hypotheses.*FEDAUDIT_MAX_MODEL_BYTES"):
        check_limits(large, PlanLimits(model_bytes=1 << 30, planned_records=10, data_bytes=1 << 30))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (TABLE, "zeros"),
        (SEVERAL, "uniform"),
        (changed(TABLE, {"model": {"kind": "linear"}, "training.loss": "mse"}), "zeros"),
        (changed(IMAGES, {"model": {"kind": "logistic"}}), "zeros"),
        (HOSPITAL, "uniform"),
        (IMAGES, "uniform"),
        (groups_spec(), "normal"),
        (groups_spec(training__hypotheses=1), "normal"),
    ],
)
def test_a_spec_that_names_no_start_has_one_that_trains(document, expected):
    assert parse_spec(document).model.start == expected


@pytest.mark.parametrize("document", [HOSPITAL, TABLE, IMAGES, groups_spec()])
def test_a_stored_spec_keeps_the_start_that_it_had_before_there_was_a_choice(document):
    stored = parse_spec(document).model_dump(mode="json")
    stored["model"].pop("start", None)
    found = parse_spec(stored)
    assert found.model.start == ("uniform" if found.model.has_hidden_layers else "normal")
    assert found.model_dump(mode="json") == stored


def test_who_may_not_read_data_chooses_no_parameters() -> None:
    """A loss at parameters of one's own choice can tell a single row apart."""
    registration = parse_registration({"name": "a", "federation": TABLE["federation"]})
    chosen = parse_spec(changed(TABLE, {"model.start": {"artifact": "0" * 64}}))
    found = departures(chosen, registration, known_groups=())
    assert [one.pointer for one in found] == ["/model/start"]
    assert departures(parse_spec(TABLE), registration, known_groups=()) == []
    policy = DisclosurePolicy(source="registered")
    faults = spec_faults(policy, chosen, registration=registration)
    assert [one.pointer for one in faults] == ["/model/start"]
    assert spec_faults(DisclosurePolicy(), chosen, registration=registration) == []
