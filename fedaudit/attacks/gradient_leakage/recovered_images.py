"""How near reconstructions come to their originals, as figures and as a picture.

Pixels are numbers from 0 to 1. A picture is a PNG file (ISO/IEC 15948).
"""

import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import correlate1d
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import binomtest

from fedaudit.reports.sections.attacks import ShareInterval

RECOVERED_BELOW = 0.5
"""An image counts as recovered at this share of the smaller baseline's error."""
LEVEL = 0.95

Image = NDArray[np.float64]
"""[height, width, channels], or a flat row of as many numbers where only errors are asked for."""
Images = NDArray[np.float64]
"""[images, height, width, channels]."""

_WINDOW, _DEVIATION = 11, 1.5
_STABILISERS = 0.01**2, 0.03**2
_GAP, _PAPER, _SCALE = 2, 255, 3


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

    As in the paper: Gaussian windows of 11 by 11 with a deviation of 1.5, or of the largest odd
    side that fits, K1 = 0.01 and K2 = 0.03, over the places where a window fits whole. Channels are
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
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / _DEVIATION) ** 2)
    weights /= weights.sum()
    for axis in (0, 1):
        values = correlate1d(values, weights, axis=axis)
    height, width = values.shape[:2]
    return values[reach : height - reach, reach : width - reach]


@dataclass(frozen=True)
class Quality:
    """Of each image; arrays are [images]."""

    mse: NDArray[np.float64]
    ssim: NDArray[np.float64]


def quality(images: Images, originals: Images) -> Quality:
    """Of each image beside its original."""
    pairs = list(zip(images, originals, strict=True))
    return Quality(
        np.array([mean_squared_error(*pair) for pair in pairs]),
        np.array([structural_similarity(*pair) for pair in pairs]),
    )


@dataclass(frozen=True)
class Baselines:
    """What the attacked images show of each other: each one beside the others, of which there must
    be some.

    Without any update, "the mean of such images" or "an image like this one" is no nearer, on
    average; the nearest of the others is chosen by comparing it with the original.
    """

    originals: Images

    @cached_property
    def mean_image(self) -> Quality:
        """Of the mean of the other images."""
        others = len(self.originals) - 1
        return quality((self.originals.sum(0) - self.originals) / others, self.originals)

    @cached_property
    def nearest_other(self) -> Quality:
        """Of the other image with the smallest error."""
        flat = self.originals.reshape(len(self.originals), -1)
        errors = cdist(flat, flat, "sqeuclidean")
        np.fill_diagonal(errors, np.inf)
        return quality(self.originals[errors.argmin(1)], self.originals)

    @property
    def errors(self) -> NDArray[np.float64]:
        """The smaller mean squared error of the two: [images]."""
        return np.minimum(self.mean_image.mse, self.nearest_other.mse)


def in_order(images: Images, originals: Images) -> NDArray[np.int64]:
    """Which of the images reconstructed from one update belongs to which original, so that the sum
    of their errors is smallest: positions [images]. An update does not show their order."""
    flat, other = images.reshape(len(images), -1), originals.reshape(len(originals), -1)
    errors = np.square(flat[None] - other[:, None]).mean(-1)
    return np.asarray(linear_sum_assignment(errors)[1], dtype=np.int64)


def share_interval(hits: NDArray[np.bool_]) -> ShareInterval:
    """Of the share of images, from hits [updates, images].

    Updates are independent, the images of one are not. The share lies between that of updates in
    which all are hits and that in which any is, whose exact limits (Clopper and Pearson 1934) are
    the interval: with one image each, that of the share itself.
    """
    found = [
        binomtest(int(own.sum()), len(hits)).proportion_ci(LEVEL, method="exact")
        for own in (hits.all(1), hits.any(1))
    ]
    return ShareInterval(level=LEVEL, low=float(found[0].low), high=float(found[1].high))


def png(pixels: NDArray[np.uint8]) -> bytes:
    """A file of pixels [height, width] in grey, or [height, width, 3] in colours."""
    height, width = pixels.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if pixels.ndim == 2 else 2, 0, 0, 0)
    # Each row begins with the number of its filter: none.
    rows = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0)))
    file = b"\x89PNG\r\n\x1a\n"
    for chunk in (b"IHDR" + header, b"IDAT" + zlib.compress(rows.tobytes(), 9), b"IEND"):
        file += struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return file


def contact_sheet(columns: Sequence[Images]) -> NDArray[np.uint8]:
    """Pixels of a sheet of pictures: a row for each image, a column for each of its versions.

    Images of one or three channels are shown as they are, others by the mean of their channels.
    """
    parts = []
    for images in columns:
        shown = images if images.shape[-1] in (1, 3) else images.mean(-1, keepdims=True)
        grey = (np.clip(shown, 0, 1) * 255 + 0.5).astype(np.uint8)
        larger = grey.repeat(_SCALE, axis=1).repeat(_SCALE, axis=2)
        padded = np.pad(larger, ((0, 0), (0, _GAP), (0, _GAP), (0, 0)), constant_values=_PAPER)
        parts.append(np.concatenate(list(padded), axis=0))
    sheet = np.concatenate(parts, axis=1)
    return np.squeeze(sheet, axis=-1) if sheet.shape[-1] == 1 else sheet
