"""Images from what a network makes of them: the inputs of its first dense layer.

A dense layer's update gives its inputs away (`first_layer`), behind convolutions as well. They are
more numbers than an image has pixels, so that the image is then found by first derivatives alone.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedaudit.networks.client_network import first_values, operation_outputs, parameters_at
from fedaudit.networks.shape import Convolution, Layer, LayeredShape

_SMOOTHNESS_OF_NOISE, _LEAST_SMOOTHNESS = 1e-2, 1e-5
_ROUNDNESS = 1e-4
"""Below about its root, differences of pixels count by their squares: L-BFGS needs slopes that do
not jump."""


def first_dense(shape: LayeredShape) -> Layer:
    """The first dense layer; there is one behind the last operation at the latest."""
    return next(layer for layer in shape.layers if isinstance(layer, Layer))


def smoothness_under(noise: Tensor) -> Tensor:
    """How much an attacker who sees this much noise in the features [updates] has images be smooth.

    Found by trial on handwriting: in proportion to the noise, but never nothing.
    """
    return (_SMOOTHNESS_OF_NOISE * noise).clamp_min(_LEAST_SMOOTHNESS)


@dataclass(frozen=True)
class FeatureSearch:
    """The images whose features are nearest to those that updates gave away."""

    shape: LayeredShape
    theta: Tensor
    """[n]: the parameters that the features were computed with."""
    features: Tensor
    """[updates, inputs of the first dense layer]."""
    size: tuple[int, int, int]
    """Height, width, channels of an image."""
    smoothness: Tensor
    """[updates]: weight of the mean difference of neighbouring pixels."""

    def values_and_slopes(self, points: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        """Squared distances over squared lengths, and slopes, of images [some, pixels]."""
        points = points.detach().requires_grad_()
        with torch.enable_grad():
            wanted = self.features[which]
            apart = (self._features_of(points) - wanted).square().sum(-1)
            values = apart / wanted.square().sum(-1)
            values = values + self.smoothness[which] * self._variation(points)
            (slopes,) = torch.autograd.grad(values.sum(), points)
        return values.detach(), slopes

    def _features_of(self, images: Tensor) -> Tensor:
        parameters = iter(parameters_at(self.shape, self.theta))
        values = first_values(self.shape, images)
        for operation in self.shape.operations:
            if isinstance(operation, Layer):
                break
            own = next(parameters) if isinstance(operation, Convolution) else None
            values = operation_outputs(operation, values, own)
        return values

    def _variation(self, images: Tensor) -> Tensor:
        maps = torch.unflatten(images, 1, self.size)
        down, across = maps.diff(dim=1), maps.diff(dim=2)
        return sum(
            ((part.square() + _ROUNDNESS).sqrt().mean((1, 2, 3)) for part in (down, across)),
            start=torch.zeros_like(images[:, 0]),
        )
