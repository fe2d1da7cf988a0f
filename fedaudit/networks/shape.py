"""The size and layout of a network's flat parameter vector. No torch."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import assert_never

from fedaudit.spec import models as named
from fedaudit.spec.models import (
    ActivationName,
    CnnFemnist,
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

# -- operations -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _LinearMap(ABC):
    """An operation with weights [outputs, inputs, ...], and behind them in the vector its bias."""

    inputs: int
    outputs: int
    start: int
    """Where its weights begin in the vector."""
    intercept: bool

    @cached_property
    def weights(self) -> slice:
        """Where the weights are in the vector."""
        return slice(self.start, self.start + self.fan_in * self.outputs)

    @cached_property
    def bias(self) -> slice | None:
        """Where the bias is; None without one."""
        end = self.weights.stop
        return slice(end, end + self.outputs) if self.intercept else None

    @property
    @abstractmethod
    def weight_sizes(self) -> tuple[int, ...]:
        """The sizes of the weights as a tensor."""

    @property
    def fan_in(self) -> int:
        """Numbers that each output is a sum over."""
        return math.prod(self.weight_sizes[1:])

    @property
    def n(self) -> int:
        """The number of parameters, the bias included."""
        return (self.fan_in + self.intercept) * self.outputs


@dataclass(frozen=True)
class Layer(_LinearMap):
    """One dense layer."""

    @property
    def weight_sizes(self) -> tuple[int, ...]:
        return self.outputs, self.inputs


@dataclass(frozen=True)
class Convolution(_LinearMap):
    """A convolution."""

    size: int
    """Size of the square kernel."""
    stride: int = 1
    padding: int = 0

    @property
    def weight_sizes(self) -> tuple[int, ...]:
        return self.outputs, self.inputs, self.size, self.size


@dataclass(frozen=True)
class Pool:
    """Squares of `size` by `size`, side by side."""

    kind: PoolingName
    size: int


@dataclass(frozen=True)
class Flattening:
    """Maps to a row, channels outermost."""


Operation = Layer | Convolution | Pool | Flattening | ActivationName


def _parameters(operations: Sequence[Operation]) -> int:
    return sum(one.n for one in operations if isinstance(one, Layer | Convolution))


# -- shapes ---------------------------------------------------------------------------------------


class _Shape(ABC):
    """A network as operations, one after the other."""

    @property
    @abstractmethod
    def operations(self) -> tuple[Operation, ...]:
        """The operations in the order of the `torch.nn.Sequential` that computes the same."""

    @property
    @abstractmethod
    def activations(self) -> int:
        """About how many numbers are kept of one row. How many rows are computed at once follows
        from it, and so do the last bits of what is trained."""

    @cached_property
    def layers(self) -> tuple[Layer | Convolution, ...]:
        """The operations with parameters, in order."""
        return tuple(one for one in self.operations if isinstance(one, Layer | Convolution))

    @property
    def places(self) -> tuple[int, ...]:
        """The place of each layer among the operations."""
        pairs = enumerate(self.operations)
        return tuple(place for place, one in pairs if isinstance(one, Layer | Convolution))

    @cached_property
    def n(self) -> int:
        """The number of parameters."""
        return _parameters(self.layers)


@dataclass(frozen=True)
class DenseShape(_Shape):
    """A stack of dense layers with ReLU between them; without hidden layers, a linear map."""

    sizes: tuple[int, ...]
    """Inputs, hidden units, outputs."""
    intercept: bool

    @property
    def image(self) -> None:
        """None: it takes rows."""

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The layers in order."""
        found = list[Layer]()
        for pair in pairwise(self.sizes):
            found.append(Layer(*pair, start=_parameters(found), intercept=self.intercept))
        return tuple(found)

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        found = [one for layer in self.layers for one in (layer, "relu")]
        return tuple(found[:-1])  # type: ignore[arg-type]

    @property
    def activations(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True)
class LayeredShape(_Shape):
    """A network of named layers, and behind them a dense layer with the outputs."""

    given: Values
    """What the first operation takes; of rows, how many numbers."""
    named: tuple[LayerSpec, ...]
    outputs: int
    counts_every_value: bool = True
    """Whether `activations` has what the network takes, and what every layer gives; else what those
    give that are computed apart."""

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        found, values = list[Operation](), self._values
        for layer, given in zip(self.named, values, strict=False):
            found.append(_operation(layer, given, _parameters(found)))
        start = _parameters(found)
        return (*found, Layer(values[-1].numbers, self.outputs, start=start, intercept=True))

    @property
    def image(self) -> tuple[int, int, int] | None:
        """Height, width and channels of the images that it takes; None where it takes rows."""
        match self.given:
            case Maps() as maps:
                return maps.height, maps.width, maps.channels
            case Rows():
                return None
            case _:
                assert_never(self.given)

    @property
    def activations(self) -> int:
        counted = (named.Dense, named.Convolution, named.Pooling)
        pairs = zip((None, *self.named), self._values, strict=True)
        every = self.counts_every_value
        numbers = (one.numbers for layer, one in pairs if every or isinstance(layer, counted))
        return sum(numbers) + self.outputs

    @property
    def _values(self) -> list[Values]:
        return values_between(self.named, self.given)


def _operation(layer: LayerSpec, given: Values, start: int) -> Operation:
    match layer:
        case named.Dense():
            return Layer(given.numbers, layer.units, start=start, intercept=True)
        case named.Convolution():
            if not isinstance(given, Maps):
                raise ValueError("a convolution takes maps")
            sizes = layer.size, layer.stride, layer.padding
            return Convolution(given.channels, layer.filters, start, True, *sizes)
        case named.Pooling():
            return Pool(layer.kind, layer.size)
        case named.Flatten():
            return Flattening()
        case named.Activation():
            return layer.kind
        case _:
            assert_never(layer)


NetworkShape = DenseShape | LayeredShape


# -- shapes of models -----------------------------------------------------------------------------


def network_shape(model: ModelSpec, *, features: int, classes: int) -> NetworkShape:
    """The shape of a model over `features` inputs; `classes` is 0 for regression.

    Two classes share one output, the logit of the second class; more have one output each.
    Raises ValueError where the model takes images of another size.
    """
    outputs = classes if classes > 2 else 1
    if model.image is not None:
        height, width, channels = model.image
        if features != height * width * channels:
            raise ValueError(
                f"`{model.kind}` takes {Maps(*model.image).words}, and rows have {features} numbers"
            )
    match model:
        case Mlp():
            return DenseShape((features, *model.hidden, outputs), intercept=model.intercept)
        case Linear() | Logistic():
            return DenseShape((features, outputs), intercept=model.intercept)
        case CnnFemnist() | Layers():
            given = Rows(features) if isinstance(model.given, Rows) else model.given
            every = isinstance(model, Layers)  # as ever: another count gives another ledger
            return LayeredShape(given, tuple(model.layers), outputs, counts_every_value=every)
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
        case Mlp():
            outputs = sizes[-1] // (model.hidden[-1] + model.intercept)
            features = sizes[0] // model.hidden[0] - model.intercept
        case Linear() | Logistic():
            # A single layer may be split into inputs and outputs in many ways; one output is one.
            outputs, features = 1, sizes[0] - model.intercept
        case CnnFemnist() | Layers():
            between = values_between(model.layers, model.given)
            features, outputs = between[0].numbers, sizes[-1] // (between[-1].numbers + 1)
            if not features:  # rows: the length follows from the first dense layer
                first = next(layer for layer in model.layers if isinstance(layer, named.Dense))
                features = sizes[0] // first.units - 1
        case _:
            assert_never(model)
    if min(features, outputs) < 1:
        return False
    classes = outputs if outputs > 1 else 0
    return layer_sizes(network_shape(model, features=features, classes=classes)) == tuple(sizes)
