"""A network's outputs with what went into and came out of each layer on the way."""

from dataclasses import dataclass

from torch import Tensor

from fedaudit.networks.client_network import Parameters, first_values, operation_outputs
from fedaudit.networks.shape import Convolution, Layer, LayeredShape


@dataclass(frozen=True)
class TracedLayer:
    """A layer with parameters, and what passed through it."""

    layer: Layer | Convolution
    inputs: Tensor
    """[rows, inputs], or [rows, channels, height, width] of a convolution."""
    outputs: Tensor
    """[rows, outputs], or maps."""


def traced_outputs(
    shape: LayeredShape, parameters: Parameters, rows: Tensor
) -> tuple[Tensor, list[TracedLayer]]:
    """As `layered_outputs`, and every layer that has parameters, in order."""
    values, own, layers = first_values(shape, rows), iter(parameters), []
    for operation in shape.operations:
        if isinstance(operation, Layer | Convolution):
            inputs, values = values, operation_outputs(operation, values, next(own))
            layers.append(TracedLayer(operation, inputs, values))
        else:
            values = operation_outputs(operation, values, None)
    return values, layers
