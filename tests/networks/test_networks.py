"""Networks written by hand against matrix products and against autograd."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from fedaudit.networks.initial import initial_hypotheses
from fedaudit.networks.losses import Loss
from fedaudit.networks.shape import DenseShape, network_shape
from fedaudit.networks.stacked_network import (
    MAX_SMALL_ROWS,
    MAX_SMALL_WIDTH,
    BatchedNetwork,
    SmallDenseNetwork,
    choose_network,
)
from fedaudit.reproducible import fixed_order_sum
from fedaudit.spec.models import Linear, Logistic, Mlp

FALSE_ALARM = 1e-6


@pytest.mark.parametrize(
    ("model", "features", "classes", "n"),
    [
        (Mlp(kind="mlp", hidden=[2]), 3, 0, 11),  # the hospital network of Galli et al.
        (Linear(kind="linear", intercept=False), 2, 0, 2),
        (Linear(kind="linear"), 2, 0, 3),
        (Logistic(kind="logistic"), 8, 2, 9),  # two classes share one output
        (Logistic(kind="logistic"), 8, 3, 27),
        (Mlp(kind="mlp", hidden=[5, 4], intercept=False), 3, 10, 15 + 20 + 40),
        (Mlp(kind="mlp", hidden=[200]), 784, 10, 784 * 200 + 200 + 2010),
    ],
)
def test_parameter_counts(
    model: Linear | Logistic | Mlp, features: int, classes: int, n: int
) -> None:
    shape = network_shape(model, features=features, classes=classes)
    assert shape.n == n
    covered = [index for layer in shape.layers for index in _indices(layer.weights, layer.bias)]
    assert covered == list(range(n))


def _indices(*parts: slice | None) -> list[int]:
    return [index for part in parts if part for index in range(part.start, part.stop)]


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


@settings(max_examples=60)
@given(problems())
def test_tiny_general_and_autograd_agree(
    problem: tuple[DenseShape, Loss, int, int, int, int],
) -> None:
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
def test_the_gradient_of_an_rmse_is_zero_where_nothing_is_left_to_learn(
    network: type[SmallDenseNetwork] | type[BatchedNetwork],
) -> None:
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
def test_folding_sums_in_an_order_of_its_own(
    size: int, others: list[int], dim: int, seed: int
) -> None:
    dim = min(dim, len(others))
    shape = [*others[:dim], size, *others[dim:]]
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    folded = fixed_order_sum(values, dim)
    torch.testing.assert_close(folded.double(), values.double().sum(dim), rtol=1e-5, atol=1e-5)
    # Whatever lies beside it.
    beside = torch.stack([values, values * 0 + 7, values], dim=-1)
    assert torch.equal(fixed_order_sum(beside, dim)[..., 0], folded)
    assert torch.equal(fixed_order_sum(beside, dim)[..., 2], folded)


def test_folding_is_unmoved_by_zeros_up_to_a_power_of_two() -> None:
    values = torch.randn(32, 5, generator=torch.Generator().manual_seed(1))
    for rows in (1, 3, 5, 8, 13, 16):
        short = torch.nn.functional.pad(values[:rows], (0, 0, 0, 16 - rows))
        long = torch.nn.functional.pad(values[:rows], (0, 0, 0, 32 - rows))
        assert torch.equal(fixed_order_sum(short, 0), fixed_order_sum(long, 0))


def test_a_linear_map_starts_standard_normal() -> None:
    drawn = initial_hypotheses(
        DenseShape((4, 1), intercept=True), start="normal", hypotheses=4000, seed=1
    )
    assert drawn.shape == (4000, 5)
    assert drawn.dtype == np.float32
    assert stats.kstest(drawn.ravel().astype(np.float64), "norm").pvalue > FALSE_ALARM


def test_zeros_are_zeros() -> None:
    shape = DenseShape((4, 1), intercept=True)
    drawn = initial_hypotheses(shape, start="zeros", hypotheses=1, seed=1)
    assert np.array_equal(drawn, np.zeros((1, 5), np.float32))


def test_a_network_starts_within_the_usual_bounds() -> None:
    shape = DenseShape((3, 2, 1), intercept=True)
    drawn = initial_hypotheses(shape, start="uniform", hypotheses=4000, seed=1).astype(np.float64)
    for layer in shape.layers:
        bound = 1 / np.sqrt(layer.inputs)
        assert layer.bias is not None
        for part in (layer.weights, layer.bias):
            values = drawn[:, part].ravel()
            uniform = stats.uniform(-bound, 2 * bound)
            assert stats.kstest(values, uniform.cdf).pvalue > FALSE_ALARM


def test_a_hypothesis_starts_the_same_however_many_there_are() -> None:
    shape = DenseShape((3, 2, 1), intercept=True)
    few, many = (initial_hypotheses(shape, start="uniform", hypotheses=k, seed=4) for k in (2, 7))
    assert np.array_equal(few, many[:2])
    assert len(np.unique(many, axis=0)) == 7
    assert not np.array_equal(few, initial_hypotheses(shape, start="uniform", hypotheses=2, seed=5))


def test_the_choice_of_network_depends_on_width_and_rows() -> None:
    shape = DenseShape((MAX_SMALL_WIDTH, 1), intercept=True)
    assert isinstance(choose_network(shape, rows=MAX_SMALL_ROWS), SmallDenseNetwork)
    assert isinstance(choose_network(shape, rows=MAX_SMALL_ROWS + 1), BatchedNetwork)
    wide = DenseShape((2, MAX_SMALL_WIDTH + 1, 1), intercept=True)
    assert isinstance(choose_network(wide, rows=1), BatchedNetwork)
