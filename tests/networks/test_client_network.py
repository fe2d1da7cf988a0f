"""One client's network against torch's own modules, and against the stacked networks."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedaudit.networks.client_network import ClientNetwork
from fedaudit.networks.initial import initial_hypotheses
from fedaudit.networks.losses import Loss
from fedaudit.networks.shape import (
    Convolution,
    ConvolutionalShape,
    DenseShape,
    Layer,
    NetworkShape,
    are_layers_of,
    layer_sizes,
    network_shape,
)
from fedaudit.networks.stacked_network import BatchedNetwork
from fedaudit.spec.models import CnnFemnist, Linear, Logistic, Mlp

CPU = torch.device("cpu")
CNN = CnnFemnist(kind="cnn-femnist")
SMALL = ConvolutionalShape(image=(9, 8, 2), channels=(3, 4), kernel=3, units=(5, 3))
DEEP = DenseShape((6, 64, 32, 16, 3), intercept=True)
BARE = DenseShape((6, 4, 3), intercept=False)


def test_the_papers_network_has_as_many_parameters_as_the_paper_says() -> None:
    assert network_shape(CNN, features=784, classes=62).n == 1_206_590


@pytest.mark.parametrize(
    ("model", "features", "classes", "sizes"),
    [
        # 3 by 3 kernels and one bias each; 12 by 12 places of 64 channels lead to 128 units.
        (CNN, 784, 62, (32 * 10, 64 * (32 * 9 + 1), 128 * (64 * 144 + 1), 62 * 129)),
        (Mlp(kind="mlp", hidden=[2]), 3, 0, (8, 3)),  # the hospital network of Galli et al.
        (Mlp(kind="mlp", hidden=[5, 4], intercept=False), 3, 10, (15, 20, 40)),
        (Linear(kind="linear"), 2, 0, (3,)),
        (Logistic(kind="logistic"), 8, 3, (27,)),
    ],
)
def test_a_layer_is_its_weights_and_its_bias(model, features, classes, sizes) -> None:
    shape = network_shape(model, features=features, classes=classes)
    assert layer_sizes(shape) == sizes
    assert are_layers_of(model, sizes)
    # A single layer of another size is one over other features.
    moved = (sizes[0] - 1, *sizes[1:-1], sizes[-1] + 1) if len(sizes) > 1 else (0,)
    for other in (moved, (*sizes, 5), sizes[:-1], (), (-1,)):
        assert not are_layers_of(model, other)


def test_the_layers_cover_the_vector_once() -> None:
    for shape in (network_shape(CNN, features=784, classes=62), SMALL, DEEP, BARE):
        end = 0
        for layer in shape.layers:
            for part in (layer.weights, layer.bias):
                if part is not None:
                    assert part.start == end
                    end = part.stop
        assert end == shape.n


def test_only_images_of_its_size_make_a_network() -> None:
    with pytest.raises(ValueError, match="28 by 28"):
        network_shape(CNN, features=783, classes=62)


def module_of(shape: NetworkShape) -> nn.Module:
    """The same network as a torch module."""
    layers: list[nn.Module] = []
    dense = shape.layers
    if isinstance(shape, ConvolutionalShape):
        for layer in (one for one in shape.layers if isinstance(one, Convolution)):
            layers += [nn.Conv2d(layer.inputs, layer.outputs, layer.size), nn.ReLU()]
        layers += [nn.MaxPool2d(2), nn.Flatten()]
        dense = [one for one in shape.layers if isinstance(one, Layer)]
    for layer in dense:
        layers += [nn.Linear(layer.inputs, layer.outputs, bias=layer.bias is not None), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def images(shape: NetworkShape, rows: Tensor) -> Tensor:
    """Rows as the module takes them: channels in front of height and width."""
    if isinstance(shape, ConvolutionalShape):
        return rows.unflatten(1, shape.image).movedim(-1, 1)
    return rows


SHAPES: dict[str, NetworkShape] = {"images": SMALL, "deep": DEEP, "no intercept": BARE}


@pytest.mark.parametrize("kind", ["cross-entropy", "mse", "rmse"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_outputs_and_gradients_are_those_of_a_torch_module(shape: NetworkShape, kind: str) -> None:
    torch.manual_seed(1)
    module = module_of(shape)
    inputs = 144 if isinstance(shape, ConvolutionalShape) else 6
    rows, target = torch.randn(7, inputs), torch.randint(3, (7,))
    network, loss = ClientNetwork(shape, CPU), Loss(kind, 3)
    network.load(nn.utils.parameters_to_vector(module.parameters()))
    outputs = module(images(shape, rows))
    torch.testing.assert_close(network.outputs(rows).t(), outputs)

    optimiser = torch.optim.SGD(module.parameters(), lr=0.2)
    if kind == "cross-entropy":
        expected = nn.functional.cross_entropy(outputs, target)
    else:
        hot = nn.functional.one_hot(target, 3).float()
        expected = nn.functional.mse_loss(outputs.softmax(1), hot)
        expected = expected.sqrt() if kind == "rmse" else expected
    expected.backward()
    optimiser.step()
    # In two parts, as for a client with many rows.
    total, gradient = network.gradient(rows[:4], target[:4].float(), loss)
    more, slopes = network.gradient(rows[4:], target[4:].float(), loss)
    mean = (total + more) / 7
    torch.testing.assert_close(loss.client_loss(mean), expected.detach())
    parts = [one + other for one, other in zip(gradient, slopes, strict=True)]
    network.descend(parts, 0.2 * loss.client_slope(mean).item() / 7)
    after = nn.utils.parameters_to_vector(module.parameters()).detach()
    torch.testing.assert_close(network.theta, after)


def test_the_papers_network_is_the_torch_module() -> None:
    shape = network_shape(CNN, features=784, classes=62)
    module, network = module_of(shape), ClientNetwork(shape, CPU)
    network.load(nn.utils.parameters_to_vector(module.parameters()))
    rows = torch.rand(3, 784)
    torch.testing.assert_close(network.outputs(rows).t(), module(rows.reshape(3, 1, 28, 28)))


@pytest.mark.parametrize("hidden", [[64, 32, 16], [5] * 10])
def test_deep_networks_are_the_same_for_one_client_and_for_many(hidden: list[int]) -> None:
    shape = network_shape(Mlp(kind="mlp", hidden=hidden), features=6, classes=3)
    assert isinstance(shape, DenseShape)
    random = torch.Generator().manual_seed(3)
    theta = torch.from_numpy(initial_hypotheses(shape, start="uniform", hypotheses=2, seed=1))
    features = torch.randn(6, 8, 1, 2, generator=random)  # [inputs, rows, cells, clients]
    target = torch.randint(3, (8, 1, 2), generator=random).float()
    loss, stacked = Loss("cross-entropy", 3), BatchedNetwork(shape)
    outputs = stacked.forward(theta[None], features)
    own = theta.t()[:, None].contiguous()
    slopes = stacked.gradient(own, features, target, torch.full_like(target, 1 / 8), loss)
    network = ClientNetwork(shape, CPU)
    for client in range(2):
        network.load(theta[client])
        rows = features[:, :, 0, client].t().contiguous()
        torch.testing.assert_close(network.outputs(rows), outputs[:, client, :, 0, client])
        _, gradient = network.gradient(rows, target[:, 0, client], loss)
        network.descend(gradient, -1 / 8)
        torch.testing.assert_close(
            network.theta - theta[client], slopes[:, 0, client], atol=1e-6, rtol=1e-4
        )


def test_parameters_are_a_copy() -> None:
    network = ClientNetwork(BARE, CPU)
    given = torch.ones(BARE.n)
    network.load(given)
    network.descend(network.gradient(torch.ones(1, 6), torch.zeros(1), Loss("mse", 3))[1], 1.0)
    assert torch.equal(given, torch.ones(BARE.n))
    assert not torch.equal(network.theta, given)


def test_convolutions_start_within_the_usual_bounds() -> None:
    drawn = initial_hypotheses(SMALL, start="uniform", hypotheses=400, seed=1)
    for layer, fan_in in zip(SMALL.layers, (18, 27, 16, 5), strict=True):
        bound = 1 / np.sqrt(fan_in)
        assert layer.bias is not None
        for part in (layer.weights, layer.bias):
            assert np.abs(drawn[:, part]).max() <= bound
            assert np.abs(drawn[:, part]).max() > 0.98 * bound
