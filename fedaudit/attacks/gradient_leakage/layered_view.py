"""Any network that can be attacked as one of named layers, with the same vector of parameters."""

from typing import assert_never

from fedaudit.networks.shape import ConvolutionalShape, DenseShape, LayeredShape, NetworkShape
from fedaudit.spec.models import (
    Activation,
    Convolution,
    Dense,
    Flatten,
    LayerSpec,
    Maps,
    Pooling,
    Rows,
)


def layered_view(shape: NetworkShape) -> LayeredShape:
    """The same network layer by layer. Raises ValueError for dense layers without intercept."""
    match shape:
        case LayeredShape():
            return shape
        case DenseShape():
            if not shape.intercept:
                raise ValueError("layers without a bias have no view as named layers")
            hidden: list[LayerSpec] = []
            for units in shape.sizes[1:-1]:
                hidden += [Dense(kind="dense", units=units), Activation(kind="relu")]
            return LayeredShape(Rows(shape.sizes[0]), tuple(hidden), shape.sizes[-1])
        case ConvolutionalShape():
            return _convolutional(shape)
        case _:
            assert_never(shape)


def _convolutional(shape: ConvolutionalShape) -> LayeredShape:
    relu = Activation(kind="relu")
    layers: list[LayerSpec] = []
    for filters in shape.channels:
        layers += [Convolution(kind="convolution", filters=filters, size=shape.kernel), relu]
    layers += [Pooling(kind="max-pooling", size=2), Flatten(kind="flatten")]
    for units in shape.units[:-1]:
        layers += [Dense(kind="dense", units=units), relu]
    return LayeredShape(Maps(*shape.image), tuple(layers), shape.units[-1])
