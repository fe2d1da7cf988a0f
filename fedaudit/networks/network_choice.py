"""Which implementation computes a network."""

from fedaudit.networks.dense import DenseNetwork
from fedaudit.networks.layered import LayeredNetwork
from fedaudit.networks.layered_shape import LayeredShape
from fedaudit.networks.shape import DenseShape
from fedaudit.networks.small_dense import SmallDenseNetwork

Network = SmallDenseNetwork | DenseNetwork | LayeredNetwork

# Beyond these the lanes' temporaries leave the cache and a matrix product wins.
MAX_SMALL_WIDTH = 16
MAX_SMALL_ROWS = 64


def choose_network(shape: DenseShape | LayeredShape, *, rows: int) -> Network:
    """The network for clients of at most `rows` rows.

    The choice depends on the shape alone, never on the stack, so that a run's numbers do not.
    """
    if isinstance(shape, LayeredShape):
        return LayeredNetwork(shape)
    if max(shape.sizes) <= MAX_SMALL_WIDTH and rows <= MAX_SMALL_ROWS:
        return SmallDenseNetwork(shape)
    return DenseNetwork(shape)
