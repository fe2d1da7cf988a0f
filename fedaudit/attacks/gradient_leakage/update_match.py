"""How near guessed images are to their originals, as figures and as a picture, and how far their
update is from the update that was sent.

An update is taken in the units of a gradient, and is that of one image and one local step. Pixels
are numbers from 0 to 1. A picture is a PNG file (ISO/IEC 15948).
"""

import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import correlate1d
from scipy.spatial.distance import cdist
from scipy.stats import binomtest
from torch import Tensor
from torch.nn import functional

from fedaudit.arrays import Bools, Floats
from fedaudit.networks.shape import Convolution, Layer, NetworkShape
from fedaudit.networks.stacked_network import TracedLayer, parameters_at, traced_outputs
from fedaudit.reports.sections.attacks import ShareInterval

RECOVERED_BELOW = 0.5
"""An image counts as recovered at this share of the smaller baseline's error."""
LEVEL = 0.95

Image = Floats
"""[height, width, channels], or a flat row of as many numbers where only errors are asked for."""
Images = Floats
"""[images, height, width, channels]."""

_WINDOW, _DEVIATION = 11, 1.5
_STABILISERS = 0.01**2, 0.03**2
_GAP, _PAPER, _SCALE = 2, 255, 3


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
    """Quality of each image; arrays are [images]."""

    mse: Floats
    ssim: Floats


def quality(images: Images, originals: Images) -> Quality:
    """Compare each image with its original."""
    pairs = list(zip(images, originals, strict=True))
    return Quality(
        np.array([float(np.square(image - original).mean()) for image, original in pairs]),
        np.array([structural_similarity(*pair) for pair in pairs]),
    )


def baselines(originals: Images) -> tuple[Quality, Quality]:
    """What several attacked images show of each other: the quality of the mean of the others, and
    of that with the smallest error, which is chosen by comparing it with the original.

    Without any update, "the mean of such images" or "an image like this one" is no nearer, on
    average.
    """
    means = (originals.sum(0) - originals) / (len(originals) - 1)
    flat = originals.reshape(len(originals), -1)
    errors = cdist(flat, flat, "sqeuclidean")
    np.fill_diagonal(errors, np.inf)
    return quality(means, originals), quality(originals[errors.argmin(1)], originals)


def share_interval(hits: Bools) -> ShareInterval:
    """Interval of the share of hits [images], by exact limits (Clopper and Pearson 1934)."""
    found = binomtest(int(hits.sum()), len(hits)).proportion_ci(LEVEL, method="exact")
    return ShareInterval(level=LEVEL, low=float(found.low), high=float(found.high))


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


class UpdateMatch:
    """Updates that were sent, to compare guesses with, all at once and without writing out a
    gradient of a dense layer.

    That gradient is the outer product of the layer's inputs and of the slopes at its outputs, so
    inner products with it are products with these two.
    """

    def __init__(self, shape: NetworkShape, theta: Tensor, sent: Tensor) -> None:
        """`theta` [n]: the start that the clients share; `sent` [updates, n]."""
        self.sent, self._shape, self._theta = sent, shape, theta
        self._squared = sent.square().sum(-1)
        # Guesses that rest leave the others the same for many evaluations in a row.
        self._sent_of = lru_cache(maxsize=4)(self._chosen)

    def _chosen(self, which: tuple[int, ...]) -> Tensor:
        return self.sent if len(which) == len(self.sent) else self.sent[list(which)]

    def products(
        self, images: Tensor, labels: Tensor, which: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Inner products of the guesses' updates with those that were sent, `which` [guesses], and
        the squared lengths of both: [guesses] each, differentiable by images and labels.

        `images` [guesses, pixels]; `labels` [guesses, classes], a share each.
        """
        parameters = parameters_at(self._shape, self._theta)
        outputs, layers = traced_outputs(self._shape, parameters, images)
        loss = cross_entropy(outputs, labels)
        slopes = torch.autograd.grad(
            loss.sum(), [layer.outputs for layer in layers], create_graph=True
        )
        targets = self._sent_of(tuple(which.tolist()))
        inner, squared = torch.zeros_like(loss), torch.zeros_like(loss)
        for layer, slope in zip(layers, slopes, strict=True):
            own = _layer_products(layer, slope, targets)
            inner, squared = inner + own[0], squared + own[1]
        return inner, squared, self._squared[which]


def cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """The loss of each guess, [guesses], against labels that may be shares of several classes.

    `outputs` [guesses, outputs], of which two classes share one; `labels` [guesses, classes].
    """
    if outputs.shape[-1] == 1:
        outputs = torch.cat((torch.zeros_like(outputs), outputs), dim=-1)
    return -(labels * outputs.log_softmax(-1)).sum(-1)


def _layer_products(traced: TracedLayer, slopes: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The inner product of a layer's gradient with each guess's target, and its squared length:
    each [guesses].

    `slopes`: the loss's derivatives by the layer's outputs, a row for each guess; `targets`
    [guesses, n], of which the layer has its part.
    """
    layer, inputs = traced.layer, traced.inputs
    weights = targets[:, layer.weights].view(len(targets), *layer.weight_sizes).flatten(2)
    bias = None if layer.bias is None else targets[:, layer.bias]
    match layer:
        case Layer():
            through, overlap = (weights @ inputs[..., None])[..., 0], inputs.square().sum(-1)
            if bias is not None:
                through, overlap = through + bias, overlap + 1
            return (slopes * through).sum(-1), slopes.square().sum(-1) * overlap
        case Convolution():
            # The gradient is written out: it is small beside the maps.
            patches = functional.unfold(
                inputs, layer.size, padding=layer.padding, stride=layer.stride
            )
            slopes = slopes.flatten(2)
            gradient = slopes @ patches.transpose(1, 2)
            inner, squared = (gradient * weights).sum((1, 2)), gradient.square().sum((1, 2))
            if bias is None:
                return inner, squared
            of_bias = slopes.sum(-1)
            return inner + (of_bias * bias).sum(-1), squared + of_bias.square().sum(-1)
        case _:
            assert_never(layer)
