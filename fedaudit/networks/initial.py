"""The hypotheses that a run starts from."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.networks.shape import DenseShape
from fedaudit.randomness import CounterSource, Purpose, normals, uniforms


def initial_hypotheses(shape: DenseShape, *, hypotheses: int, seed: int) -> NDArray[np.float32]:
    """float32 [hypotheses, n].

    A linear map starts from a standard normal vector (Galli et al., section 5.1). A network with
    hidden layers starts uniformly within 1/sqrt(inputs) of zero in each layer, the usual choice
    for ReLU units, which a standard normal start would saturate.
    """
    even = shape.n + shape.n % 2
    words = CounterSource(seed).words(
        purpose=Purpose.INITIAL, round_=0, counters=np.arange(hypotheses), count=even
    )
    if len(shape.sizes) == 2:
        return normals(words)[:, : shape.n].astype(np.float32)
    values = 2 * uniforms(words)[:, : shape.n] - 1
    for layer in shape.layers:
        bound = 1 / np.sqrt(layer.inputs)
        values[:, layer.weights] *= bound
        if layer.bias is not None:
            values[:, layer.bias] *= bound
    return values.astype(np.float32)
