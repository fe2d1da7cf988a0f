"""The size and layout of a network's flat parameter vector. No torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import assert_never

from fedaudit.spec import models as named
from fedaudit.spec.models import (
    FEMNIST_IMAGE,
    ActivationName,
    CnnFemnist,
    Dense,
    Layers,
    LayerSpec,
    Linear,
    Logistic,
    Maps,
    Mlp,
    ModelSpec,
    PoolingName,
    Rows,
    Values,
    values_between,
)


@dataclass(frozen=True)
class Layer:
    """One dense layer: where its weights [outputs, inputs] and its bias lie in the vector."""

    inputs: int
    outputs: int
    weights: slice
    bias: slice | None

    @property
    def fan_in(self) -> int:
        """Numbers that each output is a sum over."""
        return self.inputs

    @property
    def weight_sizes(self) -> tuple[int, ...]:
        """The sizes of the weights as a tensor."""
        return self.outputs, self.inputs

    @property
    def n(self) -> int:
        """The number of parameters, the bias included."""
        return (self.inputs + (self.bias is not None)) * self.outputs


@dataclass(frozen=True)
class Convolution:
    """A convolution; its weights are [outputs, inputs, size, size]."""

    inputs: int
    outputs: int
    size: int
    """Of the square kernel."""
    weights: slice
    bias: slice
    stride: int = 1
    padding: int = 0

    @property
    def fan_in(self) -> int:
        """Numbers that each output is a sum over."""
        return self.inputs * self.size**2

    @property
    def weight_sizes(self) -> tuple[int, ...]:
        """The sizes of the weights as a tensor."""
        return self.outputs, self.inputs, self.size, self.size

    @property
    def n(self) -> int:
        """The number of parameters, the bias included."""
        return (self.fan_in + 1) * self.outputs


@dataclass(frozen=True)
class Pool:
    """Squares of `size` by `size`, side by side."""

    kind: PoolingName
    size: int


@dataclass(frozen=True)
class Flattening:
    """Maps to a row, channels outermost."""


Operation = Layer | Convolution | Pool | Flattening | ActivationName


@dataclass(frozen=True)
class LayeredShape:
    """Operations one after the other; those with parameters hold weights, then their bias."""

    given: Values
    """What the first operation takes; of rows, how many numbers."""
    named: tuple[LayerSpec, ...]
    outputs: int

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """The named layers, and the dense layer with the outputs."""
        found: list[Operation] = []
        start = 0
        values = values_between(self.named, self.given)
        for layer, given in zip(self.named, values, strict=False):
            operation = _operation(layer, given, start)
            found.append(operation)
            if isinstance(operation, Layer | Convolution):
                start += operation.n
        return (*found, _dense(values[-1].numbers, self.outputs, start))

    @cached_property
    def layers(self) -> tuple[Layer | Convolution, ...]:
        """The operations with parameters, in order."""
        return tuple(one for one in self.operations if isinstance(one, Layer | Convolution))

    @property
    def places(self) -> tuple[int, ...]:
        """Where each layer stands in the `torch.nn.Sequential` that computes the same."""
        return tuple(
            place
            for place, one in enumerate(self.operations)
            if isinstance(one, Layer | Convolution)
        )

    @property
    def image(self) -> tuple[int, int, int] | None:
        """Height, width and channels of the images that it takes; None where it takes rows."""
        given = self.given
        match given:
            case Maps():
                return given.height, given.width, given.channels
            case Rows():
                return None
            case _:
                assert_never(given)

    @property
    def n(self) -> int:
        """The number of parameters."""
        return sum(layer.n for layer in self.layers)

    @property
    def linear(self) -> bool:
        """Never: there are hidden layers."""
        return False

    @property
    def activations(self) -> int:
        """Numbers that the layers give for one row."""
        between = values_between(self.named, self.given)
        return sum(values.numbers for values in between) + self.outputs

    @property
    def products(self) -> int:
        """Multiplications of a parameter that one row takes."""
        between = values_between(self.named, self.given)
        given = [*(values.numbers for values in between[1:]), self.outputs]
        return sum(
            numbers * operation.fan_in
            for numbers, operation in zip(given, self.operations, strict=True)
            if isinstance(operation, Layer | Convolution)
        )


def layered_shape(
    layers: Sequence[LayerSpec], given: Values, *, features: int, outputs: int
) -> LayeredShape:
    """The shape over `features` inputs.

    Raises ValueError where the layers take images of another size.
    """
    match given:
        case Rows():
            taken: Values = Rows(features)
        case Maps():
            if given.numbers != features:
                raise ValueError(f"`layers` takes {given.words}, and rows have {features} numbers")
            taken = given
        case _:
            assert_never(given)
    return LayeredShape(taken, tuple(layers), outputs)


def _operation(layer: LayerSpec, given: Values, start: int) -> Operation:
    match layer:
        case named.Dense():
            return _dense(given.numbers, layer.units, start)
        case named.Convolution():
            if not isinstance(given, Maps):
                raise ValueError("a convolution takes maps")
            weights = layer.filters * given.channels * layer.size**2
            end = start + weights
            return Convolution(
                given.channels,
                layer.filters,
                layer.size,
                slice(start, end),
                slice(end, end + layer.filters),
                stride=layer.stride,
                padding=layer.padding,
            )
        case named.Pooling():
            return Pool(layer.kind, layer.size)
        case named.Flatten():
            return Flattening()
        case named.Activation():
            return layer.kind
        case _:
            assert_never(layer)


def _dense(inputs: int, outputs: int, start: int) -> Layer:
    end = start + inputs * outputs
    return Layer(inputs, outputs, slice(start, end), slice(end, end + outputs))


_CNN_CHANNELS, _CNN_UNITS = (32, 64), 128
"""Of `cnn-femnist`: outputs of its convolutions, and its hidden units."""


@dataclass(frozen=True)
class DenseShape:
    """A stack of dense layers with ReLU between them; without hidden layers, a linear map."""

    sizes: tuple[int, ...]
    """Inputs, hidden units, outputs."""
    intercept: bool

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The layers in order; each holds its weights row by row, then its bias."""
        return _dense_layers(self.sizes, intercept=self.intercept, start=0)

    @property
    def places(self) -> tuple[int, ...]:
        """Where each layer stands in the `torch.nn.Sequential` that computes the same."""
        return tuple(2 * position for position in range(len(self.layers)))

    @property
    def n(self) -> int:
        """The number of parameters."""
        return sum((inputs + self.intercept) * outputs for inputs, outputs in pairwise(self.sizes))

    @property
    def linear(self) -> bool:
        """Whether there is no hidden layer."""
        return len(self.sizes) == 2

    @property
    def activations(self) -> int:
        """Numbers that the layers give for one row."""
        return sum(self.sizes)

    @property
    def products(self) -> int:
        """Multiplications of a parameter that one row takes."""
        return sum(inputs * outputs for inputs, outputs in pairwise(self.sizes))


@dataclass(frozen=True)
class ConvolutionalShape:
    """Convolutions with ReLU, one max pool of 2 by 2, then dense layers with ReLU between them.

    The vector's order is that of the parameters of the same torch module; between the pool and
    the dense layers, channels are outermost.
    """

    image: tuple[int, int, int]
    """Height, width, channels."""
    channels: tuple[int, ...]
    """Outputs of each convolution."""
    kernel: int
    units: tuple[int, ...]
    """Hidden units, outputs."""

    @cached_property
    def convolutions(self) -> tuple[Convolution, ...]:
        """The convolutions in order; each holds its weights, then its bias."""
        found = []
        start, inputs = 0, self.image[2]
        for outputs in self.channels:
            end = start + outputs * inputs * self.kernel**2
            weights, bias = slice(start, end), slice(end, end + outputs)
            found.append(Convolution(inputs, outputs, self.kernel, weights, bias))
            start, inputs = bias.stop, outputs
        return tuple(found)

    @cached_property
    def dense(self) -> tuple[Layer, ...]:
        """The dense layers, behind the convolutions in the vector."""
        height, width = (self._side(side, len(self.channels)) // 2 for side in self.image[:2])
        sizes = (height * width * self.channels[-1], *self.units)
        return _dense_layers(sizes, intercept=True, start=self.convolutions[-1].bias.stop)

    @property
    def layers(self) -> tuple[Convolution | Layer, ...]:
        """All layers in order."""
        return (*self.convolutions, *self.dense)

    @property
    def places(self) -> tuple[int, ...]:
        """Where each layer stands in the `torch.nn.Sequential` that computes the same."""
        behind = 2 * len(self.channels) + 2  # a ReLU for each convolution, the pool, a flattening
        dense = (behind + 2 * position for position in range(len(self.dense)))
        return (*(2 * position for position in range(len(self.channels))), *dense)

    @property
    def n(self) -> int:
        """The number of parameters."""
        return sum(layer.n for layer in self.layers)

    @property
    def linear(self) -> bool:
        """Never: there are hidden layers."""
        return False

    @property
    def activations(self) -> int:
        """Numbers that the layers give for one row."""
        return sum(self._maps) + self.dense[0].inputs + sum(self.units)

    @property
    def products(self) -> int:
        """Multiplications of a parameter that one row takes."""
        pairs = zip(self._maps, self.convolutions, strict=True)
        convolved = sum(numbers * layer.fan_in for numbers, layer in pairs)
        return convolved + sum(layer.inputs * layer.outputs for layer in self.dense)

    @property
    def _maps(self) -> list[int]:
        """Numbers that each convolution gives."""
        height, width = self.image[:2]
        return [
            self._side(height, depth) * self._side(width, depth) * channels
            for depth, channels in enumerate(self.channels, start=1)
        ]

    def _side(self, side: int, depth: int) -> int:
        """What is left of a side after so many convolutions."""
        return side - depth * (self.kernel - 1)


NetworkShape = DenseShape | ConvolutionalShape | LayeredShape


def network_shape(model: ModelSpec, *, features: int, classes: int) -> NetworkShape:
    """The shape of a model over `features` inputs; `classes` is 0 for regression.

    Two classes share one output, the logit of the second class; more have one output each.
    Raises ValueError where a convolutional network is asked for rows that are no such images.
    """
    outputs = classes if classes > 2 else 1
    match model:
        case CnnFemnist():
            height, width, channels = FEMNIST_IMAGE
            if features != height * width * channels:
                raise ValueError(f"`cnn-femnist` takes images of {height} by {width}")
            units = (_CNN_UNITS, outputs)
            return ConvolutionalShape(FEMNIST_IMAGE, channels=_CNN_CHANNELS, kernel=3, units=units)
        case Mlp():
            sizes = (features, *model.hidden, outputs)
            return DenseShape(sizes=sizes, intercept=model.intercept)
        case Linear() | Logistic():
            return DenseShape(sizes=(features, outputs), intercept=model.intercept)
        case Layers():
            return layered_shape(model.layers, model.given, features=features, outputs=outputs)
        case _:
            assert_never(model)


def layer_sizes(shape: NetworkShape) -> tuple[int, ...]:
    """Parameters of each layer, in order: end to end, the layers make up the vector."""
    return tuple(layer.n for layer in shape.layers)


def are_layers_of(model: ModelSpec, sizes: Sequence[int]) -> bool:
    """Whether a model has layers of these sizes over some number of features and of classes."""
    if not sizes or min(sizes) < 1:
        return False
    match model:
        case CnnFemnist():
            height, width, channels = FEMNIST_IMAGE
            features, outputs = height * width * channels, sizes[-1] // (_CNN_UNITS + 1)
        case Mlp():
            outputs = sizes[-1] // (model.hidden[-1] + model.intercept)
            features = sizes[0] // model.hidden[0] - model.intercept
        case Linear() | Logistic():
            # A single layer may be split into inputs and outputs in many ways; one output is one.
            outputs, features = 1, sizes[0] - model.intercept
        case Layers():
            features, outputs = _layered_ends(model, sizes)
        case _:
            assert_never(model)
    if min(features, outputs) < 1:
        return False
    classes = outputs if outputs > 1 else 0
    return layer_sizes(network_shape(model, features=features, classes=classes)) == tuple(sizes)


def _layered_ends(model: Layers, sizes: Sequence[int]) -> tuple[int, int]:
    """The features and outputs that layers of these sizes could have; 0 where they have none."""
    between = values_between(model.layers, model.given)
    features = between[0].numbers
    if not features:  # rows: the first layer with parameters is dense, and tells how long they are
        first = next(layer for layer in model.layers if isinstance(layer, Dense))
        features = sizes[0] // first.units - 1
    return features, sizes[-1] // (between[-1].numbers + 1)


def _dense_layers(sizes: tuple[int, ...], *, intercept: bool, start: int) -> tuple[Layer, ...]:
    """Dense layers of these sizes from `start` on."""
    layers = []
    for inputs, outputs in pairwise(sizes):
        end = start + inputs * outputs
        bias = slice(end, end + outputs) if intercept else None
        layers.append(Layer(inputs, outputs, slice(start, end), bias))
        start = end + (outputs if intercept else 0)
    return tuple(layers)
