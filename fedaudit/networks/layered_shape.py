"""The size and layout of a network of named layers. No torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import assert_never

from fedaudit.networks.parameter_layers import Convolution, Layer
from fedaudit.spec.model import layers as named
from fedaudit.spec.model.layer_values import Maps, Rows, Values, values_between
from fedaudit.spec.model.layers import ActivationName, LayerSpec, PoolingName


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
