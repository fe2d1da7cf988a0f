"""Networks of named layers compute what the torch modules of these names compute."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from torch import nn

from fedaudit.networks.client_network import ClientNetwork
from fedaudit.networks.initial import initial_hypotheses
from fedaudit.networks.losses import Loss
from fedaudit.networks.parameter_files import named_tensors
from fedaudit.networks.record_gradients import RecordBatch, clipped_gradients
from fedaudit.networks.shape import DenseShape, LayeredShape
from fedaudit.networks.stacked_network import BatchedNetwork
from fedaudit.spec.models import LayerError, LayerSpec, Maps, Rows, Values

LAYERS: TypeAdapter[list[LayerSpec]] = TypeAdapter(list[LayerSpec])
LOSS = Loss("cross-entropy", 3)
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "gelu": nn.GELU}


def a_shape(given: Values, *layers: dict[str, Any]) -> LayeredShape:
    return LayeredShape(given, tuple(LAYERS.validate_python(list(layers))), 3)


def module_of(shape: LayeredShape) -> nn.Sequential:
    """The same network in torch's own words, layer by layer."""
    built: list[nn.Module] = []
    channels = shape.given.channels if isinstance(shape.given, Maps) else 0
    for layer in shape.named:
        one = layer.model_dump()
        match one["kind"]:
            case "convolution":
                sizes = one["size"], one["stride"], one["padding"]
                built.append(nn.Conv2d(channels, one["filters"], *sizes))
                channels = one["filters"]
            case "max-pooling":
                built.append(nn.MaxPool2d(one["size"]))
            case "average-pooling":
                built.append(nn.AvgPool2d(one["size"]))
            case "flatten":
                built.append(nn.Flatten())
            case "dense":
                built.append(nn.LazyLinear(one["units"]))
            case name:
                built.append(ACTIVATIONS[name]())
    network = nn.Sequential(*built, nn.LazyLinear(3))
    if isinstance(shape.given, Maps):
        network(torch.zeros(2, shape.given.channels, shape.given.height, shape.given.width))
    return network


def drawn(shape: LayeredShape, k: int = 1) -> torch.Tensor:
    return torch.from_numpy(initial_hypotheses(shape, start="uniform", hypotheses=k, seed=3))


maps_layers = st.one_of(
    st.builds(
        lambda filters, size, stride, padding: {
            "kind": "convolution",
            "filters": filters,
            "size": size,
            "stride": stride,
            "padding": padding,
        },
        st.integers(1, 3),
        st.integers(1, 3),
        st.integers(1, 2),
        st.integers(0, 2),
    ),
    st.sampled_from([{"kind": "max-pooling", "size": 2}, {"kind": "average-pooling", "size": 2}]),
    st.sampled_from([{"kind": name} for name in ACTIVATIONS]),
)
row_layers = st.one_of(
    st.builds(lambda units: {"kind": "dense", "units": units}, st.integers(1, 4)),
    st.sampled_from([{"kind": name} for name in ACTIVATIONS]),
)


@settings(max_examples=40, deadline=None)
@given(
    over=st.lists(maps_layers, max_size=4),
    behind=st.lists(row_layers, max_size=3),
    channels=st.integers(1, 2),
)
def test_outputs_and_gradients_are_those_of_the_torch_module(
    over: list[dict[str, Any]], behind: list[dict[str, Any]], channels: int
) -> None:
    shape = a_shape(Maps(7, 6, channels), *over, {"kind": "flatten"}, *behind)
    try:
        n = shape.n
    except LayerError:
        return  # the maps became too small, which a spec is refused for
    theta = drawn(shape)
    module = module_of(shape)
    tensors = named_tensors(shape, theta.numpy())
    module.load_state_dict(
        {name.removeprefix("hypotheses.0."): torch.from_numpy(one) for name, one in tensors.items()}
    )
    rows, target = torch.rand(5, 42 * channels), torch.tensor([0.0, 1, 2, 0, 1])
    outputs = module(rows.view(5, 7, 6, channels).permute(0, 3, 1, 2))
    own = ClientNetwork(shape, torch.device("cpu"))
    own.load(theta[0])
    assert torch.allclose(own.outputs(rows).t(), outputs, atol=1e-5)
    nn.functional.cross_entropy(outputs, target.long(), reduction="sum").backward()
    slopes = [one.grad for one in module.parameters()]
    expected = torch.cat([one.flatten() for one in slopes if one is not None])
    _, gradient = own.gradient(rows, target, LOSS)
    leaves = len(gradient) // 2
    pairs = zip(gradient[:leaves], gradient[leaves:], strict=True)
    found = torch.cat([part.flatten() for pair in pairs for part in pair])
    assert torch.allclose(found, expected, atol=1e-4)
    batch = RecordBatch(rows[None], target[None], np.array([5]))
    summed = clipped_gradients(shape, LOSS)(theta[0], batch, clip=float("inf"))
    assert summed.shape == (1, n)
    assert torch.allclose(summed[0], expected.double(), atol=1e-4)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_clients_side_by_side_get_what_each_gets_alone(name: str) -> None:
    shape = a_shape(Rows(4), {"kind": "dense", "units": 6}, {"kind": name})
    network, theta = BatchedNetwork(shape), drawn(shape, 3)
    features = torch.rand(4, 5, 1, 3)  # inputs, rows, cells, clients
    target, weight = torch.randint(0, 3, (5, 1, 3)).float(), torch.full((5, 1, 3), 0.2)
    gradient = network.gradient(theta.t()[:, None].contiguous(), features, target, weight, LOSS)
    for client in range(3):
        alone = ClientNetwork(shape, torch.device("cpu"))
        alone.load(theta[client])
        rows = features[:, :, 0, client].t()
        _, parts = alone.gradient(rows, target[:, 0, client], LOSS)
        pairs = zip(parts[:2], parts[2:], strict=True)
        expected = torch.cat([part.flatten() for pair in pairs for part in pair]) / 5
        assert torch.allclose(gradient[:, 0, client], expected, atol=1e-6)


def test_dense_layers_with_relu_are_the_network_of_that_kind() -> None:
    shape = a_shape(Rows(4), {"kind": "dense", "units": 6}, {"kind": "relu"})
    same = DenseShape((4, 6, 3), intercept=True)
    assert shape.n == same.n
    assert np.array_equal(
        drawn(shape), initial_hypotheses(same, start="uniform", hypotheses=1, seed=3)
    )
    features = torch.rand(4, 5, 1, 3)
    theta = drawn(shape, 2)[None]
    left = BatchedNetwork(shape).forward(theta, features)
    assert torch.allclose(left, BatchedNetwork(same).forward(theta, features), atol=1e-6)
