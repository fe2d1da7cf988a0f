"""The layers that a network of the kind `layers` is put together from."""

from typing import Annotated, Literal

from pydantic import Field

from fedaudit.spec.base import SpecPart

ActivationName = Literal["relu", "tanh", "sigmoid", "gelu"]
PoolingName = Literal["max-pooling", "average-pooling"]


class Dense(SpecPart):
    """A fully connected layer with a bias."""

    kind: Literal["dense"]
    units: Annotated[int, Field(ge=1, le=4096)]


class Convolution(SpecPart):
    """A convolution with square kernels and a bias."""

    kind: Literal["convolution"]
    filters: Annotated[int, Field(ge=1, le=1024)]
    size: Annotated[int, Field(ge=1, le=31)]
    """Of the kernel."""
    stride: Annotated[int, Field(ge=1, le=16)] = 1
    padding: Annotated[int, Field(ge=0, le=15)] = 0
    """Zeros around the maps, on each side."""


class Pooling(SpecPart):
    """The largest value, or the mean, of each square of `size` by `size`; what is left over at the
    edges is dropped."""

    kind: PoolingName
    size: Annotated[int, Field(ge=2, le=64)]


class Flatten(SpecPart):
    """Maps as one row, channels outermost."""

    kind: Literal["flatten"]


class Activation(SpecPart):
    """A function of each number by itself."""

    kind: ActivationName


LayerSpec = Annotated[
    Dense | Convolution | Pooling | Flatten | Activation, Field(discriminator="kind")
]
