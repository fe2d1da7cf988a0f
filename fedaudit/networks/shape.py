"""The size and layout of a network's flat parameter vector. No torch."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from fedaudit.spec.model import FEMNIST_IMAGE, CnnFemnist, Mlp, ModelSpec


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


@dataclass(frozen=True)
class Convolution:
    """A convolution with stride 1 and no padding; its weights are [outputs, inputs, size, size]."""

    inputs: int
    outputs: int
    size: int
    """Of the square kernel."""
    weights: slice
    bias: slice

    @property
    def fan_in(self) -> int:
        """Numbers that each output is a sum over."""
        return self.inputs * self.size**2


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
    def n(self) -> int:
        """The number of parameters."""
        return sum((layer.fan_in + 1) * layer.outputs for layer in self.layers)

    @property
    def linear(self) -> bool:
        """Never: there are hidden layers."""
        return False

    @property
    def activations(self) -> int:
        """Numbers that the layers give for one row."""
        height, width = self.image[:2]
        maps = [
            self._side(height, depth) * self._side(width, depth) * channels
            for depth, channels in enumerate(self.channels, start=1)
        ]
        return sum(maps) + self.dense[0].inputs + sum(self.units)

    def _side(self, side: int, depth: int) -> int:
        """What is left of a side after so many convolutions."""
        return side - depth * (self.kernel - 1)


NetworkShape = DenseShape | ConvolutionalShape


def network_shape(model: ModelSpec, *, features: int, classes: int) -> NetworkShape:
    """The shape of a model over `features` inputs; `classes` is 0 for regression.

    Two classes share one output, the logit of the second class; more have one output each.
    Raises ValueError where a convolutional network is asked for rows that are no such images.
    """
    outputs = classes if classes > 2 else 1
    if isinstance(model, CnnFemnist):
        height, width, channels = FEMNIST_IMAGE
        if features != height * width * channels:
            raise ValueError(f"`cnn-femnist` takes images of {height} by {width}")
        return ConvolutionalShape(FEMNIST_IMAGE, channels=(32, 64), kernel=3, units=(128, outputs))
    hidden = tuple(model.hidden) if isinstance(model, Mlp) else ()
    return DenseShape(sizes=(features, *hidden, outputs), intercept=model.intercept)


def parameter_count(model: ModelSpec, *, features: int, classes: int) -> int:
    """n, the number of parameters of a model over `features` inputs (0 classes: regression)."""
    return network_shape(model, features=features, classes=classes).n


def _dense_layers(sizes: tuple[int, ...], *, intercept: bool, start: int) -> tuple[Layer, ...]:
    """Dense layers of these sizes from `start` on."""
    layers = []
    for inputs, outputs in pairwise(sizes):
        end = start + inputs * outputs
        bias = slice(end, end + outputs) if intercept else None
        layers.append(Layer(inputs, outputs, slice(start, end), bias))
        start = end + (outputs if intercept else 0)
    return tuple(layers)
