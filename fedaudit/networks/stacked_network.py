"""Losses, networks of one set of parameters, and those of many clients and cells at once.

After the first local step weights differ from client to client, so a matrix library has only tiny
products to offer: small dense networks are written out by hand over [cells, clients] lanes, where
each term is one long elementwise operation. Larger ones are computed one cell at a time by matrix
products and autograd, so that a cell's numbers cannot depend on the stack. Nothing may make what a
client computes depend, to the last bit, on the rows of another: training would amplify it.

Losses are of one row, with derivatives with respect to the network's outputs. A client's loss is
the mean of its rows' values, or the root of that mean for `rmse`. Values are additive over rows, so
that a loss without one row is a subtraction.

Outputs lie on axis 0 and rows on the axis before the last two; everything else is elementwise, so
a client's figures do not depend on what it is stacked with. Only operations whose result is the
same in a vectorised body and in its tail are used (`exp`, `log`; not `sigmoid`, `softplus`).

For convolutions on a processor one client after the other is the fastest way: stacking clients
needs grouped convolutions, which are slower than one client's own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedaudit.networks.pooled_convolutions import PooledConvolution, pooled_together
from fedaudit.networks.shape import (
    Convolution,
    DenseShape,
    Flattening,
    Layer,
    NetworkShape,
    Operation,
    Pool,
)
from fedaudit.reproducible import fixed_order_sum, one_thread, square_root
from fedaudit.spec.models import ActivationName

LossKind = Literal["rmse", "mse", "cross-entropy"]


@dataclass(frozen=True)
class Loss:
    """`classes` is 0 for regression. Raises ValueError for a cross-entropy without classes."""

    kind: LossKind
    classes: int
    cutoff: float = 0.0
    """For two classes, the logit of the second above which it is predicted."""

    def __post_init__(self) -> None:
        if self.kind == "cross-entropy" and not self.classes:
            raise ValueError("cross-entropy needs classes")

    @property
    def root_mean(self) -> bool:
        """Whether a client's loss is the root of the mean of its rows' values."""
        match self.kind:
            case "rmse":
                return True
            case "mse" | "cross-entropy":
                return False
            case _:
                assert_never(self.kind)

    def values(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Each row's value: outputs [out, ...], target [...] (broadcast); result [...]."""
        if self.classes == 0:
            residual = outputs[0] - target
            return residual * residual
        return self._values(*self._shares(outputs, target))

    def slopes(self, outputs: Tensor, target: Tensor) -> Tensor:
        """The derivative of each row's value, shaped like the outputs."""
        if self.classes == 0:
            return (2 * (outputs[0] - target)).unsqueeze(0)
        return self._slopes(*self._shares(outputs, target)[1:])

    def values_and_slopes(self, outputs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return `values` and `slopes`."""
        if self.classes == 0:
            return self.values(outputs, target), self.slopes(outputs, target)
        log_share, share, hot = self._shares(outputs, target)
        return self._values(log_share, share, hot), self._slopes(share, hot)

    def _values(self, log_share: Tensor, share: Tensor, hot: Tensor) -> Tensor:
        match self.kind:
            case "cross-entropy":
                return -fixed_order_sum(log_share * hot, 0)
            case "rmse" | "mse":
                error = share - hot
                return fixed_order_sum(error * error, 0) / self.classes
            case _:
                assert_never(self.kind)

    def _slopes(self, share: Tensor, hot: Tensor) -> Tensor:
        slope = error = share - hot
        if self.kind != "cross-entropy":
            inner = fixed_order_sum(error * share, 0)
            slope = (error - inner) * share * (2 / self.classes)
        return slope[1:] if self.classes == 2 else slope

    def answers(self, outputs: Tensor) -> Tensor:
        """What is predicted follows from it: of outputs [out, ...] the number, the logit of the
        second of two classes, or the most likely of more (int64): [...]."""
        return outputs.argmax(0) if self.classes > 2 else outputs[0]

    def predictions(self, answers: Tensor) -> Tensor:
        """The predicted class, int64, or number, of `answers` [...]: [...]."""
        return (answers > self.cutoff).long() if self.classes == 2 else answers

    def client_loss(self, mean: Tensor) -> Tensor:
        """A client's loss from the mean of its rows' values."""
        return square_root(mean) if self.root_mean else mean

    def client_slope(self, mean: Tensor) -> Tensor:
        """Derivative of a client's loss by that mean; 0 at a loss of 0 (papers leave it open)."""
        if not self.root_mean:
            return torch.ones_like(mean)
        root = square_root(mean)
        return torch.where(root > 0, 0.5 / root, torch.zeros_like(root))

    def _shares(self, outputs: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logarithm of softmax, softmax, and the one-hot target, each [classes, ...]."""
        if self.classes == 2:  # one output: the logit of the second class against 0
            outputs = torch.cat((torch.zeros_like(outputs), outputs))
        shifted = outputs - outputs.amax(0)
        log_share = shifted - fixed_order_sum(shifted.exp(), 0).log()
        labels = torch.arange(self.classes, device=target.device, dtype=target.dtype)
        hot = (labels.view(-1, *[1] * (outputs.dim() - 1)) == target).to(outputs.dtype)
        return log_share, log_share.exp(), hot


Parameters = Sequence[tuple[Tensor, Tensor | None]]
"""Weights and bias of each layer that has them, in order."""


_ACTIVATIONS: Mapping[ActivationName, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu": functional.gelu,
}


@dataclass(frozen=True)
class TracedLayer:
    """A layer with parameters, and what passed through it."""

    layer: Layer | Convolution
    inputs: Tensor
    """[rows, inputs], or [rows, channels, height, width] of a convolution."""
    outputs: Tensor
    """[rows, outputs], or maps; of a convolution and what is computed together with it, that."""


def traced_outputs(
    shape: NetworkShape,
    parameters: Parameters,
    rows: Tensor,
    operations: Sequence[Operation | PooledConvolution] | None = None,
) -> tuple[Tensor, list[TracedLayer]]:
    """Return `layered_outputs`, and every layer that has parameters, in order.

    `operations`: what `pooled_together` makes of those of the shape; it has first derivatives only.
    """
    values, own, layers = first_values(shape, rows), iter(parameters), list[TracedLayer]()
    for operation in operations or shape.operations:
        if isinstance(operation, Layer | Convolution | PooledConvolution):
            inputs, values = values, operation_outputs(operation, values, next(own))
            layer = operation.convolution if isinstance(operation, PooledConvolution) else operation
            layers.append(TracedLayer(layer, inputs, values))
        else:
            values = operation_outputs(operation, values, None)
    return values, layers


def layered_outputs(shape: NetworkShape, parameters: Parameters, rows: Tensor) -> Tensor:
    """Outputs [rows, outputs] on rows [rows, inputs]."""
    return traced_outputs(shape, parameters, rows)[0]


def first_values(shape: NetworkShape, rows: Tensor) -> Tensor:
    """What the first operation takes of rows [rows, inputs], which hold channels innermost."""
    if shape.image is None:
        return rows
    # A view: the layout that convolutions are fastest with.
    return torch.unflatten(rows, 1, shape.image).permute(0, 3, 1, 2)


def operation_outputs(
    operation: Operation | PooledConvolution,
    values: Tensor,
    own: tuple[Tensor, Tensor | None] | None,
) -> Tensor:
    """What one operation makes of values [rows, ...]; `own`: its weights and bias, if it has any.

    Raises ValueError for a layer without its parameters.
    """
    match operation:
        case Layer() | Convolution() | PooledConvolution():
            if own is None:
                raise ValueError("a layer needs its parameters")
            weights, bias = own
            if isinstance(operation, PooledConvolution):
                return operation(values, weights, bias)
            if isinstance(operation, Layer):
                return functional.linear(values, weights, bias)
            return functional.conv2d(
                values, weights, bias, stride=operation.stride, padding=operation.padding
            )
        case Pool():
            return _pooled(operation, values)
        case Flattening():
            return values.flatten(1)
        case "relu" | "tanh" | "sigmoid" | "gelu":
            return _ACTIVATIONS[operation](values)
        case _:
            assert_never(operation)


def parameters_at(shape: NetworkShape, theta: Tensor) -> Parameters:
    """Views of the parameters in vectors [..., n]."""
    return [
        (
            torch.unflatten(theta[..., layer.weights], -1, layer.weight_sizes),
            None if layer.bias is None else theta[..., layer.bias],
        )
        for layer in shape.layers
    ]


def _pooled(pool: Pool, maps: Tensor) -> Tensor:
    match pool.kind:
        case "max-pooling":
            return functional.max_pool2d(maps, pool.size)
        case "average-pooling":
            return functional.avg_pool2d(maps, pool.size)
        case _:
            assert_never(pool.kind)


def _where_positive(values: Tensor, by: Tensor) -> Tensor:
    """Values where others are above 0, and 0 elsewhere, also in place of what is not finite: times
    0 it would be no number."""
    found: Tensor = torch.ops.aten.threshold_backward(values, by, 0)
    return found


_TABLE_ROWS, _IMAGES = 256, 16
"""Rows whose outputs are computed at once, neither more nor fewer."""


def outputs_by_row(
    shape: NetworkShape,
    parameters: Parameters,
    rows: Tensor,
    operations: Sequence[Operation | PooledConvolution] | None = None,
) -> Tensor:
    """Outputs [..., outputs, rows] on rows [rows, inputs], of parameters [...]; `operations` as of
    `traced_outputs`. None of a row depends on the other rows, nor on its place among them.

    Rows lie along the axis that a library computes side by side, as many as ever at a time. Across
    it, or with another number of them, it adds up in another order.
    """
    count, size = len(rows), _IMAGES if shape.image else _TABLE_ROWS
    found = []
    for block in torch.split(functional.pad(rows, (0, 0, 0, -count % size)), size):
        values = first_values(shape, block) if shape.image else block.t().contiguous()
        found.append(_of_columns(operations or shape.operations, parameters, values))
    return torch.cat(found, dim=-1)[..., :count]


def _of_columns(
    operations: Sequence[Operation | PooledConvolution],
    parameters: Parameters,
    values: Tensor,
    weight: Tensor | None = None,
) -> Tensor:
    """What operations make of values [..., inputs, rows], or of maps [rows, ...]. Layers make 0 of
    rows whose weight [..., 1, rows] is 0."""
    own = iter(parameters)
    for operation in operations:
        match operation:
            case Layer():
                weights, bias = next(own)
                values = weights @ values
                values = values if bias is None else values + bias[..., None]
                values = values if weight is None else _where_positive(values, weight)
            case Convolution() | PooledConvolution():
                values = operation_outputs(operation, values, next(own))
            case Flattening():
                values = values.flatten(1).t().contiguous()
            case _:
                values = operation_outputs(operation, values, None)
    return values


_MAX_ACTIVATIONS = 1 << 22  # of all rows that are computed at once: 16 MiB in single precision


class ClientNetwork:
    """Outputs and gradients at one vector of parameters.

    The vector is the network's own copy: libraries may round by its place in memory, and that is
    another after a run was resumed.
    """

    def __init__(self, shape: NetworkShape, device: torch.device) -> None:
        self.shape = shape
        self.rows_at_once = max(1, _MAX_ACTIVATIONS // shape.activations)
        """How many rows to compute at once, for temporaries to stay small."""
        self.theta = torch.zeros(shape.n, device=device)
        """float32 [n]: the present parameters."""
        self._operations = list(pooled_together(shape.operations))
        self._parameters = parameters_at(shape, self.theta)
        for layer, (weights, bias) in zip(shape.layers, self._parameters, strict=True):
            if isinstance(layer, Convolution) and bias is not None:
                weights.requires_grad_(), bias.requires_grad_()

    def load(self, theta: Tensor) -> None:
        """Takes over parameters [n]."""
        with torch.no_grad():
            self.theta.copy_(theta)

    def outputs(self, features: Tensor) -> Tensor:
        """Outputs [out, rows] on features [rows, inputs]."""
        return outputs_by_row(self.shape, self._parameters, features, self._operations)

    def add_gradient(
        self, features: Tensor, target: Tensor, loss: Loss, onto: Tensor, *, scale: float = 1.0
    ) -> Tensor:
        """Adds `scale` times the gradient of the sum of the rows' values to a vector [n], which may
        be `theta`, and returns the sum.

        `features` [rows, inputs]; `target` [rows].
        """
        # That of a dense layer, the product of the slopes at its outputs and its inputs, is added
        # where it belongs: written out first it takes twice as long.
        with torch.enable_grad():
            # Of features, so that the first layer's outputs have a gradient.
            rows = features.detach().requires_grad_()
            outputs, layers = traced_outputs(self.shape, self._parameters, rows, self._operations)
        values, slopes = loss.values_and_slopes(outputs.detach().t(), target)
        asked = [
            one
            for traced, leaves in zip(layers, self._parameters, strict=True)
            for one in ([traced.outputs] if isinstance(traced.layer, Layer) else leaves)
            if one is not None
        ]
        left = iter(torch.autograd.grad(outputs, asked, slopes.t()))
        for one, (weights, bias) in zip(layers, parameters_at(self.shape, onto), strict=True):
            slope = next(left)
            if isinstance(one.layer, Layer):
                weights.addmm_(slope.t(), one.inputs.detach(), alpha=scale)
            else:
                weights.add_(slope, alpha=scale)
            if bias is not None:
                moved = slope.sum(0) if isinstance(one.layer, Layer) else next(left)
                bias.add_(moved, alpha=scale)
        return values.sum()


def record_loss(
    shape: NetworkShape, loss: Loss, theta: Tensor, features: Tensor, target: Tensor
) -> Tensor:
    """The loss of one record at parameters [n], of features [inputs] and target []: a scalar.

    In plain torch operations, so that `torch.func` can take its gradient record by record.
    """
    return loss.values(
        layered_outputs(shape, parameters_at(shape, theta), features[None])[0], target
    )


class SmallDenseNetwork:
    """Forward and gradient of a dense network by hand; see `choose_network` for its limits."""

    def __init__(self, shape: DenseShape) -> None:
        self.shape = shape
        self.n = shape.n

    def forward(self, theta: Tensor, features: Tensor) -> Tensor:
        """Outputs [out, k, rows, cells, clients] of hypotheses theta [cells, k, n].

        `features`: [inputs, rows, cells, clients].
        """
        # Contiguous, so that the lanes stay the innermost axis of every product.
        parameters = theta.permute(2, 1, 0).contiguous()[:, :, None, :, None]
        return self._activations(parameters, features[:, None])[-1]

    def gradient(
        self, theta: Tensor, features: Tensor, target: Tensor, weight: Tensor, loss: Loss
    ) -> Tensor:
        """Gradient [n, cells, clients] of each client's loss at its own theta [n, cells, clients].

        `features` [inputs, rows, cells, clients]; `target` and `weight` [rows, cells, clients]; the
        weights of a client sum to 1, or to 0 where it has no rows in the batch.
        """
        _, *behind = self._activations(theta[:, None], features)
        activations = [features, *(_where_positive(one, weight) for one in behind)]
        values, slopes = loss.values_and_slopes(activations[-1], target)
        factor = loss.client_slope(fixed_order_sum(values * weight, 0))
        slope = slopes * (weight * factor)
        parts: list[Tensor] = []
        for layer, inputs in reversed(list(zip(self.shape.layers, activations[:-1], strict=True))):
            products = slope[:, None] * inputs[None]
            gradient = [fixed_order_sum(products, 2).flatten(0, 1)]
            if layer.bias is not None:
                gradient.append(fixed_order_sum(slope, 1))
            parts = gradient + parts
            if layer.weights.start > 0:
                weights = torch.unflatten(theta[layer.weights], 0, (layer.outputs, layer.inputs))
                back = fixed_order_sum(weights[:, :, None] * slope[:, None], 0)
                slope = _where_positive(back, inputs)
        return torch.cat(parts)

    def _activations(self, parameters: Tensor, features: Tensor) -> list[Tensor]:
        """The inputs of every layer, then the outputs; parameters [n, ...] broadcast to them."""
        activations = [features]
        for layer in self.shape.layers:
            inputs = activations[-1]
            if layer.weights.start > 0:
                inputs = inputs.clamp_min(0)
                activations[-1] = inputs
            weights = torch.unflatten(parameters[layer.weights], 0, (layer.outputs, layer.inputs))
            outputs = weights[:, 0] * inputs[0]
            if layer.bias is not None:
                outputs += parameters[layer.bias]
            for position in range(1, layer.inputs):
                # Not `addcmul`, which may round product and sum once, as a processor likes.
                outputs += weights[:, position] * inputs[position]
            activations.append(outputs)
        return activations


_LANES, _LANES_OF_DEVICE = 8, 32
"""Clients that a batched network computes at once on the host and elsewhere, neither more nor
fewer: a library adds up in an order that depends on how many products there are, and a client's
numbers may not depend on who is computed beside it."""


def _lane_blocks(values: Tensor, *, lanes: int) -> list[Tensor]:
    """Blocks of as many clients along the axis `lanes`, the last one filled up with zeros."""
    size = _LANES if values.device.type == "cpu" else _LANES_OF_DEVICE
    missing = -values.shape[lanes] % size
    if missing:
        shape = list(values.shape)
        shape[lanes] = missing
        values = torch.cat((values, values.new_zeros(shape)), dim=lanes)
    return list(torch.split(values, size, dim=lanes))


class BatchedNetwork:
    """A network of any size by matrix products and autograd, one cell at a time."""

    def __init__(self, shape: NetworkShape) -> None:
        self.shape = shape
        self.n = shape.n
        self._outputs = shape.layers[-1].weight_sizes[0]
        self._first_rows = 64 if shape.n < _MANY_PARAMETERS else 16
        self._rows_at_once = min(_TABLE_ROWS, max(1, _MAX_NUMBERS // shape.activations))

    @one_thread()
    def forward(self, theta: Tensor, features: Tensor) -> Tensor:
        """Compute `SmallDenseNetwork.forward`."""
        _, rows, _, clients = features.shape
        cells = zip(theta, _aligned(features, 0).unbind(2), strict=True)
        outputs = [
            outputs_by_row(self.shape, self._parameters(own), inputs.flatten(1).t())
            for own, inputs in cells
        ]
        found = torch.stack(outputs).transpose(1, 2)  # [cells, out, k, rows and clients]
        found = torch.unflatten(found[:, : self._outputs], 3, (rows, clients))
        return found.permute(1, 2, 3, 0, 4)

    @one_thread()
    def gradient(
        self, theta: Tensor, features: Tensor, target: Tensor, weight: Tensor, loss: Loss
    ) -> Tensor:
        """Compute `SmallDenseNetwork.gradient`.

        Clients with about as many rows are computed together. Which they are changes no bit.
        """
        places = torch.arange(1, len(weight) + 1, device=weight.device)[:, None, None]
        last = torch.where(weight > 0, places, 0).amax(0).cpu().numpy()
        gradient = torch.empty_like(theta)
        for cell, needed in enumerate(last):
            order = torch.from_numpy(np.argsort(-needed, kind="stable")).to(theta.device)
            blocks = zip(
                _lane_blocks(theta[:, cell, order].t(), lanes=0),
                _lane_blocks(features[:, :, cell, order], lanes=2),
                _lane_blocks(target[:, cell, order], lanes=1),
                _lane_blocks(weight[:, cell, order], lanes=1),
                strict=True,
            )
            slopes = [self._gradient(*block, loss=loss) for block in blocks]
            gradient[:, cell, order] = torch.cat(slopes)[: len(order)].t()
        return gradient

    def _gradient(
        self, theta: Tensor, features: Tensor, target: Tensor, weight: Tensor, *, loss: Loss
    ) -> Tensor:
        """Gradients [lanes, n] at theta [lanes, n]; features [inputs, rows, lanes], target and
        weight [rows, lanes].

        Pieces are of the same rows for all clients, and one beyond a client's rows adds 0 to what
        it has: so the longest of the lanes has no say in the figures of the others.
        """
        own = theta.contiguous().requires_grad_()
        needed = torch.nonzero((weight > 0).any(1)).flatten().tolist()
        found, start, end = [], 0, self._first_rows
        while start <= max(needed, default=0):
            piece, missing = slice(start, end), max(0, end - len(weight))
            inputs = functional.pad(features[:, piece], (0, 0, 0, missing)).permute(2, 0, 1)
            given = (functional.pad(one[piece], (0, 0, 0, missing)) for one in (target, weight))
            own_target, share = given
            columns, rows = _aligned(inputs.contiguous(), 1), share.t()[:, None].contiguous()
            with torch.enable_grad():
                outputs = _of_columns(self.shape.operations, self._parameters(own), columns, rows)
                outputs = outputs[:, : self._outputs].permute(1, 2, 0).contiguous()
            values, slopes = loss.values_and_slopes(outputs.detach(), own_target)
            values, slopes = values * share, slopes * share
            # Clients share no parameter: one pass gives every client its own gradient.
            (slope,) = torch.autograd.grad(outputs, own, slopes)
            found.append((fixed_order_sum(values, 0), slope))
            start, end = end, end + min(3 * end, self._rows_at_once)
        means, slope = (sum(parts[1:], parts[0]) for parts in zip(*found, strict=True))
        gradient: Tensor = slope * loss.client_slope(means)[:, None]
        return gradient

    def _parameters(self, theta: Tensor) -> Parameters:
        """Those in vectors [..., n], of each with zeros behind it, so that all are as aligned."""
        return [
            (_aligned(_aligned(weights, -1), -2), None if bias is None else _aligned(bias, -1))
            for weights, bias in parameters_at(self.shape, theta)
        ]


_NUMBERS_OF_LINE = 16


def _aligned(values: Tensor, axis: int) -> Tensor:
    """Values with zeros behind them along an axis, to a number that fills lines of the cache. A
    matrix product rounds by where in a line an operand begins: a client's by its place."""
    behind = (values.dim() - 1 - axis) % values.dim()
    return functional.pad(values, (0, 0) * behind + (0, -values.shape[axis] % _NUMBERS_OF_LINE))


Network = SmallDenseNetwork | BatchedNetwork

_MAX_NUMBERS = 1 << 19
"""Activations of one client that are computed at once: beyond, temporaries leave the cache."""
_MANY_PARAMETERS = 1 << 14
"""From so many on a row takes longer than a call."""

MAX_SMALL_PARAMETERS = 512
"""Beyond, the lanes' temporaries leave the cache and a matrix product wins, but for few rows."""


def choose_network(shape: NetworkShape) -> Network:
    """The network for a shape.

    The choice depends on the shape alone, neither on the stack nor on how many rows any client has:
    one row of one client would change how the numbers of all others are rounded.
    """
    if isinstance(shape, DenseShape) and shape.n <= MAX_SMALL_PARAMETERS:
        return SmallDenseNetwork(shape)
    return BatchedNetwork(shape)
