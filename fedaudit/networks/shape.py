"""The size and layout of a network's flat parameter vector. No torch."""

from dataclasses import dataclass
from functools import cached_property

from fedaudit.spec.model import Mlp, ModelSpec


@dataclass(frozen=True)
class Layer:
    """One dense layer: where its weights [outputs, inputs] and its bias lie in the vector."""

    inputs: int
    outputs: int
    weights: slice
    bias: slice | None


@dataclass(frozen=True)
class DenseShape:
    """A stack of dense layers with ReLU between them; without hidden layers, a linear map."""

    sizes: tuple[int, ...]
    """Inputs, hidden units, outputs."""
    intercept: bool

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The layers in order; each holds its weights row by row, then its bias."""
        layers = []
        start = 0
        for inputs, outputs in zip(self.sizes, self.sizes[1:], strict=False):
            end = start + inputs * outputs
            bias = slice(end, end + outputs) if self.intercept else None
            layers.append(Layer(inputs, outputs, slice(start, end), bias))
            start = end + (outputs if self.intercept else 0)
        return tuple(layers)

    @property
    def n(self) -> int:
        """The number of parameters."""
        pairs = zip(self.sizes, self.sizes[1:], strict=False)
        return sum((inputs + self.intercept) * outputs for inputs, outputs in pairs)


def dense_shape(model: ModelSpec, *, features: int, classes: int) -> DenseShape:
    """The shape of a model over `features` inputs; `classes` is 0 for regression.

    Two classes share one output, the logit of the second class; more have one output each.
    """
    outputs = classes if classes > 2 else 1
    hidden = tuple(model.hidden) if isinstance(model, Mlp) else ()
    return DenseShape(sizes=(features, *hidden, outputs), intercept=model.intercept)


def parameter_count(model: ModelSpec, *, features: int, classes: int) -> int:
    """n, the number of parameters of a model over `features` inputs (0 classes: regression)."""
    return dense_shape(model, features=features, classes=classes).n
