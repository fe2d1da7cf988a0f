"""Networks of named layers: what fits, and which layer is named where something does not."""

from typing import Any

import pytest

from fedaudit.networks.shape import are_layers_of, layer_sizes, network_shape
from fedaudit.runs.experiment_plan import PlanLimits, check_limits
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import spec_hash
from fedaudit.spec.parse import parse_spec
from tests.spec.documents import IMAGES, TABLE, changed, fault, faults
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
        (
            images({**CONVOLUTION, "size": 9}, FLATTEN),
            "/model/layers/0",
            "`convolution` of 9 by 9 does not fit maps of 9 by 8",
        ),
        (
            images(CONVOLUTION, {"kind": "average-pooling", "size": 7}, FLATTEN),
            "/model/layers/1",
            "`average-pooling` of 7 by 7 does not fit maps of 7 by 6",
        ),
        (images(CONVOLUTION, FLATTEN, given=None), "/model/layers/0", "channels in `input`"),
        (rows(RELU), "/model/layers", "no layer with parameters"),
        (
            images({**CONVOLUTION, "filters": 1024}, FLATTEN, given=(1024, 1024, 1)),
            "/model/layers/0",
            "16777216 are allowed",
        ),
        (rows({"kind": "dropout"}), "/model/layers/0/kind", "is not offered"),
        (rows({"kind": "dense", "units": 0}), "/model/layers/0/units", "greater than or equal"),
        (rows(), "/model/layers", "at least 1"),
        (changed(rows(DENSE), {"model.input": [9, 8]}), "/model/input", "at least 3"),
        (changed(rows(DENSE), {"model.start": "zeros"}), "/model/start", "use `uniform`"),
    ],
)
def test_what_does_not_fit_is_named(document: dict[str, Any], pointer: str, message: str) -> None:
    where, what = fault(document)
    assert where == pointer
    assert message in what


def test_a_table_has_no_images() -> None:
    table = changed(images(FLATTEN, DENSE), {"federation": TABLE["federation"]})
    assert [one.pointer for one in faults(table)] == ["/model/kind"]


def test_the_bound_on_models_is_held_against_before_anything_is_built() -> None:
    wide = {"kind": "dense", "units": 4096}
    large = cell(groups_spec(model={"kind": "layers", "layers": [wide, RELU] * 25}))
    with pytest.raises(InvalidInputError, match=r"/training/hypotheses.*FEDAUDIT_MAX_MODEL_BYTES"):
        check_limits(large, PlanLimits(model_bytes=1 << 30, planned_records=10, data_bytes=1 << 30))
