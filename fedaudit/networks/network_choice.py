"""Which implementation computes a network."""

from fedaudit.networks.dense import GeneralNetwork
from fedaudit.networks.shape import DenseShape
from fedaudit.networks.small_dense import TinyNetwork

Network = TinyNetwork | GeneralNetwork

# Beyond these the lanes' temporaries leave the cache and a matrix product wins.
TINY_WIDTH = 16
TINY_ROWS = 64


def choose_network(shape: DenseShape, *, rows: int) -> Network:
    """The network for clients of at most `rows` rows.

    The choice depends on the shape alone, never on the stack, so that a run's numbers do not.
    """
    if max(shape.sizes) <= TINY_WIDTH and rows <= TINY_ROWS:
        return TinyNetwork(shape)
    return GeneralNetwork(shape)
