"""Networks side by side and one by one against torch's own modules, losses, and layouts."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy import stats
from torch import Tensor, nn

from fedaudit.networks.initial import initial_hypotheses
from fedaudit.networks.parameter_files import named_tensors
from fedaudit.networks.record_gradients import RecordBatch, clipped_gradients
from fedaudit.networks.shape import (
    DenseShape,
    LayeredShape,
    NetworkShape,
    are_layers_of,
    layer_sizes,
    network_shape,
)
from fedaudit.networks.stacked_network import BatchedNetwork, ClientNetwork, Loss, SmallDenseNetwork
from fedaudit.reproducible import fixed_order_sum
from fedaudit.spec.models import (
    CnnFemnist,
    LayerError,
    Layers,
    LayerSpec,
    Linear,
    Logistic,
    Maps,
    Mlp,
    Rows,
    Values,
)

FALSE_ALARM = 1e-6


def reference(shape: DenseShape, theta: Tensor, inputs: Tensor) -> Tensor:
    """[rows, out] of parameters [n] on inputs [rows, in]."""
    for position, layer in enumerate(shape.layers):
        if position:
            inputs = torch.relu(inputs)
        weights = theta[layer.weights].reshape(layer.outputs, layer.inputs)
        bias = None if layer.bias is None else theta[layer.bias]
        inputs = torch.nn.functional.linear(inputs, weights, bias)
    return inputs


def reference_loss(loss: Loss, outputs: Tensor, target: Tensor) -> Tensor:
    """A client's loss with torch's own functions; outputs [rows, out], target [rows]."""
    if loss.classes == 0:
        mean = torch.nn.functional.mse_loss(outputs[:, 0], target)
        return mean.sqrt() if loss.kind == "rmse" else mean
    if loss.classes == 2:
        outputs = torch.cat((torch.zeros_like(outputs), outputs), dim=1)
    labels = target.long()
    if loss.kind == "cross-entropy":
        return torch.nn.functional.cross_entropy(outputs, labels)
    hot = torch.nn.functional.one_hot(labels, loss.classes).to(outputs.dtype)
    mean = torch.nn.functional.mse_loss(outputs.softmax(1), hot)
    return mean.sqrt() if loss.kind == "rmse" else mean


@st.composite
def problems(draw: st.DrawFn) -> tuple[DenseShape, Loss, int, int, int, int]:
    classes = draw(st.sampled_from([0, 0, 2, 3, 5]))
    kinds = ["rmse", "mse"] + (["cross-entropy"] if classes else [])
    hidden = draw(st.lists(st.integers(1, 5), max_size=2))
    sizes = (draw(st.integers(1, 4)), *hidden, classes if classes > 2 else 1)
    shape = DenseShape(sizes, draw(st.booleans()))
    loss = Loss(draw(st.sampled_from(kinds)), classes)
    cells, clients, rows = (draw(st.integers(1, most)) for most in (3, 4, 9))
    return shape, loss, cells, clients, rows, draw(st.integers(0, 2**31))


@settings(max_examples=30)
@given(problems())
def test_tiny_general_and_autograd_agree(problem):
    shape, loss, cells, clients, rows, seed = problem
    random = torch.Generator().manual_seed(seed)
    k = 3
    theta = torch.randn(cells, k, shape.n, generator=random, dtype=torch.float64)
    features = torch.randn(
        shape.sizes[0], rows, cells, clients, generator=random, dtype=torch.float64
    )
    target = torch.randn(rows, cells, clients, generator=random, dtype=torch.float64)
    if loss.classes:
        size = (rows, cells, clients)
        target = torch.randint(loss.classes, size, generator=random).double()
    count = torch.randint(1, rows + 1, (cells, clients), generator=random)
    mask = (torch.arange(rows)[:, None, None] < count).double()
    networks = (SmallDenseNetwork(shape), BatchedNetwork(shape))
    own = torch.randn(shape.n, cells, clients, generator=random, dtype=torch.float64)
    outputs = [network.forward(theta, features) for network in networks]
    gradients = [
        network.gradient(own, features, target, mask / count, loss) for network in networks
    ]
    assert outputs[0].shape == (shape.sizes[-1], k, rows, cells, clients)
    for cell in range(cells):
        for client in range(clients):
            real = int(count[cell, client])
            inputs, truth = features[:, :real, cell, client].t(), target[:real, cell, client]
            parameters = own[:, cell, client].clone().requires_grad_()
            expected_loss = reference_loss(loss, reference(shape, parameters, inputs), truth)
            (expected,) = torch.autograd.grad(expected_loss, parameters)
            for found in gradients:
                torch.testing.assert_close(found[:, cell, client], expected)
            for j in range(k):
                computed = reference(shape, theta[cell, j], features[:, :, cell, client].t())
                for output in outputs:
                    torch.testing.assert_close(output[:, j, :, cell, client].t(), computed)
                value = loss.values(outputs[0], target)[j, :real, cell, client].mean()
                expected_value = reference_loss(loss, computed[:real], truth)
                torch.testing.assert_close(loss.client_loss(value), expected_value)


@pytest.mark.parametrize("network", [SmallDenseNetwork, BatchedNetwork])
def test_the_gradient_of_an_rmse_is_zero_where_nothing_is_left_to_learn(network):
    shape = DenseShape((2, 1), intercept=True)
    theta = torch.tensor([1.0, -2.0, 0.5])[:, None, None]
    features = torch.tensor([[1.0, 2.0], [3.0, 4.0]])[..., None, None]
    target = features[0] - 2 * features[1] + 0.5
    weight = torch.full_like(target, 0.5)
    gradient = network(shape).gradient(theta, features, target, weight, Loss("rmse", 0))
    assert torch.equal(gradient, torch.zeros(3, 1, 1))
    empty = network(shape).gradient(theta, features, target + 1, 0 * weight, Loss("rmse", 0))
    assert torch.equal(empty, torch.zeros(3, 1, 1))


@given(
    st.integers(1, 70),
    st.lists(st.integers(1, 3), max_size=2),
    st.integers(0, 2),
    st.integers(0, 2**31),
)
def test_folding_sums_in_an_order_of_its_own(size, others, dim, seed):
    dim = min(dim, len(others))
    shape = [*others[:dim], size, *others[dim:]]
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    folded = fixed_order_sum(values, dim)
    torch.testing.assert_close(folded.double(), values.double().sum(dim), rtol=1e-5, atol=1e-5)
    # Whatever lies beside it.
    beside = torch.stack([values, values * 0 + 7, values], dim=-1)
    assert torch.equal(fixed_order_sum(beside, dim)[..., 0], folded)
    assert torch.equal(fixed_order_sum(beside, dim)[..., 2], folded)


def test_a_hypothesis_starts_the_same_however_many_there_are() -> None:
    shape = DenseShape((3, 2, 1), intercept=True)
    few, many = (initial_hypotheses(shape, start="uniform", hypotheses=k, seed=4) for k in (2, 7))
    assert np.array_equal(few, many[:2])
    assert len(np.unique(many, axis=0)) == 7
    assert not np.array_equal(few, initial_hypotheses(shape, start="uniform", hypotheses=2, seed=5))


LAYERS: TypeAdapter[list[LayerSpec]] = TypeAdapter(list[LayerSpec])
LOSS = Loss("cross-entropy", 3)
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "gelu": nn.GELU}


def a_shape(given: Values, *layers: dict[str, Any]) -> LayeredShape:
    return LayeredShape(given, tuple(LAYERS.validate_python(list(layers))), 3)


def images_shape(given: Maps, *, filters: tuple[int, int]) -> LayeredShape:
    """Layers in the order of `cnn-femnist`."""
    first, second = ({"kind": "convolution", "filters": one, "size": 3} for one in filters)
    relu, pool = {"kind": "relu"}, {"kind": "max-pooling", "size": 2}
    dense = {"kind": "dense", "units": 5}
    return a_shape(given, first, relu, second, pool, relu, {"kind": "flatten"}, dense, relu)


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


def drawn(shape: NetworkShape, k: int = 1) -> torch.Tensor:
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


@settings(max_examples=20, deadline=None)
@given(
    over=st.lists(maps_layers, max_size=4),
    behind=st.lists(row_layers, max_size=3),
    channels=st.integers(1, 2),
)
def test_outputs_and_gradients_are_those_of_the_torch_module(over, behind, channels):
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
    found = torch.zeros(n)
    own.add_gradient(rows, target, LOSS, found)
    assert torch.allclose(found, expected, atol=1e-4)
    batch = RecordBatch(rows[None], target[None], np.array([5]))
    summed = clipped_gradients(shape, LOSS)(theta[0], batch, clip=float("inf"))
    assert summed.shape == (1, n)
    assert torch.allclose(summed[0], expected.double(), atol=1e-4)


@pytest.mark.parametrize(
    "shape",
    [
        DenseShape((7, 5, 3), intercept=True),
        DenseShape((50, 33, 7, 1), intercept=False),
        a_shape(Rows(7), {"kind": "dense", "units": 9}, {"kind": "sigmoid"}),
        a_shape(
            Maps(8, 8, 1),
            {"kind": "convolution", "filters": 16, "size": 3},
            {"kind": "tanh"},
            {"kind": "convolution", "filters": 16, "size": 3},
            {"kind": "max-pooling", "size": 2},
            {"kind": "flatten"},
        ),
    ],
    ids=str,
)
def test_outputs_of_a_row_depend_on_no_other_row_nor_on_its_place(shape: NetworkShape) -> None:
    own = ClientNetwork(shape, torch.device("cpu"))
    own.load(drawn(shape)[0])
    image = shape.image
    width = shape.layers[0].fan_in if image is None else math.prod(image)
    rows = torch.randn(300, width, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        whole = own.outputs(rows)
        for some in (torch.arange(1, 300), torch.arange(7), torch.arange(299, -1, -3)):
            assert torch.equal(own.outputs(rows[some]), whole[:, some])


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


def lanes(values: torch.Tensor) -> torch.Tensor:
    """[rows, out] as [out, rows, 1 cell, 1 client]."""
    return values.t()[:, :, None, None]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["cross-entropy", "mse", "rmse"])
def test_large_outputs_stay_finite(kind: str, classes: int) -> None:
    outputs = torch.tensor([[1e30, -1e30, 0.0], [-1e30, 1e30, 0.0]])[
        :, : classes if classes > 2 else 1
    ]
    target = torch.tensor([1.0, 0.0])[:, None, None]
    values, slopes = Loss(kind, classes).values_and_slopes(lanes(outputs), target)
    assert torch.isfinite(values).all()
    assert torch.isfinite(slopes).all()


def test_the_predicted_class_is_the_most_likely_one() -> None:
    outputs = torch.tensor([[0.0, 3.0, -1.0], [2.0, 1.0, -2.0]])

    def predicted(outputs: torch.Tensor, classes: int) -> torch.Tensor:
        loss = Loss("cross-entropy", classes)
        return loss.predictions(loss.answers(outputs))

    assert predicted(outputs.t(), 3).tolist() == [1, 0]
    logits = torch.tensor([[-0.1, 0.0, 0.1]])
    assert predicted(logits, 2).tolist() == [0, 0, 1]
    two = torch.stack([torch.zeros(3), logits[0]])
    assert torch.equal(predicted(logits, 2), two.argmax(0))


def test_cross_entropy_needs_classes() -> None:
    with pytest.raises(ValueError, match="needs classes"):
        Loss("cross-entropy", 0)


CNN = CnnFemnist(kind="cnn-femnist")
SMALL = images_shape(Maps(9, 8, 2), filters=(3, 4))
BARE = DenseShape((6, 4, 3), intercept=False)


@pytest.mark.parametrize(
    ("model", "features", "classes", "sizes"),
    [
        # 1,206,590, as the paper says: 3 by 3 kernels and one bias each; 12 by 12 places of 64
        # channels lead to 128 units.
        (CNN, 784, 62, (32 * 10, 64 * (32 * 9 + 1), 128 * (64 * 144 + 1), 62 * 129)),
        (Mlp(kind="mlp", hidden=[2]), 3, 0, (8, 3)),  # the hospital network of Galli et al.
        (Mlp(kind="mlp", hidden=[5, 4], intercept=False), 3, 10, (15, 20, 40)),
        (Linear(kind="linear"), 2, 0, (3,)),
        (Linear(kind="linear", intercept=False), 2, 0, (2,)),
        (Logistic(kind="logistic"), 8, 2, (9,)),  # two classes share one output
        (Logistic(kind="logistic"), 8, 3, (27,)),
    ],
)
def test_a_layer_is_its_weights_and_its_bias(model, features, classes, sizes) -> None:
    shape = network_shape(model, features=features, classes=classes)
    assert layer_sizes(shape) == sizes
    assert shape.n == sum(sizes)
    assert are_layers_of(model, sizes)
    # A single layer of another size is one over other features.
    moved = (sizes[0] - 1, *sizes[1:-1], sizes[-1] + 1) if len(sizes) > 1 else (0,)
    for other in (moved, (*sizes, 5), sizes[:-1], (), (-1,)):
        assert not are_layers_of(model, other)


def test_as_many_rows_are_computed_at_once_as_ever() -> None:
    # Another number of rows gives other last bits, and a ledger of adaptive radii another hash.
    named = [layer.model_dump() for layer in CNN.layers]
    same = Layers.model_validate({"kind": "layers", "input": [28, 28, 1], "layers": named})
    for model, numbers in ((CNN, 67902), (same, 108878)):
        assert network_shape(model, features=784, classes=62).activations == numbers


def test_only_images_of_its_size_make_a_network() -> None:
    with pytest.raises(ValueError, match="28 by 28"):
        network_shape(CNN, features=783, classes=62)


@pytest.mark.parametrize(
    ("shape", "inputs"), [(DenseShape((3, 2, 1), intercept=True), (3, 2)), (SMALL, (18, 27, 16, 5))]
)
def test_networks_start_within_the_usual_bounds(shape, inputs) -> None:
    drawn = initial_hypotheses(shape, start="uniform", hypotheses=2000, seed=1).astype(np.float64)
    for layer, fan_in in zip(shape.layers, inputs, strict=True):
        bound = 1 / np.sqrt(fan_in)
        assert layer.bias is not None
        for part in (layer.weights, layer.bias):
            uniform = stats.uniform(-bound, 2 * bound)
            assert stats.kstest(drawn[:, part].ravel(), uniform.cdf).pvalue > FALSE_ALARM


def test_a_model_may_start_standard_normal_or_at_zero() -> None:
    linear = DenseShape((4, 1), intercept=True)
    normal = initial_hypotheses(linear, start="normal", hypotheses=4000, seed=1)
    assert (normal.shape, normal.dtype) == ((4000, 5), np.float32)
    assert stats.kstest(normal.ravel().astype(np.float64), "norm").pvalue > FALSE_ALARM
    zeros = initial_hypotheses(BARE, start="zeros", hypotheses=2, seed=1)
    assert np.array_equal(zeros, np.zeros((2, BARE.n), np.float32))
