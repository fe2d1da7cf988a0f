"""Which implementation sums clipped per-record gradients."""

from typing import assert_never

from fedaudit.networks.layered_shape import LayeredShape
from fedaudit.networks.losses import Loss
from fedaudit.networks.record_gradients import ClippedGradients
from fedaudit.networks.record_gradients_any import AnyNetworkClippedGradients
from fedaudit.networks.record_gradients_dense import DenseClippedGradients
from fedaudit.networks.record_gradients_small_dense import SmallDenseClippedGradients
from fedaudit.networks.record_loss import RecordLoss
from fedaudit.networks.shape import ConvolutionalShape, DenseShape, NetworkShape

# Beyond this many weights of a layer the temporaries leave the cache and a matrix product wins.
_MAX_SMALL_WEIGHTS = 256


def clipped_gradients(shape: NetworkShape, loss: Loss) -> ClippedGradients:
    """The implementation for a network and a loss.

    The choice depends on the shape alone, so that a run's numbers do not. Raises ValueError for a
    loss that is not a mean over records: the root of a mean has no gradient of one record.
    """
    if loss.root_mean:
        raise ValueError(
            f"the loss {loss.kind} is no mean over records, so that no record's gradient can be "
            "clipped; use mse or cross-entropy"
        )
    match shape:
        case ConvolutionalShape() | LayeredShape():
            return AnyNetworkClippedGradients(RecordLoss(shape, loss), n=shape.n)
        case DenseShape():
            if max(layer.inputs * layer.outputs for layer in shape.layers) <= _MAX_SMALL_WEIGHTS:
                return SmallDenseClippedGradients(shape, loss)
            return DenseClippedGradients(shape, loss)
        case _:
            assert_never(shape)
