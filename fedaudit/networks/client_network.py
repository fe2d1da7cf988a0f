"""A network of any kind with one set of parameters, for clients taken one after the other.

For convolutions on a processor this is the fastest way: stacking clients needs grouped
convolutions, which are slower than one client's own.
"""

from typing import assert_never

import torch
from torch import Tensor
from torch.nn import functional

from fedaudit.networks.layered import layered_outputs
from fedaudit.networks.layered_shape import LayeredShape
from fedaudit.networks.losses import Loss
from fedaudit.networks.shape import ConvolutionalShape, DenseShape, NetworkShape

_MAX_ACTIVATIONS = 1 << 22  # of all rows that are computed at once: 16 MiB in single precision


class ClientNetwork:
    """Outputs and gradients at one vector of parameters.

    The vector is the network's own copy: libraries may round by where a vector lies in memory, and
    a hypothesis lies elsewhere after a run was resumed.
    """

    def __init__(self, shape: NetworkShape, device: torch.device) -> None:
        self.shape = shape
        self.rows_at_once = max(1, _MAX_ACTIVATIONS // shape.activations)
        """How many rows to compute at once, for temporaries to stay small."""
        self.theta = torch.zeros(shape.n, device=device)
        """float32 [n]: the present parameters."""
        # Leaves of their own, each on its part of the vector: slices that autograd had to undo
        # would cost a vector of zeros for each layer.
        self._weights = [self._leaf(layer.weights, layer.weight_sizes) for layer in shape.layers]
        self._biases = [
            None if layer.bias is None else self._leaf(layer.bias, (layer.outputs,))
            for layer in shape.layers
        ]

    def load(self, theta: Tensor) -> None:
        """Takes over parameters [n]."""
        with torch.no_grad():
            self.theta.copy_(theta)

    def outputs(self, features: Tensor) -> Tensor:
        """Outputs [out, rows] on features [rows, inputs]."""
        parameters = list(zip(self._weights, self._biases, strict=True))
        match self.shape:
            case LayeredShape():
                return layered_outputs(self.shape, parameters, features).t()
            case DenseShape():
                values = features
            case ConvolutionalShape():
                values = self._convolve(self.shape, features)
                parameters = parameters[len(self.shape.convolutions) :]
            case _:
                assert_never(self.shape)
        for position, (weights, bias) in enumerate(parameters):
            inputs = functional.relu(values) if position else values
            values = functional.linear(inputs, weights, bias)
        return values.t()

    def gradient(self, features: Tensor, target: Tensor, loss: Loss) -> tuple[Tensor, list[Tensor]]:
        """The sum of the rows' values, and its gradient layer by layer.

        `features` [rows, inputs]; `target` [rows].
        """
        leaves = [*self._weights, *(bias for bias in self._biases if bias is not None)]
        with torch.enable_grad():
            outputs = self.outputs(features)
        values, slopes = loss.values_and_slopes(outputs.detach(), target)
        return values.sum(), list(torch.autograd.grad(outputs, leaves, slopes))

    def descend(self, gradient: list[Tensor], step: float) -> None:
        """Moves the parameters by -step times the gradient."""
        leaves = [*self._weights, *(bias for bias in self._biases if bias is not None)]
        with torch.no_grad():
            for leaf, part in zip(leaves, gradient, strict=True):
                leaf.sub_(part, alpha=step)

    def _convolve(self, shape: ConvolutionalShape, features: Tensor) -> Tensor:
        """What the convolutions and the pool make of images [rows, pixels]: [rows, ...]."""
        # Rows hold channels innermost, which is the layout that convolutions are fastest with.
        maps = torch.unflatten(features, 1, shape.image).permute(0, 3, 1, 2)
        last = len(shape.convolutions) - 1
        for position in range(last + 1):
            maps = functional.conv2d(maps, self._weights[position], self._biases[position])
            if position == last:
                # The pool first: the maximum is the same, and leaves a quarter for ReLU.
                maps = functional.max_pool2d(maps, 2)
            maps = functional.relu_(maps)
        return maps.flatten(1)

    def _leaf(self, place: slice, sizes: tuple[int, ...]) -> Tensor:
        return self.theta[place].view(sizes).requires_grad_()
