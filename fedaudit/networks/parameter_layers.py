"""Layers with parameters: where these lie in a network's flat vector. No torch."""

from dataclasses import dataclass


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
