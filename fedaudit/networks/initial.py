"""The hypotheses that a run starts from."""

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Floats, Floats32
from fedaudit.networks.shape import NetworkShape
from fedaudit.randomness import CounterSource, Purpose, normals, uniforms
from fedaudit.spec.models import DrawnStart


def initial_hypotheses(
    shape: NetworkShape, *, start: DrawnStart, hypotheses: int, seed: int
) -> Floats32:
    """float32 [hypotheses, n], drawn as `start` says.

    Galli et al. start linear maps from a standard normal vector (section 5.1). `uniform`, within
    1/sqrt(fan_in) of zero in each layer, is the usual choice for ReLU units, which a standard
    normal start would saturate.
    """
    found = np.zeros((hypotheses, shape.n), dtype=np.float32)
    # One at a time, so that a large network needs room for one in double precision.
    for position in range(hypotheses):
        match start:
            case "zeros":
                pass
            case "normal":
                found[position] = normals(_words(shape, position, seed))[: shape.n]
            case "uniform":
                found[position] = _uniform(shape, _words(shape, position, seed))
            case _:
                assert_never(start)
    return found


def _words(shape: NetworkShape, position: int, seed: int) -> NDArray[np.uint32]:
    even = shape.n + shape.n % 2
    return CounterSource(seed).words(
        purpose=Purpose.INITIAL, round_=0, counters=position, count=even
    )


def _uniform(shape: NetworkShape, words: NDArray[np.uint32]) -> Floats:
    values = uniforms(words)[: shape.n]
    values *= 2
    values -= 1
    for layer in shape.layers:
        bound = 1 / np.sqrt(layer.fan_in)
        values[layer.weights] *= bound
        if layer.bias is not None:
            values[layer.bias] *= bound
    return values
