"""How near a reconstruction comes to its original, pixels being numbers from 0 to 1."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import correlate1d

Image = NDArray[np.float64]
"""[height, width, channels], or a flat row of as many numbers where only errors are asked for."""

_WINDOW, _SPREAD = 11, 1.5
_STABILISERS = 0.01**2, 0.03**2


def mean_squared_error(image: Image, original: Image) -> float:
    """The mean of the squared differences."""
    return float(np.square(image - original).mean())


def peak_signal_to_noise(error: float) -> float | None:
    """The ratio of the largest possible signal, 1, to a mean squared error, in decibels.

    None for an error of 0, where it is infinite.
    """
    return None if error == 0 else -10 * math.log10(error)


def structural_similarity(image: Image, original: Image) -> float:
    """The mean structural similarity, from -1 to 1, of images of the same size (Wang et al. 2004).

    As in the paper: Gaussian windows of 11 by 11 with a spread of 1.5, or of the largest odd side
    that fits, K1 = 0.01 and K2 = 0.03, over the places where a window fits whole. Channels are
    compared by themselves.
    """
    side = min(_WINDOW, *image.shape[:2])
    side -= 1 - side % 2
    mean, other = _windowed(image, side), _windowed(original, side)
    variance = _windowed(image * image, side) - mean * mean
    other_variance = _windowed(original * original, side) - other * other
    covariance = _windowed(image * original, side) - mean * other
    first, second = _STABILISERS
    likeness = (2 * mean * other + first) * (2 * covariance + second)
    scale = (mean**2 + other**2 + first) * (variance + other_variance + second)
    return float((likeness / scale).mean())


def _windowed(values: Image, side: int) -> Image:
    """The weighted mean of each window that fits whole."""
    reach = side // 2
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / _SPREAD) ** 2)
    weights /= weights.sum()
    for axis in (0, 1):
        values = correlate1d(values, weights, axis=axis)
    height, width = values.shape[:2]
    return values[reach : height - reach, reach : width - reach]
