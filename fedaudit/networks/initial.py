"""The hypotheses that a run starts from."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.networks.shape import NetworkShape
from fedaudit.randomness import CounterSource, Purpose, normals, uniforms


def initial_hypotheses(shape: NetworkShape, *, hypotheses: int, seed: int) -> NDArray[np.float32]:
    """float32 [hypotheses, n].

    A linear map starts from a standard normal vector (Galli et al., section 5.1). A network with
    hidden layers starts uniformly within 1/sqrt(fan-in) of zero in each layer, the usual choice
    for ReLU units, which a standard normal start would saturate.
    """
    found = np.empty((hypotheses, shape.n), dtype=np.float32)
    # One at a time, so that a large network needs room for one in double precision.
    for position in range(hypotheses):
        found[position] = _initial(shape, position, seed)
    return found


def _initial(shape: NetworkShape, position: int, seed: int) -> NDArray[np.floating]:
    even = shape.n + shape.n % 2
    words = CounterSource(seed).words(
        purpose=Purpose.INITIAL, round_=0, counters=position, count=even
    )
    if shape.linear:
        return normals(words)[: shape.n]
    values = uniforms(words)[: shape.n]
    values *= 2
    values -= 1
    for layer in shape.layers:
        bound = 1 / np.sqrt(layer.fan_in)
        values[layer.weights] *= bound
        if layer.bias is not None:
            values[layer.bias] *= bound
    return values
