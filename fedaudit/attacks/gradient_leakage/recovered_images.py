"""Which images were recovered: reconstructions beside what could be said without an update."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import binomtest

from fedaudit.attacks.gradient_leakage.image_quality import (
    mean_squared_error,
    structural_similarity,
)
from fedaudit.reports.sections.attacks import ShareInterval

RECOVERED_BELOW = 0.5
"""An image counts as recovered at this share of the smaller baseline's error."""
LEVEL = 0.95

Images = NDArray[np.float64]
"""[images, height, width, channels], from 0 to 1."""


@dataclass(frozen=True)
class Quality:
    """Of each image; arrays are [images]."""

    mse: NDArray[np.float64]
    ssim: NDArray[np.float64]


@dataclass(frozen=True)
class Baselines:
    """What the attacked images say of each other: each one beside the others.

    Whoever says "the mean of such images" or "an image like this one" without any update is no
    nearer, on average; the nearest of the others is chosen with the original in hand.
    """

    originals: Images

    @cached_property
    def mean_image(self) -> Quality:
        """Of the mean of the other images."""
        others = len(self.originals) - 1
        means = (self.originals.sum(0) - self.originals) / others
        return quality(means, self.originals)

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


def baselines_of(originals: Images) -> Baselines | None:
    """None where there is no second image to compare with."""
    return Baselines(originals) if len(originals) > 1 else None


def quality(images: Images, originals: Images) -> Quality:
    """Of each image beside its original."""
    pairs = list(zip(images, originals, strict=True))
    return Quality(
        np.array([mean_squared_error(*pair) for pair in pairs]),
        np.array([structural_similarity(*pair) for pair in pairs]),
    )


def in_order(images: Images, originals: Images) -> NDArray[np.int64]:
    """Which of the images reconstructed from one update stands for which original, so that the sum
    of their errors is smallest: positions [images]. An update does not say their order."""
    flat, other = images.reshape(len(images), -1), originals.reshape(len(originals), -1)
    errors = np.square(flat[None] - other[:, None]).mean(-1)
    _, order = linear_sum_assignment(errors)
    return np.asarray(order, dtype=np.int64)


def share_interval(hits: NDArray[np.bool_]) -> ShareInterval:
    """Of the share of images, from hits [updates, images].

    Updates are independent, the images of one are not. The share lies between that of updates in
    which all are hits and that in which any is, whose exact limits (Clopper and Pearson 1934) are
    the interval: with one image each, that of the share itself.
    """
    by_update = hits.sum(1)
    low, _ = _limits(int((by_update == hits.shape[1]).sum()), len(hits))
    _, high = _limits(int((by_update > 0).sum()), len(hits))
    return ShareInterval(level=LEVEL, low=low, high=high)


def _limits(hits: int, trials: int) -> tuple[float, float]:
    found = binomtest(hits, trials).proportion_ci(LEVEL, method="exact")
    return float(found.low), float(found.high)
